/* SPDX-License-Identifier: Apache-2.0 */
/* Routes that change the life of a container: start, stop, kill, restart, pause, rename, remove. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/create.h"
#include "manager/engine/host.h"
#include "manager/engine/id.h"
#include "manager/engine/volumes.h"
#include "manager/host/rename.h"
#include "manager/host/volume_own.h"
#include "manager/host/restart.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/request.h"

#define GRACE_MAX 86400

static int is_restarting(struct box *b)
{
	return b->kept && restart_pending(&b->registry, b->id) > 0;
}

/* ---- start ----------------------------------------------------------------------------- */

/* Docker's client makes exit statuses of these words: 127 and 126. */
static int start_failed(struct http_request *rq, struct err *e)
{
	struct err why = *e;

	if (why.code == ERR_EXEC_NOT_FOUND)
		return docker_fail(rq, 400, e,
				   "failed to create task for container: exec: %.300s: executable "
				   "file not found in $PATH: "
				   "unknown",
				   why.msg);
	if (why.code == ERR_EXEC)
		return docker_fail(rq, 400, e,
				   "failed to create task for container: exec: %.300s: permission "
				   "denied: unknown",
				   why.msg);
	return -1;
}

/* A container with AutoRemove is removed when its start fails, as it would be at its end. */
static void remove_failed(struct http_request *rq, struct box *b)
{
	autojson json_t *asked = NULL;
	struct err ignored;

	asked = registry_load(&b->registry, b->id, ENGINE_FILE_NAME, &ignored);
	if (json_is_true(json_object_get(
		    json_object_get(json_object_get(asked, "body"), "HostConfig"), "AutoRemove")))
		docker_verb(rq, "rm", "force", json_true(), b->id, &ignored);
}

static int start(struct http_request *rq, struct box *b, struct err *e)
{
	struct arrivals *l = docker_of(rq)->arrivals;

	if (docker_verb(rq, "start", "await", json_integer(arrivals_count(l, b->id)), b->id, e) < 0) {
		start_failed(rq, e);
		remove_failed(rq, b);
		arrivals_tell(l, b->id, ARRIVAL_FAILED);
		return -1;
	}
	arrivals_tell(l, b->id, ARRIVAL_STARTED);
	return 0;
}

static int is_paused(struct box *b)
{
	autojson json_t *ping = protocol_request(OP_ping), *now = NULL;
	struct err ignored;
	const char *state;

	if (docker_connect(b, &ignored) < 0)
		return 0;
	now = box_call(b, ping, NULL, 0, NULL, &ignored);
	state = json_string_value(json_object_get(now, "state"));
	return state && !strcmp(state, "paused");
}

static int post_start(struct http_request *rq, struct err *e)
{
	struct box b;
	int r = docker_find(&b, rq, e), there = 0;

	if (r == 0)
		r = box_lock(&b, e);
	there = r == 0 && !b.kept;
	if (there && is_paused(&b))
		r = docker_fail(rq, 409, e, "cannot start a paused container, try unpause instead");
	if (r == 0 && b.kept)
		r = start(rq, &b, e);
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, there ? 304 : 204, e);
}

/* ---- stop ------------------------------------------------------------------------------ */

/* "t", in seconds: *ret is NULL for the container's own time. */
static int grace_option(struct http_request *rq, json_t **ret, struct err *e)
{
	long t;

	if (docker_query_int(rq, "t", -2, &t, e) < 0)
		return -1;
	/* -1 is for ever */
	*ret = t == -2 ? NULL : json_integer(t < 0 || t > GRACE_MAX ? GRACE_MAX : t);
	return 0;
}

static int post_stop(struct http_request *rq, struct err *e)
{
	json_t *grace = NULL;
	struct box b;
	int r = docker_find(&b, rq, e), idle = 0;

	if (r == 0)
		r = grace_option(rq, &grace, e);
	idle = r == 0 && b.kept && !is_restarting(&b);
	if (r == 0 && !idle)
		r = docker_verb(rq, "stop", "grace", json_incref(grace), b.id, e);
	json_decref(grace);
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, idle ? 304 : 204, e);
}

static int post_restart(struct http_request *rq, struct err *e)
{
	json_t *grace = NULL;
	struct box b;
	int r = docker_find(&b, rq, e);

	if (r == 0)
		r = grace_option(rq, &grace, e);
	/* not stop and start: one with AutoRemove would go with its stop */
	if (r == 0 && !b.kept)
		r = docker_verb(rq, "restart", "grace", json_incref(grace), b.id, e);
	else if (r == 0)
		r = start(rq, &b, e);
	json_decref(grace);
	if (r == 0)
		arrivals_tell(docker_of(rq)->arrivals, b.id, ARRIVAL_STARTED);
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
}

static int post_kill(struct http_request *rq, struct err *e)
{
	const char *word = http_query(rq, "signal");
	char whole[ENGINE_ID];
	struct box b;
	int r = docker_find(&b, rq, e);

	engine_id(b.id, whole);
	if (r == 0 && b.kept && !is_restarting(&b))
		r = docker_fail(rq, 409, e,
				"cannot kill container: %.200s: container %s is not running",
				docker_called(rq), whole);
	if (r == 0)
		r = docker_verb(rq, "kill", "signal", json_string(word && word[0] ? word : "KILL"), b.id, e);
	if (r < 0 && (e->code == ERR_USAGE || e->code == ERR_INVALID))
		r = docker_fail(rq, 400, e, "Invalid signal: %.40s", word ? word : "");
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
}

/* ---- the rest ---------------------------------------------------------------------------- */

static int freeze(struct http_request *rq, int on, struct err *e)
{
	autojson json_t *ping = protocol_request(OP_ping),
			*ask = protocol_request(on ? OP_pause : OP_resume);
	autojson json_t *now = NULL, *answer = NULL;
	char whole[ENGINE_ID];
	const char *state;
	struct box b;
	int r = docker_find_running(&b, rq, e);

	if (r == 0)
		r = docker_connect(&b, e);
	if (r == 0 && !(now = box_call(&b, ping, NULL, 0, NULL, e)))
		r = -1;
	state = json_string_value(json_object_get(now, "state"));
	engine_id(b.id, whole);
	if (r == 0 && state && on == !strcmp(state, "paused"))
		r = docker_fail(rq, 409, e, "Container %s is %s", whole,
				on ? "already paused" : "not paused");
	if (r == 0 && !(answer = box_call(&b, ask, NULL, 0, NULL, e)))
		r = -1;
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
}

static int post_pause(struct http_request *rq, struct err *e)
{
	return freeze(rq, 1, e);
}

static int post_unpause(struct http_request *rq, struct err *e)
{
	return freeze(rq, 0, e);
}

static int post_rename(struct http_request *rq, struct err *e)
{
	const char *name = http_query(rq, "name");
	struct box b;
	int r = docker_find(&b, rq, e);

	name = name ? name + (name[0] == '/') : "";
	if (r == 0 && !name[0])
		r = docker_fail(rq, 400, e, "Neither old nor new names may be empty");
	if (r == 0)
		r = engine_check_name(name, e);
	if (r == 0)
		r = box_lock(&b, e);
	if (r == 0 && engine_host_rename(&b.registry, b.id, name, e) < 0)
		r = e->code == ERR_EXISTS ? docker_fail(rq, 409, e,
							"Error when allocating new name: Conflict. "
							"The container name "
							"\"/%.255s\" is already in use",
							name)
					  : docker_explain(&b, rq, e);
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
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

static int remove_it(struct http_request *rq, struct box *b, struct err *e)
{
	if (!b->kept && !docker_query_flag(rq, "force"))
		return docker_fail(rq, 409, e,
				   "cannot remove container \"%.200s\": container is running: stop "
				   "the container before "
				   "removing or force remove",
				   docker_called(rq));
	if (b->kept && !docker_query_flag(rq, "force") && restart_is_coming(&b->registry, b->id))
		return docker_fail(rq, 409, e,
				   "cannot remove container \"%.200s\": container is restarting: stop the container before "
				   "removing or force remove",
				   docker_called(rq));
	return docker_verb(rq, "rm", "force", json_true(), b->id, e);
}

static int delete_one(struct http_request *rq, struct err *e)
{
	const struct engine_berth asker = docker_berth(rq, NULL);
	autojson json_t *own = NULL;
	struct box b;
	int r = docker_find(&b, rq, e);

	if (r == 0 && docker_query_flag(rq, "v"))
		own = volume_own_load(&b.registry, b.id);
	if (r == 0)
		r = remove_it(rq, &b, e);
	box_close(&b);
	if (r == 0)
		engine_volumes_drop(&asker, own);
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
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
