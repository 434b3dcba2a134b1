/* SPDX-License-Identifier: Apache-2.0 */
/* form - a body of multipart/form-data (RFC 7578), whole in memory.  Pure. */
#ifndef BERTH_MANAGER_API_BODY_H
#define BERTH_MANAGER_API_BODY_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct form_part {
	char name[64], filename[4096]; /* "" when none is said, or it is too long */
	const char *data;
	size_t n;
};

/* The boundary of its parts, from the field Content-Type (NULL: there is none); ERR_INVALID. */
int form_boundary(const char *type, char ret[80], struct err *e);
/* Calls each() for every part, in order, until it is not 0; ERR_INVALID for what is malformed. */
int form_each(const struct buf *form, const char *boundary,
	      int (*each)(void *ctx, const struct form_part *p, struct err *e), void *ctx,
	      struct err *e);

/*
 * formstream - a body of multipart/form-data as it comes, of any length: at most FORMSTREAM_ROOM bytes are held.
 *
 * The receiver bounds the bytes of a part.  Pure; its owner calls formstream_release().
 */

#define FORMSTREAM_ROOM 32768

struct formstream {
	/* A part begins, goes on, ends: 0, or -1 with e, which ends all. */
	int (*begin)(void *ctx, const struct form_part *p, struct err *e);
	int (*data)(void *ctx, const char *data, size_t n, struct err *e);
	int (*end)(void *ctx, struct err *e);
	void *ctx;
	char separator[90];
	struct buf held;
	int state;
};

/* boundary as of form_boundary(). */
void formstream_init(struct formstream *f, const char *boundary);
void formstream_release(struct formstream *f);
int formstream_feed(struct formstream *f, const char *data, size_t n, struct err *e);
/* The body has ended: 0, or -1 with ERR_INVALID when the form has not. */
int formstream_end(const struct formstream *f, struct err *e);

/*
 * gunzip - a request body with Content-Encoding: gzip, inflated as it comes.
 *
 * It holds one window of zlib's and GUNZIP_ROOM bytes, however much the body inflates to.  The
 * receiver of the inflated bytes bounds them, as it bounds the bytes of a plain body.
 */

#define GUNZIP_ROOM 65536

struct gunzip;

/* Takes n inflated bytes: 0; 1 when it needs no more of them; -1 with e. */
typedef int gunzip_take(void *ctx, const char *data, size_t n, struct err *e);

/* NULL with ERR_NOMEM. */
struct gunzip *gunzip_new(struct err *e);
void gunzip_free(struct gunzip *g);
/*
 * Inflates the next n bytes of the body (RFC 1952: one member or several) and gives what comes out
 * to take().  0 or -1 with e: that of take(), or ERR_INVALID when this is not gzip data.
 */
int gunzip_feed(struct gunzip *g, const char *data, size_t n, gunzip_take *take, void *ctx,
		struct err *e);
/* The body has ended: 0, or -1 with ERR_INVALID when the gzip data has not. */
int gunzip_end(const struct gunzip *g, struct err *e);

#endif
