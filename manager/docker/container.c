/* SPDX-License-Identifier: Apache-2.0 */
/* The container of a request: how it is found, and its facts. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "manager/docker/docker.h"
#include "manager/keeper/keeper.h"

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

	if (box_open(b, rq, e) < 0)
		return -1;
	if (!name || !name[0])
		return docker_fail(rq, 400, e, "no container is named");
	if (engine_container_find(&b->registry, name, b->id, &b->kept, e) < 0)
		return -1;
	http_audit(rq, "id", b->id);
	return 0;
}

int docker_explain(struct box *b, struct http_request *rq, struct err *e)
{
	return engine_container_explain(&b->registry, b->id, docker_called(rq), e);
}

int docker_find(struct box *b, struct http_request *rq, struct err *e)
{
	return docker_find_named(b, rq, http_param(rq, "id"), e);
}

int docker_find_running(struct box *b, struct http_request *rq, struct err *e)
{
	if (docker_find(b, rq, e) < 0)
		return -1;
	return b->kept ? engine_not_running(b->id, e) : 0;
}

int docker_connect(struct box *b, struct err *e)
{
	b->sock = keeper_connect(&b->registry, b->id, e);
	if (b->sock < 0 && e->code == ERR_NOT_FOUND)
		return engine_not_running(b->id, e);
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

static json_t *ask_keeper(void *ctx, json_t *rq, struct err *e)
{
	struct box *b = ctx;

	if (b->sock < 0 && docker_connect(b, e) < 0)
		return NULL;
	return box_call(b, rq, NULL, 0, NULL, e);
}

int docker_container(struct engine_container *ret, struct box *b, struct http_request *rq, struct err *e)
{
	if (docker_find(b, rq, e) < 0)
		return -1;
	*ret = (struct engine_container){ .berth = docker_berth(rq, NULL),
					  .keeper = { ask_keeper, b },
					  .registry = &b->registry,
					  .id = b->id,
					  .kept = b->kept,
					  .called = docker_called(rq) };
	return 0;
}

int docker_load(struct engine_loaded *l, struct box *b, int live, struct err *e)
{
	const struct engine_asker asker = { ask_keeper, b };

	if (engine_load(l, &b->registry, b->id, b->kept, live ? &asker : NULL, e) == 0)
		return 0;
	return docker_fail(b->rq, 404, e, "No such container: %.200s", docker_called(b->rq));
}
