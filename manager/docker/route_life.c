/* SPDX-License-Identifier: Apache-2.0 */
/* Routes that change the life of a container: start, stop, kill, restart, pause, rename, remove. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"

/* 204 without a body, or 304 when there was nothing to do (r 1). */
static int reply_change(struct http_request *rq, struct box *b, int r, struct err *e)
{
	box_close(b);
	return r < 0 ? -1 : http_reply_empty(rq, r ? 304 : 204, e);
}

/* ---- start, stop, restart, kill ---------------------------------------------------------- */

/* Clients that wait for the start are told how it went; Docker's status for a command that cannot be executed is 400. */
static int tell_start(struct http_request *rq, struct box *b, int r, const struct err *e)
{
	if (r < 0 && (e->code == ERR_EXEC || e->code == ERR_EXEC_NOT_FOUND))
		http_error_status(rq, 400);
	if (r != 1)
		arrivals_tell(docker_of(rq)->arrivals, b->id, r < 0 ? ARRIVAL_FAILED : ARRIVAL_STARTED);
	return r;
}

static int post_start(struct http_request *rq, struct err *e)
{
	struct engine_container c;
	struct box b;
	int r = docker_container(&c, &b, rq, e);

	if (r == 0)
		r = box_lock(&b, e);
	c.kept = b.kept;
	if (r == 0)
		r = tell_start(rq, &b, engine_container_start(&c, arrivals_count(docker_of(rq)->arrivals, b.id), e), e);
	return reply_change(rq, &b, r, e);
}

/* "signal" and "t", which is in seconds. */
static int read_ending(struct http_request *rq, struct engine_ending *ret, struct err *e)
{
	const char *t = http_query(rq, "t");

	*ret = (struct engine_ending){ .signal = http_query(rq, "signal"), .has_grace = t && t[0] };
	return docker_query_int(rq, "t", 0, &ret->grace_s, e);
}

static int post_stop(struct http_request *rq, struct err *e)
{
	struct engine_container c;
	struct engine_ending how;
	struct box b;
	int r = docker_container(&c, &b, rq, e);

	if (r == 0)
		r = read_ending(rq, &how, e);
	if (r == 0)
		r = engine_container_stop(&c, &how, e);
	return reply_change(rq, &b, r, e);
}

static int post_restart(struct http_request *rq, struct err *e)
{
	struct engine_container c;
	struct engine_ending how;
	struct box b;
	int r = docker_container(&c, &b, rq, e);

	if (r == 0)
		r = read_ending(rq, &how, e);
	if (r == 0)
		r = tell_start(rq, &b, engine_container_restart(&c, &how, e), e);
	return reply_change(rq, &b, r, e);
}

static int post_kill(struct http_request *rq, struct err *e)
{
	struct engine_container c;
	struct box b;
	int r = docker_container(&c, &b, rq, e);

	if (r == 0)
		r = engine_container_kill(&c, http_query(rq, "signal"), e);
	return reply_change(rq, &b, r, e);
}

/* ---- the rest ---------------------------------------------------------------------------- */

static int reply_pause(struct http_request *rq, int on, struct err *e)
{
	struct engine_container c;
	struct box b;
	int r = docker_container(&c, &b, rq, e);

	if (r == 0)
		r = engine_container_pause(&c, on, e);
	return reply_change(rq, &b, r, e);
}

static int post_pause(struct http_request *rq, struct err *e)
{
	return reply_pause(rq, 1, e);
}

static int post_unpause(struct http_request *rq, struct err *e)
{
	return reply_pause(rq, 0, e);
}

static int post_rename(struct http_request *rq, struct err *e)
{
	const char *name = http_query(rq, "name");
	struct engine_container c;
	struct box b;
	int r = docker_container(&c, &b, rq, e);

	if (r == 0)
		r = box_lock(&b, e);
	if (r == 0)
		r = engine_container_rename(&c, name ? name : "", e);
	return reply_change(rq, &b, r, e);
}

static int post_resize(struct http_request *rq, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_resize), *answer = NULL;
	long rows = 0, cols = 0;
	struct box b;
	int r = docker_find_running(&b, rq, e);

	if (r == 0)
		r = docker_query_int(rq, "h", 24, &rows, e);
	if (r == 0)
		r = docker_query_int(rq, "w", 80, &cols, e);
	if (r == 0)
		r = docker_connect(&b, e);
	if (r == 0 && rows > 0 && cols > 0) {
		request_set_command(ask, KEEPER_MAIN);
		request_set_rows(ask, (uint64_t)rows);
		request_set_cols(ask, (uint64_t)cols);
		answer = box_call(&b, ask, NULL, 0, NULL, e);
		r = answer ? 0 : -1;
	}
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 200, e);
}

static int delete_one(struct http_request *rq, struct err *e)
{
	struct engine_container c;
	struct box b;
	int r = docker_container(&c, &b, rq, e);

	if (r == 0)
		r = engine_container_remove(&c, docker_query_flag(rq, "force"), docker_query_flag(rq, "v"), e);
	return reply_change(rq, &b, r, e);
}

#define CHANGES(verb, run, text)                                                                   \
	{                                                                                          \
		"POST", "/containers/{id}/" verb, run, text, HTTP_JSON, HTTP_OPTIONAL              \
	}

const struct http_route docker_life_routes[] = {
	CHANGES("start", post_start, "start a container"),
	CHANGES("stop", post_stop, "stop a container"),
	CHANGES("restart", post_restart, "stop and start a container"),
	CHANGES("kill", post_kill, "send a signal to a container's main command"),
	CHANGES("pause", post_pause, "freeze a container"),
	CHANGES("unpause", post_unpause, "let a frozen container go on"),
	CHANGES("rename", post_rename, "give a container another name"),
	CHANGES("resize", post_resize, "set the size of a container's terminal"),
	{ "DELETE", "/containers/{id}", delete_one, "remove a container", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ NULL },
};
