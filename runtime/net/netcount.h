/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netcount - reads nftables' counters for a sandbox with --network bridge.
 *
 * It asks the kernel by netlink, without a library: the keeper looks often, and starts no process
 * for that. The objects are made by runtime/net/ruleset_member.c: ID-in, ID-out, ID-refused,
 * ID-over, and the quota ID.
 */
#ifndef BERTH_RUNTIME_NET_NETCOUNT_H
#define BERTH_RUNTIME_NET_NETCOUNT_H

#include <stdint.h>

#include "base/err.h"

struct netcount {
	uint64_t bytes_in, bytes_out;	/* bytes to the sandbox, and from it */
	uint64_t refused;		/* packets that a rule refused */
	uint64_t over;			/* connections refused by the limit of connections */
	int exhausted;			/* the budget has no byte left */
};

/* Reads the counters; table: the bridge's name. ERR_NOT_FOUND if the kernel has no such sandbox, ERR_SYS. */
int netcount_read(const char *table, const char *id, struct netcount *ret, struct err *e);

#endif
