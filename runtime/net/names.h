/* SPDX-License-Identifier: Apache-2.0 */
/* names - writes the /etc/resolv.conf and /etc/hosts of a sandbox with --network bridge. */
#ifndef BERTH_RUNTIME_NET_NAMES_H
#define BERTH_RUNTIME_NET_NAMES_H

#include "base/json.h"
#include "runtime/net/link.h"
#include "runtime/net/nameserver.h"
#include "runtime/net/netpolicy.h"

#define NAMES_GATEWAY "host-gateway"
/* The resolv.conf of a sandbox with a resolver of its own (nameserver.h). */
#define NAMES_OWN_RESOLVER \
	"# made by berth\nnameserver " NAMESERVER_ADDRESS "\noptions ndots:0\n"

/* Gives a policy without DNS servers the host's, except those on its loopback, which are out of reach. */
int names_choose(struct netpolicy *p, struct err *e);
/*
 * Writes both files in dir; they exist already, because they are mounted. With own_resolver,
 * resolv.conf names the resolver of nameserver.h, which asks the servers of the policy. hosts (or
 * NULL) are more lines of the file hosts, as [["NAME", "ADDRESS"]], where NAMES_GATEWAY is the
 * host's address on the bridge.
 */
int names_write(const char *dir, const char *hostname, const struct netpolicy *p,
		const struct link_plan *l, int own_resolver, const json_t *hosts, struct err *e);

#endif
