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

int estream_add(struct estream *s, const char *event, uint64_t id, json_t *j, struct err *e)
{
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	if (!text)
		return err_nomem(e);
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
		if (r < 0) {
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

int estream_reply(struct http_request *rq, int status, int (*next)(struct estream *s, struct http_request *rq, struct err *e),
		  void (*release)(void *ctx), void *ctx, struct err *e)
{
	struct estream *s = calloc(1, sizeof(*s));
	const char *accept = http_header(rq, "Accept");
	struct http_stream st = { read_events, release_events, s };

	if (!s) {
		release(ctx);
		return err_nomem(e);
	}
	s->next = next;
	s->release = release;
	s->ctx = ctx;
	s->sse = accept && strcasestr(accept, "text/event-stream");
	s->out = BUF_INIT(OUT_MAX);
	return http_reply_stream(rq, status, s->sse ? "text/event-stream" : "application/x-ndjson", &st, e);
}

/* ---- bytes in JSON ------------------------------------------------------------------- */

int estream_set_data(json_t *j, const char *key, const char *p, size_t n, struct err *e)
{
	static const char digits[] = "0123456789abcdef";
	json_t *text = n && memchr(p, 0, n) ? NULL : json_stringn(n ? p : "", n);
	autofree char *hex = NULL;
	char name[40];
	size_t i;

	if (text)
		return json_object_set_new(j, key, text) < 0 ? err_nomem(e) : 0;
	hex = malloc(n * 2 + 1);
	if (!hex)
		return err_nomem(e);
	for (i = 0; i < n; i++) {
		hex[2 * i] = digits[(unsigned char)p[i] >> 4];
		hex[2 * i + 1] = digits[p[i] & 15];
	}
	snprintf(name, sizeof(name), "%s_hex", key);
	return json_object_set_new(j, name, json_stringn(hex, n * 2)) < 0 ? err_nomem(e) : 0;
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

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int estream_get_data(const json_t *j, const char *key, struct buf *b, struct err *e)
{
	const json_t *text = json_object_get(j, key);
	const char *hex;
	char name[40], c;

	snprintf(name, sizeof(name), "%s_hex", key);
	hex = json_string_value(json_object_get(j, name));
	if (text)
		return buf_add(b, json_string_value(text), json_string_length(text), e) < 0 ? -1 : 1;
	if (!hex)
		return 0;
	for (; *hex; hex += 2) {
		int hi = hex_digit(hex[0]), lo = hi < 0 ? -1 : hex_digit(hex[1]);

		if (lo < 0)
			return err_set(e, ERR_INVALID, "%s is not hexadecimal", name);
		c = (char)(hi << 4 | lo);
		if (buf_add(b, &c, 1, e) < 0)
			return -1;
	}
	return 1;
}
