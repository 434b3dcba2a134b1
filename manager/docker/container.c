/* SPDX-License-Identifier: Apache-2.0 */
/* The container of a request: how it is found, and its facts. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "manager/docker/docker.h"
#include "manager/engine/host.h"
#include "manager/engine/id.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/pings.h"

#define FILES_WAIT_MS 10000 /* for others that use, start or stop the container */
#define FILES_LOOK_MS 20

const char *docker_called(const struct http_request *rq)
{
	const char *ref = http_param(rq, "id");

	return ref + (*ref == '/');
}

void box_clear(struct box *b)
{
	memset(b, 0, sizeof(*b));
	b->sock = b->lock_fd = -1;
	b->registry = (struct registry)REGISTRY_INIT;
}

int docker_find_named(struct box *b, struct http_request *rq, const char *name, struct err *e)
{
	struct err ignored;

	if (box_open(b, rq, e) < 0)
		return -1;
	if (!name || !name[0])
		return docker_fail(rq, 400, e, "no container is named");
	if (engine_host_find(&b->registry, name, b->id, &b->kept, e) < 0)
		return e->code == ERR_INVALID
			       ? docker_fail(rq, 400, e,
					     "Multiple IDs found with provided prefix: %.100s",
					     name)
			       : docker_fail(rq, 404, e, "No such container: %.200s",
					     name + (*name == '/'));
	http_audit(rq, "id", b->id);
	/* a sandbox whose keeper was killed does not run, and its record is on the disk */
	if (!b->kept && registry_clear_dead(&b->registry, b->id, PINGS_MS, 0, &ignored) == 1)
		b->kept = 1;
	return 0;
}

int docker_explain(struct box *b, struct http_request *rq, struct err *e)
{
	return b->id[0] && record_is_gone(&b->registry, b->id) ?
		       docker_fail(rq, 404, e, "No such container: %.200s", docker_called(rq)) :
		       -1;
}

int docker_find(struct box *b, struct http_request *rq, struct err *e)
{
	return docker_find_named(b, rq, http_param(rq, "id"), e);
}

int docker_not_running(struct box *b, struct err *e)
{
	char id[ENGINE_ID];

	engine_id(b->id, id);
	return docker_fail(b->rq, 409, e, "Container %s is not running", id);
}

int docker_find_running(struct box *b, struct http_request *rq, struct err *e)
{
	if (docker_find(b, rq, e) < 0)
		return -1;
	return b->kept ? docker_not_running(b, e) : 0;
}

int docker_connect(struct box *b, struct err *e)
{
	b->sock = keeper_connect(&b->registry, b->id, e);
	if (b->sock < 0 && e->code == ERR_NOT_FOUND)
		return docker_not_running(b, e);
	return b->sock < 0 ? -1 : 0;
}

/* 1: its keeper for files exists; 0: it was started meanwhile, so look again. */
static int make_files_keeper(struct box *b, struct err *e)
{
	if (spawn_berth(b->rq, call_of("open-files", b->id, NULL), 1, -1, NULL, e) == 0)
		return 1;
	return e->code == ERR_EXISTS ? 0 : -1;
}

int docker_open_files(struct box *b, struct http_request *rq, struct err *e)
{
	const uint64_t until = clock_ms() + FILES_WAIT_MS;
	int r;

	box_clear(b);
	do {
		box_close(b);
		if (docker_find(b, rq, e) < 0)
			return -1;
		r = b->kept ? make_files_keeper(b, e) : 1;
		if (r < 0)
			return -1;
		if (r > 0)
			b->sock = keeper_connect(&b->registry, b->id, e);
		if (b->sock >= 0)
			return 0;
		if (http_wait(rq, -1, 0, FILES_LOOK_MS, e) < 0)
			return -1;
	} while (clock_ms() < until);
	return docker_fail(rq, 409, e, "the files of container %.200s are in use; try again",
			   docker_called(rq));
}

static json_t *ask(void *ctx, json_t *rq, struct err *e)
{
	struct box *b = ctx;

	if (b->sock < 0)
		b->sock = keeper_connect(&b->registry, b->id, e);
	return b->sock < 0 ? NULL : box_call(b, rq, NULL, 0, NULL, e);
}

int docker_load(struct engine_loaded *l, struct box *b, int live, struct err *e)
{
	const struct engine_asker asker = { ask, b };

	if (engine_load(l, &b->registry, b->id, b->kept, live ? &asker : NULL, e) == 0)
		return 0;
	return docker_fail(b->rq, 404, e, "No such container: %.200s", docker_called(b->rq));
}

int docker_verb(struct http_request *rq, const char *verb, const char *option, json_t *value, const char *id,
		struct err *e)
{
	json_t *call = call_of(verb, id, NULL);

	if (option)
		call_set(call, option, value);
	return spawn_berth(rq, call, 1, -1, NULL, e);
}
