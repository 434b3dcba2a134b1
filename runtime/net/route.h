/* SPDX-License-Identifier: Apache-2.0 */
/* route - what the kernel would do with a packet to an address (rtnetlink(7), RTM_GETROUTE). */
#ifndef BERTH_RUNTIME_NET_ROUTE_H
#define BERTH_RUNTIME_NET_ROUTE_H

#include "base/err.h"
#include "base/netaddr.h"

struct mnl_socket;

struct mnl_socket *route_open(struct err *e);
/* NULL: it leaves this host; else what it is: "the host's own", "broadcast".  What cannot be asked is not let through. */
const char *route_special(struct mnl_socket *nl, const struct netaddr *a);

#endif
