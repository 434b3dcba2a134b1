/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward - serves published ports on the host's own loopback.
 *
 * The rules of nftables forward traffic to the host's other addresses. For 127.0.0.1 they would
 * need route_localnet, which would let the bridge send to it, and for ::1 the kernel has no way
 * at all. So berth-net stays, gives up its rights like the egress proxy (confine.h), and relays:
 * connections in the proxy's loop, with a fixed target for each listening socket; datagrams by a
 * socket for each peer.
 */
#ifndef BERTH_RUNTIME_NET_FORWARD_H
#define BERTH_RUNTIME_NET_FORWARD_H

#include <sys/types.h>

#include "base/json.h"
#include "runtime/net/link.h"
#include "runtime/net/netpolicy.h"

struct forward;

struct nameserver;

/*
 * Listens on those published ports that are on the loopback. *ret is NULL if there are none, unless
 * always is set.
 */
int forward_open(const struct netpolicy *p, const struct link_plan *l, int always,
		 struct forward **ret, struct err *e);
/* Makes it also serve names (nameserver.h); it takes names over. */
void forward_names(struct forward *f, struct nameserver *names);
/* Returns how many ports it listens on. */
size_t forward_ports(const struct forward *f);
void forward_free(struct forward *f);
/* Answers with told (JSON text), then serves until the supervisor has gone. */
int forward_run(struct forward *f, const char *told, uid_t uid, pid_t parent, struct err *e);

/*
 * relay - serves ports of the host's loopback of a sandbox that the host cannot reach: without a
 * network, behind the proxy, on an internal network.
 *
 * The listening sockets are made in the host's namespace. Then the process goes into the sandbox's
 * for good, and gives up its rights: what it connects to after that is the sandbox's own loopback,
 * and neither the host's nor another sandbox's is in its reach. Upholds S57 of SECURITY.md.
 */

/* The job has "uid" and "policy" with "publish"; serves until the supervisor has gone. */
int relay_run(const json_t *job, struct err *e);

/* ---- ports that are chosen ---- */

/* freeport - chooses a port of the host for each published port that was requested without one. */

/* Chooses the ports, and writes each into the text of its published port as well. ERR_NET if none is free. */
int freeport_choose(struct netpolicy *p, struct err *e);
/*
 * Describes the published ports, an entry for each address of the host: [{"address", "host_port",
 * "port", "protocol"}], a new reference.
 */
json_t *freeport_describe(const struct netpolicy *p, const struct link_plan *l);

#endif
