/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/http/answer.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"

int answer_is_success(const struct exchange *x)
{
	return x->status >= 200 && x->status < 300;
}

/* ---- the answer: headers ---- */

static void keep(char *ret, size_t size, const char *s, size_t n)
{
	snprintf(ret, size, "%.*s", (int)n, s);
}

static void begin_answer(struct exchange *x, const char *line, size_t n)
{
	const char *space = memchr(line, ' ', n);

	x->status = 0;
	if (space && line + n - space >= 4)
		x->status = (space[1] - '0') * 100 + (space[2] - '0') * 10 + (space[3] - '0');
	x->type[0] = x->digest[0] = x->location[0] = x->range[0] = x->encoding[0] = x->upload_range[0] = '\0';
	x->chunk_min = 0;
	x->has_length = 0;
	memset(&x->challenge, 0, sizeof(x->challenge));
	x->challenge_err.code = 0;
	x->retry_after_ms = 0;
}

static int stop(struct exchange *x, enum err_code code, const char *why)
{
	if (!x->fatal.code)
		err_set(&x->fatal, code, "%s", why);
	return 0;
}

static void take_header(struct exchange *x, const char *name, size_t name_len, const char *v, size_t n)
{
	static const struct { const char *name; size_t offset, size; } texts[] = {
#define FIELD(f) offsetof(struct exchange, f), sizeof(((struct exchange *)0)->f)
		{ "content-type", FIELD(type) }, { "docker-content-digest", FIELD(digest) },
		{ "location", FIELD(location) }, { "content-range", FIELD(range) },
		{ "content-encoding", FIELD(encoding) }, { "range", FIELD(upload_range) },
	};
	char text[32];
	uint64_t seconds;
	size_t i;

	for (i = 0; i < ARRAY_LEN(texts); i++) {
		if (strlen(texts[i].name) != name_len || strncasecmp(texts[i].name, name, name_len))
			continue;
		if (n >= texts[i].size)
			stop(x, ERR_CORRUPT, "a header of the answer is too long");
		keep((char *)x + texts[i].offset, texts[i].size, v, n);
		return;
	}
	if (name_len == 16 && !strncasecmp(name, "www-authenticate", 16) && !x->challenge_err.code) {
		challenge_parse(v, n, &x->challenge, &x->challenge_err);
	} else if (name_len == 11 && !strncasecmp(name, "retry-after", 11) && n < sizeof(text)) {
		keep(text, sizeof(text), v, n);	/* a date is not worth reading */
		if (!num_u64(text, "Retry-After", 0, 1000000, &seconds, NULL))
			x->retry_after_ms = seconds * 1000;
	} else if (name_len == 14 && !strncasecmp(name, "content-length", 14) && n < sizeof(text)) {
		keep(text, sizeof(text), v, n);
		x->has_length = !num_u64(text, "Content-Length", 0, UINT64_MAX, &x->length, NULL);
	} else if (name_len == 20 && !strncasecmp(name, "oci-chunk-min-length", 20) && n < sizeof(text)) {
		keep(text, sizeof(text), v, n);
		num_u64(text, "OCI-Chunk-Min-Length", 0, UINT64_MAX, &x->chunk_min, NULL);
	}
}

size_t answer_on_header(char *p, size_t size, size_t count, void *ctx)
{
	struct exchange *x = ctx;
	size_t n = size * count, len = n;
	const char *colon;

	x->header_bytes += n;
	if (x->header_bytes > HTTP_HEADERS_MAX) {
		stop(x, ERR_LIMIT, "the answer has more than 128 KiB of headers");
		return 0;
	}
	while (len && (p[len - 1] == '\n' || p[len - 1] == '\r' || p[len - 1] == ' ' || p[len - 1] == '\t'))
		len--;
	if (len >= 5 && !strncasecmp(p, "HTTP/", 5)) {
		begin_answer(x, p, len);
		return n;
	}
	colon = memchr(p, ':', len);
	if (colon) {
		const char *v = colon + 1, *end = p + len;

		while (v < end && (*v == ' ' || *v == '\t'))
			v++;
		take_header(x, p, (size_t)(colon - p), v, (size_t)(end - v));
	}
	return x->fatal.code ? 0 : n;
}

/* ---- the answer: body ---- */

/* "bytes 5-9/10": the part that begins where we are, of the whole that we expect. */
static int range_fits(const struct exchange *x)
{
	char *end;
	unsigned long long from, to, total;

	if (strncasecmp(x->range, "bytes ", 6) || x->range[6] < '0' || x->range[6] > '9')
		return 0;
	from = strtoull(x->range + 6, &end, 10);
	if (*end != '-' || end[1] < '0' || end[1] > '9')
		return 0;
	to = strtoull(end + 1, &end, 10);
	if (*end++ != '/' || from != x->got || to < from || to >= x->want_size)
		return 0;
	if (!strcmp(end, "*"))
		return 1;
	if (*end < '0' || *end > '9')
		return 0;
	total = strtoull(end, &end, 10);
	return !*end && total == x->want_size;
}

int answer_begin_body(struct exchange *x)
{
	char text[200];

	x->started = 1;
	if (x->encoding[0] && strcasecmp(x->encoding, "identity"))
		return stop(x, ERR_CORRUPT, "the answer is compressed, which was not asked for"), -1;
	if (x->out_fd < 0 || !answer_is_success(x))
		return 0;
	if (x->status == 206) {
		if (!range_fits(x))
			return stop(x, ERR_CORRUPT, "the registry answers with another part of the blob than was asked for"), -1;
		return 0;
	}
	/* not every server supports ranges: it sends from the start, and we skip what we have */
	x->skip = x->got;
	if (x->has_length && x->length != x->want_size) {
		snprintf(text, sizeof(text), "the registry offers %llu bytes for a blob of %llu",
			 (unsigned long long)x->length, (unsigned long long)x->want_size);
		return stop(x, ERR_CORRUPT, text), -1;
	}
	return 0;
}

int answer_flush(struct exchange *x)
{
	while (x->pending_at < x->pending_len) {
		ssize_t r = write(x->out_fd, x->pending + x->pending_at, x->pending_len - x->pending_at);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0 && errno == EAGAIN)
			return 0;
		if (r < 0) {
			err_sys(&x->fatal, "hand the blob on");
			return -1;
		}
		x->pending_at += (size_t)r;
	}
	x->pending_at = x->pending_len = 0;
	return 1;
}

static size_t stream_body(struct exchange *x, const char *p, size_t n)
{
	size_t over = x->skip < n ? (size_t)x->skip : n, all = n;
	int r = answer_flush(x);

	if (r < 0)
		return 0;
	if (r == 0) {
		x->paused = 1;
		return CURL_WRITEFUNC_PAUSE;
	}
	x->skip -= over;
	p += over;
	n -= over;
	if (n > x->want_size - x->got) {
		stop(x, ERR_CORRUPT, "the blob is larger than the manifest says");
		return 0;
	}
	if (!x->pending)
		x->pending = malloc(ANSWER_CHUNK);
	if (!x->pending || n > ANSWER_CHUNK) {
		err_nomem(&x->fatal);
		return 0;
	}
	memcpy(x->pending, p, n);
	x->pending_len = n;
	x->got += n;
	return answer_flush(x) < 0 ? 0 : all;
}

size_t answer_on_body(char *p, size_t size, size_t count, void *ctx)
{
	struct exchange *x = ctx;
	size_t n = size * count, max = answer_is_success(x) ? x->text_max : HTTP_ERROR_TEXT_MAX;

	if (!x->started && answer_begin_body(x) < 0)
		return 0;
	if (x->out_fd >= 0 && answer_is_success(x))
		return stream_body(x, p, n);
	if (x->text.len + n > max) {
		if (answer_is_success(x)) {
			stop(x, ERR_LIMIT, "the answer is larger than what is read of such a document");
			return 0;
		}
		x->enough = 1;	/* to know why it failed */
		return 0;
	}
	x->text.max = max;
	return buf_add(&x->text, p, n, &x->fatal) < 0 ? 0 : n;
}

size_t answer_on_upload(char *p, size_t size, size_t count, void *ctx)
{
	struct exchange *x = ctx;
	uint64_t left = x->in_size - x->in_at;
	size_t n = size * count < left ? size * count : (size_t)left;
	ssize_t r;

	do
		r = pread(x->in_fd, p, n, (off_t)(x->in_from + x->in_at));
	while (r < 0 && errno == EINTR);
	if (r < 0) {
		err_sys(&x->fatal, "read what is to be sent");
		return CURL_READFUNC_ABORT;
	}
	x->in_at += (uint64_t)r;
	x->sent = x->in_at;
	return (size_t)r;
}

int answer_on_seek(void *ctx, curl_off_t offset, int whence)
{
	struct exchange *x = ctx;

	/*
	 * libcurl would begin again by itself on another connection, but only the registry knows
	 * how many bytes it got
	 */
	if (x->once)
		return CURL_SEEKFUNC_FAIL;
	if (whence != SEEK_SET || offset < 0 || (uint64_t)offset > x->in_size)
		return CURL_SEEKFUNC_CANTSEEK;
	x->in_at = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}
