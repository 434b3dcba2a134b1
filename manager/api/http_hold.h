/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_hold - the bytes of request bodies that berthd holds whole, for all requests under way.
 *
 * They have one bound together (S42), and a tenant may hold four fifths of what the others leave
 * of it: so stalled uploads keep nobody else out (S43). Administrators together count as one
 * tenant.
 */
#ifndef BERTH_MANAGER_API_HTTP_HOLD_H
#define BERTH_MANAGER_API_HTTP_HOLD_H

#include "manager/api/http.h"

#define HTTP_HOLD_MAX (40u << 20)	/* of all; one request may have 32 MiB while it is alone */

struct http_share;

/* Zeroed: nothing is held. */
struct http_hold {
	struct http_server *server;
	struct http_share *share;	/* NULL: an administrator's */
	size_t bytes;
};

/* Takes n bytes more for this request: 0, or ERR_LIMIT with nothing changed. */
int http_hold_take(struct http_request *rq, struct http_hold *h, size_t n, struct err *e);
/* Gives all of it back; also after the request has ended. */
void http_hold_end(struct http_hold *h);

#endif
