/* SPDX-License-Identifier: Apache-2.0 */
/*
 * uisession - who is signed in to the page of berthd, in memory alone: they end with berthd.
 *
 * A link is asked for over the unix socket and can be exchanged once, soon, for a session with the
 * rights of who asked.  A session is a bearer token with an end, which the page sends as a field:
 * a cookie would go to every port of the same host, and so to what sandboxes serve there.
 * Only hashes are kept.
 */
#ifndef BERTH_MANAGER_API_UISESSION_H
#define BERTH_MANAGER_API_UISESSION_H

#include "manager/api/http.h"

#define UISESSION_SECRET 80	/* the size of the text of a link or a session */
#define UISESSION_LINKS_MAX 16	/* links of one name that wait; another is refused */
#define UISESSION_EACH_MAX 8	/* sessions of one name; another takes the place of the oldest */

struct uisessions;

struct uisessions *uisessions_new(void);
void uisessions_free(struct uisessions *u);
/* A link for who, good for life_ms: its text in ret.  ERR_LIMIT when too many wait. */
int uisessions_link(struct uisessions *u, const struct http_who *who, uint64_t life_ms, char ret[UISESSION_SECRET],
		    struct err *e);
/* A session for who, which came by a token or a link. */
int uisessions_open(struct uisessions *u, const struct http_who *who, uint64_t life_ms, char ret[UISESSION_SECRET],
		    struct err *e);
/* Whether a bearer token looks like one of these, and so is none of the file's. */
int uisessions_is_one(const char *token);
/* 1 with *ret, or 0.  A link is used up by this, wherever it came. */
int uisessions_check(struct uisessions *u, const char *token, struct http_who *ret);
/* Whether the session of who, if it came by one, goes on. */
int uisessions_hold(struct uisessions *u, const struct http_who *who);
/* Ends the session by which who came; without one nothing. */
void uisessions_end(struct uisessions *u, const struct http_who *who);
/* Ends those, and the links, of whom holds() says no. */
void uisessions_reload(struct uisessions *u, int (*holds)(void *context, const struct http_who *who), void *context);

#endif
