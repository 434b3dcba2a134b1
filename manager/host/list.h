/* SPDX-License-Identifier: Apache-2.0 */
/* list - the records of sandboxes that live (kept = 0), and of those that are only kept. */
#ifndef BERTH_MANAGER_HOST_LIST_H
#define BERTH_MANAGER_HOST_LIST_H

#include "manager/host/registry.h"

/*
 * Gets the record of a sandbox, which it may change, and keep by json_incref(). A record of a
 * newer format has the status RECORD_NEWER, id and name, and the reason in "error". A return
 * value other than 0 ends the list.
 */
typedef int list_each(void *ctx, const char *id, int kept, json_t *record);

/* Calls each for every live sandbox and, with all, every kept one. */
int registry_list(struct registry *r, int all, list_each *each, void *ctx, struct err *e);
/* registry_gc() and that in one, at the cost of six system calls for each that lives. */
int registry_sweep_list(struct registry *r, int all, list_each *each, void *ctx, struct err *e);
/* Of one sandbox; each is not called when it is gone. */
int registry_list_one(struct registry *r, const char *id, list_each *each, void *ctx,
		      struct err *e);

#endif
