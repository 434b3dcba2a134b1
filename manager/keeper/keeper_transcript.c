/* SPDX-License-Identifier: Apache-2.0 */
/* What the shell of a session prints: kept, without the names of our files, and handed over in answers. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/keeper/keeper_session.h"
#include "manager/keeper/shellscript.h"

#define OUTPUT_CHUNK 65536
#define INLINE_MAX 8192	/* bytes; JSON may need six times as many */

struct output {
	struct keeper *k;
	struct ring *ring;
};

static void keep_output(void *ctx, const char *p, size_t n)
{
	struct output *o = ctx;

	keeper_ring_add(o->k, o->ring, p, n);
}

void session_drop_output(struct keeper_session *s)
{
	s->names[0].held = s->names[1].held = 0;
	ring_release(&s->out[0]);
	ring_release(&s->out[1]);
}

static int take_output(struct ring *r, json_t *answer, const char *prefix, int inlined, int *ret_fd, struct buf *b,
		       struct err *e)
{
	json_t *text;
	uint64_t start, next = 0;
	char key[32];
	int result;

	result = ring_read(r, 0, SIZE_MAX / 2, b, &start, &next, e);
	snprintf(key, sizeof(key), "%s_head_bytes", prefix);
	json_object_set_new(answer, key, json_integer((json_int_t)b->len));
	if (result == 0 && next < r->total)
		result = ring_read(r, next, SIZE_MAX / 2, b, &start, &next, e);
	snprintf(key, sizeof(key), "%s_bytes", prefix);
	json_object_set_new(answer, key, json_integer((json_int_t)r->total));
	snprintf(key, sizeof(key), "%s_dropped", prefix);
	json_object_set_new(answer, key, json_integer((json_int_t)ring_dropped(r)));
	/* short text goes along in the answer, which saves a memfd on both sides */
	if (result < 0)
		;
	else if (inlined && b->len <= INLINE_MAX && !memchr(b->len ? b->data : "", 0, b->len) &&
		 (text = json_stringn(b->len ? b->data : "", b->len)))
		json_object_set_new(answer, prefix, text);
	else if ((*ret_fd = wire_data(b->data ? b->data : "", b->len, e)) < 0)
		result = -1;
	ring_release(r);
	return result;
}

void session_answer(struct keeper *k, struct keeper_session *s, const char *status,
		    const struct verdict *v)
{
	static const char *const streams[] = { "output", "stderr" };
	json_t *a = json_pack("{s:s,s:s,s:b}", "session", s->name, "status", status, "fresh_shell", s->fresh);
	struct buf b[2] = { BUF_INIT(WIRE_DATA_MAX), BUF_INIT(WIRE_DATA_MAX) };
	size_t head[2] = { 0 };
	uint64_t dropped[2] = { 0 };
	int fds[2] = { -1, -1 }, i, r = 0;
	struct err e;

	if (!s->shell_seq)
		json_object_set_new(a, "session_ended", json_true());
	if (s->queued_ms)
		json_object_set_new(a, "queued_ms", json_integer((json_int_t)s->queued_ms));
	for (i = 0; i <= s->split && r == 0; i++) {
		shellname_flush(&s->names[i], keep_output, &(struct output){ k, &s->out[i] });
		dropped[i] = ring_dropped(&s->out[i]);
		head[i] = s->out[i].head_len;
		r = take_output(&s->out[i], a, streams[i], s->inlined && !s->split, &fds[i], &b[i], &e);
	}
	if (r < 0) {
		/* never an answer that looks like a command without output */
		err_wrap(&e, "hand over the output of a command that is %s", status);
		keeper_answer_error(k, s->client, &e);
		json_decref(a);
	} else if (v) {
		keeper_answer_verdict(k, s->client, a, v, fds, (size_t)(fds[0] >= 0) + (fds[1] >= 0));
	} else {
		keeper_answer(k, s->client, a, fds, (size_t)(fds[0] >= 0) + (fds[1] >= 0));
	}
	fd_close(&fds[0]);
	fd_close(&fds[1]);
	s->client = -1;
	s->fresh = 0;
	for (i = 0; i < 2; i++) {
		keeper_log_session(k, s, i ? "stderr" : "stdout", b[i].data, head[i], b[i].len, dropped[i]);
		buf_release(&b[i]);
	}
}

void session_read(struct keeper *k, struct keeper_session *s, int which)
{
	struct output o = { k, &s->out[which] };
	int *fd = which ? &s->err_fd : &s->out_fd;
	char buf[OUTPUT_CHUNK];
	int rounds;
	ssize_t n;

	for (rounds = 0; rounds < 64 && *fd >= 0; rounds++) {
		n = read(*fd, buf, sizeof(buf));
		if (n > 0) {
			shellname_feed(&s->names[which], buf, (size_t)n, keep_output, &o);
			s->spoke_ms = s->max_silent_ms ? clock_ms() : 0;
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			fd_close(fd);	/* EIO: no process has the terminal open any more */
			if (!which && !s->split)
				s->tty_fd = -1;
		} else {
			return;
		}
	}
}
