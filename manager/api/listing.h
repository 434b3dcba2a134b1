/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listing - the entries of a directory in a sandbox, one at a time as the file helper sends
 * them.
 *
 * The helper sorts, in the sandbox and with the sandbox's memory. Here there is one record and
 * the JSON on its way, for any number of entries. Upholds S42 of SECURITY.md.
 */
#ifndef BERTH_MANAGER_API_LISTING_H
#define BERTH_MANAGER_API_LISTING_H

#include "manager/api/fileflow.h"

/* A record: numbers, a name of 255 bytes or a path, and what a link leads to. */
#define LISTING_RECORD_MAX 12288

struct listing {
	struct fileflow flow;
	const char *flags; /* of the helper's list */
	char text[2 * LISTING_RECORD_MAX];
	size_t n, at;
};

void listing_init(struct listing *l);
void listing_release(struct listing *l);
/*
 * Asks for the entries of path over sock (borrowed), in the order of their bytes: those after the name with the bytes after (hex,
 * or "") and at most limit (0: all).  An error of the directory is -1 here.
 */
int listing_start(struct listing *l, struct http_request *rq, int sock, const char *path, const char *user, const char *after,
		  uint64_t limit, struct err *e);
/* 1 with a record that is there until the next call, 0 at the end, -1. */
int listing_next(struct listing *l, struct http_request *rq, struct filerecord *ret, struct err *e);

/*
 * A JSON document as a reply, made piece by piece: next adds the next piece to out, and returns
 * 1 to go on, 0 at the end, or -1, which cuts the connection. release is always called, also if
 * this fails.
 */
struct listing_reply {
	int (*next)(void *ctx, struct http_request *rq, struct buf *out, struct err *e);
	void (*release)(void *ctx);
	void *ctx;
};
int listing_stream(struct http_request *rq, const struct listing_reply *how, struct err *e);
/* Adds a comma unless it is the first, and j, which it consumes. */
int listing_add(struct buf *out, int *is_first, json_t *j, struct err *e);

#endif
