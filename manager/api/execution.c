/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/execution.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/host/forget.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/zygote/client.h"

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

static int make_pipe(int *ret_ours, int *ret_theirs, int we_read, struct err *e)
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
static int take_word(struct execution *x, struct err *e)
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

static int take_packet(struct execution *x, struct err *e)
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
		if (p[0].revents && (x->is_fork ? take_word(x, e) : take_packet(x, e)) < 0)
			return -1;
	}
}

static int make_pipes(struct execution *x, int theirs[3], struct err *e)
{
	theirs[0] = theirs[1] = theirs[2] = -1;
	return make_pipe(&x->in, &theirs[0], 0, e) < 0 ||
			       make_pipe(&x->out[0], &theirs[1], 1, e) < 0 ||
			       make_pipe(&x->out[1], &theirs[2], 1, e) < 0 ?
		       -1 :
		       0;
}

int execution_launch(struct execution *x, json_t *ask, struct err *e)
{
	int theirs[3], r = make_pipes(x, theirs, e), i;

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
		r = take_packet(x, e);
	return r;
}

int execution_launch_code(struct execution *x, struct err *e)
{
	const uint64_t until = clock_ms() + ZYGOTE_WAIT_MS;
	int theirs[3], r = make_pipes(x, theirs, e), i;
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
			zygote_busy(x->box.id, e);
		if (r <= 0 || take_word(x, e) < 0)
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
