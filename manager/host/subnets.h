/* SPDX-License-Identifier: Apache-2.0 */
/*
 * subnets - the range of addresses for a named network.
 *
 * Pure: the caller has gathered the list of used ranges.
 */
#ifndef BERTH_MANAGER_HOST_SUBNETS_H
#define BERTH_MANAGER_HOST_SUBNETS_H

#include "base/err.h"
#include "base/netaddr.h"

#define SUBNETS_TAKEN 1024
#define SUBNETS_BITS 24	/* of a range that is chosen */

struct subnets {
	struct netcidr list[SUBNETS_TAKEN];
	size_t count;
};

/* ERR_LIMIT when the list is full. */
int subnets_add(struct subnets *t, const struct netcidr *c, struct err *e);
/* The range of the list that shares an address with c, or NULL. */
const struct netcidr *subnets_overlap(const struct subnets *t, const struct netcidr *c);
/*
 * The first range of IPv4 with SUBNETS_BITS, or base itself where that is smaller, that is free:
 * 0, or -1.
 */
int subnets_choose(const struct subnets *t, const struct netcidr *base, struct netcidr *ret);
/* "10.0.0.0/8" */
void subnets_text(const struct netcidr *c, char out[NETADDR_TEXT + 5]);

#endif
