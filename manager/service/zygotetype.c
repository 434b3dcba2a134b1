/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A type of sandboxes that are made of a zygote: [pool.X] zygote.  What berth zygote create was
 * given decides everything but the workspace.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/record.h"
#include "manager/service/state.h"
#include "manager/zygote/client.h"
#include "manager/zygote/list.h"
#include "manager/zygote/wire.h"

static json_t *zygote_of(struct service *s, const struct conf_pool *p, struct err *e)
{
	char id[65];
	autoclose int dir = zygote_open(&s->registry, p->zygote, id, e);
	json_t *z = dir < 0 ? NULL : zygote_describe(&s->registry, id, e);

	if (!z)
		err_wrap(e, "pool %s", p->name);
	return z;
}

void zygotetype_settle(struct service *s, struct conf_pool *p)
{
	struct err ignored;
	autojson json_t *z = p->zygote[0] ? zygote_of(s, p, &ignored) : NULL;
	const char *image = json_string_value(json_object_get(z, "image"));

	if (!z)
		return; /* or there is none now, as who makes a sandbox will hear */
	snprintf(p->image, sizeof(p->image), "%s", image ? image : "");
	p->memory_bytes = (uint64_t)json_integer_value(json_object_get(z, "memory_bytes"));
	p->cpu_milli = (uint64_t)json_integer_value(json_object_get(z, "cpu_milli"));
}

int zygotetype_check(const struct conf_pool *p, const json_t *args, struct err *e)
{
	static const char *const decided[] = {"image",	 "options", "command",
					      "memory", "cpus",	   "environment"};
	size_t i;

	for (i = 0; p->zygote[0] && i < ARRAY_LEN(decided); i++) {
		const json_t *v = json_object_get(args, decided[i]);

		if (v && !json_is_null(v) && (!json_is_object(v) || json_object_size(v)))
			return err_set(e, ERR_INVALID,
				       "\"%s\" cannot be given for the sandbox type %s, as its "
				       "zygote has decided that; hint: leave it out",
				       decided[i], p->name);
	}
	return 0;
}

int zygotetype_version(struct service *s, const struct conf_pool *p, const char *made,
		       uint64_t hash, char ret[160], struct err *e)
{
	autojson json_t *z = NULL;
	const char *id;

	if (!made) {
		z = zygote_of(s, p, e);
		id = json_string_value(json_object_get(z, "id"));
	} else {
		if (record_read(s->registry.sandboxes_fd, made, &z, e) < 0)
			return -1;
		id = json_string_value(json_object_get(record_labels(z), ZYGOTE_LABEL));
	}
	if (!id)
		return z ? err_set(e, ERR_NOT_FOUND, "sandbox %s has ended", made ? made : "") : -1;
	snprintf(ret, 160, "zygote:%s#%016" PRIx64, id, hash);
	return 0;
}

int zygotetype_user(struct service *s, const struct conf_pool *p, char ret[128], struct err *e)
{
	autojson json_t *z = zygote_of(s, p, e);
	json_t *pair;
	size_t i;

	if (!z)
		return -1;
	json_array_foreach (json_object_get(z, "options"), i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		const char *value = json_string_value(json_array_get(pair, 1));

		if (name && value && !strcmp(name, "user"))
			snprintf(ret, 128, "%s", value);
	}
	return 0;
}
