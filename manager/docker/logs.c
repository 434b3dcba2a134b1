/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/docker/logs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/logs.h"
#include "manager/keeper/keeper.h"

#define PIECE_MAX (16 * ENGINE_LOGS_PIECE) /* each short line has its frame and its time */

struct logs {
	struct box box;
	int dir, watch;
	struct engine_logs log;
	int tty, follow, over;
	struct buf out;
	size_t sent;
};

static void logs_free(void *ctx)
{
	struct logs *l = ctx;

	engine_logs_close(&l->log);
	fd_close(&l->watch);
	fd_close(&l->dir);
	box_close(&l->box);
	buf_release(&l->out);
	free(l);
}

int docker_query_time(struct http_request *rq, const char *name, char out[JOURNAL_TIME],
		      struct err *e)
{
	const char *v = http_query(rq, name);

	if (engine_logs_time(v, out, e) == 0)
		return 0;
	return e->code == ERR_INVALID
		       ? docker_fail(rq, 400, e, "invalid value of %s: %.40s", name, v)
		       : -1;
}

/* "tail" of the query: -1 is all. */
static int get_tail(struct http_request *rq, long *ret, struct err *e)
{
	const char *text = http_query(rq, "tail");

	*ret = -1;
	if (!text || !text[0] || !strcmp(text, "all"))
		return 0;
	return docker_query_int(rq, "tail", 0, ret, e);
}

/* ---- what is shown -------------------------------------------------------------------------- */

static int add_bytes(void *ctx, int which, const char *p, size_t n, struct err *e)
{
	struct logs *l = ctx;
	unsigned char head[8];

	engine_frame(head, which + 1, (uint32_t)n);
	return (!l->tty && buf_add(&l->out, head, sizeof(head), e) < 0) ||
			       buf_add(&l->out, p, n, e) < 0
		       ? -1
		       : 0;
}

/* Reads the next entries, until there is something to send: 1; 0 if there are none now. */
static int fill(struct logs *l, struct err *e)
{
	int got = 1;

	while (!l->out.len && got > 0)
		got = engine_logs_next(&l->log, e);
	return got;
}

static int await_news(struct logs *l, struct http_request *rq, struct err *e)
{
	struct pollfd p[2] = { { .fd = l->watch, .events = POLLIN },
			       { .fd = l->box.sock, .events = POLLIN } };

	if (http_poll(rq, p, 2, -1, e) < 0)
		return -1;
	/* a keeper says nothing unasked: readable is its end, after which one more look has all */
	l->over = p[1].revents != 0;
	journal_drain(l->watch);
	return 0;
}

static ssize_t logs_read(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct logs *l = ctx;
	struct err e;
	size_t n;
	int r;

	while (!l->out.len) {
		r = fill(l, &e);
		if (r < 0)
			return -1;
		if (r == 0 && l->over)
			return 0;
		if (r == 0 && await_news(l, rq, &e) < 0)
			return -1;
	}
	n = l->out.len - l->sent < max ? l->out.len - l->sent : max;
	memcpy(buf, l->out.data + l->sent, n);
	l->sent += n;
	if (l->sent == l->out.len)
		l->sent = l->out.len = 0;
	return (ssize_t)n;
}

static int open_log(struct logs *l, struct http_request *rq, struct err *e)
{
	long tail;

	l->dir = openat(l->box.registry.kept_fd, l->box.id,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (l->dir < 0)
		return docker_fail(rq, 404, e, "No such container: %.200s", docker_called(rq));
	if (get_tail(rq, &tail, e) < 0)
		return -1;
	if (l->follow && http_endless(rq, e) < 0)
		return -1;
	if (l->follow && !l->box.kept)
		l->box.sock = keeper_connect(&l->box.registry, l->box.id, e);
	l->over = l->box.sock < 0;
	if (!l->over && (l->watch = journal_watch(l->dir, e)) < 0)
		return -1;
	return engine_logs_open(&l->log, l->dir, tail, e);
}

static int begin(struct logs *l, struct http_request *rq, struct err *e)
{
	struct engine_loaded d;
	int hidden;

	if (docker_find(&l->box, rq, e) < 0 || docker_load(&d, &l->box, 0, e) < 0)
		return -1;
	l->log.put = add_bytes;
	l->log.ctx = l;
	l->tty = engine_is_tty(&d.v);
	hidden = engine_hides_log(&d.v);
	engine_loaded_release(&d);
	if (hidden)
		return docker_fail(rq, 501, e, ENGINE_NO_LOG);
	l->log.want[0] = docker_query_flag(rq, "stdout");
	l->log.want[1] = docker_query_flag(rq, "stderr");
	l->follow = docker_query_flag(rq, "follow");
	l->log.timestamps = docker_query_flag(rq, "timestamps");
	if (!l->log.want[0] && !l->log.want[1])
		return docker_fail(rq, 400, e,
				   "Bad parameters: you must choose at least one stream");
	if (docker_query_time(rq, "since", l->log.since, e) < 0 ||
	    docker_query_time(rq, "until", l->log.until, e) < 0)
		return -1;
	return open_log(l, rq, e);
}

struct sending {
	struct http_request *rq;
	int fd, tty;
};

static int send_all(const struct sending *s, const void *data, size_t n, struct err *e)
{
	struct pollfd wait = { .fd = s->fd, .events = POLLOUT };
	const char *p = data;

	while (n) {
		const ssize_t sent = send(s->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno != EAGAIN && errno != EINTR)
			return err_set(e, ERR_NET, "the client is gone");
		if (sent <= 0 && http_poll(s->rq, &wait, 1, -1, e) < 0)
			return -1;
		p += sent > 0 ? sent : 0;
		n -= sent > 0 ? (size_t)sent : 0;
	}
	return 0;
}

static int send_bytes(void *ctx, int which, const char *p, size_t n, struct err *e)
{
	const struct sending *s = ctx;
	unsigned char head[8];

	engine_frame(head, which + 1, (uint32_t)n);
	return (!s->tty && send_all(s, head, sizeof(head), e) < 0) ? -1 : send_all(s, p, n, e);
}

int docker_logs_send(struct box *b, struct http_request *rq, int fd, int tty, const int want[2],
		     struct err *e)
{
	struct sending s = { rq, fd, tty };
	struct engine_logs log = { .put = send_bytes, .ctx = &s, .want = { want[0], want[1] } };
	autoclose int dir = openat(b->registry.kept_fd, b->id,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (dir < 0)
		return err_sys(e, "open the directory of %s", b->id);
	if (engine_logs_open(&log, dir, -1, e) < 0)
		return -1;
	while ((r = engine_logs_next(&log, e)) > 0)
		;
	engine_logs_close(&log);
	return r;
}

int docker_logs(struct http_request *rq, struct err *e)
{
	struct logs *l = calloc(1, sizeof(*l));
	struct http_stream st = { logs_read, logs_free, l };

	if (!l)
		return err_nomem(e);
	box_clear(&l->box);
	l->dir = l->watch = -1;
	l->out = BUF_INIT(PIECE_MAX);
	if (begin(l, rq, e) < 0) {
		logs_free(l);
		return -1;
	}
	return http_reply_stream(rq, 200, l->tty ? DOCKER_RAW_STREAM : DOCKER_FRAMES, &st, e);
}
