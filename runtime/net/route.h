/* SPDX-License-Identifier: Apache-2.0 */
/* route - what the kernel would do with a packet to an address (rtnetlink(7), RTM_GETROUTE). */
#ifndef BERTH_RUNTIME_NET_ROUTE_H
#define BERTH_RUNTIME_NET_ROUTE_H

#include "base/err.h"
#include "base/netaddr.h"

struct mnl_socket;

struct mnl_socket *route_open(struct err *e);
/*
 * NULL: the packet leaves this host; else its kind: "the host's own", "broadcast". If the kernel
 * cannot be asked, the target is not allowed.
 */
const char *route_special(struct mnl_socket *nl, const struct netaddr *a);

#endif
