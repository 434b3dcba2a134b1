/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/fileflow.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/api/api.h"

/* ---- helpers as streams ---- */

#define ANSWER_MS 60000
#define PIPE_BYTES (1 << 20)
#define ABORT_MS 10000

void fileflow_init(struct fileflow *f)
{
	memset(f, 0, sizeof(*f));
	f->pipe_fd = -1;
}

/*
 * The helper would take the end of an upload's pipe for the end of its bytes, and put half a file
 * in place.  So it ends first, with its client's connection; then nothing reads from the pipe.
 */
static void abort_upload(struct fileflow *f)
{
	struct pollfd p = { .fd = f->pipe_fd };

	shutdown(f->client.sock, SHUT_RDWR);
	while (poll(&p, 1, ABORT_MS) < 0 && errno == EINTR)
		;
}

void fileflow_release(struct fileflow *f)
{
	if (f->started && f->pipe_fd >= 0 && f->upload)
		abort_upload(f);
	if (f->started)
		fd_close(&f->client.err_fd);
	f->started = 0;
	fd_close(&f->pipe_fd);
}

int fileflow_start(struct fileflow *f, int sock, const char *const *argv, const char *user, uint64_t timeout_ms, int out,
		   struct err *e)
{
	int p[2], r;

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	fcntl(p[0], F_SETPIPE_SZ, PIPE_BYTES);
	f->pipe_fd = p[out ? 0 : 1];
	f->first_n = f->first_at = 0;
	r = fileclient_start(&f->client, sock, argv, user, timeout_ms, out ? -1 : p[0], out ? p[1] : -1, e);
	close(p[out ? 1 : 0]);
	f->started = r == 0;
	f->upload = !out;
	f->client.wait_ms = ANSWER_MS;
	if (r == 0 && fcntl(f->pipe_fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up a pipe");
	return r;
}

/* Some bytes, 0 at the end of the pipe, -1. */
static ssize_t read_flow_bytes(struct fileflow *f, struct http_request *rq, char *buf, size_t max, struct err *e)
{
	for (;;) {
		ssize_t n = read(f->pipe_fd, buf, max);

		if (n >= 0)
			return n;
		if (errno != EAGAIN && errno != EINTR)
			return err_sys(e, "read from the file helper");
		if (http_wait(rq, f->pipe_fd, POLLIN, -1, e) < 0)
			return -1;
	}
}

int fileflow_first(struct fileflow *f, struct http_request *rq, struct err *e)
{
	ssize_t n = read_flow_bytes(f, rq, f->first, sizeof(f->first), e);
	struct filecounts ignored;

	if (n < 0)
		return -1;
	f->first_n = (size_t)n;
	return n ? 0 : fileflow_end(f, &ignored, e);
}

ssize_t fileflow_more(struct fileflow *f, struct http_request *rq, char *buf, size_t max, struct err *e)
{
	struct filecounts ignored;
	ssize_t n;

	if (f->first_at < f->first_n) {
		n = (ssize_t)(f->first_n - f->first_at);
		n = n > (ssize_t)max ? (ssize_t)max : n;
		memcpy(buf, f->first + f->first_at, (size_t)n);
		f->first_at += (size_t)n;
		return n;
	}
	if (!f->started)
		return 0;
	n = read_flow_bytes(f, rq, buf, max, e);
	if (n)
		return n;
	/* a copy that failed half-way must not look whole: the reply is cut */
	return fileflow_end(f, &ignored, e);
}

ssize_t fileflow_read(struct fileflow *f, struct http_request *rq, char *buf, size_t max)
{
	struct err ignored;

	return fileflow_more(f, rq, buf, max, &ignored);
}

int fileflow_feed(struct fileflow *f, struct http_request *rq, const char *data, size_t n, struct err *e)
{
	return box_upload(rq, &f->pipe_fd, data, n, e);
}

int fileflow_end(struct fileflow *f, struct filecounts *ret, struct err *e)
{
	fd_close(&f->pipe_fd);
	f->started = 0;
	return fileclient_end(&f->client, ret, e);
}

/* ---- listings ---- */

/* Upholds S42 of SECURITY.md. */

#define LIST_MS 300000
#define PIECE_MIN 16384		/* JSON that is made before some is sent */
#define PIECE_MAX (256u << 10)	/* never reached: a record and its JSON are much less */

void listing_init(struct listing *l)
{
	fileflow_init(&l->flow);
	l->n = l->at = 0;
	l->flags = NULL;
}

void listing_release(struct listing *l)
{
	fileflow_release(&l->flow);
}

int listing_start(struct listing *l, struct http_request *rq, int sock, const char *path, const char *user, const char *after,
		  uint64_t limit, struct err *e)
{
	char count[24];
	const char *argv[] = { "list", path, after, count, l->flags, NULL };

	snprintf(count, sizeof(count), "%" PRIu64, limit);
	l->n = l->at = 0;
	return fileflow_start(&l->flow, sock, argv, user, LIST_MS, 1, e) < 0 ? -1 : fileflow_first(&l->flow, rq, e);
}

/* The end of a whole record from at on, or NULL: two NULs end it. */
static const char *record_end(const struct listing *l)
{
	const char *from = l->text + l->at, *end = l->text + l->n, *nul = memchr(from, '\0', (size_t)(end - from));

	nul = nul ? memchr(nul + 1, '\0', (size_t)(end - nul - 1)) : NULL;
	return nul ? nul + 1 : NULL;
}

int listing_next(struct listing *l, struct http_request *rq, struct filerecord *ret, struct err *e)
{
	const char *at, *end;

	while (!(end = record_end(l))) {
		ssize_t n;

		memmove(l->text, l->text + l->at, l->n - l->at);
		l->n -= l->at;
		l->at = 0;
		if (l->n == sizeof(l->text))
			return err_set(e, ERR_CORRUPT, "the file helper's answer is malformed");
		n = fileflow_more(&l->flow, rq, l->text + l->n, sizeof(l->text) - l->n, e);
		if (n < 0)
			return -1;
		if (n == 0)
			return l->n ? err_set(e, ERR_CORRUPT, "the file helper's answer is cut") : 0;
		l->n += (size_t)n;
	}
	at = l->text + l->at;
	l->at = (size_t)(end - l->text);
	return filerecord_next(&at, end, ret, e);
}

/* ---- the reply --------------------------------------------------------------------------- */

struct stream {
	struct listing_reply how;
	struct buf out;
	size_t at;
	int ended;
};

static void listing_stream_free(void *ctx)
{
	struct stream *s = ctx;

	s->how.release(s->how.ctx);
	buf_release(&s->out);
	free(s);
}

static ssize_t read_listing_stream(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct stream *s = ctx;
	struct err e;
	size_t n;

	if (s->at == s->out.len) {
		s->out.len = s->at = 0;
		while (!s->ended && s->out.len < PIECE_MIN) {
			int r = s->how.next(s->how.ctx, rq, &s->out, &e);

			if (r < 0)
				return -1;
			s->ended = r == 0;
		}
	}
	n = s->out.len - s->at < max ? s->out.len - s->at : max;
	memcpy(buf, s->out.data + s->at, n);
	s->at += n;
	return (ssize_t)n;
}

int listing_stream(struct http_request *rq, const struct listing_reply *how, struct err *e)
{
	struct stream *s = calloc(1, sizeof(*s));
	struct http_stream st = { read_listing_stream, listing_stream_free, s };

	if (!s) {
		how->release(how->ctx);
		return err_nomem(e);
	}
	s->how = *how;
	s->out = BUF_INIT(PIECE_MAX);
	return http_reply_stream(rq, 0, "application/json", &st, e);
}

int listing_add(struct buf *out, int *is_first, json_t *j, struct err *e)
{
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	if (!text)
		return err_nomem(e);
	if (!*is_first && buf_adds(out, ",", e) < 0)
		return -1;
	*is_first = 0;
	return buf_adds(out, text, e);
}
