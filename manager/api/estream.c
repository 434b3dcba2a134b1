/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/estream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/num.h"

/* ---- the reply ---- */

#define OUT_MAX (32u << 20)

static int add_event_bytes(struct estream *s, const char *text, struct err *e)
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
		return add_event_bytes(s, text, e) < 0 ? -1 : add_event_bytes(s, "\n", e);
	if (id && buf_addf(&s->out, e, "id: %" PRIu64 "\n", id) < 0)
		return -1;
	if (buf_addf(&s->out, e, "event: %s\ndata: ", event) < 0 || add_event_bytes(s, text, e) < 0)
		return -1;
	return add_event_bytes(s, "\n\n", e);
}

int estream_beat(struct estream *s, struct err *e)
{
	return add_event_bytes(s, s->sse ? ":\n\n" : "\n", e);
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

static ssize_t read_event_stream(void *ctx, struct http_request *rq, char *buf, size_t max)
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

static int start_event_stream(struct http_request *rq, int status, struct estream how, const char *type, struct err *e)
{
	struct estream *s = malloc(sizeof(*s));
	struct http_stream st = { read_event_stream, release_events, s };

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
	return start_event_stream(rq, status, how, how.sse ? "text/event-stream" : "application/x-ndjson", e);
}

int estream_reply_connect(struct http_request *rq,
			  int (*next)(struct estream *s, struct http_request *rq, struct err *e),
			  void (*release)(void *ctx), void *ctx, struct err *e)
{
	const struct estream how = { .next = next, .release = release, .ctx = ctx, .connect = 1 };

	return start_event_stream(rq, 200, how, "application/connect+json", e);
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

/* ---- the request of a client of Connect ---- */

#define MESSAGE_MAX (1u << 20)
#define DEADLINE_MAX_MS 31622400000

/* ---- a message of a stream's request: one envelope --------------------------------------- */

struct message {
	struct buf bytes;
};

static void message_free(void *data)
{
	struct message *m = data;

	buf_release(&m->bytes);
	free(m);
}

int connectrpc_begin(struct http_request *rq, struct err *e)
{
	struct message *m = calloc(1, sizeof(*m));

	if (!m)
		return err_nomem(e);
	m->bytes = BUF_INIT(MESSAGE_MAX);
	http_set_data(rq, m, message_free);
	return 0;
}

int connectrpc_feed(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	return buf_add(&((struct message *)http_data(rq))->bytes, data, n, e);
}

json_t *connectrpc_parse(const char *body, size_t len, struct err *e)
{
	const unsigned char *p = (const unsigned char *)body;
	size_t n;

	if (len < 5)
		goto malformed;
	n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	if (p[0] & 1) {
		err_set(e, ERR_UNSUPPORTED, "compressed messages are not taken");
		return NULL;
	}
	if (n > len - 5)
		goto malformed;
	return json_parse(body + 5, n, MESSAGE_MAX, "body", e);
malformed:
	err_set(e, ERR_INVALID, "the body is not a message of the Connect protocol");
	return NULL;
}

json_t *connectrpc_message(struct http_request *rq, struct err *e)
{
	const struct buf *b = &((struct message *)http_data(rq))->bytes;

	return connectrpc_parse(b->data, b->len, e);
}

struct refusal {
	struct err why;
};

static int next_refusal(struct estream *s, struct http_request *rq, struct err *e)
{
	(void)rq;
	*e = ((struct refusal *)s->ctx)->why;
	return -1;
}

int connectrpc_refuse(struct http_request *rq, struct err *e)
{
	struct refusal *r = malloc(sizeof(*r));

	if (!r)
		return err_nomem(e);
	http_audit(rq, "failed", e->msg);
	r->why = *e;
	return estream_reply_connect(rq, next_refusal, free, r, e);
}

int connectrpc_deadline(struct http_request *rq, uint64_t *ret, struct err *e)
{
	const char *text = http_header(rq, "Connect-Timeout-Ms");

	*ret = 0;
	return text ? num_u64(text, "Connect-Timeout-Ms", 1, DEADLINE_MAX_MS, ret, e) : 0;
}
