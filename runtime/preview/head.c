/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S61 of SECURITY.md. */
#include "runtime/preview/head.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

/* Fields of this hop, of ours, and those that are made anew. */
static const char *const request_drops[] = {
	"Host", "Connection", "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "Keep-Alive", "TE", "Upgrade",
	"Forwarded", "X-Real-IP", PREVIEWHEAD_FIELD, "E2B-Traffic-Access-Token", "X-Daytona-Preview-Token",
};
/* Fields of this hop, and those that reach beyond the origin of the answer. */
static const char *const answer_drops[] = {
	"Connection", "Proxy-Connection", "Proxy-Authenticate", "Keep-Alive", "Upgrade", "Alt-Svc", "Clear-Site-Data",
	"Strict-Transport-Security",
};

static int among(const struct httphead_text *name, const char *const *list, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (httphead_is(name, list[i]))
			return 1;
	return 0;
}

/* As a server behind CGI or WSGI reads a name: "X_Forwarded_For" is X-Forwarded-For there. */
static int starts_as(const struct httphead_text *name, const char *what)
{
	size_t i;

	for (i = 0; what[i]; i++)
		if (i == name->n || tolower((unsigned char)(name->p[i] == '_' ? '-' : name->p[i])) != what[i])
			return 0;
	return 1;
}

static int is_made_anew(const struct httphead_text *name)
{
	return starts_as(name, "x-forwarded-") || (starts_as(name, "x-real-ip") && name->n == 9) ||
	       (starts_as(name, "forwarded") && name->n == 9) || (memchr(name->p, '_', name->n) && starts_as(name, "content-length")) ||
	       (memchr(name->p, '_', name->n) && starts_as(name, "transfer-encoding")) || starts_as(name, "x-berth-");
}

/* Whether a comma-separated value has this word. */
static int has_word(const struct httphead_text *v, const char *word)
{
	const size_t len = strlen(word);
	const char *p = v->p, *end = v->p + v->n;

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p)), *last = comma ? comma : end;

		while (p < last && (*p == ' ' || *p == '\t'))
			p++;
		while (last > p && (last[-1] == ' ' || last[-1] == '\t'))
			last--;
		if ((size_t)(last - p) == len && !strncasecmp(p, word, len))
			return 1;
		p = comma ? comma + 1 : end;
	}
	return 0;
}

static int add_line(struct buf *out, const struct httphead_text *l, struct err *e)
{
	return buf_add(out, l->p, l->n, e) < 0 ? -1 : buf_adds(out, "\r\n", e);
}

/* A text that may be a token, behind those that are there; what is none is left out. */
static void keep_token(char to[PREVIEWHEAD_TOKEN], const char *p, size_t n)
{
	const size_t at = strlen(to);
	size_t i;

	for (i = 0; i < n; i++)
		if (!isalnum((unsigned char)p[i]) && !strchr("._-", p[i]))
			return;
	if (n && at + n + 2 < PREVIEWHEAD_TOKEN)
		snprintf(to + at, PREVIEWHEAD_TOKEN - at, "%s%.*s", at ? " " : "", (int)n, p);
}

/* ---- the request's line ---- */

static int is_param(const char *p, size_t n)
{
	static const char name[] = PREVIEWHEAD_PARAM "=";

	return n >= sizeof(name) - 1 && !strncmp(p, name, sizeof(name) - 1);
}

/* The target without our parameter. */
static int write_target(const char *p, size_t n, struct previewhead *r, struct buf *out, struct err *e)
{
	const char *query = memchr(p, '?', n), *end = p + n, *part, *amp;
	const size_t begin = out->len;
	int any = 0;

	if (buf_add(out, p, query ? (size_t)(query - p) : n, e) < 0)
		return -1;
	for (part = query ? query + 1 : end + 1; part <= end; part = amp + 1) {
		amp = memchr(part, '&', (size_t)(end - part));
		if (!amp)
			amp = end;
		if (is_param(part, (size_t)(amp - part))) {
			keep_token(r->query, part + sizeof(PREVIEWHEAD_PARAM), (size_t)(amp - part) - sizeof(PREVIEWHEAD_PARAM));
			continue;
		}
		if (buf_adds(out, any++ ? "&" : "?", e) < 0 || buf_add(out, part, (size_t)(amp - part), e) < 0)
			return -1;
	}
	r->target_at = begin;
	r->target_len = out->len - begin;
	return 0;
}

static int preview_line(const struct httphead_text *l, struct previewhead *r, struct buf *out, struct err *e)
{
	const char *sp1 = memchr(l->p, ' ', l->n), *sp2 = memrchr(l->p, ' ', l->n), *target, *version, *c;
	size_t method = sp1 ? (size_t)(sp1 - l->p) : 0;

	if (!sp1 || sp1 == sp2 || method > 23 || !httphead_is_token(l->p, method))
		return err_set(e, ERR_INVALID, "a malformed request line");
	target = sp1 + 1;
	version = sp2 + 1;
	if (l->n - (size_t)(version - l->p) != 8 || (memcmp(version, "HTTP/1.1", 8) && memcmp(version, "HTTP/1.0", 8)))
		return err_set(e, ERR_INVALID, "a malformed request line");
	for (c = target; c < sp2; c++)
		if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7f || *c == '#')
			return err_set(e, ERR_INVALID, "a byte in the request's target that must be escaped");
	r->head = method == 4 && !memcmp(l->p, "HEAD", 4);
	r->reads = r->head || (method == 3 && !memcmp(l->p, "GET", 3));
	r->http10 = version[7] == '0';
	if (target[0] != '/' && !(sp2 - target == 1 && target[0] == '*' && method == 7 && !memcmp(l->p, "OPTIONS", 7)))
		return err_set(e, ERR_INVALID, "a target that is not a path; this is no proxy");
	if (buf_add(out, l->p, method + 1, e) < 0 || write_target(target, (size_t)(sp2 - target), r, out, e) < 0)
		return -1;
	return buf_addf(out, e, " %.8s\r\n", version);
}

/* ---- the request's fields ---- */

struct asked {
	int hosts, upgrade, websocket;	/* Connection: upgrade; Upgrade: websocket */
	int closes, asks_to_keep;
	struct httphead_text origin, site, mode, dest;
	int origins;
	struct httphead_framing framing;
};

static int take_host(const struct httphead_text *v, struct previewhead *r, struct asked *a, struct err *e)
{
	size_t i, n;

	if (a->hosts++ || !v->n || v->n >= sizeof(r->host))
		return err_set(e, ERR_INVALID, "Host is missing, malformed or came twice");
	for (n = 0; n < v->n && v->p[n] != ':'; n++)
		if (!isalnum((unsigned char)v->p[n]) && v->p[n] != '-' && v->p[n] != '.')
			return err_set(e, ERR_INVALID, "Host is malformed");
	for (i = n + 1; i < v->n; i++)
		if (!isdigit((unsigned char)v->p[i]))
			return err_set(e, ERR_INVALID, "Host is malformed");
	if (!n || v->n == n + 1 || v->n > n + 6)
		return err_set(e, ERR_INVALID, "Host is malformed");
	for (i = 0; i < n; i++)
		r->host[i] = (char)tolower((unsigned char)v->p[i]);
	r->host[n] = '\0';
	snprintf(r->authority, sizeof(r->authority), "%.*s", (int)v->n, v->p);
	return 0;
}

/* The cookies without ours. */
static int write_cookies(const struct httphead_text *v, struct previewhead *r, struct buf *out, struct err *e)
{
	const char *p = v->p, *end = v->p + v->n;
	int any = 0;

	while (p < end) {
		const char *semi = memchr(p, ';', (size_t)(end - p)), *last = semi ? semi : end, *eq;
		size_t name;

		while (p < last && (*p == ' ' || *p == '\t'))
			p++;
		eq = memchr(p, '=', (size_t)(last - p));
		name = (size_t)((eq ? eq : last) - p);
		while (name && (p[name - 1] == ' ' || p[name - 1] == '\t'))
			name--;
		if (eq && ((name == sizeof(PREVIEWHEAD_COOKIE) - 1 && !memcmp(p, PREVIEWHEAD_COOKIE, name)) ||
			   (name == sizeof(PREVIEWHEAD_SECURE) - 1 && !memcmp(p, PREVIEWHEAD_SECURE, name))))
			keep_token(r->cookie, eq + 1, (size_t)(last - eq - 1));
		else if (last > p && (buf_adds(out, any++ ? "; " : "Cookie: ", e) < 0 || buf_add(out, p, (size_t)(last - p), e) < 0))
			return -1;
		p = semi ? semi + 1 : end;
	}
	return any ? buf_adds(out, "\r\n", e) : 0;
}

static void take_connection(const struct httphead_text *v, struct asked *a)
{
	a->closes |= has_word(v, "close");
	a->asks_to_keep |= has_word(v, "keep-alive");
	a->upgrade |= has_word(v, "upgrade");
}

static int preview_field(const struct httphead_text *l, struct previewhead *r, struct asked *a, struct buf *out, struct err *e)
{
	struct httphead_text name, v;

	if (httphead_field(l, &name, &v, e) < 0 || httphead_body(&name, &v, &a->framing, &r->body, e) < 0)
		return -1;
	if (httphead_is(&name, "Host"))
		return take_host(&v, r, a, e);
	if (httphead_is(&name, "Cookie"))
		return write_cookies(&v, r, out, e);
	if (httphead_is(&name, "Connection"))
		take_connection(&v, a);
	else if (httphead_is(&name, "Upgrade"))
		a->websocket |= v.n == 9 && !strncasecmp(v.p, "websocket", 9);
	else if (httphead_is(&name, PREVIEWHEAD_FIELD) || httphead_is(&name, "E2B-Traffic-Access-Token") ||
		 httphead_is(&name, "X-Daytona-Preview-Token"))
		keep_token(r->field, v.p, v.n);
	else if (httphead_is(&name, "Origin") && !a->origins++)
		a->origin = v;
	else if (httphead_is(&name, "Sec-Fetch-Site"))
		a->site = v;
	else if (httphead_is(&name, "Sec-Fetch-Mode"))
		a->mode = v;
	else if (httphead_is(&name, "Sec-Fetch-Dest"))
		a->dest = v;
	else if (httphead_is(&name, "Accept"))
		r->wants_page |= has_word(&v, "text/html") || (v.n >= 9 && !strncasecmp(v.p, "text/html", 9));
	if (among(&name, request_drops, ARRAY_LEN(request_drops)) || is_made_anew(&name))
		return 0;
	return add_line(out, l, e);
}

static int text_is(const struct httphead_text *t, const char *what)
{
	return t->n == strlen(what) && !strncasecmp(t->p, what, t->n);
}

/* The page that sends it, if it is one, has this very origin. */
static int is_own_page(const struct previewhead *r, const struct asked *a)
{
	static const char *const schemes[] = { "https://", "http://" };
	size_t i, n;

	for (i = 0; i < ARRAY_LEN(schemes); i++) {
		n = strlen(schemes[i]);
		if (a->origin.n > n && !strncasecmp(a->origin.p, schemes[i], n) && a->origin.n - n == strlen(r->authority) &&
		    !strncasecmp(a->origin.p + n, r->authority, a->origin.n - n))
			return 1;
	}
	return 0;
}

/*
 * All previews of a domain are one "site" to a browser, so SameSite does not keep a page in one
 * sandbox from using the cookie of another: the request itself tells where it comes from.
 */
static int is_foreign(const struct previewhead *r, const struct asked *a)
{
	if (a->origins > 1 || (r->websocket && !is_own_page(r, a)))
		return 1;
	if (a->site.n)
		return !text_is(&a->site, "same-origin") && !text_is(&a->site, "none") &&
		       !(r->reads && text_is(&a->mode, "navigate") && text_is(&a->dest, "document"));
	if (a->origins)
		return !is_own_page(r, a);
	/* an old browser, or no browser: a link is harmless, a form is not */
	return !r->reads;
}

static int end_request(struct previewhead *r, const struct asked *a, const struct previewhead_from *from, struct buf *out, struct err *e)
{
	if (!a->hosts)
		return err_set(e, ERR_INVALID, "Host is missing, malformed or came twice");
	if (httphead_body_end(&a->framing, &r->body, e) < 0)
		return -1;
	if (r->http10 && r->body.kind == HTTPBODY_CHUNKED)
		return err_set(e, ERR_INVALID, "a chunked body of an HTTP/1.0 client");
	r->websocket = a->websocket && a->upgrade && r->reads && !r->head && !r->http10 && r->body.done;
	r->keeps = r->http10 ? a->asks_to_keep && !a->closes : !a->closes;
	r->foreign = is_foreign(r, a);
	r->host_at = out->len + strlen("Host: ");
	r->host_len = strlen(r->authority);
	if (buf_addf(out, e, "Host: %s\r\nX-Forwarded-For: %s\r\nX-Forwarded-Host: %s\r\nX-Forwarded-Proto: %s\r\n", r->authority, from->address,
		     r->authority, from->secure ? "https" : "http") < 0)
		return -1;
	return buf_adds(out, r->websocket ? "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" : "Connection: close\r\n\r\n", e);
}

int previewhead_mask(struct previewhead *rq, const char *host, struct buf *out, struct err *e)
{
	const size_t n = strlen(host), behind = rq->host_at + rq->host_len;

	if (buf_reserve(out, n, e) < 0)
		return -1;
	memmove(out->data + rq->host_at + n, out->data + behind, out->len - behind);
	memcpy(out->data + rq->host_at, host, n);
	out->len = out->len - rq->host_len + n;
	out->data[out->len] = '\0';
	rq->host_len = n;
	return 0;
}

int previewhead_request(const char *p, size_t n, const struct previewhead_from *from, struct previewhead *ret, struct buf *out, struct err *e)
{
	const size_t head = httphead_end(p, n);
	const char *end = p + head, *at = p;
	struct previewhead r = { .head_len = head };
	struct httphead_text l;
	struct asked a = { 0 };
	size_t count = 0;

	if (!head || head > HTTPREQ_HEAD_MAX)
		return head || n >= HTTPREQ_HEAD_MAX ? err_set(e, ERR_LIMIT, "the request's head is over %d bytes", HTTPREQ_HEAD_MAX) : 0;
	if (httphead_line(&at, end, &l, e) < 0 || preview_line(&l, &r, out, e) < 0)
		return -1;
	for (;;) {
		if (httphead_line(&at, end, &l, e) < 0)
			return -1;
		if (!l.n)
			break;
		if (++count > HTTPREQ_HEADERS_MAX)
			return err_set(e, ERR_LIMIT, "more than %d header fields", HTTPREQ_HEADERS_MAX);
		if (preview_field(&l, &r, &a, out, e) < 0)
			return -1;
	}
	if (end_request(&r, &a, from, out, e) < 0)
		return -1;
	*ret = r;
	return 1;
}

/* ---- the answer ---- */

static int answer_line(const struct httphead_text *l, struct previewhead_answer *a, struct err *e)
{
	const char *p = l->p;

	if (l->n < 12 || memcmp(p, "HTTP/1.", 7) || (p[7] != '0' && p[7] != '1') || p[8] != ' ' || (l->n > 12 && p[12] != ' ') ||
	    !isdigit((unsigned char)p[9]) || !isdigit((unsigned char)p[10]) || !isdigit((unsigned char)p[11]) || p[9] < '1' || p[9] > '5')
		return err_set(e, ERR_INVALID, "the server's answer is not HTTP/1");
	a->status = (p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0');
	return 0;
}

/* A cookie without its Domain, so that it is of this origin alone; one with a name of ours is left out. */
static int write_set_cookie(const struct httphead_text *v, struct buf *out, struct err *e)
{
	const char *p = v->p, *end = v->p + v->n, *eq = memchr(p, '=', v->n);
	struct httphead_text name = { p, (size_t)((eq ? eq : p) - p) };

	while (name.n && (name.p[name.n - 1] == ' ' || name.p[name.n - 1] == '\t'))
		name.n--;
	if (text_is(&name, PREVIEWHEAD_COOKIE) || text_is(&name, PREVIEWHEAD_SECURE))
		return 0;
	if (buf_adds(out, "Set-Cookie: ", e) < 0)
		return -1;
	while (p <= end) {
		const char *semi = memchr(p, ';', (size_t)(end - p)), *last = semi ? semi : end, *first = p;

		while (first < last && (*first == ' ' || *first == '\t'))
			first++;
		eq = memchr(first, '=', (size_t)(last - first));
		name = (struct httphead_text){ first, (size_t)((eq ? eq : last) - first) };
		while (name.n && (name.p[name.n - 1] == ' ' || name.p[name.n - 1] == '\t'))
			name.n--;
		if ((p == v->p || !text_is(&name, "Domain")) &&
		    (buf_adds(out, p == v->p ? "" : "; ", e) < 0 || buf_add(out, first, (size_t)(last - first), e) < 0))
			return -1;
		p = semi ? semi + 1 : end + 1;
	}
	return buf_adds(out, "\r\n", e);
}

struct answered {
	struct httphead_framing framing;
	int websocket;
};

static int answer_field(const struct httphead_text *l, struct previewhead_answer *a, struct answered *w, struct buf *out, struct err *e)
{
	struct httphead_text name, v;

	if (httphead_field(l, &name, &v, e) < 0 || httphead_body(&name, &v, &w->framing, &a->body, e) < 0)
		return -1;
	if (httphead_is(&name, "Set-Cookie"))
		return write_set_cookie(&v, out, e);
	if (httphead_is(&name, "Upgrade"))
		w->websocket |= text_is(&v, "websocket");
	return among(&name, answer_drops, ARRAY_LEN(answer_drops)) ? 0 : add_line(out, l, e);
}

static int end_answer(const struct previewhead *rq, int keeps, struct previewhead_answer *a, const struct answered *w,
		      struct buf *out, struct err *e)
{
	if (httphead_body_end(&w->framing, &a->body, e) < 0)
		return -1;
	a->upgraded = a->status == 101;
	if (a->upgraded && (!rq->websocket || !w->websocket))
		return err_set(e, ERR_INVALID, "the server speaks a protocol that was not asked for");
	a->interim = a->status < 200 && !a->upgraded;
	if (a->upgraded)
		return buf_adds(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", e);
	if (a->interim || rq->head || a->status == 204 || a->status == 304)
		a->body = (struct httpbody){ .kind = HTTPBODY_NONE, .done = 1 };
	else if (a->body.kind == HTTPBODY_NONE)
		a->until_close = 1;
	if (a->interim)
		return buf_adds(out, "\r\n", e);
	return buf_adds(out, keeps && !a->until_close ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n", e);
}

int previewhead_answer(const char *p, size_t n, const struct previewhead *rq, int keeps, struct previewhead_answer *ret, struct buf *out,
		       struct err *e)
{
	const size_t head = httphead_end(p, n);
	const char *end = p + head, *at = p;
	struct previewhead_answer a = { .head_len = head };
	struct httphead_text l;
	struct answered w = { 0 };
	size_t count = 0;

	if (!head || head > HTTPREQ_HEAD_MAX)
		return head || n >= HTTPREQ_HEAD_MAX ? err_set(e, ERR_INVALID, "the head of the server's answer is over %d bytes", HTTPREQ_HEAD_MAX) : 0;
	if (httphead_line(&at, end, &l, e) < 0 || answer_line(&l, &a, e) < 0)
		return -1;
	/* it may answer with the version of its own; the framing is the same in both */
	if (buf_adds(out, "HTTP/1.1 ", e) < 0)
		return -1;
	l = (struct httphead_text){ l.p + 9, l.n - 9 };
	if (add_line(out, &l, e) < 0)
		return -1;
	for (;;) {
		if (httphead_line(&at, end, &l, e) < 0)
			return -1;
		if (!l.n)
			break;
		if (++count > HTTPREQ_HEADERS_MAX)
			return err_set(e, ERR_INVALID, "the server's answer has more than %d header fields", HTTPREQ_HEADERS_MAX);
		if (answer_field(&l, &a, &w, out, e) < 0)
			return -1;
	}
	if (end_answer(rq, keeps, &a, &w, out, e) < 0)
		return -1;
	if (a.interim && rq->http10)
		out->len = 0;
	*ret = a;
	return 1;
}
