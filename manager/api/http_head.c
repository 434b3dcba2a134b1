/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S18 of SECURITY.md. */
/*
 * Everything that is decided about a request before its body is read: framing, Host and Origin,
 * the client, the route, and whether the body may be sent at all.
 *
 * The order matters: a client without a token learns nothing, not even which paths exist.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/api/http_state.h"

static int refuse_request(struct http_request *rq, int status, struct err *e, enum err_code code, const char *text)
{
	rq->error_status = status;
	return err_set(e, code, "%s", text);
}

/* ---- framing ----------------------------------------------------------------- */

struct head {
	size_t fields, bytes;
	int lengths, encodings, hosts, auths, keys, access, traffic, types, bad;
	const char *next;	/* where a field begins when the one before it ended with CR LF */
	int torn;
};

static enum MHD_Result count_field(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
	struct head *h = cls;
	const char *p;

	(void)kind;
	h->torn |= key != h->next;
	h->next = value ? value + strlen(value) + 2 : NULL;
	h->fields++;
	h->bytes += strlen(key) + (value ? strlen(value) : 0) + 4;
	h->lengths += !strcasecmp(key, "Content-Length");
	h->encodings += !strcasecmp(key, "Transfer-Encoding");
	h->hosts += !strcasecmp(key, "Host");
	h->auths += !strcasecmp(key, "Authorization");
	h->keys += !strcasecmp(key, "X-API-Key");
	h->access += !strcasecmp(key, "X-Access-Token");
	h->traffic += !strcasecmp(key, "E2B-Traffic-Access-Token");
	h->types += !strcasecmp(key, "Content-Type");
	/* RFC 9110 5.6.2: a name is a token; "Content-Length : 5" is how requests are smuggled */
	h->bad |= !key[0] || key[strspn(key, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")];
	for (p = value ? value : ""; *p; p++)
		h->bad |= (unsigned char)*p < 0x20 && *p != '\t';
	return MHD_YES;
}

/*
 * libmicrohttpd before 0.9.76 takes a lone LF for the end of a line, joins folded lines (RFC
 * 9112 5.2), and drops the part of a field after a NUL: other servers would read another
 * request. It parses in place, overwrites the bytes of a line's end with 0, and reports the size
 * of the whole. So each part of the head must begin where the one before it ended, and the last
 * must end where the head does; a folded field was moved away. Later versions refuse all of it
 * by themselves (MHD_OPTION_STRICT_FOR_CLIENT).
 */
static int is_lenient(void)
{
	const char *v = MHD_get_version();

	return !strncmp(v, "0.9.", 4) && strtoul(v + 4, NULL, 10) < 76;
}

/* Whether method, target and version are parted by one space each. */
static int is_torn_line(const struct http_request *rq)
{
	return rq->url != rq->method + strlen(rq->method) + 1 || rq->version != rq->url + strlen(rq->target) + 1;
}

static int is_torn_end(const struct http_request *rq, const char *next)
{
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(rq->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

	return !i || !next || next + 2 != rq->method + i->header_size;
}

static int check_framing(struct http_request *rq, struct err *e)
{
	struct head h = { .next = rq->version + strlen(rq->version) + 2 };
	const char *te, *cl;
	uint64_t n;

	MHD_get_connection_values(rq->mhd, MHD_HEADER_KIND, count_field, &h);
	if (h.fields > HTTP_HEADERS_MAX || h.bytes > HTTP_HEADER_MAX)
		return refuse_request(rq, 431, e, ERR_LIMIT, "the request's header is too large; hint: 64 fields, 16 KiB");
	if (h.bad)
		return refuse_request(rq, 400, e, ERR_INVALID, "a header field is malformed");
	if (is_lenient() && (h.torn || is_torn_line(rq) || is_torn_end(rq, h.next)))
		return refuse_request(rq, 400, e, ERR_INVALID, "the header has a line that does not end with CR LF, is folded, or has a NUL in it");
	te = http_header(rq, "Transfer-Encoding");
	cl = http_header(rq, "Content-Length");
	/* RFC 9112 6.3: two ideas of where a request ends */
	if (h.lengths > 1 || h.encodings > 1 || (te && cl))
		return refuse_request(rq, 400, e, ERR_INVALID, "the request's length is given twice");
	if (te && strcasecmp(te, "chunked"))
		return refuse_request(rq, 501, e, ERR_UNSUPPORTED, "the only Transfer-Encoding known is chunked");
	if (cl && num_u64(cl, "Content-Length", 0, UINT64_MAX >> 1, &n, e) < 0)
		return refuse_request(rq, 400, e, ERR_INVALID, "Content-Length is not a number");
	if (h.hosts > 1 || h.auths > 1 || h.types > 1 || h.keys > 1 || h.access > 1 ||
	    h.traffic > 1)
		return refuse_request(rq, 400, e, ERR_INVALID, "a header field that may come once came twice");
	return 0;
}

/* ---- where it comes from -------------------------------------------------------- */

/* Whether list has this whole word. */
static int listed(const char *list, const char *s, size_t n)
{
	const char *p = list ? list : "";

	for (;;) {
		size_t len;

		p += strspn(p, " ,");
		if (!*p)
			return 0;
		len = strcspn(p, " ,");
		if (len == n && !strncasecmp(p, s, n))
			return 1;
		p += len;
	}
}

/* A page of a foreign site that a browser resolves to us says so in Host (DNS rebinding, CVE-2025-66414). */
static int check_request_host(struct http_request *rq, struct err *e)
{
	static const char loopback[] = "localhost 127.0.0.1 [::1]";
	const char *host = http_header(rq, "Host"), *end;
	size_t n;

	if (!rq->conn->is_tcp)
		return 0;
	if (!host)
		return refuse_request(rq, 400, e, ERR_INVALID, "the request has no Host");
	end = host[0] == '[' ? strchr(host, ']') : NULL;
	n = end ? (size_t)(end + 1 - host) : strcspn(host, ":");
	if (host[n] && (host[n] != ':' || !host[n + 1] || host[n + 1 + strspn(host + n + 1, "0123456789")]))
		return refuse_request(rq, 400, e, ERR_INVALID, "Host is malformed");
	if (!listed(loopback, host, n) && !listed(rq->server->o.allowed_hosts, host, n))
		return refuse_request(rq, 403, e, ERR_DENIED, "this Host is not served; hint: daemon.allowed_hosts");
	return 0;
}

/*
 * A page of this server's own address; check_request_host() has checked that the name in Host is ours
 * (RFC 6454).
 */
static int is_own_origin(struct http_request *rq, const char *origin)
{
	const char *host = http_header(rq, "Host"), *at = strstr(origin, "://");

	return rq->conn->is_tcp && host && at && !strcasecmp(at + 3, host) &&
	       (!strncmp(origin, "http://", 7) || !strncmp(origin, "https://", 8));
}

static int check_origin(struct http_request *rq, struct err *e)
{
	const char *origin = http_header(rq, "Origin");

	/* a browser sends it, and no other client has a reason to */
	if (origin && !is_own_origin(rq, origin) && !listed(rq->server->o.allowed_origins, origin, strlen(origin)))
		return refuse_request(rq, 403, e, ERR_DENIED, "requests from web pages are refused; hint: daemon.allowed_origins");
	return 0;
}

/* E2B's clients have it in fields of their own, with a word in front, and say the user in Authorization. */
const char *http_bearer(const struct http_request *rq)
{
	static const char scheme[] = "Bearer ", e2b[] = "e2b_";
	const char *auth = http_header(rq, "Authorization"), *key;

	if (auth && !strncasecmp(auth, scheme, sizeof(scheme) - 1))
		return auth + sizeof(scheme) - 1;
	key = http_header(rq, "X-API-Key");
	if (!key) {
		key = http_header(rq, "X-Access-Token");
		if (!key)
			key = http_header(rq, "E2B-Traffic-Access-Token");
		if (key && strchr(key, '.'))
			key = strchr(key, '.') + 1; /* behind a sandbox's id (e2b.h) */
	}
	return key && !strncmp(key, e2b, sizeof(e2b) - 1) ? key + sizeof(e2b) - 1 : key;
}

/* Whether the route is there at all. */
static int is_served(const struct http_request *rq, const struct http_route *r)
{
	const struct http_options *o = &rq->server->o;

	return !(r->flags & HTTP_UI) || (o->has_ui && o->has_ui(o->context));
}

/* Of a pattern without parameters, or with one at its end; a query is taken from nobody unknown. */
static int is_path_of(const char *pattern, const char *target)
{
	const size_t n = strcspn(pattern, "{");

	if (!pattern[n])
		return !strcmp(pattern, target);
	return !pattern[n + strcspn(pattern + n, "}") + 1] && !strncmp(pattern, target, n) && !strpbrk(target + n, "/?");
}

/* Upholds S18 of SECURITY.md. */
/* A probe of a load balancer or of an orchestrator, which has no token; a browser, for the files of the page. */
static int is_open(const struct http_request *rq)
{
	const struct http_route *const *t, *r;

	for (t = rq->server->o.tables; *t; t++)
		for (r = *t; r->method; r++)
			if (!strcmp(r->method, rq->method) && is_path_of(r->pattern, rq->target) && is_served(rq, r))
				return (r->flags & HTTP_OPEN) != 0;	/* the route that will be found */
	return 0;
}

static int check_who(struct http_request *rq, struct err *e)
{
	const char *token = http_bearer(rq);
	struct http_server *s = rq->server;
	int r = s->o.check_key ? s->o.check_key(s->o.context, rq, &rq->who, e) : 0;

	if (r)
		return r > 0 ? 0 : -1;

	if (!token && !http_header(rq, "Authorization") && !rq->conn->needs_token) {
		snprintf(rq->who.name, sizeof(rq->who.name), "%s", rq->conn->peer);
		rq->who.admin = 1;
		return 0;
	}
	/* the work is the same for a missing token, a wrong one and a good one */
	if (s->o.check_token(s->o.context, token ? token : "", &rq->who))
		return 0;
	if (token)
		return refuse_request(rq, 401, e, ERR_DENIED, "berthd does not know this token; "
			      "hint: one of the file that [daemon] token_file names; a reload of berthd reads it again");
	return !http_header(rq, "Authorization") && is_open(rq) ? 0 : refuse_request(rq, 401, e, ERR_DENIED, "a bearer token is wanted");
}

/* ---- the route ------------------------------------------------------------------- */

/* In place; NUL and control bytes have no business in a name or a path. */
static int unescape_url(char *s, int plus, struct err *e)
{
	char *out = s;

	for (; *s; s++) {
		int c = (unsigned char)*s;

		if (c == '%') {
			c = hex_byte(s + 1);
			if (c < 0)
				return err_set(e, ERR_INVALID, "the request's target has a %% that escapes nothing");
			s += 2;
			if (!c)
				return err_set(e, ERR_INVALID, "the request's target has a NUL byte");
		} else if (c == '+' && plus) {
			c = ' ';
		} else if (c <= 0x20 || c >= 0x7f) {
			return err_set(e, ERR_INVALID, "the request's target has a byte that must be escaped");
		}
		*out++ = (char)c;
	}
	*out = '\0';
	return 0;
}

/* Whether something comes before the tail of path. */
static int ends_with(const char *path, const char *tail)
{
	size_t n = strlen(path), t = strlen(tail);

	return n > t && !strcmp(path + n - t, tail);
}

const char *http_method(const struct http_request *rq)
{
	return rq->method;
}

const char *http_target(const struct http_request *rq)
{
	return rq->target;
}

int http_unescape(char *s)
{
	struct err ignored;

	return unescape_url(s, 1, &ignored);
}

/* Matches path, which stays as it is: 1, and the parameters with copies in rq. */
static int match_route(struct http_request *rq, const char *pattern, char *path)
{
	size_t n = 0;

	while (*pattern == '/' && *path == '/') {
		size_t plen = strcspn(++pattern, "/"), len = strcspn(++path, "/");

		if (pattern[0] == '{') {
			int rest = plen > 5 && !strncmp(pattern + plen - 4, "...}", 4);

			if ((!len && !rest) || n == HTTP_PARAMS_MAX)
				return 0;
			if (rest && pattern[plen] && !ends_with(path, pattern + plen))
				return 0;
			snprintf(rq->names[n], sizeof(rq->names[n]), "%.*s", (int)(plen - (rest ? 5 : 2)), pattern + 1);
			rq->params[n] = (struct http_pair){ rq->names[n], path };
			n++;
			rq->param_count = n;
			if (rest)
				return 1;
		} else if (plen != len || strncmp(pattern, path, len)) {
			return 0;
		}
		pattern += plen;
		path += len;
	}
	rq->param_count = n;
	return !*pattern && !*path;
}

/* The values point into the target; each ends at the next slash, which becomes its end. */
static int finish_params(struct http_request *rq, struct err *e)
{
	size_t i;

	for (i = 0; i < rq->param_count; i++) {
		char *v = (char *)(size_t)rq->params[i].value;
		const char *tail = i + 1 < rq->param_count ? NULL :
				   strstr(rq->route->pattern, "...}");

		if (!tail)
			v[strcspn(v, "/")] = '\0';
		else
			v[strlen(v) - strlen(tail + 4)] = '\0';
	}
	for (i = 0; i < rq->param_count; i++)
		if (unescape_url((char *)(size_t)rq->params[i].value, 0, e) < 0)
			return -1;
	return 0;
}

/* "name:type" or "name!:type" of the declaration: NULL when it has no such name. */
static const char *declared_type(const char *declaration, const char *name)
{
	const char *p = declaration ? declaration : "";
	size_t n = strlen(name);

	while (*p) {
		size_t len = strcspn(p, ":!");

		if (len == n && !strncmp(p, name, n))
			return p + len + (p[len] == '!') + 1;
		p += strcspn(p, " ");
		p += strspn(p, " ");
	}
	return NULL;
}

static int check_query_value(const char *name, const char *type, const char *value, struct err *e)
{
	uint64_t n;

	if (!strncmp(type, "integer", 7))
		return num_u64(value, name, 0, UINT64_MAX >> 1, &n, e);
	if (!strncmp(type, "boolean", 7) && strcmp(value, "true") && strcmp(value, "false"))
		return err_set(e, ERR_INVALID, "query parameter %s is neither true nor false", name);
	return 0;
}

static int check_required(struct http_request *rq, struct err *e)
{
	const char *p = rq->route->query ? rq->route->query : "";
	char name[40];

	while (*p) {
		size_t len = strcspn(p, ":!");

		snprintf(name, sizeof(name), "%.*s", (int)len, p);
		if (p[len] == '!' && !http_query(rq, name))
			return err_set(e, ERR_INVALID, "query parameter %s is missing", name);
		p += strcspn(p, " ");
		p += strspn(p, " ");
	}
	return 0;
}

static int cut_request_query(struct http_request *rq, char *q, struct err *e)
{
	char *part, *save = NULL;

	for (part = q ? strtok_r(q, "&", &save) : NULL; part; part = strtok_r(NULL, "&", &save)) {
		char *value = part + strcspn(part, "=");
		const char *type;

		if (rq->query_count == HTTP_QUERY_MAX)
			return err_set(e, ERR_LIMIT, "more than %d query parameters", HTTP_QUERY_MAX);
		if (*value)
			*value++ = '\0';
		if (unescape_url(part, 1, e) < 0 || unescape_url(value, 1, e) < 0)
			return -1;
		type = declared_type(rq->route->query, part);
		if (!type && !rq->server->o.foreign)
			return err_set(e, ERR_INVALID, "a query parameter is unknown here; hint: /openapi.json lists them");
		if (type && strncmp(type, "strings", 7) && http_query(rq, part))
			return err_set(e, ERR_INVALID, "query parameter %s came twice", part);
		if (type && check_query_value(part, type, value, e) < 0)
			return -1;
		rq->query[rq->query_count++] = (struct http_pair){ part, value };
	}
	return check_required(rq, e);
}

/* Cuts up rq->target and finds the route. */
static int http_route_find(struct http_request *rq, struct err *e)
{
	const struct http_foreign *f = rq->server->o.foreign;
	char *path = rq->target, *query = strchr(path, '?');
	const struct http_route *const *t, *r;
	int other = 0;

	if (path[0] != '/')
		return refuse_request(rq, 400, e, ERR_INVALID, "the request's target is not a path");
	if (query)
		*query++ = '\0';
	if (f && !(path = f->strip(path, &rq->error_status, e)))
		return -1;
	for (t = rq->server->o.tables; *t; t++) {
		for (r = *t; r->method; r++) {
			if (!match_route(rq, r->pattern, path) || !is_served(rq, r))
				continue;
			if (!strcmp(r->method, rq->method)) {
				rq->route = r;
				if (finish_params(rq, e) < 0 || cut_request_query(rq, query, e) < 0) {
					rq->error_status = 400;
					return -1;
				}
				return 0;
			}
			other = 1;
		}
	}
	rq->param_count = 0;
	if (f)
		return refuse_request(rq, 404, e, ERR_NOT_FOUND, "page not found");
	return other ? refuse_request(rq, 405, e, ERR_USAGE, "this path does not take that method; hint: /openapi.json") :
		       refuse_request(rq, 404, e, ERR_NOT_FOUND, "no such path; hint: /openapi.json");
}

/* ---- the body ---------------------------------------------------------------------- */

static int check_body(struct http_request *rq, struct err *e)
{
	const char *type = http_header(rq, "Content-Type"), *cl = http_header(rq, "Content-Length");
	int chunked = http_header(rq, "Transfer-Encoding") != NULL;
	uint64_t n = cl ? strtoull(cl, NULL, 10) : 0;
	size_t len;

	switch (rq->route->body) {
	case HTTP_NONE:
		return n || chunked ? refuse_request(rq, 400, e, ERR_INVALID, "this request takes no body") : 0;
	case HTTP_JSON:
		if (!n && !chunked)
			return rq->route->flags & HTTP_OPTIONAL ? 0 : refuse_request(rq, 400, e, ERR_INVALID, "a JSON body is wanted");
		if (n > HTTP_JSON_MAX)
			return refuse_request(rq, 413, e, ERR_LIMIT, "the body is too large; hint: 4 MiB of JSON");
		if (rq->server->o.foreign)
			return 0;
		/* a form of a web page cannot say this without asking first (CSRF) */
		len = type ? strcspn(type, "; ") : 0;
		if (len != 16 || strncasecmp(type, "application/json", 16))
			return refuse_request(rq, 415, e, ERR_INVALID, "the body's type must be application/json");
		return 0;
	default:
		return 0;
	}
}

int http_head_check(struct http_request *rq, struct err *e)
{
	snprintf(rq->path, sizeof(rq->path), "%.*s", (int)strcspn(rq->target, "?"), rq->target);
	if (check_framing(rq, e) < 0 || check_request_host(rq, e) < 0 || check_origin(rq, e) < 0 || check_who(rq, e) < 0)
		return -1;
	rq->known = 1;
	rq->generation = atomic_load(&rq->server->generation);
	/* a nameless client counts for no tenant: its connection stays among those that have not identified themselves */
	if (rq->who.name[0] && http_share_enter(rq, e) < 0)
		return -1;
	if (strlen(rq->target) >= HTTP_TARGET_MAX)
		return refuse_request(rq, 414, e, ERR_LIMIT, "the request's target is too long");
	if (http_route_find(rq, e) < 0)
		return -1;
	if (http_header(rq, "Upgrade") && !rq->server->o.foreign && !(rq->route->flags & HTTP_UPGRADES))
		return refuse_request(rq, 400, e, ERR_UNSUPPORTED, "no other protocol is spoken here");
	if ((rq->route->flags & HTTP_ADMIN) && !rq->who.admin)
		return refuse_request(rq, 403, e, ERR_DENIED, "this needs an admin token");
	if (rq->who.only[0] && !(rq->route->flags & HTTP_ONE))
		return refuse_request(rq, 403, e, ERR_DENIED, "the key of a sandbox is not for this path");
	if (rq->who.link && !(rq->route->flags & HTTP_SIGN_IN))
		return refuse_request(rq, 403, e, ERR_DENIED, "a link is for the sign-in alone, and is used up now");
	return check_body(rq, e);
}
