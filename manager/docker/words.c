/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/docker/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "manager/api/api.h"
#include "manager/engine/name.h"

void words_release(struct words *w)
{
	while (w->owned_n)
		free(w->owned[--w->owned_n]);
}

void words_begin(struct words *w, const char *noun, const char *verb)
{
	*w = (struct words){ .v = { "berth", noun, verb, "--json" }, .n = 4 };
}

int words_labels(struct words *w, const json_t *labels, struct err *e)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(size_t)labels, key, v) {
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "invalid JSON: label %.80s is not a string",
				       key);
		if (w->n + 3 > WORDS_MAX)
			return err_set(e, ERR_LIMIT, "too many labels");
		if (asprintf(&w->owned[w->owned_n], "--label=%s=%s", key, json_string_value(v)) < 0)
			return err_nomem(e);
		w->v[w->n++] = w->owned[w->owned_n++];
	}
	return 0;
}

int words_called(struct words *w, const char *called, const char *name, struct err *e)
{
	if (!strcmp(called, name))
		return 0;
	if (w->n + 3 > WORDS_MAX)
		return err_set(e, ERR_LIMIT, "too many labels");
	if (asprintf(&w->owned[w->owned_n], "--label=" ENGINE_NAME_LABEL "=%s", called) < 0)
		return err_nomem(e);
	w->v[w->n++] = w->owned[w->owned_n++];
	return 0;
}

json_t *words_run(struct words *w, struct http_request *rq, const char *name, struct err *e)
{
	w->v[w->n++] = "--";
	w->v[w->n++] = name;
	return spawn_json(rq, w->v, 1, e);
}
