/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange - one HTTP request of berth-http, to its end: logging in,
 * redirects, retries, and taking up a broken download where it broke.
 *
 * Built on libcurl's multi interface; nothing here blocks.  What libcurl would
 * decide by itself is decided here: it follows no redirect, knows no
 * credential, no cookie, no .netrc, and no protocol but http and https.
 *
 * Every exchange belongs to a site, the registry the operator named.  A
 * credential or token goes to the site's own scheme, host and port only; to an
 * auth realm elsewhere only by the rule in auth.c.
 */
#ifndef BERTH_ROOTFS_HTTP_EXCHANGE_H
#define BERTH_ROOTFS_HTTP_EXCHANGE_H

#include "rootfs/http/http.h"

void exchange_init(struct exchange *x, struct http *h, struct http_site *site, const char *method);
/* Begins; done() may be called before it returns. */
void exchange_start(struct exchange *x);
void exchange_release(struct exchange *x);
/* From the beginning, on another site: the bytes handed on stay. */
void exchange_move(struct exchange *x, struct http_site *site);

/* Returns 1 with the error if no registry may send us to the address to, even through a proxy. */
int exchange_refuses(const struct exchange *x, const struct origin *to, struct err *e);

/* One turn of the loop: waits for the network, sock or timers; at most timeout_ms. */
int http_turn(struct http *h, int sock, int timeout_ms, struct err *e);
/* The site of an origin, made when absent. */
struct http_site *http_site(struct http *h, const struct origin *o, struct err *e);

/* ---- auth.c ---- */

/*
 * The Authorization line for this attempt; the caller frees it. NULL with err.code 0 if there is
 * none.
 */
char *auth_header(struct exchange *x, struct err *e);
/*
 * After a 401. 0: the exchange continues, now or when it has the token. -1 with err set: it is
 * over.
 */
int auth_challenged(struct exchange *x, struct err *e);

#endif
