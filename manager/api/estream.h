/* SPDX-License-Identifier: Apache-2.0 */
/*
 * estream - a reply of events as they come: JSON objects, one a line
 * (application/x-ndjson), or server-sent events when the client accepts
 * text/event-stream.  An error after the first byte is an event "error", the last.  For clients of
 * the Connect protocol (connectrpc.com/docs/protocol, "Server-streaming RPCs") each object has an
 * envelope around it, and the last one is {} or {"error":{code,message}}.
 */
#ifndef BERTH_MANAGER_API_ESTREAM_H
#define BERTH_MANAGER_API_ESTREAM_H

#include "manager/api/http.h"

struct estream {
	/* Adds the next part, and may block: 1 go on, 0 it was the last, -1 with e. */
	int (*next)(struct estream *s, struct http_request *rq, struct err *e);
	void (*release)(void *ctx);
	void *ctx;
	int sse, connect;
	int ended;
	struct buf out;
	size_t at;
};

#define ESTREAM_TYPES "application/x-ndjson, text/event-stream"

/* ctx is handed over, also when it fails. */
int estream_reply(struct http_request *rq, int status, int (*next)(struct estream *s, struct http_request *rq, struct err *e),
		  void (*release)(void *ctx), void *ctx, struct err *e);
/* The same for a client of the Connect protocol; its code of an error is error_code's. */
int estream_reply_connect(struct http_request *rq,
			  int (*next)(struct estream *s, struct http_request *rq, struct err *e),
			  void (*release)(void *ctx), void *ctx, struct err *e);
/* "not_found" and the like: Connect's code for an error of ours. */
const char *estream_connect_code(const struct err *e);
/* Consumes j.  id is for server-sent events; 0: none. */
int estream_add(struct estream *s, const char *event, uint64_t id, json_t *j, struct err *e);
/* A line that says nothing, so that both sides see that the other lives. */
int estream_beat(struct estream *s, struct err *e);

/* How many of the last bytes are the start of a character that goes on: 0 to 3. */
size_t estream_cut_text(const char *p, size_t n);

/*
 * connectrpc - the request of a stream of the Connect protocol: one message in an envelope
 * (connectrpc.com/docs/protocol, "Enveloped-Message").  The reply's are estream's.
 */

/* begin and feed of a route with HTTP_RAW: they keep the body, at most 1 MiB. */
int connectrpc_begin(struct http_request *rq, struct err *e);
int connectrpc_feed(struct http_request *rq, const char *data, size_t n, struct err *e);
/* The message of that body, a new reference, or NULL with ERR_INVALID or ERR_UNSUPPORTED. */
json_t *connectrpc_message(struct http_request *rq, struct err *e);
/* The same of len bytes; pure. */
json_t *connectrpc_parse(const char *body, size_t len, struct err *e);
/* Replies with the error e: a stream of one envelope, with status 200. */
int connectrpc_refuse(struct http_request *rq, struct err *e);
/* Connect-Timeout-Ms, or 0 without it; ERR_INVALID.  In envd it is the time of the process, too. */
int connectrpc_deadline(struct http_request *rq, uint64_t *ret, struct err *e);

#endif
