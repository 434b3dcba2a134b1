/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a client's connection and a command: its output in frames or raw, the client's bytes to
 * its stdin, and the end of these, which ends neither the output nor the connection.
 *
 * The command waits when the client does not read ("hold" of the keeper's protocol): at most one
 * answer of the keeper is held here.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

#define ASK_BELOW 65536 /* bytes for the client while more is asked for */
#define FRAME_MAX 65536
#define INPUT_MAX 65536
#define INPUT_PIECE 16384
#define OUT_MAX (8u << 20)

struct pumping {
	struct pump *p;
	struct http_request *rq;
	int fd; /* the client's */
	struct buf out;
	size_t sent;
	struct buf in;
	int send_sock;	  /* a second connection, for stdin; -1: none yet */
	int asked, ended; /* follow: an answer is pending; all output was sent */
	int sending;	  /* the same of stdin */
	int closed;	  /* the client sends no more */
	int told_closed;
};

/* ---- output --------------------------------------------------------------------------- */

static int ask_for_output(struct pumping *x, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_follow);
	struct pump *p = x->p;

	request_set_command(rq, p->command);
	request_set_from(rq, p->from[0]);
	request_set_stderr_from(rq, p->from[1]);
	request_set_hold(rq, 1);
	x->asked = 1;
	if (wire_request(p->box->sock, rq, NULL, 0, e) == 0)
		return 0;
	/* its keeper has gone */
	x->ended = 1;
	return e->code == ERR_NOT_FOUND ? 0 : -1;
}

static int add_output_frames(struct pumping *x, int which, const char *data, size_t n, struct err *e)
{
	unsigned char head[8];
	size_t part;

	if (!x->p->want[which])
		return 0;
	if (x->p->raw)
		return buf_add(&x->out, data, n, e);
	for (; n; data += part, n -= part) {
		part = n < FRAME_MAX ? n : FRAME_MAX;
		engine_frame(head, which + 1, (uint32_t)part);
		if (buf_add(&x->out, head, sizeof(head), e) < 0 ||
		    buf_add(&x->out, data, part, e) < 0)
			return -1;
	}
	return 0;
}

static int add_answer(struct pumping *x, const json_t *answer, const struct buf *data,
		      struct err *e)
{
	static const char *const names[] = { "stdout", "stderr" };
	size_t at = 0;
	int i;

	for (i = 0; i < 2; i++) {
		const json_t *part = json_object_get(answer, names[i]);
		size_t n = (size_t)json_integer_value(json_object_get(part, "bytes"));

		if (!part)
			continue;
		if (n > data->len - at)
			return err_set(e, ERR_CORRUPT, "the keeper's answer is cut short");
		if (n && add_output_frames(x, i, data->data + at, n, e) < 0)
			return -1;
		at += n;
		x->p->from[i] = (uint64_t)json_integer_value(json_object_get(part, "next"));
	}
	if (json_is_true(json_object_get(answer, "ended"))) {
		x->ended = 1;
		x->p->verdict = json_incref(json_object_get(answer, "verdict"));
	}
	return 0;
}

static int take_pump_output(struct pumping *x, struct err *e)
{
	autobuf struct buf data = BUF_INIT(WIRE_DATA_MAX);
	autojson json_t *answer = NULL;
	int fds[WIRE_FDS_MAX], r = 0;
	size_t n = 0, i;

	x->asked = 0;
	answer = box_receive(x->p->box, -1, fds, WIRE_FDS_MAX, &n, e);
	if (!answer) {
		x->ended = 1; /* it ended, or was killed, and nobody has the rest */
		return e->code == ERR_NET || e->code == ERR_SYS ? -1 : 0;
	}
	if (n)
		r = wire_read_data(fds[0], &data, e);
	for (i = 0; i < n; i++)
		close(fds[i]);
	return r < 0 ? -1 : add_answer(x, answer, &data, e);
}

static int write_to_client(struct pumping *x, struct err *e)
{
	ssize_t n = send(x->fd, x->out.data + x->sent, x->out.len - x->sent,
			 MSG_NOSIGNAL | MSG_DONTWAIT);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return err_set(e, ERR_NET, "the client is gone");
	x->sent += n > 0 ? (size_t)n : 0;
	if (x->sent == x->out.len) {
		buf_release(&x->out);
		x->out = BUF_INIT(OUT_MAX);
		x->sent = 0;
	}
	return 0;
}

/* ---- input ---------------------------------------------------------------------------- */

static int open_pump_input(struct pumping *x, struct err *e)
{
	if (x->send_sock < 0)
		x->send_sock = keeper_connect(&x->p->box->registry, x->p->box->id, e);
	return x->send_sock < 0 ? -1 : 0;
}

/* The client reads no more, or has ended: the rest has no reader. */
static void drop_input(struct pumping *x)
{
	fd_close(&x->send_sock);
	x->sending = 0;
	x->in.len = 0;
	x->closed = x->told_closed = 1;
}

static void send_pump_input(struct pumping *x)
{
	autojson json_t *rq = protocol_request(OP_send);
	autoclose int data = -1;
	int eof = x->closed && x->p->input_ends;
	struct err e;

	request_set_command(rq, x->p->command);
	request_set_eof(rq, eof);
	if (open_pump_input(x, &e) < 0 ||
	    (x->in.len && (data = wire_data(x->in.data, x->in.len, &e)) < 0) ||
	    wire_request(x->send_sock, rq, &data, data >= 0, &e) < 0) {
		drop_input(x);
		return;
	}
	x->in.len = 0;
	x->sending = 1;
	x->told_closed |= x->closed;
}

static void take_sent(struct pumping *x)
{
	autojson json_t *answer = NULL;
	struct err e;
	size_t n;

	x->sending = 0;
	if (wire_recv(x->send_sock, 0, &answer, NULL, 0, &n, &e) <= 0 || wire_check(answer, &e) < 0)
		drop_input(x);
}

static int add_input(struct pumping *x, const char *data, size_t n, struct err *e)
{
	char kept[INPUT_PIECE + DETACH_KEYS_MAX];
	size_t part, len;

	for (; n && !x->p->keys.detached; data += part, n -= part) {
		part = n < INPUT_PIECE ? n : INPUT_PIECE;
		len = detach_keys_filter(&x->p->keys, data, part, kept);
		if (buf_add(&x->in, kept, len, e) < 0)
			return -1;
	}
	return 0;
}

static int read_in(struct pumping *x, struct err *e)
{
	char piece[INPUT_PIECE];
	ssize_t n = recv(x->fd, piece, sizeof(piece), MSG_DONTWAIT);

	if (n == 0)
		x->closed = 1;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return err_set(e, ERR_NET, "the client is gone");
	return n > 0 ? add_input(x, piece, (size_t)n, e) : 0;
}

/* ---- both ------------------------------------------------------------------------------ */

static int has_input(const struct pumping *x)
{
	return x->p->input && !x->sending && (x->in.len || (x->closed && !x->told_closed));
}

static int turn_pump(struct pumping *x, struct err *e)
{
	const int reads = x->p->input && !x->closed && x->in.len < INPUT_MAX;
	struct pollfd p[4] = {
		{ .fd = reads ? x->fd : -1, .events = POLLIN },
		{ .fd = x->out.len ? x->fd : -1, .events = POLLOUT },
		{ .fd = x->asked && !x->ended ? x->p->box->sock : -1, .events = POLLIN },
		{ .fd = x->sending ? x->send_sock : -1, .events = POLLIN },
	};

	if (http_poll(x->rq, p, ARRAY_LEN(p), -1, e) < 0)
		return -1;
	if (p[3].revents)
		take_sent(x);
	if (p[2].revents && take_pump_output(x, e) < 0)
		return -1;
	if (p[0].revents && read_in(x, e) < 0)
		return -1;
	return p[1].revents ? write_to_client(x, e) : 0;
}

static int run_pump(struct pumping *x, struct err *e)
{
	for (;;) {
		if (x->ended && !x->out.len)
			return 0;
		if (x->p->keys.detached && !x->in.len && !x->sending)
			return 0;
		if (!x->ended && !x->asked && x->out.len - x->sent < ASK_BELOW && ask_for_output(x, e) < 0)
			return -1;
		if (has_input(x))
			send_pump_input(x);
		if (x->ended && !x->out.len)
			continue;
		if (turn_pump(x, e) < 0)
			return -1;
	}
}

#define FINISH_MS 10000 /* for the command to take a piece of it */

/*
 * What a client sent before it went is still for the command, and its going is the end of that.  One that reads none of
 * it would keep a thread here, and a place in the keeper, for as long as it runs.
 */
static void finish_input(struct pumping *x)
{
	struct err e;

	http_half_open(x->rq);
	while (!x->told_closed) {
		if (x->sending) {
			if (http_wait(x->rq, x->send_sock, POLLIN, FINISH_MS, &e) <= 0)
				return;
			take_sent(x);
			continue;
		}
		if (!x->in.len && !x->closed && (read_in(x, &e) < 0 || !x->in.len))
			x->closed = 1;
		if (!x->in.len && !x->p->input_ends)
			return;
		send_pump_input(x);
	}
}

int pump_run(struct pump *p, struct http_request *rq, int fd, const char *extra, size_t n,
	     struct err *e)
{
	struct pumping x = { .p = p,
			     .rq = rq,
			     .fd = fd,
			     .out = BUF_INIT(OUT_MAX),
			     .in = BUF_INIT(1u << 20),
			     .send_sock = -1 };
	int r = n && p->input ? add_input(&x, extra, n, e) : 0;

	if (r == 0)
		r = run_pump(&x, e);
	if (r < 0 && p->input && e->code == ERR_NET)
		finish_input(&x);
	fd_close(&x.send_sock);
	buf_release(&x.out);
	buf_release(&x.in);
	return r;
}

int pump_keys(struct pump *p, struct http_request *rq, const char *text, struct err *e)
{
	if (detach_keys_parse(text && text[0] ? text : DETACH_KEYS, &p->keys, e) == 0)
		return 0;
	return docker_fail(rq, 400, e, "Invalid detach keys (%.80s) provided", text);
}

int pump_look(struct pump *p, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_commands);
	autojson json_t *answer = docker_call(p->box, rq, e);
	const int is_main = !strcmp(p->command, KEEPER_MAIN);
	const json_t *c;
	size_t i;

	if (!answer)
		return -1;
	json_array_foreach(json_object_get(answer, "commands"), i, c) {
		const char *id = json_string_value(json_object_get(c, "command"));

		if (is_main ? !json_is_true(json_object_get(c, KEEPER_MAIN))
			    : !id || strcmp(id, p->command))
			continue;
		p->from[0] = (uint64_t)json_integer_value(json_object_get(c, "stdout_bytes"));
		p->from[1] = (uint64_t)json_integer_value(json_object_get(c, "stderr_bytes"));
		return 0;
	}
	return err_set(e, ERR_NOT_FOUND, "the container has no main command that runs");
}
