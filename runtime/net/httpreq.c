/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S13 of SECURITY.md. */
#include "runtime/net/httpreq.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"

enum { CHUNK_SIZE, CHUNK_EXTENSION, CHUNK_SIZE_LF, CHUNK_DATA, CHUNK_CR, CHUNK_LF, TRAILER, TRAILER_LINE, TRAILER_LF, TRAILER_END };

int httphead_is_token(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!isalnum((unsigned char)p[i]) && !strchr("!#$%&'*+-.^_`|~", p[i]))
			return 0;
	return n > 0;
}

size_t httphead_end(const char *p, size_t n)
{
	const char *end = memmem(p, n, "\r\n\r\n", 4);

	return end ? (size_t)(end - p) + 4 : 0;
}

int httphead_line(const char **p, const char *end, struct httphead_text *ret, struct err *e)
{
	const char *eol = memmem(*p, (size_t)(end - *p), "\r\n", 2), *c;

	for (c = *p; c < eol; c++)
		if (*c == '\r' || *c == '\n' || *c == '\0')
			return err_set(e, ERR_INVALID, "a control character in the head");
	*ret = (struct httphead_text){ *p, (size_t)(eol - *p) };
	*p = eol + 2;
	return 0;
}

/* "host:port", the port with a default or demanded (0). */
static int authority(const char *p, size_t n, uint64_t port, struct httpreq *r, struct err *e)
{
	const char *colon = memrchr(p, ':', n), *bracket = memrchr(p, ']', n);
	size_t host = n;
	char text[8];

	if (memchr(p, '@', n))
		return err_set(e, ERR_INVALID, "a user name in the address");
	r->port = port;
	if (colon && (!bracket || colon > bracket)) {
		host = (size_t)(colon - p);
		if (n - host - 1 >= sizeof(text))
			return err_set(e, ERR_INVALID, "a malformed port");
		memcpy(text, colon + 1, n - host - 1);
		text[n - host - 1] = '\0';
		if (num_u64(text, "port", 1, 65535, &r->port, e) < 0)
			return -1;
	}
	if (!r->port)
		return err_set(e, ERR_INVALID, "CONNECT wants HOST:PORT");
	if (!host || host >= sizeof(r->host) || memchr(p, '\0', host))
		return err_set(e, ERR_INVALID, "a malformed host");
	memcpy(r->host, p, host);
	r->host[host] = '\0';
	return 0;
}

/* METHOD SP TARGET SP VERSION, and of an http:// target the rewritten line. */
static int request_line(const struct httphead_text *l, struct httpreq *r, struct buf *out, struct err *e)
{
	const char *sp1 = memchr(l->p, ' ', l->n), *sp2 = memrchr(l->p, ' ', l->n), *target, *path, *version;
	size_t len, host;

	if (!sp1 || sp1 == sp2 || (size_t)(sp1 - l->p) >= sizeof(r->method) || !httphead_is_token(l->p, (size_t)(sp1 - l->p)))
		return err_set(e, ERR_INVALID, "a malformed request line");
	memcpy(r->method, l->p, (size_t)(sp1 - l->p));
	r->method[sp1 - l->p] = '\0';
	target = sp1 + 1;
	len = (size_t)(sp2 - target);
	version = sp2 + 1;
	if (memchr(target, ' ', len) || l->n - (size_t)(version - l->p) != 8 ||
	    (memcmp(version, "HTTP/1.1", 8) && memcmp(version, "HTTP/1.0", 8)))
		return err_set(e, ERR_INVALID, "a malformed request line");
	r->connect = !strcmp(r->method, "CONNECT");
	if (r->connect)
		return authority(target, len, 0, r, e);
	if (len < 8 || strncasecmp(target, "http://", 7))
		return err_set(e, ERR_INVALID, "this is the proxy of a berth sandbox: it takes CONNECT and http:// addresses");
	target += 7;
	len -= 7;
	for (host = 0; host < len && target[host] != '/' && target[host] != '?' && target[host] != '#'; host++)
		;
	path = target + host;
	if (authority(target, host, 80, r, e) < 0)
		return -1;
	if (buf_addf(out, e, "%s %s", r->method, host < len && *path == '/' ? "" : "/") < 0 ||
	    buf_add(out, path, len - host, e) < 0 || buf_addf(out, e, " %.8s\r\nHost: %s", version, r->host) < 0)
		return -1;
	return buf_addf(out, e, r->port == 80 ? "\r\n" : ":%u\r\n", (unsigned)r->port);
}

int httphead_is(const struct httphead_text *name, const char *what)
{
	return name->n == strlen(what) && !strncasecmp(name->p, what, name->n);
}

int httphead_body(const struct httphead_text *name, const struct httphead_text *value, struct httphead_framing *f,
		  struct httpbody *body, struct err *e)
{
	char text[24];

	if (httphead_is(name, "Content-Length")) {
		if (f->length_seen++ || value->n >= sizeof(text))
			return err_set(e, ERR_INVALID, "a malformed or repeated Content-Length");
		memcpy(text, value->p, value->n);
		text[value->n] = '\0';
		body->kind = HTTPBODY_LENGTH;
		return num_u64(text, "Content-Length", 0, INT64_MAX, &body->left, e);
	}
	if (httphead_is(name, "Transfer-Encoding")) {
		if (f->chunked_seen++ || value->n != 7 || strncasecmp(value->p, "chunked", 7))
			return err_set(e, ERR_INVALID, "a Transfer-Encoding other than chunked");
		body->kind = HTTPBODY_CHUNKED;
	}
	return 0;
}

int httphead_body_end(const struct httphead_framing *f, struct httpbody *body, struct err *e)
{
	if (f->length_seen && f->chunked_seen)
		return err_set(e, ERR_INVALID, "both Content-Length and Transfer-Encoding");
	body->done = body->kind == HTTPBODY_NONE || (body->kind == HTTPBODY_LENGTH && !body->left);
	return 0;
}

int httphead_field(const struct httphead_text *l, struct httphead_text *ret_name, struct httphead_text *ret_value, struct err *e)
{
	const char *colon = memchr(l->p, ':', l->n);
	struct httphead_text name = { l->p, colon ? (size_t)(colon - l->p) : 0 }, value;

	/* no space before the colon, no folded lines: httphead_is_token() refuses both */
	if (!colon || !httphead_is_token(name.p, name.n))
		return err_set(e, ERR_INVALID, "a malformed header");
	value = (struct httphead_text){ colon + 1, l->n - name.n - 1 };
	while (value.n && (*value.p == ' ' || *value.p == '\t'))
		value.p++, value.n--;
	while (value.n && (value.p[value.n - 1] == ' ' || value.p[value.n - 1] == '\t'))
		value.n--;
	*ret_name = name;
	*ret_value = value;
	return 0;
}

static int proxied_field(const struct httphead_text *l, struct httphead_framing *f, struct httpreq *r, struct buf *out, struct err *e)
{
	static const char *const dropped[] = {	/* headers of this hop, or made anew */
		"Host", "Connection", "Proxy-Connection", "Proxy-Authorization", "Keep-Alive", "TE", "Upgrade",
	};
	struct httphead_text name, value;
	size_t i;

	if (httphead_field(l, &name, &value, e) < 0 || httphead_body(&name, &value, f, &r->body, e) < 0)
		return -1;
	if (r->connect)
		return 0;
	for (i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++)
		if (httphead_is(&name, dropped[i]))
			return 0;
	return buf_add(out, l->p, l->n, e) < 0 ? -1 : buf_adds(out, "\r\n", e);
}

int httpreq_parse(const char *p, size_t n, struct httpreq *ret, struct buf *out, struct err *e)
{
	size_t head = httphead_end(p, n), count = 0;
	const char *end = p + head, *at = p;
	struct httphead_framing f = { 0 };
	struct httpreq r = { .head_len = head };
	struct httphead_text l;

	if (!head || head > HTTPREQ_HEAD_MAX)
		return head || n >= HTTPREQ_HEAD_MAX ? err_set(e, ERR_INVALID, "the request's head is over %d bytes", HTTPREQ_HEAD_MAX) : 0;
	if (httphead_line(&at, end, &l, e) < 0 || request_line(&l, &r, out, e) < 0)
		return -1;
	for (;;) {
		if (httphead_line(&at, end, &l, e) < 0)
			return -1;
		if (!l.n)
			break;
		if (++count > HTTPREQ_HEADERS_MAX)
			return err_set(e, ERR_INVALID, "more than %d headers", HTTPREQ_HEADERS_MAX);
		if (proxied_field(&l, &f, &r, out, e) < 0)
			return -1;
	}
	if (httphead_body_end(&f, &r.body, e) < 0)
		return -1;
	if (!r.connect && buf_adds(out, "Connection: close\r\n\r\n", e) < 0)
		return -1;
	*ret = r;
	return 1;
}

/* ---- the body -------------------------------------------------------------------- */

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Takes one byte outside of a chunk's data: 0, or -1. */
static int chunk_byte(struct httpbody *b, char c)
{
	if (++b->line > 4096)
		return -1;
	switch (b->state) {
	case CHUNK_SIZE:
		if (hex(c) >= 0 && b->line <= 15) {
			b->left = b->left * 16 + (unsigned)hex(c);
			return 0;
		}
		if (b->line < 2)
			return -1;
		b->state = c == '\r' ? CHUNK_SIZE_LF : CHUNK_EXTENSION;
		return c == '\r' || c == ';' || c == ' ' ? 0 : -1;
	case CHUNK_EXTENSION:
		if (c == '\r')
			b->state = CHUNK_SIZE_LF;
		return c == '\n' || c == '\0' ? -1 : 0;
	case CHUNK_SIZE_LF:
		b->state = b->left ? CHUNK_DATA : TRAILER;
		b->line = 0;
		return c == '\n' ? 0 : -1;
	case CHUNK_CR:
		b->state = CHUNK_LF;
		return c == '\r' ? 0 : -1;
	case CHUNK_LF:
		b->state = CHUNK_SIZE;
		b->line = 0;
		return c == '\n' ? 0 : -1;
	case TRAILER:
		b->state = c == '\r' ? TRAILER_END : TRAILER_LINE;
		return c == '\n' || c == '\0' ? -1 : 0;
	case TRAILER_LINE:
		if (c == '\r')
			b->state = TRAILER_LF;
		return c == '\n' || c == '\0' ? -1 : 0;
	case TRAILER_LF:
		b->state = TRAILER;
		return c == '\n' ? 0 : -1;
	default:	/* TRAILER_END */
		b->done = 1;
		return c == '\n' ? 0 : -1;
	}
}

long httpbody_take(struct httpbody *b, const char *p, size_t n)
{
	size_t at = 0, some;

	while (at < n && !b->done) {
		if (b->kind == HTTPBODY_LENGTH || b->state == CHUNK_DATA) {
			some = n - at < b->left ? n - at : (size_t)b->left;
			at += some;
			b->left -= some;
			if (!b->left && b->kind == HTTPBODY_LENGTH) {
				b->done = 1;
			} else if (!b->left) {
				b->state = CHUNK_CR;
				b->line = 0;
			}
		} else if (chunk_byte(b, p[at++]) < 0) {
			return -1;
		}
	}
	return (long)at;
}

/* ---- SOCKS5 ---- */

long socksreq_greeting(const unsigned char *p, size_t n)
{
	if (n < 2 || n < 2U + p[1])
		return n >= 1 && p[0] != 5 ? -1 : 0;
	if (p[0] != 5 || !memchr(p + 2, 0, p[1]))
		return -1;
	return 2 + p[1];
}

int socksreq_parse(const unsigned char *p, size_t n, struct socksreq *ret)
{
	struct socksreq r = { 0 };
	size_t len;

	if (n < 5)
		return 0;
	if (p[0] != 5 || p[2] != 0)
		return -SOCKS_FAILURE;
	if (p[1] != 1)	/* CONNECT alone: BIND and UDP go round the proxy's checks */
		return -SOCKS_BAD_COMMAND;
	len = p[3] == 1 ? 4 : p[3] == 4 ? 16 : p[3] == 3 ? 1U + p[4] : 0;
	if (!len)
		return -SOCKS_BAD_ADDRESS;
	if (n < 4 + len + 2)
		return 0;
	if (p[3] == 3) {
		if (len == 1 || memchr(p + 5, 0, len - 1))
			return -SOCKS_BAD_ADDRESS;
		memcpy(r.host, p + 5, len - 1);
	} else {
		inet_ntop(p[3] == 1 ? AF_INET : AF_INET6, p + 4, r.host, sizeof(r.host));
	}
	r.port = (uint64_t)p[4 + len] << 8 | p[5 + len];
	r.len = 4 + len + 2;
	*ret = r;
	return 1;
}
