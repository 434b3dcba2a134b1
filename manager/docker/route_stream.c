/* SPDX-License-Identifier: Apache-2.0 */
/* Routes with long replies: attach and wait; logs are in route_logs.c. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/docker/docker.h"
#include "manager/docker/logs.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

#define GONE_LOOK_MS 20

/* ---- attach ------------------------------------------------------------------------------ */

struct attach {
	struct box box;
	struct arrival arrival;
	struct pump pump;
	int awaits; /* it does not run yet */
	int logs, stream; /* what its log has until now; what comes */
};

static void attach_free(void *ctx)
{
	struct attach *a = ctx;

	arrival_leave(&a->arrival);
	box_close(&a->box);
	json_decref(a->pump.verdict);
	free(a);
}

/* After the head of the reply: only its end can be reported any more. */
static void attach_run(void *ctx, struct http_request *rq, int fd, const char *extra, size_t n)
{
	struct attach *a = ctx;
	struct err e;

	if (!a->stream) {
		if (a->logs)
			docker_logs_send(&a->box, rq, fd, a->pump.raw, a->pump.want, &e);
		return;
	}
	if (a->awaits) {
		if (arrival_wait(&a->arrival, &a->box, rq, &e) != ARRIVAL_STARTED)
			return;
		a->box.sock = keeper_connect(&a->box.registry, a->box.id, &e);
		arrival_leave(&a->arrival);
		if (a->box.sock < 0)
			return;
	}
	pump_run(&a->pump, rq, fd, extra, n, &e);
}

static int attach_begin(struct attach *a, struct http_request *rq, int *ret_tty, struct err *e)
{
	struct engine_loaded d;

	if (docker_find(&a->box, rq, e) < 0 || docker_load(&d, &a->box, 0, e) < 0)
		return -1;
	*ret_tty = engine_is_tty(&d.v);
	a->pump = (struct pump){ .box = &a->box, .command = KEEPER_MAIN, .raw = *ret_tty };
	a->pump.want[0] = docker_query_flag(rq, "stdout");
	a->pump.want[1] = docker_query_flag(rq, "stderr");
	a->pump.input = docker_query_flag(rq, "stdin") &&
			json_is_true(json_object_get(d.record, "stdin_open"));
	a->pump.input_ends = json_is_true(engine_asked(&d.v, "StdinOnce")) && !*ret_tty;
	engine_loaded_release(&d);
	if (*ret_tty && pump_keys(&a->pump, rq, http_query(rq, "detachKeys"), e) < 0)
		return -1;
	if (http_endless(rq, e) < 0)
		return -1;
	a->stream = docker_query_flag(rq, "stream");
	a->logs = docker_query_flag(rq, "logs");
	if (!a->stream)
		return 0;
	a->awaits = a->box.kept;
	if (a->awaits)
		return arrival_join(docker_of(rq)->arrivals, &a->arrival, a->box.id, e);
	if (docker_connect(&a->box, e) < 0)
		return -1;
	return a->logs ? 0 : pump_look(&a->pump, e);
}

static int post_attach(struct http_request *rq, struct err *e)
{
	struct attach *a = calloc(1, sizeof(*a));
	struct http_hijack h = { attach_run, attach_free, a };
	int tty = 0;

	if (!a)
		return err_nomem(e);
	box_clear(&a->box);
	a->arrival.fd = -1;
	if (attach_begin(a, rq, &tty, e) < 0) {
		attach_free(a);
		return -1;
	}
	return http_reply_hijack(rq, tty ? DOCKER_RAW_STREAM : DOCKER_FRAMES, &h, e);
}

/* ---- wait --------------------------------------------------------------------------------- */

struct waiting {
	struct box box;
	struct arrival arrival;
	int awaits, removal; /* the next start first; the end is that nothing is left */
	int done;
	json_t *verdict;
};

static void wait_free(void *ctx)
{
	struct waiting *w = ctx;

	arrival_leave(&w->arrival);
	box_close(&w->box);
	json_decref(w->verdict);
	free(w);
}

/* Waits until its keeper has gone; on the way the keeper reports how the main command ended. */
static int await_end(struct waiting *w, struct http_request *rq, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_wait);
	json_t *said;
	size_t n;
	int r;

	request_set_command(ask, KEEPER_MAIN);
	if (w->box.sock < 0)
		w->box.sock = keeper_connect(&w->box.registry, w->box.id, e);
	if (w->box.sock < 0 || wire_request(w->box.sock, ask, NULL, 0, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	for (;;) {
		if (http_wait(rq, w->box.sock, POLLIN, -1, e) < 0)
			return -1;
		r = wire_recv(w->box.sock, 0, &said, NULL, 0, &n, e);
		if (r == 0)
			return 0;
		if (r < 0)
			return e->code == ERR_NOT_FOUND ? 0 : -1;
		if (!w->verdict)
			w->verdict = json_incref(json_object_get(said, "verdict"));
		json_decref(said);
	}
}

static int await_removal(struct waiting *w, struct http_request *rq, struct err *e)
{
	while (path_has(w->box.registry.kept_fd, w->box.id) ||
	       path_has(w->box.registry.sandboxes_fd, w->box.id))
		if (http_wait(rq, -1, 0, GONE_LOOK_MS, e) < 0)
			return -1;
	return 0;
}

/* From the record, if nobody reported it. */
static int code_of(struct waiting *w)
{
	struct engine_loaded d;
	struct err ignored;
	int code;

	if (w->verdict)
		return (int)json_integer_value(json_object_get(w->verdict, "exit_status"));
	w->box.kept = 1;
	if (docker_load(&d, &w->box, 0, &ignored) < 0)
		return 0;
	code = engine_exit_code(&d.v);
	engine_loaded_release(&d);
	return code;
}

static int await_all(struct waiting *w, struct http_request *rq, int *ret_code, struct err *e)
{
	int failed = 0, r;

	if (w->awaits) {
		r = arrival_wait(&w->arrival, &w->box, rq, e);
		arrival_leave(&w->arrival);
		if (r < 0)
			return -1;
		failed = r == ARRIVAL_FAILED;
	}
	if (!failed && await_end(w, rq, e) < 0)
		return -1;
	*ret_code = failed ? 127 : code_of(w);
	return w->removal && !failed ? await_removal(w, rq, e) : 0;
}

static ssize_t wait_read(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct waiting *w = ctx;
	struct err e;
	int code = 0, n;

	if (w->done)
		return 0;
	w->done = 1;
	if (await_all(w, rq, &code, &e) < 0)
		return -1;
	n = snprintf(buf, max, "{\"StatusCode\":%d}\n", code);
	return n > 0 && (size_t)n < max ? n : -1;
}

static int wait_begin(struct waiting *w, struct http_request *rq, struct err *e)
{
	const char *condition = http_query(rq, "condition");

	if (docker_find(&w->box, rq, e) < 0)
		return -1;
	if (!condition || !condition[0])
		condition = "not-running";
	w->removal = !strcmp(condition, "removed");
	if (!w->removal && strcmp(condition, "next-exit") && strcmp(condition, "not-running"))
		return docker_fail(rq, 400, e, "invalid condition: \"%.40s\"", condition);
	/* with "not-running" a container that does not run has what is waited for */
	w->awaits = w->box.kept && strcmp(condition, "not-running");
	if (http_endless(rq, e) < 0)
		return -1;
	return w->awaits ? arrival_join(docker_of(rq)->arrivals, &w->arrival, w->box.id, e) : 0;
}

/* The head of the reply goes out at once: the client starts the container when it has that. */
static int post_wait(struct http_request *rq, struct err *e)
{
	struct waiting *w = calloc(1, sizeof(*w));
	struct http_stream st = { wait_read, wait_free, w };
	int code;

	if (!w)
		return err_nomem(e);
	box_clear(&w->box);
	w->arrival.fd = -1;
	if (wait_begin(w, rq, e) < 0) {
		wait_free(w);
		return -1;
	}
	if (w->box.kept && !w->awaits) {
		code = code_of(w);
		wait_free(w);
		return http_reply_json(rq, 200, json_pack("{s:i}", "StatusCode", code), e);
	}
	return http_reply_stream(rq, 200, "application/json", &st, e);
}

const struct http_route docker_stream_routes[] = {
	{ "POST", "/containers/{id}/attach", post_attach, "join a container's main command",
	  HTTP_JSON, HTTP_OPTIONAL | HTTP_UPGRADES },
	{ "POST", "/containers/{id}/wait", post_wait, "until a container ends", HTTP_JSON,
	  HTTP_OPTIONAL | HTTP_QUIET },
	{ "GET", "/containers/{id}/logs", docker_logs, "what a container wrote", HTTP_NONE,
	  HTTP_QUIET },
	{ NULL },
};
