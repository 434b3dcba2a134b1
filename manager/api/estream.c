/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/estream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

#define OUT_MAX (32u << 20)

static int add_bytes(struct estream *s, const char *text, struct err *e)
{
	return buf_adds(&s->out, text, e);
}

/* An envelope: flags, the length in network order, the message. */
static int add_envelope(struct estream *s, int flags, const char *text, struct err *e)
{
	size_t n = strlen(text);
	const char head[5] = { (char)flags, (char)(n >> 24), (char)(n >> 16), (char)(n >> 8),
			       (char)n };

	return buf_add(&s->out, head, sizeof(head), e) < 0 ? -1 : buf_add(&s->out, text, n, e);
}

int estream_add(struct estream *s, const char *event, uint64_t id, json_t *j, struct err *e)
{
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	if (!text)
		return err_nomem(e);
	if (s->connect)
		return add_envelope(s, 0, text, e);
	if (!s->sse)
		return add_bytes(s, text, e) < 0 ? -1 : add_bytes(s, "\n", e);
	if (id && buf_addf(&s->out, e, "id: %" PRIu64 "\n", id) < 0)
		return -1;
	if (buf_addf(&s->out, e, "event: %s\ndata: ", event) < 0 || add_bytes(s, text, e) < 0)
		return -1;
	return add_bytes(s, "\n\n", e);
}

int estream_beat(struct estream *s, struct err *e)
{
	return add_bytes(s, s->sse ? ":\n\n" : "\n", e);
}

const char *estream_connect_code(const struct err *e)
{
	switch (e->code) {
	case ERR_INVALID:
	case ERR_USAGE:
	case ERR_EXEC:
	case ERR_EXEC_NOT_FOUND:
		return "invalid_argument";
	case ERR_NOT_FOUND:
		return "not_found";
	case ERR_EXISTS:
		return "already_exists";
	case ERR_DENIED:
		return "permission_denied";
	case ERR_LIMIT:
		return "resource_exhausted";
	case ERR_TIMEOUT:
		return "deadline_exceeded";
	case ERR_BUSY:
		return "unavailable";
	case ERR_UNSUPPORTED:
		return "unimplemented";
	default:
		return "internal";
	}
}

/* The last envelope: r is what next() returned. */
static int add_connect_end(struct estream *s, int r, const struct err *why)
{
	autojson json_t *j = r < 0 ? json_pack("{s:{s:s,s:s}}", "error", "code",
					       estream_connect_code(why), "message", why->msg) :
				     json_object();
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	struct err ignored;

	return text ? add_envelope(s, 2, text, &ignored) : -1;
}

static ssize_t read_events(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct estream *s = ctx;
	struct err e;
	size_t n;
	int r;

	while (s->at == s->out.len) {
		if (s->ended)
			return 0;
		s->at = s->out.len = 0;
		r = s->next(s, rq, &e);
		if (s->connect && r <= 0) {
			if ((r < 0 && e.code == ERR_NET) || add_connect_end(s, r, &e) < 0)
				return -1;
		} else if (r < 0) {
			if (e.code == ERR_NET || estream_add(s, "error", 0, http_error_json(&e), &e) < 0)
				return -1;
		}
		s->ended = r <= 0;
	}
	n = s->out.len - s->at;
	n = n > max ? max : n;
	memcpy(buf, s->out.data + s->at, n);
	s->at += n;
	return (ssize_t)n;
}

static void release_events(void *ctx)
{
	struct estream *s = ctx;

	if (s->release)
		s->release(s->ctx);
	buf_release(&s->out);
	free(s);
}

static int start(struct http_request *rq, int status, struct estream how, const char *type, struct err *e)
{
	struct estream *s = malloc(sizeof(*s));
	struct http_stream st = { read_events, release_events, s };

	if (!s) {
		how.release(how.ctx);
		return err_nomem(e);
	}
	*s = how;
	s->out = BUF_INIT(OUT_MAX);
	return http_reply_stream(rq, status, type, &st, e);
}

int estream_reply(struct http_request *rq, int status, int (*next)(struct estream *s, struct http_request *rq, struct err *e),
		  void (*release)(void *ctx), void *ctx, struct err *e)
{
	const char *accept = http_header(rq, "Accept");
	struct estream how = { .next = next, .release = release, .ctx = ctx };

	how.sse = accept && strcasestr(accept, "text/event-stream");
	return start(rq, status, how, how.sse ? "text/event-stream" : "application/x-ndjson", e);
}

int estream_reply_connect(struct http_request *rq,
			  int (*next)(struct estream *s, struct http_request *rq, struct err *e),
			  void (*release)(void *ctx), void *ctx, struct err *e)
{
	const struct estream how = { .next = next, .release = release, .ctx = ctx, .connect = 1 };

	return start(rq, 200, how, "application/connect+json", e);
}

size_t estream_cut_text(const char *p, size_t n)
{
	size_t i;

	for (i = 1; i <= 3 && i <= n; i++) {
		unsigned char c = (unsigned char)p[n - i];
		size_t want = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

		if ((c & 0xc0) != 0x80)
			return want > i ? i : 0;
	}
	return 0;
}

