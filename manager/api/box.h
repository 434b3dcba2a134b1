/* SPDX-License-Identifier: Apache-2.0 */
/* boxlist - the records of the sandboxes that a caller may see, all or one. */
#ifndef BERTH_MANAGER_API_BOX_H
#define BERTH_MANAGER_API_BOX_H

#include "manager/api/api.h"
#include "manager/api/http.h"

/* The handler of GET /v1/sandboxes. */
int boxlist_get(struct http_request *rq, struct err *e);
/* The record of the sandbox that b found, alone, a new reference: a list of all would cost more. */
json_t *boxlist_load(struct box *b, struct err *e);
/* Adds its keeper's present answer to record. */
void boxlist_add_live(json_t *record, const json_t *answer);

/* boxcreate - POST /v1/sandboxes: a plain sandbox, or one that the manager keeps. */

int boxcreate_post(struct http_request *rq, struct err *e);

/*
 * arrival - the file of a checkpoint that comes in pieces, and becomes a sandbox of the client.
 *
 * berth checkpoint import reads it from its stdin, and removes what it made if that ends early.
 * It belongs to the request (http_set_data()), and ends with it.
 */

struct arrival_options {
	const char *name; /* or NULL */
	int trust, drop, no_start;
};

int arrival_begin(struct http_request *rq, const struct arrival_options *o, struct err *e);
/* Passes the next bytes on; if the program refuses them, the error is the program's. */
int arrival_feed(struct http_request *rq, const char *data, size_t n, struct err *e);
/* The body has ended: sends the reply, CheckpointImported. */
int arrival_end(struct http_request *rq, struct err *e);

#endif
