/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that follow a detached command: its output as it arrives, its stdin.
 *
 * "follow" is answered as soon as there are bytes beyond the given offsets, or the end; no client
 * polls. The keeper keeps no state for a client: a client that was restarted returns with the
 * offsets that it had reached. "send" is answered when the command's stdin has taken everything.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/keeper/keeper_state.h"

#define FOLLOW_MAX (1u << 20)	/* bytes of one stream in one answer */
#define END_WAIT_MS 1000	/* wait for a reader of the terminal before its input ends */
#define END_LOOK_MS 5
#define END_LOOK_MAX_MS 100
#define END_AGAIN_MAX_MS 500	/* a program that reads on after the end of its input gets further ends with
				 * pauses */
#define LAG_MAX (256u << 10)	/* beyond this lag output waits for the clients that must see it */

static const char *const stream_names[] = { "stdout", "stderr" };

static int wants_stream(const struct keeper_follow *f, int which)
{
	return f->streams & 1 << which;
}

static int has_news(const struct keeper_follow *f, const struct keeper_command *c)
{
	int i;

	for (i = 0; i < 2; i++)
		if (wants_stream(f, i) && c->out[i].total > f->from[i])
			return 1;
	return c->concluded;
}

/* The parts of a stream's news, which the ring keeps: how many; *ret_whole: there is no more. */
static int add_followed_stream(json_t *answer, struct keeper_follow *f, const struct keeper_command *c, int which,
			       struct iovec part[RING_PARTS], int *ret_whole, struct err *e)
{
	uint64_t start, next;
	int n = ring_parts(&c->out[which], f->from[which], FOLLOW_MAX, part, &start, &next, e);

	if (n < 0)
		return -1;
	f->from[which] = next;
	json_object_set_new(answer, stream_names[which],
			    json_pack("{s:I,s:I,s:I,s:I,s:I}", "from", (json_int_t)start, "next", (json_int_t)next, "bytes",
				      (json_int_t)(next - start), "total", (json_int_t)c->out[which].total, "dropped",
				      (json_int_t)ring_dropped(&c->out[which])));
	*ret_whole &= next == c->out[which].total;
	return n;
}

static int answer_follow(struct keeper *k, int client, const struct keeper_command *c, struct err *e)
{
	struct keeper_follow *f = &k->clients[client].follow;
	struct iovec part[2 * RING_PARTS];
	json_t *a = json_object();
	autoclose int fd = -1;
	int i, r, whole = 1;
	size_t n = 0;

	f->armed = 0;
	for (i = 0; i < 2; i++) {
		if (!wants_stream(f, i))
			continue;
		r = add_followed_stream(a, f, c, i, part + n, &whole, e);
		if (r < 0)
			goto fail;
		n += (size_t)r;
	}
	if (n && (fd = wire_data_parts(part, n, e)) < 0)
		goto fail;
	/* the end is reported after all output before it */
	json_object_set_new(a, "ended", json_boolean(c->concluded && whole));
	if (c->concluded && whole)
		json_object_set_new(a, "verdict", keeper_command_verdict(&c->verdict));
	if (c->concluded && whole && c->lost)
		json_object_set_new(a, "sandbox_ended", json_true());
	if (c->concluded && whole)
		f->seq = 0;
	keeper_answer(k, client, a, &fd, fd >= 0 ? 1 : 0);
	return 0;
fail:
	json_decref(a);
	return -1;
}

void keeper_follow_news(struct keeper *k, struct keeper_command *c)
{
	struct err e;
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++) {
		struct keeper_follow *f = &k->clients[i].follow;

		if (k->clients[i].fd >= 0 && f->armed && f->seq == c->seq && has_news(f, c) && answer_follow(k, i, c, &e) < 0)
			keeper_answer_error(k, i, &e);
	}
}

static int lags(const struct keeper_follow *f, const struct keeper_command *c)
{
	return c->out[0].total - f->from[0] > LAG_MAX ||
	       (!c->tty && f->streams == 3 && c->out[1].total - f->from[1] > LAG_MAX);
}

int keeper_follow_lags(const struct keeper *k, const struct keeper_command *c)
{
	/* a service does not wait for clients that only look on */
	const int terminal = c->tty && !keeper_main_is(k, c);
	int i;

	if (!c->ended && (c->held_until_ms || keeper_main_holds(k, c)) &&
	    (c->out[0].total > LAG_MAX || c->out[1].total > LAG_MAX))
		return 1;
	for (i = 0; !c->ended && i < KEEPER_CLIENTS; i++)
		if (k->clients[i].fd >= 0 && k->clients[i].follow.seq == c->seq &&
		    (terminal || k->clients[i].follow.hold) && lags(&k->clients[i].follow, c))
			return 1;
	return 0;
}

void keeper_follow_removed(struct keeper *k, const struct keeper_command *c)
{
	struct err e;
	int i;

	for (i = 0; i < KEEPER_CLIENTS && !k->stopping; i++) {
		struct keeper_client *cl = &k->clients[i];

		if (cl->fd < 0)
			continue;
		if ((cl->follow.armed && cl->follow.seq == c->seq) || cl->waits == c->seq || cl->send.seq == c->seq) {
			err_set(&e, ERR_NOT_FOUND, "command c%u was forgotten", c->seq);
			keeper_answer_error(k, i, &e);
			cl->waits = 0;
			keeper_follow_release(cl);
		}
	}
}

void keeper_follow_release(struct keeper_client *cl)
{
	free(cl->send.data);
	memset(&cl->send, 0, sizeof(cl->send));
	memset(&cl->follow, 0, sizeof(cl->follow));
}

/* ---- stdin ------------------------------------------------------------------------ */

int keeper_send_waits(const struct keeper *k, const struct keeper_command *c)
{
	int i;

	for (i = 0; c->in_fd >= 0 && i < KEEPER_CLIENTS; i++)
		if (k->clients[i].fd >= 0 && k->clients[i].send.seq == c->seq && !k->clients[i].send.end_ms)
			return 1;
	return 0;
}

/* As input_end_terminal(); it looks soon at first, because a fresh shell is ready soon, then less often. */
static int end_terminal(struct keeper_send *s, struct keeper_command *c)
{
	uint64_t now = clock_ms();

	if (!s->end_ms)
		s->end_ms = now + END_WAIT_MS;
	if (now >= c->end_again_ms && input_end_terminal(c, now >= s->end_ms)) {
		c->end_gap_ms = c->end_gap_ms ? c->end_gap_ms * 2 : END_LOOK_MS;
		c->end_gap_ms = c->end_gap_ms > END_AGAIN_MAX_MS ? END_AGAIN_MAX_MS : c->end_gap_ms;
		c->end_again_ms = now + c->end_gap_ms;
		return 1;
	}
	s->gap_ms = s->gap_ms ? s->gap_ms * 2 : END_LOOK_MS;
	s->gap_ms = s->gap_ms > END_LOOK_MAX_MS ? END_LOOK_MAX_MS : s->gap_ms;
	s->look_ms = now + s->gap_ms;
	return 0;
}

/* Sends bytes: 1 if everything is written, 0 if the command does not take more now. */
static int send_some(struct keeper_send *s, struct keeper_command *c, struct err *e)
{
	while (s->done < s->len) {
		ssize_t n = c->in_fd < 0 ? -1 : write(c->in_fd, s->data + s->done, s->len - s->done);

		if (n < 0 && c->in_fd >= 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return c->in_fd < 0 || errno == EPIPE || errno == EIO ?
				err_set(e, ERR_NOT_FOUND, "command c%u reads no more", c->seq) :
				err_sys(e, "write to the command's stdin");
		s->done += (size_t)n;
	}
	if (s->eof && c->tty)
		return c->in_fd < 0 ? err_set(e, ERR_NOT_FOUND, "command c%u reads no more", c->seq) : end_terminal(s, c);
	if (s->eof)
		fd_close(&c->in_fd);
	return 1;
}

static void send_on(struct keeper *k, int client, struct keeper_command *c)
{
	struct keeper_send *s = &k->clients[client].send;
	struct err e;
	int r = send_some(s, c, &e);

	if (r == 0)
		return;
	if (r < 0)
		keeper_answer_error(k, client, &e);
	else
		keeper_answer(k, client, json_pack("{s:I}", "sent", (json_int_t)s->len), NULL, 0);
	free(s->data);
	memset(s, 0, sizeof(*s));
}

void keeper_send_ready(struct keeper *k, struct keeper_command *c)
{
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++)
		if (k->clients[i].fd >= 0 && k->clients[i].send.seq == c->seq)
			send_on(k, i, c);
}

static uint64_t next_send_look(struct keeper *k)
{
	uint64_t at = 0;
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++) {
		const struct keeper_send *s = &k->clients[i].send;

		if (k->clients[i].fd >= 0 && s->end_ms && (!at || s->look_ms < at))
			at = s->look_ms;
	}
	return at;
}

static void send_check(struct keeper *k, uint64_t now)
{
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++) {
		const struct keeper_send *s = &k->clients[i].send;
		struct keeper_command *c = s->end_ms && now >= s->look_ms ? keeper_command_find(k, s->seq) : NULL;

		if (k->clients[i].fd >= 0 && c)
			send_on(k, i, c);
	}
}

int keeper_send(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	autobuf struct buf b = BUF_INIT(16 << 20);
	struct keeper_send *s = &k->clients[rq->client].send;
	struct keeper_command *c = rq->command;
	const char *text = request_text(rq->json, NULL);
	const int eof = request_eof(rq->json);

	if (s->seq)
		return err_set(e, ERR_BUSY, "the last data of this client is still on its way");
	if (text ? buf_add(&b, text, strlen(text), e) < 0 : rq->count && wire_read_data(rq->fds[0], &b, e) < 0)
		return -1;
	if (c->in_fd < 0 && c->concluded && eof && !b.len) {
		/* earlier input ended it: its stdin is closed already */
		keeper_answer(k, rq->client, json_pack("{s:I}", "sent", (json_int_t)0), NULL, 0);
		return 0;
	}
	if (c->in_fd < 0)
		return err_set(e, ERR_INVALID, "command c%u has no stdin to send to", c->seq);
	*s = (struct keeper_send){ .seq = c->seq, .len = b.len, .eof = eof };
	s->data = take_ptr(&b.data);
	b = BUF_INIT(1);
	keeper_busy(k);
	send_on(k, rq->client, c);
	return 0;
}

/* ---- requests ----------------------------------------------------------------------- */

int keeper_op_follow(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct keeper_command *c = rq->command;
	struct keeper_follow f = {
		.seq = c->seq, .armed = 1, .from = { request_from(rq->json, 0), request_stderr_from(rq->json, 0) },
	};
	const char *streams = request_stream(rq->json, "both");
	int i;

	f.streams = !strcmp(streams, "both") ? 3 : !strcmp(streams, "stdout") ? 1 : !strcmp(streams, "stderr") ? 2 : 0;
	if (!f.streams)
		return err_set(e, ERR_INVALID, "'%.20s' is not one of stdout, stderr, both", streams);
	for (i = 0; i < 2; i++)
		if (wants_stream(&f, i) && f.from[i] > c->out[i].total)
			return err_set(e, ERR_INVALID, "offset %llu is beyond the end of %s at %llu",
				       (unsigned long long)f.from[i], stream_names[i], (unsigned long long)c->out[i].total);
	f.hold = request_hold(rq->json);
	c->held_until_ms = 0;
	k->clients[rq->client].follow = f;
	keeper_main_attended(k, rq->client, c);
	return has_news(&f, c) ? answer_follow(k, rq->client, c, e) : 0;
}

int keeper_op_resize(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	const struct keeper_command *c = rq->command;

	if (!c->tty || c->in_fd < 0)
		return err_set(e, ERR_INVALID, "command c%u has no terminal", c->seq);
	if (keeper_resize(c->in_fd, rq->json, e) < 0)
		return -1;
	keeper_answer(k, rq->client, json_pack("{s:b}", "resized", 1), NULL, 0);
	return 0;
}

int keeper_resize(int master, const json_t *rq, struct err *e)
{
	struct winsize w = { .ws_row = 24, .ws_col = 80 };
	const uint64_t rows = request_rows(rq, 24), cols = request_cols(rq, 80);

	if (rows > KEEPER_TERMINAL_MAX || cols > KEEPER_TERMINAL_MAX)
		return err_set(e, ERR_INVALID, "a terminal of %llu x %llu", (unsigned long long)rows, (unsigned long long)cols);
	w.ws_row = (unsigned short)rows;
	w.ws_col = (unsigned short)cols;
	return ioctl(master, TIOCSWINSZ, &w) < 0 ? err_sys(e, "set the terminal's size") : 0;
}

/*
 * Handles "forget": no client will ask again. An ended command is removed now, or after the
 * processes that it left.
 */
int keeper_op_forget(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct keeper_command *c = rq->command;

	if (!c->concluded)
		return err_set(e, ERR_BUSY, "command c%u still runs", c->seq);
	keeper_answer(k, rq->client, json_pack("{s:b}", "forgotten", 1), NULL, 0);
	if (c->facts.left_behind)
		c->detached = 0;
	else
		keeper_command_remove(k, c);
	return 0;
}

const struct keeper_part keeper_part_send = { .next = next_send_look, .check = send_check };
