/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link - makes the bridge, and each sandbox's pair of interfaces on it (rtnetlink(7)).
 *
 * A port of the bridge is locked to one hardware address and isolated from the other ports; nothing
 * is flooded to it and nothing learned from it. All neighbours are permanent entries on both sides,
 * so no ARP and no neighbour discovery is believed, and none is needed. The locks and the
 * neighbours are read back.
 */
#ifndef BERTH_RUNTIME_NET_LINK_H
#define BERTH_RUNTIME_NET_LINK_H

#include <stdint.h>

#include "base/err.h"
#include "base/netaddr.h"

struct link_plan {
	const char *bridge;		/* name of the bridge */
	char port[16];			/* name of our end: "bv", the id's first 8 characters, the address's
					 * number */
	struct netcidr pool, pool6;
	struct netaddr gateway, gateway6, address, address6;
	uint8_t mac[6];			/* the hardware address that it chose; all 0: the one that follows from its address */
	int with6;			/* there is IPv6 on the bridge */
	int route6;			/* the host forwards IPv6, so there is a default route */
	int internal;			/* no default route: only the pool is reached, by the bridge */
	unsigned interface;		/* N of ethN in the sandbox */
};

/* Computes the hardware address that belongs to an IPv4 address. */
void link_mac(const struct netaddr *v4, uint8_t mac[6]);
/* The hardware address of the sandbox. */
void link_mac_of(const struct link_plan *p, uint8_t mac[6]);
/* Makes the bridge with its addresses, if it is missing. An interface that has its name must be a bridge. */
int link_bridge(const struct link_plan *p, struct err *e);
/* Makes the pair; the far end becomes ethN of netns_fd, with addresses, routes and neighbours. */
int link_join(const struct link_plan *p, int netns_fd, struct err *e);
/* Removes the neighbour entries of the address. Missing entries are no failure. */
int link_forget(const struct link_plan *p, struct err *e);
/* Removes the port, which waits for an RCU grace period; a missing port is no failure. */
int link_leave(const struct link_plan *p, struct err *e);
/* Returns 1 if the bridge exists and is up with its address. */
int link_bridge_stands(const struct link_plan *p);
/* Removes the bridge. */
int link_bridge_remove(const char *bridge, struct err *e);

/* ---- switches of an interface ---- */

/*
 * link_switch - the switches of an interface below /proc/sys/net, in the caller's network
 * namespace; read back.
 */

/* Sets the switch; family: "ipv4", "ipv6". A switch that the kernel does not have is no failure. */
int link_switch(const char *family, const char *interface, const char *key, const char *value,
		struct err *e);
/* Sets the switches so that no router is believed, and no source address that another interface leads to. */
int link_switches(const char *interface, struct err *e);

/* ---- token buckets ---- */

/*
 * tbf - the kernel's token buckets that bound the rate of a sandbox on a bridge (tc-tbf(8)).
 *
 * The bucket on our end of the pair bounds what the sandbox receives, the bucket on its end what it
 * sends. The latter is in the sandbox's network namespace, where changing it takes CAP_NET_ADMIN.
 */

/*
 * Sets the rate, bytes a second (0: none), of the interface port here and of inside in netns_fd. A
 * changed rate applies at once.
 */
int tbf_set(const char *port, int netns_fd, const char *inside, uint64_t rate, struct err *e);

#endif
