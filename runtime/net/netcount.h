/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netcount - what nftables has counted of a sandbox with --network bridge.
 *
 * Asked of the kernel by netlink and no library: the keeper looks often, and
 * starts no process for it.  The objects are made by runtime/net/ruleset_member.c:
 * ID-in, ID-out, ID-refused, ID-over, and the quota ID.
 */
#ifndef BERTH_RUNTIME_NET_NETCOUNT_H
#define BERTH_RUNTIME_NET_NETCOUNT_H

#include <stdint.h>

#include "base/err.h"

struct netcount {
	uint64_t bytes_in, bytes_out;	/* to the sandbox, from it */
	uint64_t refused;		/* packets that a rule refused */
	uint64_t over;			/* connections refused by the limit of connections */
	int exhausted;			/* no byte is left in the budget */
};

/* table: the bridge's name.  ERR_NOT_FOUND when the kernel knows no such sandbox, ERR_SYS. */
int netcount_read(const char *table, const char *id, struct netcount *ret, struct err *e);

#endif
