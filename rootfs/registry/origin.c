/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S15 of SECURITY.md. */
#include "rootfs/registry/origin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static int is_host_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static int malformed_origin(const char *what, const char *url, const char *why, struct err *e)
{
	return err_set(e, ERR_INVALID, "%s '%.200s' %s", what, url, why);
}

/*
 * Tells whether host looks like a number: "127.1", "0x7f000001" and "017700000001" are addresses to
 * getaddrinfo(3).
 */
static int looks_numeric(const char *host)
{
	const char *last = strrchr(host, '.');

	last = last ? last + 1 : host;
	if (last[0] == '0' && last[1] == 'x')
		return 1;
	return *last && !last[strspn(last, "0123456789")];
}

static int host_ok(const char *host)
{
	struct in6_addr six;
	struct in_addr four;
	char inner[64];
	size_t n = strlen(host), i;

	if (!n)
		return 0;
	if (host[0] == '[') {
		if (n < 4 || n - 2 >= sizeof(inner) || host[n - 1] != ']')
			return 0;
		memcpy(inner, host + 1, n - 2);
		inner[n - 2] = '\0';
		return inet_pton(AF_INET6, inner, &six) == 1;
	}
	if (looks_numeric(host))
		return inet_pton(AF_INET, host, &four) == 1;
	if (!is_host_alnum(host[0]) || !is_host_alnum(host[n - 1]))
		return 0;
	for (i = 1; i < n; i++)
		if (!is_host_alnum(host[i]) && host[i] != '-' && host[i] != '_' &&
		    (host[i] != '.' || host[i - 1] == '.'))
			return 0;
	return 1;
}

/* Parses HOST[:PORT], n bytes; the host becomes lower case. */
static int parse_authority(const char *s, size_t n, struct origin *o)
{
	size_t host = n, i;
	unsigned int port = 0;

	if (n && s[0] == '[') {
		const char *close = memchr(s, ']', n);

		if (!close)
			return -1;
		host = (size_t)(close - s) + 1;
	} else {
		const char *colon = memchr(s, ':', n);

		if (colon)
			host = (size_t)(colon - s);
	}
	if (host >= sizeof(o->host))
		return -1;
	for (i = 0; i < host; i++)
		o->host[i] = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] - 'A' + 'a') : s[i];
	o->host[host] = '\0';
	if (!host_ok(o->host))
		return -1;
	if (host == n)
		return 0;
	if (s[host] != ':' || n - host < 2 || n - host > 6)
		return -1;
	for (i = host + 1; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		port = port * 10 + (unsigned int)(s[i] - '0');
	}
	if (!port || port > 65535)
		return -1;
	o->port = port;
	return 0;
}

int origin_parse(const char *url, const char *what, struct origin *ret, const char **ret_path, struct err *e)
{
	struct origin o = { 0 };
	const char *s, *p;

	for (p = url; *p; p++)
		if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f || strchr("\\\"<>^`{}|", *p))
			return malformed_origin(what, url, "has a character that a URL cannot have", e);
	if ((size_t)(p - url) >= ORIGIN_URL_MAX)
		return malformed_origin(what, url, "is too long", e);
	if (!strncasecmp(url, "https://", 8)) {
		o.tls = 1;
		o.port = 443;
		s = url + 8;
	} else if (!strncasecmp(url, "http://", 7)) {
		o.port = 80;
		s = url + 7;
	} else {
		return malformed_origin(what, url, "is neither http:// nor https://", e);
	}
	if (memchr(s, '@', strcspn(s, "/?#")))
		return malformed_origin(what, url, "has a user name in it", e);
	if (parse_authority(s, strcspn(s, "/?#"), &o) < 0)
		return malformed_origin(what, url, "has no host and port that could be trusted", e);
	s += strcspn(s, "/?#");
	if (strchr(s, '#'))
		return malformed_origin(what, url, "has a fragment", e);
	if (ret_path)
		*ret_path = s;
	*ret = o;
	return 0;
}

int origin_from_host(const char *host, int tls, struct origin *ret, struct err *e)
{
	struct origin o = { .tls = tls, .port = tls ? 443 : 80 };

	if (parse_authority(host, strlen(host), &o) < 0)
		return malformed_origin("registry", host, "is not HOST or HOST:PORT", e);
	*ret = o;
	return 0;
}

int origin_equal(const struct origin *a, const struct origin *b)
{
	return a->tls == b->tls && a->port == b->port && !strcmp(a->host, b->host);
}

void origin_format(const struct origin *o, char ret[ORIGIN_TEXT_MAX])
{
	char port[16] = "";

	if (o->port != (o->tls ? 443U : 80U))
		snprintf(port, sizeof(port), ":%u", o->port);
	snprintf(ret, ORIGIN_TEXT_MAX, "http%s://%s%s", o->tls ? "s" : "", o->host, port);
}

static int has_scheme(const char *s)
{
	size_t n = 0;

	while ((s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') ||
	       (n && ((s[n] >= '0' && s[n] <= '9') || strchr("+-.", s[n] ? s[n] : ' '))))
		n++;
	return n && s[n] == ':';
}

int origin_resolve(const char *base, const char *location, char ret[ORIGIN_URL_MAX], struct err *e)
{
	struct origin o;
	const char *path = "", *slash;
	char start[ORIGIN_TEXT_MAX];
	size_t n = strcspn(location, "#"), dir;
	int len;

	if (origin_parse(base, "URL", &o, &path, e) < 0)
		return -1;
	origin_format(&o, start);
	if (!n)
		return malformed_origin("redirect", location, "leads nowhere", e);
	if (has_scheme(location)) {
		len = snprintf(ret, ORIGIN_URL_MAX, "%.*s", (int)n, location);
	} else if (location[0] == '/' && location[1] == '/') {
		len = snprintf(ret, ORIGIN_URL_MAX, "http%s:%.*s", o.tls ? "s" : "", (int)n, location);
	} else if (location[0] == '/') {
		len = snprintf(ret, ORIGIN_URL_MAX, "%s%.*s", start, (int)n, location);
	} else {
		dir = strcspn(path, "?");
		if (location[0] != '?') {
			for (slash = path + dir; slash > path && slash[-1] != '/'; slash--)
				;
			dir = (size_t)(slash - path);
		}
		len = snprintf(ret, ORIGIN_URL_MAX, "%s%.*s%s%.*s", start, (int)dir, path,
			       dir || location[0] == '?' ? "" : "/", (int)n, location);
	}
	if (len < 0 || len >= ORIGIN_URL_MAX)
		return malformed_origin("redirect", location, "is too long", e);
	return origin_parse(ret, "redirect to", &o, NULL, e);
}

/* ---- addresses ---- */

static enum address_class classify4(uint32_t a)
{
	if (a >> 24 == 127)
		return ADDRESS_LOOPBACK;
	if (a >> 24 == 0 || a >> 28 >= 0xe || a >> 16 == 0xa9fe)
		return ADDRESS_NEVER;
	if (a >> 24 == 10 || a >> 20 == 0xac1 || a >> 16 == 0xc0a8 || a >> 22 == 0x191)
		return ADDRESS_PRIVATE;
	/* the cloud metadata address that is not link-local (Alibaba) lies in 100.64/10, which is private */
	return ADDRESS_PUBLIC;
}

static enum address_class classify6(const unsigned char a[16])
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff }, nat64[12] = { 0, 0x64, 0xff, 0x9b },
				   zero[15] = { 0 };
	uint32_t four = (uint32_t)a[12] << 24 | (uint32_t)a[13] << 16 | (uint32_t)a[14] << 8 | a[15];

	if (!memcmp(a, mapped, 12) || !memcmp(a, nat64, 12))
		return classify4(four);
	if (!memcmp(a, zero, 15))
		return a[15] == 1 ? ADDRESS_LOOPBACK : ADDRESS_NEVER;
	if (!memcmp(a, zero, 12))	/* ::a.b.c.d, long gone */
		return ADDRESS_NEVER;
	if (a[0] == 0xff || (a[0] == 0xfe && (a[1] & 0xc0) == 0x80))
		return ADDRESS_NEVER;
	if ((a[0] & 0xfe) == 0xfc || (a[0] == 0xfe && (a[1] & 0xc0) == 0xc0))
		return ADDRESS_PRIVATE;
	if (a[0] == 0x20 && a[1] == 0x02)	/* 6to4 */
		return classify4((uint32_t)a[2] << 24 | (uint32_t)a[3] << 16 | (uint32_t)a[4] << 8 | a[5]);
	return ADDRESS_PUBLIC;
}

enum address_class address_classify(const struct sockaddr *sa)
{
	if (sa->sa_family == AF_INET)
		return classify4(ntohl(((const struct sockaddr_in *)(const void *)sa)->sin_addr.s_addr));
	if (sa->sa_family == AF_INET6)
		return classify6(((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr.s6_addr);
	return ADDRESS_NEVER;
}

int origin_is_address(const struct origin *o, enum address_class *ret_class)
{
	unsigned char six[16];
	struct in_addr four;
	char inner[64];

	if (o->host[0] == '[') {
		snprintf(inner, sizeof(inner), "%.*s", (int)strlen(o->host) - 2, o->host + 1);
		if (inet_pton(AF_INET6, inner, six) != 1)
			return 0;
		if (ret_class)
			*ret_class = classify6(six);
		return 1;
	}
	if (inet_pton(AF_INET, o->host, &four) != 1)
		return 0;
	if (ret_class)
		*ret_class = classify4(ntohl(four.s_addr));
	return 1;
}

const char *address_class_name(enum address_class c)
{
	static const char *const names[] = { "public", "private", "loopback", "link-local or reserved" };

	return names[c];
}
