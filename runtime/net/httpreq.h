/* SPDX-License-Identifier: Apache-2.0 */
/*
 * httpreq - parses the head of one request to the proxy, and finds the end of its body.
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

struct httpbody;

/* ---- the parts of a head, for every parser of one ---- */

struct httphead_text {
	const char *p;
	size_t n;
};

/* What was said of the length of the body so far. */
struct httphead_framing {
	int length_seen, chunked_seen;
};

/* The end of the head, behind its empty line; 0 when it is not there yet. */
size_t httphead_end(const char *p, size_t n);
/* Gives the next line without its CR LF, of a head that is whole; a bare CR, LF or NUL in it is ERR_INVALID. */
int httphead_line(const char **p, const char *end, struct httphead_text *ret, struct err *e);
/* Cuts a field's line: no space before the colon, no folded line; the value without the blanks around it. */
int httphead_field(const struct httphead_text *line, struct httphead_text *ret_name, struct httphead_text *ret_value, struct err *e);
int httphead_is_token(const char *p, size_t n);
/* Whether the name of a field is that, in any case. */
int httphead_is(const struct httphead_text *name, const char *what);
/* Takes a field that may be about the body: Content-Length once, Transfer-Encoding once and only chunked. */
int httphead_body(const struct httphead_text *name, const struct httphead_text *value, struct httphead_framing *f,
		  struct httpbody *body, struct err *e);
/* At the head's end: both ideas of a length are ERR_INVALID, and a body without bytes is done. */
int httphead_body_end(const struct httphead_framing *f, struct httpbody *body, struct err *e);

enum httpbody_kind { HTTPBODY_NONE, HTTPBODY_LENGTH, HTTPBODY_CHUNKED };

struct httpbody {
	enum httpbody_kind kind;
	uint64_t left;		/* bytes left of the length, or of the chunk */
	int state;		/* state of the chunk parser */
	unsigned line;		/* bytes of the line so far */
	int done;
};

struct httpreq {
	char method[24];
	int connect;
	char host[300];		/* as spelled, brackets included */
	uint64_t port;
	size_t head_len;	/* bytes of the input that belong to the head */
	struct httpbody body;
};

/*
 * Parses a head. 1: it is whole, and unless it is a CONNECT out gets the bytes to send to the
 * server. 0: more bytes are needed. -1: ERR_INVALID, to be answered with 400.
 */
int httpreq_parse(const char *p, size_t n, struct httpreq *ret, struct buf *out, struct err *e);
/* Returns how many of the n bytes belong to the body; sets done at its end. -1 if it is malformed. */
long httpbody_take(struct httpbody *b, const char *p, size_t n);

/* ---- SOCKS5 ---- */

/* socksreq - the two messages of a SOCKS5 client (RFC 1928): pure, fed with hostile bytes. */

enum { SOCKS_OK = 0, SOCKS_FAILURE = 1, SOCKS_NOT_ALLOWED = 2, SOCKS_NET_UNREACHABLE = 3, SOCKS_HOST_UNREACHABLE = 4,
	SOCKS_REFUSED = 5, SOCKS_BAD_COMMAND = 7, SOCKS_BAD_ADDRESS = 8 };

struct socksreq {
	char host[300];
	uint64_t port;
	size_t len;	/* bytes of the input that the message has */
};

/* Reads the greeting: its length if it offers "no authentication", 0 if more bytes are needed, else -1. */
long socksreq_greeting(const unsigned char *p, size_t n);
/* Reads the request: 1, 0 if more bytes are needed, or -SOCKS_* to answer with. */
int socksreq_parse(const unsigned char *p, size_t n, struct socksreq *ret);

#endif
