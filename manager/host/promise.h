/* SPDX-License-Identifier: Apache-2.0 */
/*
 * promise - adds up the limits of all sandboxes on this host.
 *
 * A sandbox counts from the lock under which it is claimed until its directories are gone,
 * whether it runs or not. Its limits are in the note of its range of ids (ranges.h), so a claim
 * needs no further write. Nothing is added up while [admission] sets no sum and the sandbox
 * belongs to no tenant. A sandbox of an older berth counts with the defaults of [sandbox] until
 * it is started again.
 *
 * Disk is measured, too: what the layers may still take against what the file
 * system of state_dir has free, times [admission] disk_overcommit. Where the notes alone show that
 * it fits, no sandbox is looked at.
 */
#ifndef BERTH_MANAGER_HOST_PROMISE_H
#define BERTH_MANAGER_HOST_PROMISE_H

#include "manager/host/registry.h"

struct promise_sum {
	uint64_t count, memory_bytes, cpu_milli, disk_bytes;
	uint64_t open_bytes;	/* of disk_bytes: what no layer has taken yet */
	uint64_t running;	/* of them; by promise_sum() only */
};

/*
 * Checks that one more sandbox with p fits: ERR_LIMIT, naming the maximum, if not. Call it with the
 * registry locked. except: the id of a sandbox that does not count because p replaces its limits;
 * or NULL.
 */
int promise_fits(struct registry *r, const struct promise *p, const char *except, struct err *e);
/* As promise_fits(), for count sandboxes with p each. Takes the lock. */
int promise_fits_all(struct registry *r, const struct promise *p, unsigned count, struct err *e);
/*
 * Changes the limits of a sandbox to p; an empty tenant keeps its owner. force: also if they do
 * not fit. ret_old, unless NULL, is the value to restore. Takes the lock.
 */
int promise_change(struct registry *r, const char *id, const struct promise *p, int force, struct promise *ret_old, struct err *e);
/* Sums up the sandboxes for which skip does not answer 1. Takes the lock. */
int promise_sum(struct registry *r, int (*skip)(void *ctx, const char *id), void *ctx, struct promise_sum *ret, struct err *e);

#endif
