/* SPDX-License-Identifier: Apache-2.0 */
/* forget - removes a stopped sandbox's files while no other process works on them. */
#ifndef BERTH_MANAGER_HOST_FORGET_H
#define BERTH_MANAGER_HOST_FORGET_H

#include "manager/host/registry.h"

/*
 * Locks a stopped sandbox: no other process starts, copies, archives or removes it until
 * registry_release(). Waits a while for a process that does so now. ERR_BUSY if it was started
 * or the wait takes too long, ERR_NOT_FOUND if it was removed.
 */
int forget_claim(struct registry *r, const char *id, struct claim *ret, struct err *e);
/*
 * Calls registry_forget() for a locked sandbox; a damaged record does not prevent it, and a missing
 * sandbox is no error. If the sandbox removes itself, its volumes without a name are removed too.
 */
int forget_alone(struct registry *r, const char *id, struct err *e);

/* ---- sandboxes whose time is over ---- */

/*
 * Removes lasting sandboxes that are due for removal and have no keeper to remove them: those whose
 * time to live ended while they were stopped, and those to be removed when they stop whose keeper
 * was killed, or whose machine was switched off.
 */

/*
 * Tell whether the sandbox's time to live is over or its owner has ended; and whether a stopped
 * sandbox with that record is due for removal.
 */
int expire_is_over(const json_t *record);
/* Removes them; *ret_removed counts. A sandbox that cannot be removed now is left for the next time. */
int expire_stopped(struct registry *r, unsigned *ret_removed, struct err *e);
/* Lists their ids, without removing any. */
int expire_dry(struct registry *r, int (*each)(void *ctx, const char *id), void *ctx, struct err *e);

#endif
