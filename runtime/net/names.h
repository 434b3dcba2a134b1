/* SPDX-License-Identifier: Apache-2.0 */
/* names - writes the /etc/resolv.conf and /etc/hosts of a sandbox with --network bridge. */
#ifndef BERTH_RUNTIME_NET_NAMES_H
#define BERTH_RUNTIME_NET_NAMES_H

#include "base/json.h"
#include "runtime/net/link.h"
#include "runtime/net/nameserver.h"
#include "runtime/net/netpolicy.h"

#define NAMES_GATEWAY "host-gateway"
/* Of a policy: lists of search domains, where "." means none, and of options of resolv.conf(5). */
#define NAMES_SEARCH "dns_search"
#define NAMES_OPTIONS "dns_options"
#define NAMES_SEARCH_MAX 32
#define NAMES_OPTIONS_MAX 16
#define NAMES_DOMAIN 253	/* characters of a name (RFC 1035) */
#define NAMES_OPTION 64
/* The resolv.conf of a sandbox with a resolver of its own (nameserver.h). */
#define NAMES_OWN_RESOLVER \
	"nameserver " NAMESERVER_ADDRESS "\noptions ndots:0\n"

/* Gives a policy without DNS servers the host's, except those on its loopback, which are out of reach. */
int names_choose(struct netpolicy *p, struct err *e);
/*
 * Writes both files, which are there already (they are mounted), in dir.  With own_resolver the one
 * of nameserver.h is asked, which asks the servers of the policy.  policy is p as a document: its
 * search domains and options go to resolv.conf, and its "hosts" are more lines of the file hosts, as
 * [["NAME", "ADDRESS"]], where NAMES_GATEWAY is the host's address on the bridge.
 */
int names_write(const char *dir, const char *hostname, const struct netpolicy *p,
		const struct link_plan *l, int own_resolver, const json_t *policy, struct err *e);

#endif
