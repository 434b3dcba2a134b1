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
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

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
	return api_follow(x->box.rq, &x->box, x->command, execution_started(x),
			  execution_free, x, e);
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
		return execution_stream(x, e);
	else if (r == 0)
		r = execution_reply(x, e);
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
