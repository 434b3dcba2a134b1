/* SPDX-License-Identifier: Apache-2.0 */
/* Containers by what docker calls them. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/containers.h"
#include "manager/keeper/keeper.h"

int door_find(struct sandbox_ref *s, const char *name, struct err *e)
{
	if (s->registry.run_fd < 0 && sandbox_ref_registry(s, e) < 0)
		return -1;
	return engine_container_find(&s->registry, name, s->id, &s->kept, e);
}

int door_connect(struct sandbox_ref *s, const char *name, struct err *e)
{
	if (door_find(s, name, e) < 0)
		return -1;
	if (s->kept)
		return engine_not_running(s->id, e);
	s->sock = keeper_connect(&s->registry, s->id, e);
	if (s->sock < 0)
		return e->code == ERR_NOT_FOUND ? engine_not_running(s->id, e) : -1;
	return 0;
}

static json_t *ask_keeper_of(void *ctx, json_t *rq, struct err *e)
{
	struct sandbox_ref *s = ctx;

	if (s->sock < 0)
		s->sock = keeper_connect(&s->registry, s->id, e);
	return s->sock < 0 ? NULL : keeper_call(s->sock, rq, NULL, 0, NULL, e);
}

int door_container(struct engine_container *ret, struct sandbox_ref *s, const char *name, struct err *e)
{
	if (door_find(s, name, e) < 0)
		return -1;
	*ret = (struct engine_container){ .berth = door_berth(NULL),
					  .keeper = { ask_keeper_of, s },
					  .registry = &s->registry,
					  .id = s->id,
					  .kept = s->kept,
					  .called = name + (*name == '/') };
	return 0;
}

int door_load(struct engine_loaded *l, struct sandbox_ref *s, int live, struct err *e)
{
	const struct engine_asker asker = { ask_keeper_of, s };

	return engine_load(l, &s->registry, s->id, s->kept, live ? &asker : NULL, e);
}

int door_each(const struct door_args *a, door_fn *fn, void *ctx)
{
	int i, status = 0;

	for (i = 0; i < a->count; i++) {
		struct engine_container c;
		struct sandbox_ref s;
		struct err e;

		sandbox_ref_init(&s);
		if (door_container(&c, &s, a->words[i], &e) < 0 || fn(ctx, &c, &e) < 0) {
			engine_container_explain(&s.registry, s.id, a->words[i], &e);
			status = door_error(&e);
		} else {
			printf("%s\n", a->words[i]);
		}
		sandbox_ref_close(&s);
	}
	return status;
}

int door_do(const struct command *self, int argc, char **argv, int least, int most, door_work *work)
{
	struct door_args a;
	int status = 0;
	struct err e;

	if (!door_parse(&a, self, argc, argv, least, most))
		status = a.status;
	else if (work(&a, &e) < 0)
		status = door_error(&e);
	door_release(&a);
	return status;
}

int door_dispatch(const struct door_row *row, const struct command *self, int argc, char **argv)
{
	while (strcmp(row->verb, self->name))
		row++;
	return door_do(self, argc, argv, row->least, row->most, row->work);
}
