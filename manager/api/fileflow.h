/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fileflow - a file helper whose stdout is a reply, or whose stdin is a body.
 *
 * What goes out is looked at before its status is told: until its first bytes
 * are there an error of the helper (no such file, a FIFO, a link that leads
 * nowhere) is still an error of the request.
 */
#ifndef BERTH_MANAGER_API_FILEFLOW_H
#define BERTH_MANAGER_API_FILEFLOW_H

#include <stdint.h>
#include <sys/types.h>

#include "manager/api/http.h"
#include "manager/keeper/fileclient.h"

struct fileflow {
	struct fileclient client;
	int started;
	int upload;		/* we write, it reads */
	int pipe_fd;		/* our end, or -1 */
	char first[4096];	/* read before the status was sent */
	size_t first_n, first_at;
};

void fileflow_init(struct fileflow *f);
/*
 * Releases it; the helper ends with its client's connection. That of an upload which has not ended
 * is shut down here, and the file stays as it was.
 */
void fileflow_release(struct fileflow *f);
/* Starts the helper over sock (borrowed) with argv as fileclient_start(); out: we read what it writes. */
int fileflow_start(struct fileflow *f, int sock, const char *const *argv, const char *user, uint64_t timeout_ms, int out,
		   struct err *e);
/* Waits for the first bytes, or for the end: an error of the helper that has written nothing is -1 with e. */
int fileflow_first(struct fileflow *f, struct http_request *rq, struct err *e);
/* The next bytes, 0 at a good end, -1; after fileflow_first(). */
ssize_t fileflow_more(struct fileflow *f, struct http_request *rq, char *buf, size_t max, struct err *e);
/* The same, for the read() of a struct http_stream. */
ssize_t fileflow_read(struct fileflow *f, struct http_request *rq, char *buf, size_t max);
/*
 * Writes bytes of the body to the helper. If the helper has ended early, that is no error here:
 * fileflow_end() gives the reason.
 */
int fileflow_feed(struct fileflow *f, struct http_request *rq, const char *data, size_t n, struct err *e);
/* The body is whole: waits for the helper's last word. */
int fileflow_end(struct fileflow *f, struct filecounts *ret, struct err *e);

/*
 * listing - the entries of a directory in a sandbox, one at a time as the file helper sends
 * them.
 *
 * The helper sorts, in the sandbox and with the sandbox's memory. Here there is one record and
 * the JSON on its way, for any number of entries. Upholds S42 of SECURITY.md.
 */

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
