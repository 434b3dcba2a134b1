/* SPDX-License-Identifier: Apache-2.0 */
/*
 * arrival - the file of a checkpoint that comes in pieces, and becomes a sandbox of the client.
 *
 * berth checkpoint import reads it from its stdin, and removes what it made if that ends early.
 * It belongs to the request (http_set_data()), and ends with it.
 */
#ifndef BERTH_MANAGER_API_ARRIVAL_H
#define BERTH_MANAGER_API_ARRIVAL_H

#include "manager/api/api.h"

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
