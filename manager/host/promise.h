/* SPDX-License-Identifier: Apache-2.0 */
/*
 * promise - the sums of what all sandboxes of this host may take, whoever made them.
 *
 * A sandbox counts from the lock under which it is claimed until its directories are gone, whether it
 * runs or not.  What it may take stands in the note of its range of ids (ranges.h), so that a claim
 * writes nothing more than it did; nothing is added up while [admission] sets no sum and the
 * sandbox is no tenant's.  A sandbox of an older berth counts with the defaults of [sandbox]
 * until it is started again.
 */
#ifndef BERTH_MANAGER_HOST_PROMISE_H
#define BERTH_MANAGER_HOST_PROMISE_H

#include "manager/host/registry.h"

struct promise_sum {
	uint64_t count, memory_bytes, cpu_milli;
	uint64_t running;	/* of them; by promise_sum() only */
};

#define PROMISE_SAME (UINT64_MAX - 1)	/* memory or CPUs in promise_change(): as it was */

/*
 * With the registry locked: ERR_LIMIT that names the maximum when one more sandbox of p does not fit.
 * except: the id of one that is not counted, as p replaces what it has; or NULL.
 */
int promise_fits(struct registry *r, const struct promise *p, const char *except, struct err *e);
/*
 * A sandbox may take p from now on; an empty tenant leaves whose it is.  force: whether it fits or not.
 * ret_old, unless NULL, is what to change it back to.  Takes the lock.
 */
int promise_change(struct registry *r, const char *id, const struct promise *p, int force, struct promise *ret_old, struct err *e);
/* Sums of those that skip does not answer 1 for.  Takes the lock. */
int promise_sum(struct registry *r, int (*skip)(void *ctx, const char *id), void *ctx, struct promise_sum *ret, struct err *e);

#endif
