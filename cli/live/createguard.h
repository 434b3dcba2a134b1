/* SPDX-License-Identifier: Apache-2.0 */
/*
 * createguard - a create that ends in time, or leaves nothing (--create-timeout).
 *
 * The work is done by a child, which is killed when the time is over, with the keeper that it may
 * have forked; what they leave is cleared by its id.
 */
#ifndef BERTH_CLI_LIVE_CREATEGUARD_H
#define BERTH_CLI_LIVE_CREATEGUARD_H

#include <stdint.h>

#include "manager/host/registry.h"

/* Makes a sandbox, and notes its id in phases_on. */
typedef int createguard_make(void *ctx, struct err *e);

/* phases_begin() was called.  ERR_TIMEOUT names the phase that was under way after ms. */
int createguard_run(struct registry *r, uint64_t ms, createguard_make *make, void *ctx,
		    struct err *e);

#endif
