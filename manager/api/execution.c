/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/execution.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/api/estream.h"
#include "manager/host/forget.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/zygote/client.h"

/* ---- the command ---- */

#define PIECE 65536
#define END_MS 30000

struct execution *execution_new(struct http_request *rq, struct err *e)
{
	struct execution *x = calloc(1, sizeof(*x));

	if (!x) {
		err_nomem(e);
		return NULL;
	}
	x->in = x->out[0] = x->out[1] = -1;
	box_init(&x->box, rq);
	x->input = BUF_INIT(HTTP_JSON_MAX);
	x->api = api_of(rq);
	return x;
}

/* The request may be gone; if the removal fails now, the sandbox stays visible for berth rm. */
void execution_remove_box(struct box *b, int keep)
{
	static const struct stop_request at_once;
	struct err ignored;

	/* another connection: the first one's end also ends its command */
	fd_close(&b->sock);
	b->sock = keeper_connect(&b->registry, b->id, &ignored);
	if (b->sock >= 0)
		keeper_ask_to_stop(b->sock, &at_once, &ignored);
	if (!keep)
		forget_alone(&b->registry, b->id, &ignored);
}

void execution_free(void *ctx)
{
	struct execution *x = ctx;
	int i;

	if (!x)
		return;
	if (x->stays_open && x->command[0])
		livein_remove(x->api, x->box.id, x->command);
	if (x->temporary)
		execution_remove_box(&x->box, x->keep);
	box_close(&x->box);
	fd_close(&x->in);
	for (i = 0; i < 2; i++)
		fd_close(&x->out[i]);
	buf_release(&x->input);
	json_decref(x->verdict);
	json_decref(x->attest);
	free(x);
}

static int make_execution_pipe(int *ret_ours, int *ret_theirs, int we_read, struct err *e)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	*ret_ours = p[!we_read];
	*ret_theirs = p[we_read];
	return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "set up a pipe") : 0;
}

static void write_input(struct execution *x)
{
	while (x->in >= 0 && x->input_done < x->input.len) {
		ssize_t n = write(x->in, x->input.data + x->input_done,
				  x->input.len - x->input_done);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break;	/* it reads no more */
		x->input_done += (size_t)n;
	}
	if (!x->stays_open)
		fd_close(&x->in);
}

static int take_input(struct execution *x, struct err *e)
{
	return x->stays_open ? livein_add(x->api, x->box.id, x->command, take_fd(&x->in), e) : 0;
}

/* Of the supervisor of a fork. */
static int take_supervisor_word(struct execution *x, struct err *e)
{
	autobuf struct buf text = BUF_INIT(1 << 17);
	int status, got = zygote_hear(x->box.sock, &status, &text, e);

	if (got < 0)
		return -1;
	if (got == ZYGOTE_VERDICT) {
		x->verdict = json_parse(text.data ? text.data : "", text.len, text.len, "verdict",
					e);
		return x->verdict ? 0 : -1;
	}
	if (got != ZYGOTE_TAKEN)
		return 0;
	x->started = 1;
	return take_input(x, e);
}

static int take_keeper_packet(struct execution *x, struct err *e)
{
	int fds[WIRE_FDS_MAX];
	size_t n = 0;
	autojson json_t *msg = box_receive(&x->box, -1, fds, WIRE_FDS_MAX, &n, e);
	const char *id = json_string_value(json_object_get(msg, "command"));

	while (n)
		fd_close(&fds[--n]);
	if (!msg)
		return -1;
	if (id)
		snprintf(x->command, sizeof(x->command), "%s", id);
	if (json_object_get(msg, "started")) {
		x->started = 1;
		http_audit(x->box.rq, "command", x->command);
		if (take_input(x, e) < 0)
			return -1;
	}
	if (json_object_get(msg, "ended"))
		x->verdict = json_incref(json_object_get(msg, "verdict"));
	return 0;
}

/* Reads what is in a pipe now: 1 with bytes, 0 nothing; closes it at its end. */
static int read_now(struct execution *x, int which, char *buf, size_t max, size_t *ret_n)
{
	ssize_t n;

	if (x->out[which] < 0)
		return 0;
	n = read(x->out[which], buf, max);
	if (n > 0) {
		*ret_n = (size_t)n;
		return 1;
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		fd_close(&x->out[which]);
	return 0;
}

int execution_next(struct execution *x, char *buf, size_t max, int *ret_which, size_t *ret_n,
		   struct err *e)
{
	for (;;) {
		struct pollfd p[4] = {
			{ .fd = x->verdict ? -1 : x->box.sock, .events = POLLIN },
			{ .fd = x->out[0], .events = POLLIN },
			{ .fd = x->out[1], .events = POLLIN }, { .fd = x->in, .events = POLLOUT },
		};

		for (*ret_which = 0; *ret_which < 2; ++*ret_which)
			if (read_now(x, *ret_which, buf, max, ret_n))
				return 1;
		/*
		 * the leader's exit ends it: processes that it left running may keep the pipes
		 * open for ever
		 */
		if (x->verdict)
			return 0;
		if (http_poll(x->box.rq, p, 4, -1, e) < 0)
			return -1;
		if (p[3].revents)
			write_input(x);
		if (p[0].revents && (x->is_fork ? take_supervisor_word(x, e) : take_keeper_packet(x, e)) < 0)
			return -1;
	}
}

static int make_execution_pipes(struct execution *x, int theirs[3], struct err *e)
{
	theirs[0] = theirs[1] = theirs[2] = -1;
	return make_execution_pipe(&x->in, &theirs[0], 0, e) < 0 ||
			       make_execution_pipe(&x->out[0], &theirs[1], 1, e) < 0 ||
			       make_execution_pipe(&x->out[1], &theirs[2], 1, e) < 0 ?
		       -1 :
		       0;
}

int execution_launch(struct execution *x, json_t *ask, struct err *e)
{
	int theirs[3], r = make_execution_pipes(x, theirs, e), i;

	if (r == 0)
		r = box_send(&x->box, ask, theirs, 3, e);
	for (i = 0; i < 3; i++)
		fd_close(&theirs[i]);
	if (r == 0)
		write_input(x);
	atomic_fetch_add(&api_of(x->box.rq)->execs, 1);
	/*
	 * So that a command that cannot be executed has a status of its own.  One that was killed
	 * before it had started has a verdict, too, and no other word comes before that.
	 */
	while (r == 0 && !x->started && !x->verdict)
		r = take_keeper_packet(x, e);
	return r;
}

int execution_launch_code(struct execution *x, struct err *e)
{
	const uint64_t until = clock_ms() + ZYGOTE_WAIT_MS;
	int theirs[3], r = make_execution_pipes(x, theirs, e), i;
	uint64_t now;

	x->is_fork = 1;
	snprintf(x->command, sizeof(x->command), "r%llu",
		 (unsigned long long)atomic_fetch_add(&x->api->execs, 1));
	if (r == 0)
		x->box.sock = zygote_ask_json(&x->box.registry, x->box.id, http_json(x->box.rq),
					      theirs, e);
	for (i = 0; i < 3; i++)
		fd_close(&theirs[i]);
	if (x->box.sock < 0)
		return -1;
	write_input(x);
	while (!x->started && !x->verdict) {
		now = clock_ms();
		r = now < until ? http_wait(x->box.rq, x->box.sock, POLLIN, (int)(until - now), e) :
				  0;
		if (r == 0)
			zygote_busy(x->box.id, ZYGOTE_WAIT_MS, e);
		if (r <= 0 || take_supervisor_word(x, e) < 0)
			return -1;
	}
	return 0;
}

int execution_collect(struct execution *x, struct ring ring[2], struct err *e)
{
	autofree char *piece = malloc(PIECE);
	int which, r;
	size_t n;

	if (!piece)
		return err_nomem(e);
	while ((r = execution_next(x, piece, PIECE, &which, &n, e)) > 0)
		if (ring_add(&ring[which], piece, n, e) < 0)
			return -1;
	return r;
}

/* ---- its reply ---- */

/* The output of a command or of a fork, and its verdict, as a reply: whole, or as it comes. */

#define KEEP_DEFAULT (1u << 20) /* bytes of each stream in a whole reply */

/* What it is called in replies. */
static const char *execution_name(const struct execution *x)
{
	return x->is_fork ? "run" : "command";
}

static json_t *verdict_of(const struct execution *x)
{
	return json_pack("{s:s,s:O,s:O}", execution_name(x), x->command, "exit_status",
			 json_object_get(x->verdict, "exit_status"), "verdict", x->verdict);
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

int execution_reply(struct execution *x, struct err *e)
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
		reply = verdict_of(x);
		r = add_kept(reply, "stdout", &ring[0], e);
		if (r == 0)
			r = add_kept(reply, "stderr", &ring[1], e);
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

static int add_output_piece(struct estream *s, int which, const char *p, size_t n, struct err *e)
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
		if (add_output_piece(s, i, x->held[i].bytes, x->held[i].n, e) < 0)
			return -1;
	return estream_add(s, "verdict", 0, verdict_of(x), e);
}

json_t *execution_started(const struct execution *x)
{
	return json_pack("{s:s,s:s,s:b,s:O*}", execution_name(x), x->command,
			 x->is_fork ? "zygote" : "sandbox", x->box.id, "started", 1, "attest",
			 x->attest);
}

static int next_execution_event(struct estream *s, struct http_request *rq, struct err *e)
{
	struct execution *x = s->ctx;
	char piece[16384 + 4];
	size_t n, cut;
	int which, r;

	(void)rq;
	if (x->started == 1) {
		x->started = 2;
		return estream_add(s, "started", 0, execution_started(x), e) < 0 ? -1 : 1;
	}
	r = execution_next(x, piece + 4, sizeof(piece) - 4, &which, &n, e);
	if (r <= 0)
		return r < 0 ? -1 : add_verdict(s, x, e);
	/* held bytes are sent first */
	memcpy(piece + 4 - x->held[which].n, x->held[which].bytes, x->held[which].n);
	r = (int)x->held[which].n;
	n += (size_t)r;
	cut = estream_cut_text(piece + 4 - r, n);
	if (add_output_piece(s, which, piece + 4 - r, n - cut, e) < 0)
		return -1;
	x->held[which].n = cut;
	memcpy(x->held[which].bytes, piece + 4 - r + n - cut, cut);
	return 1;
}

int execution_stream(struct execution *x, struct err *e)
{
	return estream_reply(x->box.rq, 200, next_execution_event, execution_free, x, e);
}
