/* SPDX-License-Identifier: Apache-2.0 */
/* exec and run: commands in sandboxes and code in forks, and the pipes that join them to the client. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/stdio/stdio.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/zygote/client.h"

/* ---- exec ---- */

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

/* ---- Pipes to a command ---- */

int pipes_make(int *ret_ours, int *ret_theirs, int we_read, struct err *e)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	*ret_ours = p[!we_read];
	*ret_theirs = p[we_read];
	return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "set up a pipe") : 0;
}

void pipes_input(struct stdio_request *r)
{
	while (r->in >= 0 && r->input_done < r->input.len) {
		ssize_t n = write(r->in, r->input.data + r->input_done, r->input.len - r->input_done);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			fd_close(&r->in);	/* it reads no more */
		else
			r->input_done += (size_t)n;
	}
	r->input.len = r->input_done = 0;
	if (!r->in_open)
		fd_close(&r->in);
}

/* Where the last character of p is cut: the number of its bytes that are there, at most 3. */
static size_t cut_character(const char *p, size_t n)
{
	size_t back;

	for (back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = (unsigned char)p[n - back];
		size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

		if ((c & 0xc0) != 0x80)
			return whole > back ? back : 0;
	}
	return 0;
}

static void tell_pipe_output(struct stdio *st, struct stdio_request *r, int which, char *p, size_t n, int last)
{
	static const char *const names[] = { "stdout", "stderr" };
	struct err ignored;
	size_t keep = last ? 0 : cut_character(p, n);
	json_t *a;

	memcpy(r->held[which], p + n - keep, keep);
	r->held_len[which] = keep;
	if (n == keep)
		return;
	a = json_pack("{s:s}", "stream", names[which]);
	json_set_bytes(a, "data", p, n - keep, &ignored);
	answer_to(st, r, a);
}

int pipes_output(struct stdio *st, struct stdio_request *r, int which)
{
	char buf[STDIO_CHUNK + 4];
	struct err e;
	size_t held = r->held_len[which];
	ssize_t n = read(r->out[which], buf + held, STDIO_CHUNK);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		fd_close(&r->out[which]);
		memcpy(buf, r->held[which], held);
		if (held)
			tell_pipe_output(st, r, which, buf, held, 1);
		return 0;
	}
	if (r->kind == CHILD || r->file) {
		if (buf_add(&r->text[which], buf, (size_t)n, &e) < 0)
			fd_close(&r->out[which]);
		return 1;
	}
	memcpy(buf, r->held[which], held);
	tell_pipe_output(st, r, which, buf, held + (size_t)n, 0);
	return 1;
}

void pipes_drain(struct stdio *st, struct stdio_request *r)
{
	char rest[4];
	int i;

	for (i = 0; i < 2; i++) {
		while (r->out[i] >= 0 && pipes_output(st, r, i))
			;
		if (r->held_len[i]) {
			memcpy(rest, r->held[i], r->held_len[i]);
			tell_pipe_output(st, r, i, rest, r->held_len[i], 1);
		}
	}
}

/* ---- Code in a fork ---- */

/* "run" of berth stdio: code in a fork of a zygote (manager/zygote/client.h). */

static int send_code(struct stdio *st, struct stdio_request *r, const json_t *rq, const int std[3],
		     struct err *e)
{
	const char *zygote = json_string_value(json_object_get(rq, "zygote"));
	int sock;

	if (st->ref.registry.run_fd < 0 && sandbox_ref_registry(&st->ref, e) < 0)
		return -1;
	sock = zygote_ask_json(&st->ref.registry, zygote, rq, std, e);
	r->conn = sock < 0 ? -1 : conn_add(st, sock, e);
	return r->conn < 0 ? -1 : 0;
}

int forkrun_start(struct stdio *st, json_t *id, const json_t *rq, struct err *e)
{
	struct stdio_request *r = request_new(st, EXEC, id, e);
	int theirs[3] = {-1, -1, -1}, i, result = -1;

	if (!r)
		return -1;
	r->is_fork = 1;
	r->until_ms = clock_ms() + ZYGOTE_WAIT_MS;
	snprintf(r->sandbox, sizeof(r->sandbox), "%s",
		 json_string_value(json_object_get(rq, "zygote")));
	st->forks_wait = 1;
	if (json_get_bool(rq, "stdin_open", &r->in_open, "request", e) >= 0 &&
	    json_get_bytes(rq, "stdin", &r->input, "request", e) >= 0 &&
	    pipes_make(&r->in, &theirs[0], 0, e) == 0 &&
	    pipes_make(&r->out[0], &theirs[1], 1, e) == 0 &&
	    pipes_make(&r->out[1], &theirs[2], 1, e) == 0)
		result = send_code(st, r, rq, theirs, e);
	for (i = 0; i < 3; i++)
		fd_close(&theirs[i]);
	if (result == 0)
		pipes_input(r);
	else
		request_end(st, r, 0);
	return result;
}

int forkrun_tick(struct stdio *st)
{
	uint64_t now = st->forks_wait ? clock_ms() : 0, next = 0;
	struct err e;
	int i;

	for (i = 0; st->forks_wait && i < STDIO_REQUESTS_MAX; i++) {
		struct stdio_request *r = &st->requests[i];

		if (r->kind != EXEC || !r->is_fork || r->started)
			continue;
		if (now >= r->until_ms) {
			zygote_busy(r->sandbox, ZYGOTE_WAIT_MS, &e);
			request_fail(st, r, &e, 0);
		} else if (!next || r->until_ms < next) {
			next = r->until_ms;
		}
	}
	st->forks_wait = next != 0;
	return next ? (int)(next - now) : -1;
}

void forkrun_answer(struct stdio *st, struct stdio_request *r)
{
	autobuf struct buf text = BUF_INIT(1 << 17);
	autojson json_t *verdict = NULL;
	struct err e = {0};
	int status, got = zygote_hear(st->conns[r->conn].fd, &status, &text, &e);

	if (got == 0)
		return;
	if (got == ZYGOTE_TAKEN) {
		r->started = 1;
		answer_send(st, r->id, json_pack("{s:b}", "started", 1));
		return;
	}
	if (got == ZYGOTE_VERDICT)
		verdict = json_parse(text.data, text.len, text.len, "verdict", &e);
	if (!verdict) {
		request_fail(st, r, &e, 0);
		return;
	}
	pipes_drain(st, r);
	answer_send(st, r->id, json_pack("{s:O}", "verdict", verdict));
	request_end(st, r, 0);
}

void forkrun_cancel(struct stdio *st, struct stdio_request *r)
{
	zygote_kill(st->conns[r->conn].fd);
}
