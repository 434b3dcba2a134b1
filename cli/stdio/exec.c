/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stdio/stdio.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

int exec_start(struct stdio *st, struct stdio_request *r, json_t *rq, struct err *e)
{
	int theirs[3] = { -1, -1, -1 }, i, result = -1;

	if (json_get_bool(rq, "stdin_open", &r->in_open, "request", e) < 0 || json_get_bytes(rq, "stdin", &r->input, "request", e) < 0)
		return -1;
	json_object_del(rq, "stdin");
	json_object_del(rq, "stdin_hex");
	json_object_del(rq, "stdin_base64");
	json_object_del(rq, "stdin_open");
	if (pipes_make(&r->in, &theirs[0], 0, e) == 0 && pipes_make(&r->out[0], &theirs[1], 1, e) == 0 &&
	    pipes_make(&r->out[1], &theirs[2], 1, e) == 0)
		result = conn_send(st, r, rq, theirs, 3, e);
	for (i = 0; i < 3; i++)
		fd_close(&theirs[i]);
	if (result == 0)
		pipes_input(r);
	return result;
}

int exec_kill(struct stdio *st, json_t *id, const struct stdio_request *r, struct err *e)
{
	json_t *rq = protocol_request(OP_signal);

	request_set_command(rq, r->command);
	request_set_signal(rq, SIGKILL);
	request_set_all(rq, 1);
	return request_call(st, id, r->sandbox, rq, NULL, 0, e);
}

/* Only what is in the pipes now counts: processes that were left behind may hold them for ever. */
static void end_exec(struct stdio *st, struct stdio_request *r, json_t *verdict)
{
	pipes_drain(st, r);
	if (r->file) {
		fileop_end(st, r, verdict);
		return;
	}
	answer_send(st, r->id, json_pack("{s:O}", "verdict", verdict));
	request_end(st, r, 1);
}

static void exec_message(struct stdio *st, struct stdio_request *r, json_t *msg)
{
	const char *command = json_string_value(json_object_get(msg, "command"));
	struct err e;

	if (json_object_get(msg, "started")) {
		snprintf(r->command, sizeof(r->command), "%s", command ? command : "");
		/* now its output may come: the keeper's word and the pipes are read in no order of their own */
		r->started = 1;
		if (!r->file)
			answer_send(st, r->id, json_incref(msg));
		if (r->cancelled && exec_kill(st, NULL, r, &e) < 0)
			request_fail(st, r, &e, 0);
	} else if (json_object_get(msg, "ended")) {
		end_exec(st, r, json_object_get(msg, "verdict"));
	}
}

static int add_fds(json_t *msg, const int *fds, size_t n, struct err *e)
{
	size_t i;

	for (i = 0; i < n; i++) {
		autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
		const char *key = i ? "stderr" : json_object_get(msg, "session") ? "output" : "data";

		if (wire_read_data(fds[i], &b, e) < 0 || json_set_bytes(msg, key, b.data, b.len, e) < 0)
			return -1;
	}
	return 0;
}

void exec_answer(struct stdio *st, struct stdio_request *r)
{
	autojson json_t *msg = NULL;
	int fds[WIRE_FDS_MAX], got, failed;
	const char *members;
	struct err e = { 0 };
	size_t n = 0, i, len;
	char buf[WIRE_MAX + 1];

	if (r->is_fork) {
		forkrun_answer(st, r);
		return;
	}
	got = wire_recv_text(st->conns[r->conn].fd, 0, buf, &len, fds, WIRE_FDS_MAX, &n, &e);
	if (got < 0 && e.code == ERR_TIMEOUT)
		return;
	if (got > 0 && r->kind == CALL && !n && !r->base64 && (members = wire_members(buf, len, &len))) {
		answer_members(st, r->id, members, len);
		request_end(st, r, 1);
		return;
	}
	if (got > 0)
		got = wire_parse(buf, len, &msg, fds, &n, &e);
	if (got == 0)
		wire_ended(&e);
	failed = got <= 0 || add_fds(msg, fds, n, &e) < 0;
	for (i = 0; i < n; i++)
		close(fds[i]);
	if (failed) {
		request_fail(st, r, &e, 0);
	} else if (r->kind == EXEC && !json_object_get(msg, "error")) {
		exec_message(st, r, msg);
	} else {
		answer_to(st, r, json_incref(msg));
		request_end(st, r, 1);
	}
}
