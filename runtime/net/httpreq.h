/* SPDX-License-Identifier: Apache-2.0 */
/*
 * httpreq - the head of one request to the proxy, and where its body ends.
 *
 * Pure, fed with hostile bytes. One request a connection: we forward the head rewritten for its
 * server ("Connection: close"), then exactly the body, so that nothing can follow for a server
 * or a name that was not checked. Anything that two parsers could read in two ways is refused
 * (RFC 9112, 11.2).
 */
#ifndef BERTH_RUNTIME_NET_HTTPREQ_H
#define BERTH_RUNTIME_NET_HTTPREQ_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define HTTPREQ_HEAD_MAX 16384
#define HTTPREQ_HEADERS_MAX 100

enum httpbody_kind { HTTPBODY_NONE, HTTPBODY_LENGTH, HTTPBODY_CHUNKED };

struct httpbody {
	enum httpbody_kind kind;
	uint64_t left;		/* of the length, or of the chunk */
	int state;		/* of the chunk parser */
	unsigned line;		/* bytes of the line so far */
	int done;
};

struct httpreq {
	char method[24];
	int connect;
	char host[300];		/* as spelled, brackets included */
	uint64_t port;
	size_t head_len;	/* bytes of the input that were the head */
	struct httpbody body;
};

/*
 * 1: a whole head was read, and unless it is a CONNECT out gets what to send to
 * the server.  0: more is needed.  -1: ERR_INVALID, to be answered with 400.
 */
int httpreq_parse(const char *p, size_t n, struct httpreq *ret, struct buf *out, struct err *e);
/* How many of the n bytes belong to the body; sets done at its end.  -1 when it is malformed. */
long httpbody_take(struct httpbody *b, const char *p, size_t n);

#endif
