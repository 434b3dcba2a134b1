/* SPDX-License-Identifier: Apache-2.0 */
/* boxlist - the records of the sandboxes that a caller may see, all or one. */
#ifndef BERTH_MANAGER_API_BOXLIST_H
#define BERTH_MANAGER_API_BOXLIST_H

#include "manager/api/api.h"

/* The handler of GET /v1/sandboxes. */
int boxlist_get(struct http_request *rq, struct err *e);
/* The record of the sandbox that b found, alone, a new reference: a list of all would cost more. */
json_t *boxlist_load(struct box *b, struct err *e);
/* Adds its keeper's present answer to record. */
void boxlist_add_live(json_t *record, const json_t *answer);

#endif
