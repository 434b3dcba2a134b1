/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints, undo and fork. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/remote/remote.h"
#include "cli/time/timereport.h"

#define PATH_BUF BUF_INIT(65536)

/* Sets key of body from the option of that name, a whole number; berthd knows its bounds. */
static int set_number(const struct remote *r, json_t *body, const char *key, struct err *e)
{
	const char *v = remote_value(r, key);
	uint64_t n;

	if (!v)
		return 0;
	if (num_u64(v, key, 1, UINT32_MAX, &n, e) < 0)
		return -1;
	return json_object_set_new(body, key, json_integer((json_int_t)n));
}

static json_t *post(struct remote *r, const char *id, const char *rest, const json_t *body,
		    struct err *e)
{
	autobuf struct buf path = PATH_BUF;

	if (remote_path(&path, id, rest, e) < 0)
		return NULL;
	return remote_call(r, "POST", path.data, body, e);
}

static void print_text(const json_t *j, const char *key)
{
	char text[256];
	const char *s = json_string_value(json_object_get(j, key));

	log_clean(text, sizeof(text), s ? s : "", 0);
	puts(text);
}

int remote_checkpoint(struct remote *r, struct err *e)
{
	autojson json_t *body = json_object(), *made = NULL;

	remote_set_string(r, body, "name", "name");
	if (set_number(r, body, "keep", e) < 0)
		return -1;
	made = post(r, r->words[0], "/checkpoints", body, e);
	if (!made)
		return -1;
	if (r->json)
		return remote_print(json_incref(made), e);
	print_text(made, "checkpoint");
	return 0;
}

int remote_checkpoints(struct remote *r, struct err *e)
{
	autobuf struct buf path = PATH_BUF;
	autojson json_t *all = NULL;

	if (remote_path(&path, r->words[0], "/checkpoints", e) < 0)
		return -1;
	all = remote_call(r, "GET", path.data, NULL, e);
	if (!all)
		return -1;
	if (r->json)
		return remote_print(json_incref(all), e);
	checkpointtable_print(all);
	return 0;
}

int remote_checkpoint_rm(struct remote *r, struct err *e)
{
	autojson json_t *gone = json_array();
	int i;

	for (i = 1; i < r->count; i++) {
		autobuf struct buf path = PATH_BUF;
		autojson json_t *answer = NULL;
		json_t *ids;

		if (remote_path(&path, r->words[0], "/checkpoints/", e) < 0 ||
		    remote_escape(&path, r->words[i], e) < 0)
			return -1;
		answer = remote_call(r, "DELETE", path.data, NULL, e);
		if (!answer)
			return -1;
		ids = json_object_get(answer, "removed");
		json_array_extend(gone, ids);
		if (!r->json)
			puts(json_string_value(json_array_get(ids, 0)) ?: r->words[i]);
	}
	return r->json ? remote_print(json_pack("{s:s,s:O}", "id", r->words[0], "removed", gone),
				      e) :
			 0;
}

int remote_undo(struct remote *r, struct err *e)
{
	autojson json_t *body = json_object(), *done = NULL;

	remote_set_string(r, body, "to", "to");
	if (set_number(r, body, "steps", e) < 0)
		return -1;
	done = post(r, r->words[0], "/undo", body, e);
	if (!done)
		return -1;
	if (r->json)
		return remote_print(json_incref(done), e);
	undoreport_print(done);
	return 0;
}

/* SANDBOX[@CHECKPOINT] */
int remote_fork(struct remote *r, struct err *e)
{
	autojson json_t *body = json_object(), *made = NULL, *options = remote_params(r, " name count ");
	char *at = strchr(r->words[0], '@');
	json_t *one;
	size_t i;

	if (at) {
		*at = '\0';
		json_object_set_new(body, "checkpoint", json_string(at + 1));
	}
	remote_set_string(r, body, "name", "name");
	if (set_number(r, body, "count", e) < 0)
		return -1;
	if (json_object_size(options))
		json_object_set(body, "options", options);
	made = post(r, r->words[0], "/fork", body, e);
	if (!made)
		return -1;
	if (r->json)
		return remote_print(json_incref(made), e);
	json_array_foreach (json_object_get(made, "forks"), i, one)
		print_text(one, "id");
	return 0;
}
