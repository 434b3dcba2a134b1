/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head - the heads of a request to a preview and of its answer: parsed, judged, and written anew.
 *
 * Pure, fed with hostile bytes from both sides.  Anything that two parsers could read in two ways
 * is refused (RFC 9112, 11.2).  What the server in the sandbox gets has no field of berth's: no
 * token, no cookie with one, no X-Forwarded-* of the client's.  What the client gets changes
 * nothing of another origin: no cookie with a Domain, none of ours, no Clear-Site-Data.
 */
#ifndef BERTH_RUNTIME_PREVIEW_HEAD_H
#define BERTH_RUNTIME_PREVIEW_HEAD_H

#include "runtime/net/httpreq.h"

#define PREVIEWHEAD_TOKEN 400		/* bytes of what came as a token, of one kind */
#define PREVIEWHEAD_PARAM "berth_token"	/* in a query */
#define PREVIEWHEAD_FIELD "X-Berth-Token"
#define PREVIEWHEAD_COOKIE "berth-preview"
#define PREVIEWHEAD_SECURE "__Host-berth-preview"

/* How a client has reached us. */
struct previewhead_from {
	const char *address;	/* of the client */
	int secure;		/* over TLS */
};

struct previewhead {
	char host[256];		/* lower case, without its port */
	char authority[264];	/* Host as it came */
	/* what may give access, "" each: by a field, by the query, by cookies (several with a blank between) */
	char field[PREVIEWHEAD_TOKEN], query[PREVIEWHEAD_TOKEN], cookie[PREVIEWHEAD_TOKEN];
	int foreign;		/* it may come from a page of another origin: the cookies give no access */
	int reads;		/* GET or HEAD */
	int head;		/* HEAD: the answer has no body */
	int websocket;
	int http10;
	int keeps;		/* the client takes another answer on this connection */
	int wants_page;		/* a person reads the answer */
	size_t target_at, target_len;	/* the target in out, without our parameter */
	size_t host_at, host_len;	/* the value of Host in out */
	size_t head_len;	/* bytes of the input that belong to the head */
	struct httpbody body;
};

/* 1: it is whole, and out gets what the server is sent. 0: more bytes are needed. -1: ERR_INVALID. */
int previewhead_request(const char *p, size_t n, const struct previewhead_from *from, struct previewhead *ret,
			struct buf *out, struct err *e);

/* Puts another Host into out, which was written for rq and of which nothing was sent yet. */
int previewhead_mask(struct previewhead *rq, const char *host, struct buf *out, struct err *e);

struct previewhead_answer {
	int status;
	int interim;		/* 1xx: another head follows */
	int until_close;	/* the body has no other end */
	int upgraded;		/* 101 of what was asked for */
	size_t head_len;
	struct httpbody body;
};

/*
 * The same for the answer to rq; keeps: the client's connection goes on afterwards, if the answer
 * has an end of its own.  out is empty for an interim answer that the client does not understand.
 */
int previewhead_answer(const char *p, size_t n, const struct previewhead *rq, int keeps, struct previewhead_answer *ret,
		       struct buf *out, struct err *e);

#endif
