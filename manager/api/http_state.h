/* SPDX-License-Identifier: Apache-2.0 */
/* http_state - what the parts of the HTTP server share; for manager/api/http*.c only. */
#ifndef BERTH_MANAGER_API_HTTP_STATE_H
#define BERTH_MANAGER_API_HTTP_STATE_H

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/histogram.h"
#include "manager/api/http.h"

#define HTTP_LISTENERS_MAX 8
#define HTTP_SPARE 32	/* connections of a TCP socket that no tenant gets */
#define HTTP_ROOT 16	/* connections of a unix socket beside all others that only root gets */
#define HTTP_ENDING 64	/* connections that are ending, beside those that have a place */
#define HTTP_RETRY_AFTER "1"	/* seconds */

/* Where a connection is; the watchdog knows how long each may last. */
enum http_phase { PHASE_NEW, PHASE_IDLE, PHASE_HEAD, PHASE_BODY, PHASE_RUN, PHASE_WRITE };

/* The present use of the server by a tenant, for all connections of one name. */
struct http_share {
	struct http_share *next;
	char name[65];
	struct http_share_limits limits;
	unsigned generation;	/* of the configuration they are of */
	uint64_t connections, requests, streams;
	size_t held;			/* bytes of bodies (http.h) */
};

struct http_conn {
	struct http_conn *next, *prev;
	struct http_server *server;
	struct http_listener *listener;
	/* the tenant's, or NULL: an administrator's, or unknown yet */
	struct http_share *share;
	int fd;
	int needs_token, is_tcp;
	int refused;			/* the peer is not allowed, or the place was needed: it is ending */
	char peer[65];			/* "uid:0" */
	char address[65];		/* the same with what tells one peer from another: "127.0.0.1:40312" */
	_Atomic int phase;
	_Atomic uint64_t since_ms;	/* of the phase, or of its last progress */
	struct http_request *rq;
};

struct http_listener {
	struct MHD_Daemon *daemon;
	struct http_server *server;
	int needs_token, is_tcp;
	int fd;				/* the listening socket */
	pthread_t door;			/* http_accept.c */
	int has_door;
	_Atomic unsigned places;	/* connections, those that are ending too */
	char full[1024];		/* the reply to a connection without a place */
};

struct http_server {
	struct http_options o;
	struct http_listener listeners[HTTP_LISTENERS_MAX];
	int count;
	pthread_mutex_t lock;		/* guards conns, shares and all that is in them, tenants */
	struct http_conn *conns;
	struct http_share *shares;
	unsigned tenants;		/* connections that are tenants' */
	size_t held, held_by_admins;	/* bytes of bodies: of all, of administrators */
	_Atomic unsigned generation;	/* of the limits of shares */
	pthread_t watchdog;
	int watchdog_runs;
	_Atomic int stopping;		/* no keep-alive any more */
	int stop_fd;			/* readable: handlers end now */
	int ending_fd;			/* readable: those of endless replies do */
	_Atomic uint64_t requests[6], refused, connections, active;
	struct histogram took, run_took, exec_took, create_took;	/* all requests; those that did what such routes do */
};

struct http_pair {
	const char *name;	/* of the route's table, or in target */
	const char *value;
};

struct http_request {
	struct http_server *server;
	struct http_conn *conn;
	struct MHD_Connection *mhd;
	char *target;			/* as it came; then cut up */
	const char *method, *url, *version;	/* the library's, in its buffer */
	char path[200];			/* the begin of the target as it came, without the query, which may hold keys */
	const struct http_route *route;
	struct http_who who;
	struct http_pair params[HTTP_PARAMS_MAX], query[HTTP_QUERY_MAX];
	size_t param_count, query_count;
	char names[HTTP_PARAMS_MAX][32];
	int begun;			/* the head was looked at */
	int known;			/* the client is known */
	unsigned generation;		/* of the tokens by which it is */
	int endless;			/* http_endless() */
	int half_open;			/* http_half_open() */
	int failed;			/* e is set: nothing more is read */
	int crowded;			/* its tenant has too many connections */
	struct http_share *share;	/* where it counts, or NULL */
	int hasty;			/* it was answered before its body was there */
	struct err e;
	int error_status;
	json_t *(*error_shape)(const struct err *e);	/* comes before that of the route */
	uint64_t discarded;
	struct buf body;
	struct http_hold *body_hold;	/* NULL: none */
	json_t *json;
	void *data;
	void (*release)(void *data);
	void (*undo)(struct http_request *rq, const char *what);	/* of a reply that cannot be sent; or NULL */
	char undone[65];
	json_t *audit;
	struct MHD_Response *response;
	struct http_hijack hijack;	/* run is NULL: none */
	char hijack_type[64];
	int status;
	uint64_t started_ms, started_us;
	struct trace trace;		/* of a server with traces; trace_id "": none */
};

void http_phase_set(struct http_conn *c, enum http_phase p);
/* ERR_DENIED when its token was removed, or has another role, since the request began; cheap. */
int http_check_rights(struct http_request *rq, struct err *e);

/*
 * http_limits.c. That the JSON body of rq has n bytes by now: those over HTTP_JSON_FREE count among
 * what is held, until the second.
 */
#define HTTP_JSON_FREE (256u << 10)
int http_hold_json(struct http_request *rq, size_t n, struct err *e);
void http_hold_json_end(struct http_request *rq);
/* http_head.c: everything that is decided before the body; -1 with e and rq->error_status. */
int http_head_check(struct http_request *rq, struct err *e);

/*
 * http_limits.c. enter: for a request of a known client; ERR_LIMIT if it has too many connections
 * (rq->crowded: this one must end) or requests.
 */
int http_share_enter(struct http_request *rq, struct err *e);
void http_share_leave(struct http_request *rq);
/*
 * With the lock held: a connection has ended; a new one arrived, and an idle one is closed for
 * it if there is hardly room.
 */
void http_share_close(struct http_conn *c);
void http_share_make_room(struct http_listener *l);
void http_shares_free(struct http_server *s);

/* http_reply.c: of a client that asked for no upgrade; then the connection ends. */
void http_hijack_plain(struct http_request *rq);
void http_hijack_release(struct http_request *rq);

/* http_reply.c */
int http_reply_set(struct http_request *rq, int status, const char *type, struct MHD_Response *r,
		   struct err *e);
void http_reply_error(struct http_request *rq, const struct err *e);

/* http_accept.c: serves the listening socket of l until the server ends; then close, which takes the thread. */
int http_door_open(struct http_listener *l, struct err *e);
void http_door_close(struct http_listener *l);
/* The places that the socket has for everybody. */
unsigned http_door_places(const struct http_listener *l);

/* http_limits.c */
int http_watch_start(struct http_server *s, struct err *e);
void http_watch_stop(struct http_server *s);
/*
 * The reply is out and the rest of a body may be on its way: it is thrown away, within limits, until the client
 * closes, for a socket that is closed before that resets the connection, and with it the reply (RFC 9112 9.6).
 */
void http_linger(struct http_conn *c);

#endif
