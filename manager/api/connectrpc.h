/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connectrpc - the request of a stream of the Connect protocol: one message in an envelope
 * (connectrpc.com/docs/protocol, "Enveloped-Message").  The reply's are estream's.
 */
#ifndef BERTH_MANAGER_API_CONNECTRPC_H
#define BERTH_MANAGER_API_CONNECTRPC_H

#include "manager/api/http.h"

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
