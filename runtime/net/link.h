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

#include <stdint.h>

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

/* ---- switches of an interface ---- */

/*
 * link_switch - the switches of an interface below /proc/sys/net, in the caller's network
 * namespace; read back.
 */

/* family: "ipv4", "ipv6". A switch that the kernel does not have is no failure. */
int link_switch(const char *family, const char *interface, const char *key, const char *value,
		struct err *e);
/* No router's word is believed, and no source that another interface leads to. */
int link_switches(const char *interface, struct err *e);

/* ---- token buckets ---- */

/*
 * tbf - the kernel's token buckets that bound the rate of a sandbox on a bridge (tc-tbf(8)).
 *
 * The one on our end of the pair bounds what the sandbox receives, the one on its end what it
 * sends.  The latter is in the sandbox's network namespace, where changing it takes CAP_NET_ADMIN.
 */

/*
 * Sets the rate, bytes a second (0: none), of the interface port here and of inside in netns_fd.
 * In place of another rate it applies at once.
 */
int tbf_set(const char *port, int netns_fd, const char *inside, uint64_t rate, struct err *e);

#endif
