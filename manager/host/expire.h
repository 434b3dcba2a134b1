/* SPDX-License-Identifier: Apache-2.0 */
/*
 * expire - lasting sandboxes that are due for removal and have no keeper to remove them: those
 * whose time to live ended while they were stopped, and those to be removed when they stop whose
 * keeper was killed, or whose machine was switched off.
 */
#ifndef BERTH_MANAGER_HOST_EXPIRE_H
#define BERTH_MANAGER_HOST_EXPIRE_H

#include "manager/host/registry.h"

/*
 * Whether its time to live is over or its owner has ended; and whether a stopped sandbox with
 * that record is due for removal.
 */
int expire_is_over(const json_t *record);
/* Removes them; *ret_removed counts.  What cannot be removed now is left for the next time. */
int expire_stopped(struct registry *r, unsigned *ret_removed, struct err *e);
/* Their ids, without removing anything. */
int expire_dry(struct registry *r, int (*each)(void *ctx, const char *id), void *ctx, struct err *e);

#endif
