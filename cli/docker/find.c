/* SPDX-License-Identifier: Apache-2.0 */
/* Containers by what docker calls them. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/host.h"
#include "manager/engine/id.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/pings.h"

int door_find(struct sandbox_ref *s, const char *name, struct err *e)
{
	struct err why;

	if (s->registry.run_fd < 0 && sandbox_ref_registry(s, e) < 0)
		return -1;
	name += *name == '/';
	if (engine_host_find(&s->registry, name, s->id, &s->kept, &why) < 0)
		return why.code == ERR_INVALID ?
			       err_set(e, ERR_INVALID,
				       "Multiple IDs found with provided prefix: %.100s", name) :
			       err_set(e, ERR_NOT_FOUND, "No such container: %.200s", name);
	/* one whose keeper was killed does not run, and its record is on the disk */
	if (!s->kept && registry_clear_dead(&s->registry, s->id, PINGS_MS, 0, &why) == 1)
		s->kept = 1;
	return 0;
}

int door_not_running(const struct sandbox_ref *s, struct err *e)
{
	char id[ENGINE_ID];

	engine_id(s->id, id);
	return err_set(e, ERR_BUSY, "Container %s is not running", id);
}

int door_connect(struct sandbox_ref *s, const char *name, struct err *e)
{
	if (door_find(s, name, e) < 0)
		return -1;
	if (s->kept)
		return door_not_running(s, e);
	s->sock = keeper_connect(&s->registry, s->id, e);
	if (s->sock < 0)
		return e->code == ERR_NOT_FOUND ? door_not_running(s, e) : -1;
	return 0;
}

void door_explain(struct sandbox_ref *s, const char *name, struct err *e)
{
	if (!s->id[0] || s->registry.run_fd < 0)
		return;
	if (record_is_gone(&s->registry, s->id))
		err_set(e, ERR_NOT_FOUND, "No such container: %.200s", name + (*name == '/'));
	else if (e->code == ERR_NOT_FOUND && !record_is_there(s->registry.sandboxes_fd, s->id))
		door_not_running(s, e);
}

static json_t *ask(void *ctx, json_t *rq, struct err *e)
{
	struct sandbox_ref *s = ctx;

	if (s->sock < 0)
		s->sock = keeper_connect(&s->registry, s->id, e);
	return s->sock < 0 ? NULL : keeper_call(s->sock, rq, NULL, 0, NULL, e);
}

int door_load(struct engine_loaded *l, struct sandbox_ref *s, int live, struct err *e)
{
	const struct engine_asker asker = { ask, s };

	return engine_load(l, &s->registry, s->id, s->kept, live ? &asker : NULL, e);
}

int door_each(const struct door_args *a, door_fn *fn, void *ctx)
{
	int i, status = 0;

	for (i = 0; i < a->count; i++) {
		struct sandbox_ref s;
		struct err e;

		sandbox_ref_init(&s);
		if (fn(ctx, &s, a->words[i], &e) < 0) {
			door_explain(&s, a->words[i], &e);
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
