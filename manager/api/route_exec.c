/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route that runs a command in a sandbox.
 *
 * The command gets pipes of ours; nothing of its output is lost on the way, and
 * a client that reads slowly slows it down.  A foreground command ends with its
 * client.  Whole replies are bounded: head and tail are kept, the middle counted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/estream.h"
#include "manager/api/execution.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/request.h"
#include "manager/keeper/wire.h"

#define KEEP_DEFAULT (1u << 20)	/* bytes of each stream in a whole reply */

/* The keeper's request: the members that the schema accepted, without our own. */
static json_t *make_request(const struct execution *x, int detach)
{
	static const char *const ours[] = { "stdin", "stdin_hex", "stream", "max_output_bytes", "detach", "stdin_open", "image", "pull",
					    "options", "keep", "attest" };
	json_t *ask = protocol_request(OP_exec);
	size_t i;

	json_object_update_missing(ask, (json_t *)(size_t)http_json(x->box.rq));
	for (i = 0; i < ARRAY_LEN(ours); i++)
		json_object_del(ask, ours[i]);
	if (x->temporary)
		json_object_del(ask, "name");	/* the sandbox's */
	request_set_detach(ask, detach);
	return ask;
}

/* ---- one reply -------------------------------------------------------------------------- */

static int add_kept(json_t *reply, const char *name, const struct ring *ring, struct err *e)
{
	autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
	uint64_t start, next = 0;
	char key[40];
	size_t head;

	if (ring_read(ring, 0, WIRE_DATA_MAX, &b, &start, &next, e) < 0)
		return -1;
	head = b.len;
	if (next < ring->total && ring_read(ring, next, WIRE_DATA_MAX, &b, &start, &next, e) < 0)
		return -1;
	if (ring_dropped(ring)) {
		snprintf(key, sizeof(key), "%s_head_bytes", name);
		json_object_set_new(reply, key, json_integer((json_int_t)head));
	}
	snprintf(key, sizeof(key), "%s_bytes", name);
	json_object_set_new(reply, key, json_integer((json_int_t)ring->total));
	snprintf(key, sizeof(key), "%s_dropped", name);
	json_object_set_new(reply, key, json_integer((json_int_t)ring_dropped(ring)));
	return json_set_bytes(reply, name, b.data, b.len, e);
}

static int reply_whole(struct execution *x, struct err *e)
{
	const json_t *max = json_object_get(http_json(x->box.rq), "max_output_bytes");
	size_t keep = max ? (size_t)json_integer_value(max) : KEEP_DEFAULT;
	struct ring ring[2];
	json_t *reply = NULL;
	int r;

	ring_init(&ring[0], keep / 2, keep - keep / 2);
	ring_init(&ring[1], keep / 2, keep - keep / 2);
	r = execution_collect(x, ring, e);
	if (r == 0) {
		reply = json_pack("{s:s,s:O,s:O}", "command", x->command, "exit_status", json_object_get(x->verdict, "exit_status"),
				  "verdict", x->verdict);
		r = add_kept(reply, "stdout", &ring[0], e) < 0 || add_kept(reply, "stderr", &ring[1], e) < 0 ? -1 : 0;
	}
	ring_release(&ring[0]);
	ring_release(&ring[1]);
	if (r < 0) {
		json_decref(reply);
		return -1;
	}
	return http_reply_json(x->box.rq, 0, reply, e);
}

/* ---- as it comes -------------------------------------------------------------------------- */

static const char *const names[] = { "stdout", "stderr" };

static int add_piece(struct estream *s, int which, const char *p, size_t n, struct err *e)
{
	json_t *j;

	if (!n)
		return 0;
	j = json_pack("{s:s}", "stream", names[which]);
	if (json_set_bytes(j, "data", p, n, e) < 0) {
		json_decref(j);
		return -1;
	}
	return estream_add(s, names[which], 0, j, e);
}

static int add_verdict(struct estream *s, struct execution *x, struct err *e)
{
	int i;

	for (i = 0; i < 2; i++)
		if (add_piece(s, i, x->held[i].bytes, x->held[i].n, e) < 0)
			return -1;
	return estream_add(s, "verdict", 0, json_pack("{s:s,s:O,s:O}", "command", x->command, "exit_status",
						      json_object_get(x->verdict, "exit_status"), "verdict", x->verdict), e);
}

static json_t *started(const struct execution *x)
{
	return json_pack("{s:s,s:s,s:b,s:O*}", "command", x->command, "sandbox", x->box.id, "started", 1, "attest", x->attest);
}

static int next_event(struct estream *s, struct http_request *rq, struct err *e)
{
	struct execution *x = s->ctx;
	char piece[16384 + 4];
	size_t n, cut;
	int which, r;

	(void)rq;
	if (x->started == 1) {
		x->started = 2;
		return estream_add(s, "started", 0, started(x), e) < 0 ? -1 : 1;
	}
	r = execution_next(x, piece + 4, sizeof(piece) - 4, &which, &n, e);
	if (r <= 0)
		return r < 0 ? -1 : add_verdict(s, x, e);
	/* held bytes are sent first */
	memcpy(piece + 4 - x->held[which].n, x->held[which].bytes, x->held[which].n);
	r = (int)x->held[which].n;
	n += (size_t)r;
	cut = estream_cut_text(piece + 4 - r, n);
	if (add_piece(s, which, piece + 4 - r, n - cut, e) < 0)
		return -1;
	x->held[which].n = cut;
	memcpy(x->held[which].bytes, piece + 4 - r + n - cut, cut);
	return 1;
}

/* ---- the route ------------------------------------------------------------------------------ */

static int detach(struct execution *x, struct err *e)
{
	autojson json_t *ask = make_request(x, 1);
	const json_t *body = http_json(x->box.rq);
	json_t *answer;

	if (json_object_get(body, "stdin") || json_object_get(body, "stdin_hex") || json_object_get(body, "stream"))
		return err_set(e, ERR_INVALID, "a detached command takes stdin and gives output by routes of its own; "
			       "hint: /commands/{command}/stdin and /follow");
	atomic_fetch_add(&api_of(x->box.rq)->execs, 1);
	answer = box_call(&x->box, ask, NULL, 0, NULL, e);
	if (!answer)
		return -1;
	http_audit(x->box.rq, "command", json_string_value(json_object_get(answer, "command")));
	return http_reply_json(x->box.rq, 201, answer, e);
}

/* A sandbox for this one command. */
static int make_box(struct execution *x, struct http_request *rq, struct err *e)
{
	autojson json_t *made = api_create(rq, http_json(rq), NULL, e);
	const char *id = json_string_value(json_object_get(made, "id"));
	int r;

	if (!made)
		return -1;
	r = box_open(&x->box, rq, e);
	snprintf(x->box.id, sizeof(x->box.id), "%s", id);
	if (r < 0)
		return -1;
	x->temporary = 1;
	x->box.sock = keeper_connect(&x->box.registry, x->box.id, e);
	if (x->box.sock < 0)
		return -1;
	if (json_is_true(json_object_get(http_json(rq), "attest"))) {
		autojson json_t *ask = protocol_request(OP_attest), *report = box_call(&x->box, ask, NULL, 0, NULL, e);

		if (!report)
			return -1;
		x->attest = json_incref(json_object_get(report, "attest"));
	}
	return 0;
}

/* The keeper has the terminal: input and its size come by other requests. */
static int run_terminal(struct execution *x, struct err *e)
{
	autojson json_t *ask = make_request(x, 1), *answer = NULL;
	const char *id;

	atomic_fetch_add(&api_of(x->box.rq)->execs, 1);
	answer = box_call(&x->box, ask, NULL, 0, NULL, e);
	id = json_string_value(json_object_get(answer, "command"));
	if (!id) {
		if (answer)
			err_set(e, ERR_CORRUPT, "the keeper named no command");
		execution_free(x);
		return -1;
	}
	snprintf(x->command, sizeof(x->command), "%s", id);
	http_audit(x->box.rq, "command", x->command);
	return api_follow(x->box.rq, &x->box, x->command, started(x), execution_free, x, e);
}

static int check_run(struct execution *x, const json_t *body, struct err *e)
{
	int stream = json_is_true(json_object_get(body, "stream"));

	x->keep = json_is_true(json_object_get(body, "keep"));
	if (x->tty && (!stream || x->stays_open || json_object_get(body, "stdin") || json_object_get(body, "stdin_hex")))
		return err_set(e, ERR_INVALID, "a terminal goes with \"stream\", and takes input by /commands/{command}/stdin");
	if (!x->tty && (json_object_get(body, "rows") || json_object_get(body, "cols")))
		return err_set(e, ERR_INVALID, "\"rows\" and \"cols\" go with \"tty\"");
	return json_object_get(body, "attest") && !stream ? err_set(e, ERR_INVALID, "\"attest\" goes with \"stream\"") : 0;
}

static int begin(struct execution *x, struct http_request *rq, int temporary, struct err *e)
{
	const json_t *body = http_json(rq);
	int detached = json_is_true(json_object_get(body, "detach"));
	autojson json_t *ask = NULL;

	if (!json_array_size(json_object_get(body, "argv")))
		return err_set(e, ERR_INVALID, "body.argv is empty");
	x->stays_open = json_is_true(json_object_get(body, "stdin_open"));
	if (x->stays_open && (detached || !json_is_true(json_object_get(body, "stream")) || json_object_get(body, "stdin") ||
			      json_object_get(body, "stdin_hex")))
		return err_set(e, ERR_INVALID, "\"stdin_open\" goes with \"stream\", and without \"stdin\" and \"detach\"");
	x->tty = json_is_true(json_object_get(body, "tty"));
	if (x->tty && !detached && !temporary)
		return err_set(e, ERR_INVALID, "a terminal needs \"detach\": true; hint: then follow, stdin and resize");
	if (temporary && check_run(x, body, e) < 0)
		return -1;
	if ((temporary ? make_box(x, rq, e) : box_connect(&x->box, rq, e)) < 0 || json_get_bytes(body, "stdin", &x->input, "request", e) < 0)
		return -1;
	if (json_object_get(body, "name") && !detached && !temporary)	/* after the sandbox: another's is not there */
		return err_set(e, ERR_INVALID, "\"name\" goes with \"detach\"");
	if (detached || x->tty)
		return 0;
	ask = make_request(x, 0);
	return execution_launch(x, ask, e);
}

static int execute(struct http_request *rq, int temporary, struct err *e)
{
	struct execution *x = execution_new(rq, e);
	int r;

	if (!x)
		return -1;
	r = begin(x, rq, temporary, e);
	if (r == 0 && x->tty && temporary)
		return run_terminal(x, e);
	if (r == 0 && json_is_true(json_object_get(http_json(rq), "detach")))
		r = detach(x, e);
	else if (r == 0 && json_is_true(json_object_get(http_json(rq), "stream")))
		return estream_reply(rq, 200, next_event, execution_free, x, e);
	else if (r == 0)
		r = reply_whole(x, e);
	execution_free(x);
	return r;
}

static int post_exec(struct http_request *rq, struct err *e)
{
	return execute(rq, 0, e);
}

static int post_run(struct http_request *rq, struct err *e)
{
	return execute(rq, 1, e);
}

const struct http_route exec_routes[] = {
	{ "POST", "/v1/run", post_run, "run a command in a sandbox of its own, which ends with it: a whole reply, or with \"stream\" events",
	  HTTP_JSON, .request = "Run", .response = "Executed", .type = ESTREAM_TYPES },
	{ "POST", "/v1/sandboxes/{id}/exec", post_exec,
	  "run a command: a whole reply, with \"stream\" events as they come, with \"detach\" (201) its id", HTTP_JSON,
	  .request = "Exec", .response = "Executed", .type = ESTREAM_TYPES, .or_status = 201, .or_response = "Detached" },
	{ NULL },
};
