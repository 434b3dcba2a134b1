/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcphub - the `berth mcp` processes behind the route /mcp.
 *
 * A session is one such process, with the sandboxes that it makes: a tenant's are the tenant's
 * (--tenant).  A client of a revision with sessions has one of its own; all clients of one token
 * without sessions share one.  A thread reads what the process answers and hands it to the
 * request that waits for it, by a number that takes the place of the client's id.  A session
 * that is unused for MCPHUB_IDLE_MS is ended, and so is its process at the end of berthd,
 * whichever way that ends: the process sees the end of its input.
 */
#ifndef BERTH_MANAGER_API_MCPHUB_H
#define BERTH_MANAGER_API_MCPHUB_H

#include <stdint.h>

#include "manager/api/http.h"

#define MCPHUB_SESSIONS_MAX 128		/* in all */
#define MCPHUB_TENANT_MAX 8		/* of one token, besides the shared one and those that end */
#define MCPHUB_IDLE_MS 3600000

struct mcphub;
struct mcphub_session;

/* A request under way; owned by its caller from mcphub_ask() to mcphub_end_call(). */
struct mcphub_call {
	int fd;			/* readable when mcphub_next() has something */
	uint64_t number;	/* its id and progress token towards the process */
	json_t *id, *token;	/* the client's; token may be NULL */
	int works;		/* it calls a tool */
	json_t *queue;		/* messages that came */
	size_t bytes;		/* of the largest that was taken, as text */
	size_t waiting;		/* of the largest in queue */
	struct mcphub_session *session;
	struct mcphub_call *next;
};

struct mcphub *mcphub_new(void);
/* Ends every process and waits for them, at most ms. */
/* The tokens were read again: ends the sessions of clients that do not hold their role any more. */
void mcphub_reload(struct mcphub *h, int (*holds)(void *ctx, const struct http_who *who), void *ctx);
void mcphub_free(struct mcphub *h, unsigned ms);

/*
 * A new session; ERR_LIMIT. mcphub_put() gives a returned session back. Clients may leave
 * without a DELETE: a caller with MCPHUB_TENANT_MAX sessions loses the one unused for the
 * longest time, among those that have called no tool and so have no sandbox.
 */
struct mcphub_session *mcphub_open(struct mcphub *h, struct http_request *rq, struct err *e);
/* The caller's own session of that id, or NULL. */
struct mcphub_session *mcphub_find(struct mcphub *h, struct http_request *rq, const char *id);
/* The one that requests without a session share. */
struct mcphub_session *mcphub_shared(struct mcphub *h, struct http_request *rq, struct err *e);
void mcphub_put(struct mcphub_session *s);
const char *mcphub_id(const struct mcphub_session *s);
/* Ends its process, and with it the sandboxes that it made. */
void mcphub_end(struct mcphub_session *s);

/* Sends the request message, which it changes; 0, or -1 with e and nothing to end. */
int mcphub_ask(struct mcphub_session *s, json_t *message, struct mcphub_call *ret, struct err *e);
/* Sends a notification of the client, which it changes. */
int mcphub_tell(struct mcphub_session *s, json_t *message, struct err *e);
/*
 * 1 with the next message for the call, a new reference, with the client's id or token; 0: none
 * yet; -1 with e: the process has ended.
 */
int mcphub_next(struct mcphub_call *c, json_t **ret, struct err *e);
/* cancel: everything that it has started ends, if it has not. */
void mcphub_end_call(struct mcphub_call *c, int cancel);

#endif
