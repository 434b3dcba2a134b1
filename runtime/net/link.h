/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link - the bridge, and each sandbox's pair of interfaces on it (rtnetlink(7)).
 *
 * A port of the bridge is locked to one hardware address and isolated from the
 * other ports; nothing is flooded to it and nothing learned from it.  All
 * neighbours are permanent entries on both sides, so no ARP and no neighbour
 * discovery is believed, and none is needed.  Both are read back.
 */
#ifndef BERTH_RUNTIME_NET_LINK_H
#define BERTH_RUNTIME_NET_LINK_H

#include "base/err.h"
#include "base/netaddr.h"

struct link_plan {
	const char *bridge;		/* name of the bridge */
	char port[16];			/* of our end: "bv", the id's first 8 characters, the address's number */
	struct netcidr pool, pool6;
	struct netaddr gateway, gateway6, address, address6;
	int with6;			/* there is IPv6 on the bridge */
	int route6;			/* and the host forwards it: a default route */
	int internal;			/* no default route: the pool alone, by way of the bridge */
	unsigned interface;		/* which one it is in the sandbox: N of ethN */
};

/* The hardware address that belongs to an IPv4 address. */
void link_mac(const struct netaddr *v4, uint8_t mac[6]);
/* Makes the bridge with its addresses, when it is not there.  What is there under its name must be a bridge. */
int link_bridge(const struct link_plan *p, struct err *e);
/* Makes the pair; the far end becomes ethN of netns_fd, with addresses, routes and neighbours. */
int link_join(const struct link_plan *p, int netns_fd, struct err *e);
/* Removes the neighbour entries of the address. Missing entries are no failure. */
int link_forget(const struct link_plan *p, struct err *e);
/* Removes the port, which waits for an RCU grace period; a missing port is no failure. */
int link_leave(const struct link_plan *p, struct err *e);
/* 1 when the bridge is there and up with its address. */
int link_bridge_stands(const struct link_plan *p);
/* Removes the bridge. */
int link_bridge_remove(const char *bridge, struct err *e);

#endif
