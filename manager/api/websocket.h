/* SPDX-License-Identifier: Apache-2.0 */
/*
 * websocket - the server's side of RFC 6455, on a connection that a request has become.
 *
 * Messages of a client are whole, and at most WEBSOCKET_MAX bytes; pings are answered, and sent while
 * nothing else is.  What is sent waits until the client takes it, so a slow reader slows the sender.
 * It counts as an endless reply of its client (S43), and ends with its client's rights (S53).
 * Upholds S63 of SECURITY.md.
 */
#ifndef BERTH_MANAGER_API_WEBSOCKET_H
#define BERTH_MANAGER_API_WEBSOCKET_H

#include <poll.h>

#include "base/buf.h"
#include "base/err.h"
#include "manager/api/http.h"
#include "manager/api/wsframe.h"

#define WEBSOCKET_PING_MS 20000

struct websocket {
	struct http_request *rq;
	int fd;
	struct buf in, message;	/* bytes as they came; the parts of a message */
	enum websocket_op kind;	/* of the message that is not whole yet */
	int closed;
};

/*
 * The reply becomes a WebSocket, with subprotocol, one of those that the client offered, or NULL.  run() has the thread
 * and may block in websocket_*(); release(ctx) in every case, also after an error.
 */
int websocket_reply(struct http_request *rq, const char *subprotocol, void (*run)(void *ctx, struct websocket *w),
		    void (*release)(void *ctx), void *ctx, struct err *e);
/* Whether the request asks for one. */
int websocket_is_asked(const struct http_request *rq);
/* Whether it asks as it should: 0, or ERR_INVALID. */
int websocket_check(const struct http_request *rq, struct err *e);
/* Whether the client offers a subprotocol that begins like that; the whole name in ret, of n bytes. */
int websocket_offers(const struct http_request *rq, const char *prefix, char *ret, size_t n);

/*
 * Waits for the client or for one of p, whose revents are set: 1 with a message in *ret_data (there until the next
 * call), 0 when one of p is ready, -1 when the client has closed or gone, or the server stops.  reads 0: no
 * message is taken.
 */
int websocket_wait(struct websocket *w, struct pollfd *p, size_t n, int reads, enum websocket_op *ret_op, const char **ret_data,
		   size_t *ret_n, struct err *e);
/* 0 once the client has taken it, or -1. */
int websocket_send(struct websocket *w, enum websocket_op op, const void *data, size_t n, struct err *e);
/* Says goodbye; reason is cut to what a frame holds. */
void websocket_close(struct websocket *w, unsigned code, const char *reason);

#endif
