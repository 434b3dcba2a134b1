/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S42 of SECURITY.md. */
#include "manager/api/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

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

static void stream_free(void *ctx)
{
	struct stream *s = ctx;

	s->how.release(s->how.ctx);
	buf_release(&s->out);
	free(s);
}

static ssize_t read_stream(void *ctx, struct http_request *rq, char *buf, size_t max)
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
	struct http_stream st = { read_stream, stream_free, s };

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
