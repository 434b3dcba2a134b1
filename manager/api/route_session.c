/* SPDX-License-Identifier: Apache-2.0 */
/* Routes on shell sessions: one shell each, in which directory and variables last. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/estream.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

#define STATUS_UNFINISHED 123	/* as berth sh */
#define INPUT_MAX 65536

static json_t *session_request(struct http_request *rq, enum protocol_op op)
{
	json_t *ask = protocol_request(op);

	request_set_session(ask, http_param(rq, "session"));
	return ask;
}

static int get_shell_sessions(struct http_request *rq, struct err *e)
{
	return box_answer(rq, protocol_request(OP_sessions), e);
}

/* Output is in the answer when it is short text, else in descriptors: stdout's, then stderr's. */
static int add_output(json_t *answer, const int *fds, size_t n, struct err *e)
{
	static const char *const names[] = { "output", "stderr" };
	size_t i, at = 0;

	for (i = 0; i < ARRAY_LEN(names); i++) {
		autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);

		if (json_object_get(answer, names[i]) || at == n)
			continue;
		if (wire_read_data(fds[at++], &b, e) < 0 || json_set_bytes(answer, names[i], b.data, b.len, e) < 0)
			return -1;
	}
	return 0;
}

/* A command in a session, or the wait for it: consumes ask. */
static int run_in_shell_session(struct http_request *rq, json_t *ask, struct err *e)
{
	int fds[WIRE_FDS_MAX], r = -1;
	json_t *answer = NULL, *verdict;
	struct box b;
	size_t n = 0;

	request_set_inline(ask, 1);
	if (box_connect(&b, rq, e) == 0 && box_send(&b, ask, NULL, 0, e) == 0)
		answer = box_receive(&b, -1, fds, WIRE_FDS_MAX, &n, e);
	if (answer)
		r = add_output(answer, fds, n, e);
	while (n)
		fd_close(&fds[--n]);
	box_close(&b);
	json_decref(ask);
	if (r < 0) {
		json_decref(answer);
		return -1;
	}
	verdict = json_object_get(answer, "verdict");
	json_object_set_new(answer, "exit_status", verdict ? json_incref(json_object_get(verdict, "exit_status")) :
			    json_integer(STATUS_UNFINISHED));
	return http_reply_json(rq, 0, answer, e);
}

static int post_session_run(struct http_request *rq, struct err *e)
{
	json_t *ask = session_request(rq, OP_sh);

	json_object_update(ask, http_json(rq));
	return run_in_shell_session(rq, ask, e);
}

static int post_session_wait(struct http_request *rq, struct err *e)
{
	json_t *ask = session_request(rq, OP_sh_wait);

	json_object_update(ask, http_json(rq));
	return run_in_shell_session(rq, ask, e);
}

static void free_input(void *data)
{
	struct buf *b = data;

	buf_release(b);
	free(b);
}

static int begin_input(struct http_request *rq, struct err *e)
{
	struct buf *b = calloc(1, sizeof(*b));

	if (!b)
		return err_nomem(e);
	*b = BUF_INIT(INPUT_MAX);
	http_set_data(rq, b, free_input);
	return 0;
}

static int feed_input(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	if (buf_add(http_data(rq), data, n, e) == 0)
		return 0;
	http_error_status(rq, 413);
	return -1;
}

static int post_session_input(struct http_request *rq, struct err *e)
{
	const struct buf *b = http_data(rq);
	autojson json_t *ask = session_request(rq, OP_send);
	autoclose int fd = wire_data(b->data ? b->data : "", b->len, e);
	json_t *answer = NULL;
	struct box box;

	if (fd < 0)
		return -1;
	request_set_eof(ask, http_query_bool(rq, "eof"));
	if (box_connect(&box, rq, e) == 0)
		answer = box_call(&box, ask, &fd, 1, NULL, e);
	box_close(&box);
	return answer ? http_reply_json(rq, 0, answer, e) : -1;
}

static int post_session_signal(struct http_request *rq, struct err *e)
{
	const json_t *signal = json_object_get(http_json(rq), "signal");
	int number = signal ? api_signal_number(signal, e) : 2;
	json_t *ask;

	if (number < 0)
		return -1;
	ask = session_request(rq, OP_signal);
	request_set_signal(ask, (uint64_t)number);
	return box_answer(rq, ask, e);
}

static int post_cancel(struct http_request *rq, struct err *e)
{
	return box_answer(rq, session_request(rq, OP_sh_cancel), e);
}

static int delete_session(struct http_request *rq, struct err *e)
{
	return box_answer(rq, session_request(rq, OP_session_close), e);
}

#define SESSIONS "/v1/sandboxes/{id}/sessions"

const struct http_route session_routes[] = {
	{ "GET", SESSIONS, get_shell_sessions, "list shell sessions", .response = "SessionList" },
	{ "POST", SESSIONS "/{session}/run", post_session_run, "run a command line in a session, which is made when it is not there", HTTP_JSON,
	  .request = "ShellRun", .response = "ShellResult" },
	{ "POST", SESSIONS "/{session}/wait", post_session_wait, "wait for the command that runs", HTTP_JSON, HTTP_OPTIONAL,
	  .request = "ShellWait", .response = "ShellResult" },
	{ "POST", SESSIONS "/{session}/input", post_session_input, "type the body into its terminal", HTTP_RAW, .query = "eof:boolean",
	  .response = "Sent", .begin = begin_input, .feed = feed_input },
	{ "POST", SESSIONS "/{session}/signal", post_session_signal, "signal what runs in front (default: INT)", HTTP_JSON, HTTP_OPTIONAL,
	  .request = "SessionSignal", .response = "Signalled" },
	{ "POST", SESSIONS "/{session}/cancel", post_cancel, "end the command that runs, with its tree", .response = "Cancelled" },
	{ "DELETE", SESSIONS "/{session}", delete_session, "end the session with all it runs", .response = "Closed" },
	{ NULL },
};
