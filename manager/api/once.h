/* SPDX-License-Identifier: Apache-2.0 */
/*
 * once - requests with an Idempotency-Key: what such a request makes is made once, however often its
 * client repeats it.
 *
 * A key belongs to its client and its route.  The first request with it has the turn; the others wait
 * for its end and get its answer, and if it failed, the next of them has the turn.  The keys of the
 * last ONCE_MAX requests are remembered, while berthd lives, also when the sandbox has gone.  A
 * sandbox carries its key as a label (LABEL_REQUEST; for the manager's, a member of its record), by
 * which an older key, or one of an earlier berthd, is found as long as its sandbox is there.  These
 * are read once, into an index, so that a key costs the same however many sandboxes there are.
 */
#ifndef BERTH_MANAGER_API_ONCE_H
#define BERTH_MANAGER_API_ONCE_H

#include "manager/api/http.h"

#define ONCE_KEY_MAX 255
#define ONCE_MAX 4096
#define ONCE_SIZE 33	/* a hash as text */
#define ONCE_WORD_SIZE (2 * ONCE_SIZE)	/* "KEY.BODY" */

struct once_table;

/* What was made: id "" for a sandbox that the manager keeps, name "" for one without. */
struct once_made {
	char id[65], name[65];
};

/* The turn of a request; zeroed: none, which once_end() accepts. */
struct once {
	struct once_table *table;	/* NULL: it has no key */
	char key[ONCE_SIZE], body[ONCE_SIZE];
	char word[ONCE_WORD_SIZE];	/* for the label: "" without a key */
};

struct once_table *once_new(void);
void once_free(struct once_table *t);
/*
 * 0: the request is carried out, and once_end() follows.  1: that was done, with *ret, and the reply
 * is to be marked by once_replayed().  -1 with e: a malformed key, one that came with another body
 * (422), a client that has gone.
 */
int once_begin(struct once *o, struct http_request *rq, struct once_made *ret, struct err *e);
/* made: NULL for a request that failed, whose key is free again. */
void once_end(struct once *o, const struct once_made *made);
/* The reply, which is set, says that it is not the first. */
int once_replayed(struct http_request *rq, struct err *e);

#endif
