/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S15 of SECURITY.md. */
#include "rootfs/http/exchange.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"

/* ---- why an attempt failed ---- */

/* The reason why an attempt of an exchange failed. */

/* Adds the message of {"errors":[{"code":"DENIED","message":"..."}]}, if the body is such a document. */
static void add_told(const struct exchange *x, struct err *e)
{
	autojson json_t *j =
		x->text.len ? json_parse(x->text.data, x->text.len, HTTP_ERROR_TEXT_MAX, "", NULL) :
			      NULL;
	const json_t *first = json_array_get(json_object_get(j, "errors"), 0);
	const char *said = json_string_value(json_object_get(first, "message"));

	if (!said || !*said)
		said = json_string_value(json_object_get(first, "code"));
	if (said && *said) {
		size_t n = strlen(e->msg);

		snprintf(e->msg + n, sizeof(e->msg) - n, ": %.160s", said);
	}
}

static void status_error(const struct exchange *x, struct err *e)
{
	char at[ORIGIN_TEXT_MAX];
	struct origin o;

	if (origin_parse(x->url, "URL", &o, NULL, NULL) < 0)
		o = x->site->origin;
	origin_format(&o, at);
	if (x->status == 404)
		err_set(e, ERR_NOT_FOUND, "%s does not have it", at);
	else if (x->status == 403)
		err_set(e, ERR_DENIED, "%s forbids it", at);
	else if (x->status == 429)
		err_set(e, ERR_NET, "%s says there were too many requests", at);
	else
		err_set(e, ERR_NET, "%s answers with status %ld", at, x->status);
	add_told(x, e);
	if (x->status == 429)
		err_hint(e, "wait, or log in: berth login");
}

static void transport_error(const struct exchange *x, CURLcode rc, struct err *e)
{
	char at[ORIGIN_TEXT_MAX];
	struct origin o;
	const char *why = x->curl_error[0] ? x->curl_error : curl_easy_strerror(rc);

	if (origin_parse(x->url, "URL", &o, NULL, NULL) < 0)
		o = x->site->origin;
	origin_format(&o, at);
	if (x->refused[0])
		err_set(e, ERR_DENIED, "%s", x->refused);
	else if (rc == CURLE_OPERATION_TIMEDOUT)
		err_set(e, ERR_NET, "%s is too slow or silent: %.150s", at, why);
	else
		err_set(e, ERR_NET, "%s: %.200s", at, why);
	if (rc == CURLE_PEER_FAILED_VERIFICATION || rc == CURLE_SSL_CACERT_BADFILE)
		err_hint(e, "registry.ca_file in berth.toml names a CA of your own");
	else if (rc == CURLE_SSL_CONNECT_ERROR && strstr(why, "wrong version number"))
		err_hint(e, "if it speaks plain http, list it in registry.insecure in berth.toml, "
			    "or use --insecure");
	else if (rc == CURLE_COULDNT_RESOLVE_HOST)
		err_hint(e, "is the name right, and does this host reach a name server?");
}

/* Tells whether the same request may succeed a moment later. */
static int outcome_is_passing(const struct exchange *x, CURLcode rc)
{
	if (x->refused[0])
		return 0;
	switch (rc) {
	case CURLE_OK:
		return x->status == 408 || x->status == 429 || x->status == 500 ||
		       x->status == 502 || x->status == 503 || x->status == 504;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_URL_MALFORMAT:
	case CURLE_OUT_OF_MEMORY:
	case CURLE_WEIRD_SERVER_REPLY:
		return 0;
	default:
		return 1;
	}
}

/* Says in e why the attempt failed: rc of libcurl, or with CURLE_OK the status of the answer. */
static void outcome_error(const struct exchange *x, CURLcode rc, struct err *e)
{
	if (rc == CURLE_OK)
		status_error(x, e);
	else
		transport_error(x, rc, e);
}

/* ---- the response: callbacks of libcurl ---- */

/*
 * The response to one attempt of an exchange: libcurl's callbacks.
 *
 * Headers are counted, and the few that matter are kept. A body goes into the text, up to its
 * ceiling, or through a buffer of one chunk to the reader of a blob. An error is left in fatal,
 * which ends the exchange.
 */

#define ANSWER_CHUNK (128l << 10)	/* most bytes that libcurl passes at once */

/* Returns 1 for a status of 2xx. */
static int answer_is_success(const struct exchange *x)
{
	return x->status >= 200 && x->status < 300;
}

/* ---- the answer: headers ---- */

static void keep_header(char *ret, size_t size, const char *s, size_t n)
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

static int stop_exchange(struct exchange *x, enum err_code code, const char *why)
{
	if (!x->fatal.code)
		err_set(&x->fatal, code, "%s", why);
	return 0;
}

static void take_response_header(struct exchange *x, const char *name, size_t name_len, const char *v, size_t n)
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
			stop_exchange(x, ERR_CORRUPT, "a header of the answer is too long");
		keep_header((char *)x + texts[i].offset, texts[i].size, v, n);
		return;
	}
	if (name_len == 16 && !strncasecmp(name, "www-authenticate", 16) && !x->challenge_err.code) {
		challenge_parse(v, n, &x->challenge, &x->challenge_err);
	} else if (name_len == 11 && !strncasecmp(name, "retry-after", 11) && n < sizeof(text)) {
		keep_header(text, sizeof(text), v, n);	/* a date is not parsed */
		if (!num_u64(text, "Retry-After", 0, 1000000, &seconds, NULL))
			x->retry_after_ms = seconds * 1000;
	} else if (name_len == 14 && !strncasecmp(name, "content-length", 14) && n < sizeof(text)) {
		keep_header(text, sizeof(text), v, n);
		x->has_length = !num_u64(text, "Content-Length", 0, UINT64_MAX, &x->length, NULL);
	} else if (name_len == 20 && !strncasecmp(name, "oci-chunk-min-length", 20) && n < sizeof(text)) {
		keep_header(text, sizeof(text), v, n);
		num_u64(text, "OCI-Chunk-Min-Length", 0, UINT64_MAX, &x->chunk_min, NULL);
	}
}

/* CURLOPT_HEADERFUNCTION, WRITEFUNCTION, READFUNCTION, SEEKFUNCTION; ctx is the exchange. */
static size_t answer_on_header(char *p, size_t size, size_t count, void *ctx)
{
	struct exchange *x = ctx;
	size_t n = size * count, len = n;
	const char *colon;

	x->header_bytes += n;
	if (x->header_bytes > HTTP_HEADERS_MAX) {
		stop_exchange(x, ERR_LIMIT, "the answer has more than 128 KiB of headers");
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
		take_response_header(x, p, (size_t)(colon - p), v, (size_t)(end - v));
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

/* Judges the headers before the first byte of the body, or at the end if it has none. -1 with fatal set. */
static int answer_begin_body(struct exchange *x)
{
	char text[200];

	x->started = 1;
	if (x->encoding[0] && strcasecmp(x->encoding, "identity"))
		return stop_exchange(x, ERR_CORRUPT, "the answer is compressed, which was not asked for"), -1;
	if (x->out_fd < 0 || !answer_is_success(x))
		return 0;
	if (x->status == 206) {
		if (!range_fits(x))
			return stop_exchange(x, ERR_CORRUPT, "the registry answers with another part of the blob than was asked for"), -1;
		return 0;
	}
	/* not every server supports ranges: it sends from the start, and we skip what we have */
	x->skip = x->got;
	if (x->has_length && x->length != x->want_size) {
		snprintf(text, sizeof(text), "the registry offers %llu bytes for a blob of %llu",
			 (unsigned long long)x->length, (unsigned long long)x->want_size);
		return stop_exchange(x, ERR_CORRUPT, text), -1;
	}
	return 0;
}

/* Returns 1 when all waiting bytes are delivered, 0 when the reader is slow, -1 (fatal) when it has gone. */
static int flush_answer_body(struct exchange *x)
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
	int r = flush_answer_body(x);

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
		stop_exchange(x, ERR_CORRUPT, "the blob is larger than the manifest says");
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
	return flush_answer_body(x) < 0 ? 0 : all;
}

static size_t answer_on_body(char *p, size_t size, size_t count, void *ctx)
{
	struct exchange *x = ctx;
	size_t n = size * count, max = answer_is_success(x) ? x->text_max : HTTP_ERROR_TEXT_MAX;

	if (!x->started && answer_begin_body(x) < 0)
		return 0;
	if (x->out_fd >= 0 && answer_is_success(x))
		return stream_body(x, p, n);
	if (x->text.len + n > max) {
		if (answer_is_success(x)) {
			stop_exchange(x, ERR_LIMIT, "the answer is larger than what is read of such a document");
			return 0;
		}
		x->enough = 1;	/* the bytes read so far show why the request failed */
		return 0;
	}
	x->text.max = max;
	return buf_add(&x->text, p, n, &x->fatal) < 0 ? 0 : n;
}

static size_t answer_on_upload(char *p, size_t size, size_t count, void *ctx)
{
	struct exchange *x = ctx;
	uint64_t left = x->in_size - x->in_at;
	size_t n = size * count < left ? size * count : (size_t)left;
	ssize_t r;

	do
		r = pread(x->in_fd, p, n, (off_t)(x->in_from + x->in_at));
	while (r < 0 && errno == EINTR);
	if (r < 0) {
		err_sys(&x->fatal, "read the data to send");
		return CURL_READFUNC_ABORT;
	}
	x->in_at += (uint64_t)r;
	x->sent = x->in_at;
	return (size_t)r;
}

static int answer_on_seek(void *ctx, curl_off_t offset, int whence)
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

/* ---- starting and ending ---- */

#define RETRIES_AWAY 2
#define BACKOFF_FIRST_MS 200
#define BACKOFF_MAX_MS 10000
#define RETRY_AFTER_MAX_MS 30000
#define TEXT_TIME_FACTOR 3		/* a document may take this many times stall_ms */
#define UPLOAD_TIME_FACTOR 10

struct http_site *http_site(struct http *h, const struct origin *o, struct err *e)
{
	struct http_site *s;

	for (s = h->sites; s; s = s->next)
		if (origin_equal(&s->origin, o))
			return s;
	s = calloc(1, sizeof(*s));
	if (!s) {
		err_nomem(e);
		return NULL;
	}
	s->origin = *o;
	s->next = h->sites;
	h->sites = s;
	return s;
}

void exchange_init(struct exchange *x, struct http *h, struct http_site *site, const char *method)
{
	memset(x, 0, sizeof(*x));
	x->http = h;
	x->site = site;
	x->method = method;
	x->in_fd = x->out_fd = -1;
	x->text_max = HTTP_ERROR_TEXT_MAX;
}

static void forget_exchange(struct exchange *x)
{
	struct exchange **at = &x->http->active;

	while (*at && *at != x)
		at = &(*at)->next;
	if (*at)
		*at = x->next;
	x->next = NULL;
}

static void drop_easy(struct exchange *x)
{
	if (x->easy) {
		curl_multi_remove_handle(x->http->multi, x->easy);
		curl_easy_cleanup(x->easy);
		x->easy = NULL;
	}
	curl_slist_free_all(x->headers);
	x->headers = NULL;
}

void exchange_release(struct exchange *x)
{
	if (!x->http)
		return;
	forget_exchange(x);
	drop_easy(x);
	free(x->pending);
	if (x->authorization)
		explicit_bzero(x->authorization, strlen(x->authorization));
	free(x->authorization);
	free(x->form);
	buf_release(&x->text);
	x->pending = NULL;
	x->authorization = x->form = NULL;
}

static void finish_exchange(struct exchange *x)
{
	forget_exchange(x);
	drop_easy(x);
	x->done(x);
}

/* ---- connecting ---- */

/* Upholds S16 of SECURITY.md. */
/*
 * The operator chose the registry, but the registry chose where a redirect or a realm leads. It
 * may not use us to reach addresses that it could not reach itself: nothing more private than
 * itself, and no link-local address (cloud metadata) at all.
 */
static curl_socket_t on_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct exchange *x = ctx;
	enum address_class c = address_classify(&a->addr);
	struct origin o;
	int foreign, ok;

	(void)purpose;
	foreign = origin_parse(x->url, "URL", &o, NULL, NULL) < 0 || !origin_equal(&o, &x->site->origin);
	if (x->http->has_proxy) {
		/* it may be the proxy that is connected, and it is the proxy that must know what is private */
		ok = !foreign || c != ADDRESS_NEVER;
	} else if (!foreign) {
		ok = c != ADDRESS_NEVER || origin_is_address(&o, NULL);
		/* the class is that of the most public address of the name, whichever is connected last */
		if (ok && (!x->site->has_class || c < x->site->class))
			x->site->class = c, x->site->has_class = 1;
	} else {
		ok = c == ADDRESS_PUBLIC || (c != ADDRESS_NEVER && x->site->has_class &&
					     x->site->class >= c && x->site->class != ADDRESS_NEVER);
	}
	if (!ok) {
		snprintf(x->refused, sizeof(x->refused), "%.100s leads to a %s address, where the registry may not send us",
			 o.host, address_class_name(c));
		return CURL_SOCKET_BAD;
	}
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

int exchange_refuses(const struct exchange *x, const struct origin *to, struct err *e)
{
	enum address_class c;

	if (origin_equal(to, &x->site->origin) || !origin_is_address(to, &c) || c != ADDRESS_NEVER)
		return 0;
	err_set(e, ERR_DENIED, "%.100s is a %s address, where the registry may not send us", to->host, address_class_name(c));
	return 1;
}

/* ---- one attempt ---- */

static int add_exchange_header(struct exchange *x, const char *name, const char *value)
{
	char line[400];
	struct curl_slist *more;

	snprintf(line, sizeof(line), "%s%s", name, value);
	more = curl_slist_append(x->headers, line);
	if (!more)
		return -1;
	x->headers = more;
	return 0;
}

static int add_headers(struct exchange *x, struct err *e)
{
	autofree char *auth = auth_header(x, e);
	struct curl_slist *more;

	if (e->code)
		return -1;
	if (auth) {
		more = curl_slist_append(x->headers, auth);
		explicit_bzero(auth, strlen(auth));
		if (!more)
			return err_nomem(e);
		x->headers = more;
	}
	if ((x->accept && add_exchange_header(x, "Accept: ", x->accept) < 0) ||
	    (x->content_type && add_exchange_header(x, "Content-Type: ", x->content_type) < 0) ||
	    (x->content_range[0] && add_exchange_header(x, "Content-Range: ", x->content_range) < 0) || add_exchange_header(x, "Expect:", "") < 0)
		return err_nomem(e);
	return 0;
}

/* Upholds S16 of SECURITY.md. */
static void set_easy_limits(struct exchange *x)
{
	uint64_t stall = x->http->stall_ms;
	CURL *c = x->easy;

	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)stall);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1024L);
	/* a registry may take long over a blob it has received */
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)((stall * (x->in_fd >= 0 ? UPLOAD_TIME_FACTOR : 1) + 999) / 1000));
	if (x->out_fd < 0 && x->in_fd < 0)
		curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)(stall * TEXT_TIME_FACTOR));
}

static void set_method(struct exchange *x)
{
	CURL *c = x->easy;

	if (!strcmp(x->method, "HEAD")) {
		curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
	} else if (!strcmp(x->method, "POST")) {
		curl_easy_setopt(c, CURLOPT_POST, 1L);
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, x->form ? x->form : "");
		curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, x->form ? (long)strlen(x->form) : 0L);
	} else if (x->in_fd >= 0) {
		curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, x->method);
		curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)x->in_size);
		curl_easy_setopt(c, CURLOPT_READFUNCTION, answer_on_upload);
		curl_easy_setopt(c, CURLOPT_READDATA, x);
		curl_easy_setopt(c, CURLOPT_SEEKFUNCTION, answer_on_seek);
		curl_easy_setopt(c, CURLOPT_SEEKDATA, x);
	}
}

static int set_easy_options(struct exchange *x, struct err *e)
{
	struct http *h = x->http;
	CURL *c = x->easy;
	char from[32];

	if (add_headers(x, e) < 0)
		return -1;
	curl_easy_setopt(c, CURLOPT_URL, x->url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_BUFFERSIZE, ANSWER_CHUNK);
	curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(c, CURLOPT_USERAGENT, h->agent);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, x->headers);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, x->curl_error);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, answer_on_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, x);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, answer_on_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_socket);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, x);
	curl_easy_setopt(c, CURLOPT_PRIVATE, x);
	if (h->ca) {
		struct curl_blob blob = { h->ca, h->ca_len, CURL_BLOB_NOCOPY };

		curl_easy_setopt(c, CURLOPT_CAINFO_BLOB, &blob);
	}
	if (x->got && !x->no_range) {
		snprintf(from, sizeof(from), "%llu-", (unsigned long long)x->got);
		curl_easy_setopt(c, CURLOPT_RANGE, from);
	}
	set_method(x);
	set_easy_limits(x);
	return 0;
}

static void fail_exchange(struct exchange *x, const struct err *e)
{
	x->err = *e;
	finish_exchange(x);
}

/* Sends the request; x->url is set. */
static void attempt(struct exchange *x)
{
	struct err e = { 0 };

	forget_exchange(x);
	drop_easy(x);
	x->started = x->enough = x->paused = 0;
	x->header_bytes = 0;
	x->skip = x->in_at = x->wake_ms = 0;
	x->status = 0;
	x->text.len = 0;
	x->curl_error[0] = '\0';
	x->tried_at = x->got;
	x->easy = curl_easy_init();
	x->next = x->http->active;
	x->http->active = x;
	if (!x->easy)
		err_nomem(&e);
	else if (!set_easy_options(x, &e) && curl_multi_add_handle(x->http->multi, x->easy) != CURLM_OK)
		err_set(&e, ERR_INTERNAL, "start a transfer");
	if (e.code)
		fail_exchange(x, &e);
}

void exchange_start(struct exchange *x)
{
	x->redirects = 0;
	memcpy(x->url, x->first_url, sizeof(x->url));
	attempt(x);
}

void exchange_move(struct exchange *x, struct http_site *site)
{
	x->site = site;
	x->tries = 0;
	x->fresh_token = x->sent_basic = x->no_range = 0;
	x->err.code = x->fatal.code = 0;
	x->refused[0] = '\0';
}

/* ---- after an attempt ---- */

static int retry(struct exchange *x, CURLcode rc, const struct err *why)
{
	/* a name or a port that is missing seldom appears later */
	int is_away = rc == CURLE_COULDNT_RESOLVE_HOST || rc == CURLE_COULDNT_CONNECT;
	unsigned int jitter = 0, most = is_away && x->http->retries > RETRIES_AWAY ? RETRIES_AWAY : x->http->retries;
	uint64_t delay;

	if (x->got - x->tried_at >= HTTP_PROGRESS_BYTES)
		x->tries = 0;
	if (x->tries >= most)
		return -1;
	delay = (uint64_t)BACKOFF_FIRST_MS << (x->tries < 8 ? x->tries : 8);
	if (delay > BACKOFF_MAX_MS)
		delay = BACKOFF_MAX_MS;
	if (getrandom(&jitter, sizeof(jitter), GRND_NONBLOCK) == sizeof(jitter))
		delay += jitter % (delay / 2);
	if (x->retry_after_ms > RETRY_AFTER_MAX_MS)
		return -1;
	if (x->retry_after_ms > delay)
		delay = x->retry_after_ms;
	x->tries++;
	x->err = *why;	/* retrying() reads it */
	if (x->retrying)
		x->retrying(x, delay);
	x->err.code = 0;
	drop_easy(x);
	x->wake_ms = clock_ms() + delay;
	return 0;
}

static int is_redirect(const struct exchange *x)
{
	return x->status == 301 || x->status == 302 || x->status == 303 || x->status == 307 || x->status == 308;
}

static int follow_http_redirect(struct exchange *x, struct err *e)
{
	autofree char *next = malloc(ORIGIN_URL_MAX);
	struct origin from, to;

	if (!next)
		return err_nomem(e);
	if (x->is_token || (strcmp(x->method, "GET") && strcmp(x->method, "HEAD")))
		return err_set(e, ERR_DENIED, "a redirect of %s is not followed",
			       x->is_token ? "the token server" : "an upload");
	if (++x->redirects > HTTP_REDIRECTS_MAX)
		return err_set(e, ERR_NET, "the registry redirects more than %d times", HTTP_REDIRECTS_MAX);
	if (origin_resolve(x->url, x->location, next, e) < 0) {
		e->code = ERR_DENIED;
		return err_wrap(e, "the registry's redirect is refused");
	}
	if (origin_parse(x->url, "URL", &from, NULL, e) < 0 || origin_parse(next, "URL", &to, NULL, e) < 0)
		return -1;
	if (exchange_refuses(x, &to, e))
		return -1;
	if (from.tls && !to.tls)
		return err_set(e, ERR_DENIED, "the registry redirects from https to plain http at %.100s, which is refused",
			       to.host);
	memcpy(x->url, next, strlen(next) + 1);
	attempt(x);
	return 0;
}

/* Checks that a blob has arrived, and is whole. */
static void blob_ended(struct exchange *x)
{
	struct err e;

	if (x->got == x->want_size) {
		finish_exchange(x);
		return;
	}
	err_set(&e, ERR_NET, "the registry ended the blob after %llu of %llu bytes", (unsigned long long)x->got,
		(unsigned long long)x->want_size);
	if (retry(x, CURLE_OK, &e) < 0)
		fail_exchange(x, &e);
}

static void attempt_ended(struct exchange *x, CURLcode rc)
{
	struct err e = { 0 };

	if (x->fatal.code) {
		fail_exchange(x, &x->fatal);
		return;
	}
	if (x->enough)
		rc = CURLE_OK;
	if (rc == CURLE_OK && x->status == 401) {
		if (auth_challenged(x, &e) < 0)
			fail_exchange(x, &e);
		return;
	}
	if (rc == CURLE_OK && is_redirect(x)) {
		if (follow_http_redirect(x, &e) < 0)
			fail_exchange(x, &e);
		return;
	}
	if (rc == CURLE_OK && answer_is_success(x)) {
		if (!x->started && answer_begin_body(x) < 0)	/* the response had no body */
			fail_exchange(x, &x->fatal);
		else if (x->out_fd >= 0)
			blob_ended(x);
		else
			finish_exchange(x);
		return;
	}
	if (rc == CURLE_OK && x->status == 416 && x->got && !x->no_range) {
		x->no_range = 1;
		exchange_start(x);
		return;
	}
	outcome_error(x, rc, &e);
	if (!outcome_is_passing(x, rc) || retry(x, rc, &e) < 0)
		fail_exchange(x, &e);
}

/* Called when libcurl is done: first the reader gets the bytes that we still hold. */
static void transfer_ended(struct exchange *x, CURLcode rc)
{
	if (x->pending_len > x->pending_at && !x->fatal.code && flush_answer_body(x) == 0) {
		x->draining = 1 + (int)rc;
		drop_easy(x);
		return;
	}
	attempt_ended(x, rc);
}

/* ---- the loop ---- */

static void wake_exchanges(struct http *h)
{
	struct exchange *x, *next;
	uint64_t now = clock_ms();

	for (x = h->active; x; x = next) {
		next = x->next;
		if (x->draining && flush_answer_body(x)) {
			CURLcode rc = (CURLcode)(x->draining - 1);

			x->draining = 0;
			attempt_ended(x, rc);
			return;	/* the list may have changed */
		}
		if (x->paused && x->easy && flush_answer_body(x)) {
			x->paused = 0;
			curl_easy_pause(x->easy, CURLPAUSE_CONT);
		} else if (x->wake_ms && now >= x->wake_ms) {
			x->wake_ms = 0;
			exchange_start(x);
			return;
		}
	}
}

static void collect_transfers(struct http *h)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(h->multi, &left))) {
		struct exchange *x = NULL;
		CURLcode rc = m->data.result;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &x);
		transfer_ended(x, rc);
	}
}

int http_turn(struct http *h, int sock, int timeout_ms, struct err *e)
{
	struct curl_waitfd fds[1 + 64] = { { .fd = sock, .events = CURL_WAIT_POLLIN } };
	uint64_t now = clock_ms();
	struct exchange *x;
	unsigned int n = 1;
	int running;

	for (x = h->active; x; x = x->next) {
		if ((x->paused || x->draining) && n < ARRAY_LEN(fds))
			fds[n++] = (struct curl_waitfd){ .fd = x->out_fd, .events = CURL_WAIT_POLLOUT };
		if (x->wake_ms && x->wake_ms < now + (uint64_t)timeout_ms)
			timeout_ms = x->wake_ms > now ? (int)(x->wake_ms - now) : 0;
	}
	if (curl_multi_poll(h->multi, fds, n, timeout_ms, NULL) != CURLM_OK ||
	    curl_multi_perform(h->multi, &running) != CURLM_OK)
		return err_set(e, ERR_INTERNAL, "drive the transfers");
	collect_transfers(h);
	wake_exchanges(h);
	return 0;
}
