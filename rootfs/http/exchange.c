/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S15 of SECURITY.md. */
#include "rootfs/http/answer.h"
#include "rootfs/http/exchange.h"
#include "rootfs/http/outcome.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

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

static void forget(struct exchange *x)
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
	forget(x);
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

static void finish(struct exchange *x)
{
	forget(x);
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
		/* as public as the most public address of its name, whichever is connected last */
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

static int add_line(struct exchange *x, const char *name, const char *value)
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
	if ((x->accept && add_line(x, "Accept: ", x->accept) < 0) ||
	    (x->content_type && add_line(x, "Content-Type: ", x->content_type) < 0) ||
	    (x->content_range[0] && add_line(x, "Content-Range: ", x->content_range) < 0) || add_line(x, "Expect:", "") < 0)
		return err_nomem(e);
	return 0;
}

/* Upholds S16 of SECURITY.md. */
static void set_limits(struct exchange *x)
{
	uint64_t stall = x->http->stall_ms;
	CURL *c = x->easy;

	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)stall);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1024L);
	/* a registry may think for long about a blob it has got */
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

static int set_all(struct exchange *x, struct err *e)
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
	set_limits(x);
	return 0;
}

static void fail(struct exchange *x, const struct err *e)
{
	x->err = *e;
	finish(x);
}

/* x->url is set: sends the request. */
static void attempt(struct exchange *x)
{
	struct err e = { 0 };

	forget(x);
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
	else if (!set_all(x, &e) && curl_multi_add_handle(x->http->multi, x->easy) != CURLM_OK)
		err_set(&e, ERR_INTERNAL, "start a transfer");
	if (e.code)
		fail(x, &e);
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
	/* a name or a port that is not there seldom comes */
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
	x->err = *why;	/* for retrying() */
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

static int redirect(struct exchange *x, struct err *e)
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

/* A blob that came, and is whole? */
static void blob_ended(struct exchange *x)
{
	struct err e;

	if (x->got == x->want_size) {
		finish(x);
		return;
	}
	err_set(&e, ERR_NET, "the registry ended the blob after %llu of %llu bytes", (unsigned long long)x->got,
		(unsigned long long)x->want_size);
	if (retry(x, CURLE_OK, &e) < 0)
		fail(x, &e);
}

static void attempt_ended(struct exchange *x, CURLcode rc)
{
	struct err e = { 0 };

	if (x->fatal.code) {
		fail(x, &x->fatal);
		return;
	}
	if (x->enough)
		rc = CURLE_OK;
	if (rc == CURLE_OK && x->status == 401) {
		if (auth_challenged(x, &e) < 0)
			fail(x, &e);
		return;
	}
	if (rc == CURLE_OK && is_redirect(x)) {
		if (redirect(x, &e) < 0)
			fail(x, &e);
		return;
	}
	if (rc == CURLE_OK && answer_is_success(x)) {
		if (!x->started && answer_begin_body(x) < 0)	/* no byte of body came */
			fail(x, &x->fatal);
		else if (x->out_fd >= 0)
			blob_ended(x);
		else
			finish(x);
		return;
	}
	if (rc == CURLE_OK && x->status == 416 && x->got && !x->no_range) {
		x->no_range = 1;
		exchange_start(x);
		return;
	}
	outcome_error(x, rc, &e);
	if (!outcome_is_passing(x, rc) || retry(x, rc, &e) < 0)
		fail(x, &e);
}

/* libcurl is done: first the reader gets the bytes that we still hold. */
static void ended(struct exchange *x, CURLcode rc)
{
	if (x->pending_len > x->pending_at && !x->fatal.code && answer_flush(x) == 0) {
		x->draining = 1 + (int)rc;
		drop_easy(x);
		return;
	}
	attempt_ended(x, rc);
}

/* ---- the loop ---- */

static void wake(struct http *h)
{
	struct exchange *x, *next;
	uint64_t now = clock_ms();

	for (x = h->active; x; x = next) {
		next = x->next;
		if (x->draining && answer_flush(x)) {
			CURLcode rc = (CURLcode)(x->draining - 1);

			x->draining = 0;
			attempt_ended(x, rc);
			return;	/* the list may be another now */
		}
		if (x->paused && x->easy && answer_flush(x)) {
			x->paused = 0;
			curl_easy_pause(x->easy, CURLPAUSE_CONT);
		} else if (x->wake_ms && now >= x->wake_ms) {
			x->wake_ms = 0;
			exchange_start(x);
			return;
		}
	}
}

static void collect(struct http *h)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(h->multi, &left))) {
		struct exchange *x = NULL;
		CURLcode rc = m->data.result;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &x);
		ended(x, rc);
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
	collect(h);
	wake(h);
	return 0;
}
