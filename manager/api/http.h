/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http - the HTTP/1.1 server of berthd: a small shim over libmicrohttpd, so that
 * another server can take its place.
 *
 * Listeners (unix and TCP), a table of routes, JSON and streamed bodies and
 * replies, errors in one form, authentication, deadlines.  One thread a
 * connection: a handler may block, but only in http_wait() and http_poll(), which also see the
 * client go and the server stop.  A handler never forks (posix_spawn only).
 *
 * Life of a request: framing and Host are checked, then who asks, then the
 * route, all before a byte of the body is read; then the body, which is checked
 * against the route's schema; then the handler; then the reply.
 */
#ifndef BERTH_MANAGER_API_HTTP_H
#define BERTH_MANAGER_API_HTTP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "manager/api/otlp.h"

#define HTTP_JSON_MAX (4u << 20)	/* bytes of a JSON body: all arguments that the kernel lets a command have, as JSON */
#define HTTP_HEADER_MAX 16384		/* bytes of all header fields */
#define HTTP_HEADERS_MAX 64		/* header fields */
#define HTTP_TARGET_MAX 8192		/* bytes of the request target */
#define HTTP_PARAMS_MAX 4
#define HTTP_QUERY_MAX 32

struct http_server;
struct http_request;

/*
 * 0 with a reply set by one of http_reply_*(), or -1 with e, which becomes the
 * reply.  Runs once the body is there (HTTP_JSON) or has been fed (HTTP_RAW).
 */
typedef int http_handler(struct http_request *rq, struct err *e);
/* HTTP_RAW: before the body; may set http_set_data(). */
typedef int http_begin(struct http_request *rq, struct err *e);
/* HTTP_RAW: the next n bytes; may block in http_wait(). */
typedef int http_feed(struct http_request *rq, const char *data, size_t n, struct err *e);

enum http_body {
	HTTP_NONE,	/* a body is refused */
	HTTP_JSON,	/* one object, at most HTTP_JSON_MAX bytes, of the type application/json */
	HTTP_RAW,	/* bytes of any length, handed on as they come */
};

#define HTTP_ADMIN 1u		/* only administrators: root on the unix socket, an admin token */
#define HTTP_QUIET 2u		/* no audit line: it changes nothing */
#define HTTP_OPTIONAL 4u	/* HTTP_JSON: the body may be left out, and then is {} */
#define HTTP_ONE 16u		/* it is about http_who()->only: whoever has that one's key may ask */
/* of a path without parameters, or with one at its end: answered without a token, to a nameless http_who() */
#define HTTP_OPEN 32u
/* what it does is told in a histogram of its own (http_latencies()) */
#define HTTP_TIMED_RUN 64u
#define HTTP_TIMED_EXEC 128u
#define HTTP_TIMED_CREATE 256u
#define HTTP_ONCE 512u	/* it makes a sandbox, once for an Idempotency-Key (once.h) */
#define HTTP_UI 1024u		/* of the page: it is there only while http_options.has_ui says so */
#define HTTP_SIGN_IN 2048u	/* what a link may ask, and nothing else */
#define HTTP_UPGRADES 8u	/* it may become a stream of bytes both ways: http_reply_hijack() */

/*
 * One row of a table of routes, from which the OpenAPI document is made too.
 * Patterns are segments: "/v1/sandboxes/{id}", and as the last one "{rest...}",
 * which takes what remains with its slashes.  What comes after that, as in
 * "/images/{name...}/json", is the end of the path as it stands.
 */
struct http_route {
	const char *method;
	const char *pattern;
	http_handler *run;
	const char *summary;	/* one line for the document */
	enum http_body body;
	unsigned flags;
	const char *query;	/* "follow:boolean from:integer path!:string", '!' is required; NULL: none is taken */
	const char *request;	/* schema of the body in schema.c, or NULL: any object */
	/*
	 * "a b": the members that "args" and "kwargs" of the body stand for, if these are not
	 * a's and b's own; or NULL
	 */
	const char *positional;
	const char *response;	/* schema of a good reply, or NULL */
	/*
	 * media types of good replies that are not JSON, separated by ", ", or NULL; with
	 * response both are documented
	 */
	const char *type;
	int or_status;		/* another status of a good reply, or 0; its schema is */
	const char *or_response;
	int status;		/* of a good reply; 0 is 200 */
	http_begin *begin;	/* HTTP_RAW */
	http_feed *feed;	/* HTTP_RAW */
	/* How an error of this route is told: a new object; NULL is {"error":{code,message,remedy}}. */
	json_t *(*shape_error)(const struct err *e);
	const char *error_schema;	/* of what shape_error makes; NULL: Detail */
};

/* Who asks. */
struct http_who {
	char name[65];		/* of the token, or "uid:0"; "": a client without a token, of an HTTP_OPEN route */
	int admin;
	char only[65];		/* the one sandbox that may be asked about, or "": all */
	unsigned char token[32];	/* the hash of its token; zeros: of any of its name */
	unsigned char session[32];	/* the hash of its session of the page, or zeros */
	int link;			/* it came by a link, for HTTP_SIGN_IN alone */
	uint64_t ends_ms;		/* when its session does, by clock_ms(); 0: never */
};

/* The limits of one tenant at a time; 0: no limit. */
struct http_share_limits {
	uint64_t connections, requests, streams;
};

/*
 * How requests of a foreign protocol are read: every peer that the socket's mode admits is an
 * administrator; unknown query parameters are accepted, and the type of a JSON body is not
 * checked.
 */
struct http_foreign {
	/* The path without the version in front of it, or NULL with e; it may be changed. */
	char *(*strip)(char *path, int *ret_status, struct err *e);
	json_t *(*shape_error)(const struct err *e);
	const char *const *headers;	/* name, value, ...; of every reply; ends with NULL */
};

struct http_options {
	const struct http_route *const *tables;	/* the last is NULL; each ends with a row without method */
	void *context;			/* what http_context() returns */
	unsigned max_connections;
	const char *allowed_hosts;	/* "name name": Host fields taken over TCP besides loopback's */
	const char *allowed_origins;	/* "https://x https://y": Origin fields taken; others are refused */
	uint64_t header_ms, body_ms, write_ms, idle_ms;	/* deadlines; 0 is the built-in one */
	/* How a holder of X-API-Key is told of a path that is not there; NULL: like others. */
	json_t *(*shape_unknown)(const struct err *e);
	/* Authenticates a bearer token: 1 with *ret, 0 unknown.  Constant in time for any token of a length. */
	int (*check_token)(void *context, const char *token, struct http_who *ret);
	/* Whether a client that was known has its rights still, after http_share_reload(); NULL: it has. */
	int (*holds)(void *context, const struct http_who *who);
	/*
	 * Looks for a key of one sandbox in the fields and the target: 1 with *ret; 0 without a
	 * known one; -1 with e, which is the reply. May be NULL.
	 */
	int (*check_key)(void *context, struct http_request *rq, struct http_who *ret,
			 struct err *e);
	/* The limits of a tenant; NULL: nobody has any.  Asked again after http_share_reload(). */
	void (*share_of)(void *context, const struct http_who *who, struct http_share_limits *ret);
	/* Whether routes with HTTP_UI are there; NULL: they are not. */
	int (*has_ui)(void *context);
	/* Each audit line once it is written, borrowed; may be NULL. */
	void (*on_audit)(void *context, const json_t *line);
	/* Where each request that is not quiet is told of when it has ended; NULL: nowhere.  Borrowed. */
	struct otlp *otlp;
	/* For a foreign protocol (Docker's); NULL for our own. */
	const struct http_foreign *foreign;
};

/* Makes a server without a listener.  tables and strings stay valid as long as it. */
struct http_server *http_new(const struct http_options *o, struct err *e);
/*
 * Serves a listening socket, which it takes over. needs_token: without a valid bearer token
 * everything is 401. Otherwise the peer must be root or the user who runs berthd (SO_PEERCRED).
 */
int http_listen(struct http_server *s, int fd, int needs_token, struct err *e);
/* Limits of tenants may be others from now on. */
void http_share_reload(struct http_server *s);
/* Takes no new connections, waits for requests under way up to grace_ms, ends the others, frees s. */
void http_stop(struct http_server *s, unsigned grace_ms);

/* ---- what a handler asks ---- */

void *http_context(const struct http_request *rq);
const struct http_who *http_who(const struct http_request *rq);
/* The value of {name} in the pattern: never NULL. */
const char *http_param(const struct http_request *rq, const char *name);
/* The value of a query parameter that the route declares, or NULL. */
const char *http_query(const struct http_request *rq, const char *name);
/* Value i of a parameter that the route declares as "strings": it may occur several times. */
const char *http_query_each(const struct http_request *rq, const char *name, size_t i);
/* The declared type was checked: these cannot fail. */
uint64_t http_query_u64(const struct http_request *rq, const char *name, uint64_t preset);
int http_query_bool(const struct http_request *rq, const char *name);
/* Whether the client came over TCP. */
int http_is_tcp(const struct http_request *rq);
/* The address and port of the first TCP socket that is served, as in a URL: 0, or ERR_NOT_FOUND without one. */
int http_tcp_address(struct http_request *rq, char *ret, size_t n, struct err *e);
/* The request's place in a trace, to pass on: "" when none is kept. */
void http_traceparent(const struct http_request *rq, char ret[TRACEPARENT_MAX]);
/* The token that came with the request, borrowed, or NULL. */
const char *http_bearer(const struct http_request *rq);
/* The method, and the target as it came; after check_key() the target is cut up behind its version. */
const char *http_method(const struct http_request *rq);
/* Of its route. */
const char *http_pattern(const struct http_request *rq);
const char *http_target(const struct http_request *rq);
/* Takes the escapes of a query's text (%20, +) away, in place; -1 for what is malformed. */
int http_unescape(char *s);
/* A header field, or NULL. */
const char *http_header(const struct http_request *rq, const char *name);
/*
 * Calls each for every header field whose name begins like that, in any case, with the rest of the name;
 * it returns -1 with e to end this.
 */
int http_each_field(const struct http_request *rq, const char *prefix,
		    int (*each)(void *ctx, const char *rest, const char *value, struct err *e),
		    void *ctx, struct err *e);
/* The JSON body, borrowed: an object that fits the route's schema. */
json_t *http_json(const struct http_request *rq);
/* Something of the handler's that lives as long as the request. */
void http_set_data(struct http_request *rq, void *data, void (*release)(void *data));
void *http_data(const struct http_request *rq);
/*
 * If the reply cannot be sent, undo gets what (at most 64 bytes, copied) before the request ends; it may
 * run a program, but not wait for the client.
 */
void http_undo_unsent(struct http_request *rq, void (*undo)(struct http_request *rq, const char *what), const char *what);
/* Adds a member to the audit line; the value is escaped. */
void http_audit(struct http_request *rq, const char *key, const char *value);
/*
 * The reply ends only with the client or with us: it gets no time to end when the server stops.
 * ERR_LIMIT if the client has too many such replies.
 */
int http_endless(struct http_request *rq, struct err *e);
/*
 * Waits for events on fd (-1: none), at most wait_ms (-1: for ever): 1 ready, 0 time
 * is over, -1 with e when the client is gone (ERR_NET) or the server stops (ERR_BUSY).
 */
int http_wait(struct http_request *rq, int fd, short events, int wait_ms, struct err *e);
/* The same for several descriptors, of which there are at most HTTP_POLLS_MAX. */
struct pollfd;
int http_poll(struct http_request *rq, struct pollfd *p, size_t n, int wait_ms, struct err *e);
/* From now on http_poll() leaves it to its caller to see that the client has gone: one that has sent its end still reads. */
void http_half_open(struct http_request *rq);
#define HTTP_POLLS_MAX 6

/* ---- what a handler answers; each at most once ---- */

/* Consumes j.  status 0 is the route's. */
int http_reply_json(struct http_request *rq, int status, json_t *j, struct err *e);
/* Takes over n bytes of malloc'ed data. */
int http_reply_data(struct http_request *rq, int status, const char *type, char *data, size_t n, struct err *e);
int http_reply_empty(struct http_request *rq, int status, struct err *e);
/* A header field of the reply; after http_reply_*(). */
int http_reply_header(struct http_request *rq, const char *name, const char *value, struct err *e);
/*
 * A streamed reply: read() is called until it returns 0 (the end) or -1 (the connection is cut,
 * so that the client notices); it may block in http_wait(). release is always called.
 */
struct http_stream {
	ssize_t (*read)(void *ctx, struct http_request *rq, char *buf, size_t max);
	void (*release)(void *ctx);
	void *ctx;
};
int http_reply_stream(struct http_request *rq, int status, const char *type, const struct http_stream *st, struct err *e);
/* Whether the client asked for an upgrade: without one a hijack has no reply for http_reply_header(). */
int http_asks_for_upgrade(const struct http_request *rq);
/*
 * The connection as a stream of bytes both ways, once the reply's head is out: 101 where the client
 * asked for an upgrade, else 200.  run() has the thread, waits in http_poll() on fd, which does not
 * block, too, and may end at any time; extra are bytes that came already.  release is called in
 * every case.
 */
struct http_hijack {
	void (*run)(void *ctx, struct http_request *rq, int fd, const char *extra, size_t n);
	void (*release)(void *ctx);
	void *ctx;
	const char *upgrade;	/* what the reply's Upgrade says; NULL: "tcp" */
};
int http_reply_hijack(struct http_request *rq, const char *type, const struct http_hijack *h,
		      struct err *e);
/* Sets the status that an error of this request gets instead of its code's. */
void http_error_status(struct http_request *rq, int status);
/* The status of a reply with this error. */
int http_error_of(const struct http_request *rq, const struct err *e);
/* The form of the body of such a reply, where no route decides it. */
void http_error_shape(struct http_request *rq, json_t *(*shape)(const struct err *e));
/* {"error":{"code","message","remedy"}} */
json_t *http_error_json(const struct err *e);

/* Counters for /metrics. */
struct http_counts {
	uint64_t connections, refused;		/* now; ever */
	uint64_t requests[6];			/* by the status' first digit */
	uint64_t active;			/* requests under way */
};
void http_counts(const struct http_server *s, struct http_counts *ret);
/* The histograms of how long requests took, from the head to the last byte of the reply. */
int http_latencies(struct http_server *s, struct buf *out, struct err *e);

/*
 * http_hold - the bytes of request bodies that berthd holds whole, for all requests under way.
 *
 * They have one bound together (S42), and a tenant may hold four fifths of what the others leave
 * of it: so stalled uploads keep nobody else out (S43). Administrators together count as one
 * tenant.
 */

#define HTTP_HOLD_MAX (40u << 20)	/* of all; one request may have 32 MiB while it is alone */

struct http_share;

/* Zeroed: nothing is held. */
struct http_hold {
	struct http_server *server;
	struct http_share *share;	/* NULL: an administrator's */
	size_t bytes;
};

/* Takes n bytes more for this request: 0, or ERR_LIMIT with nothing changed. */
int http_hold_take(struct http_request *rq, struct http_hold *h, size_t n, struct err *e);
/* Gives all of it back; also after the request has ended. */
void http_hold_end(struct http_hold *h);

#endif
