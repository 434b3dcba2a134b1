/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S45 of SECURITY.md. */
/*
 * nameserver - the resolver of one member of a named network, at 127.0.0.11 port 53.
 *
 * Theory of operation. berth-net opens its sockets in the member's network namespace, where they
 * stay, and gives up its rights (confine.h); then it serves in the loop of proxy.h. It answers a
 * name of the network from the table that other runs of berth-net write (nametable.h), so a
 * member that joins or leaves is seen at once. It sends other names to the DNS servers of the
 * member's policy (namerelay.h), by sockets of the member's namespace: the rules, limits and
 * budgets of the bridge apply to these queries as to the member's own packets, so a member gains
 * nothing by asking us. A name without a dot is not sent on, and neither is any name from an
 * internal network.
 *
 * The member is hostile: a query is read in full or refused. The rate of queries, the queries
 * under way and the connections are bounded; what exceeds the bounds waits in the socket's own
 * queue.
 */
#ifndef BERTH_RUNTIME_NET_NAMESERVER_H
#define BERTH_RUNTIME_NET_NAMESERVER_H

#include "base/json.h"
#include "runtime/net/link.h"
#include "runtime/net/nametable.h"
#include "runtime/net/netpolicy.h"
#include "runtime/net/proxy.h"

#define NAMESERVER_ADDRESS "127.0.0.11"

struct nameserver;

struct nameserver_place {
	const char *network;		/* the network's name; "": the bridge without a name */
	int dir_fd;			/* the directory of the table */
	int internal;
	const struct link_plan *link;
	const struct netpolicy *policy;
	const json_t *links;		/* NAMESERVER_LINKS of its policy, or NULL; borrowed while it is opened */
};

/* In a policy: "NAME:ALIAS", names of others by which this sandbox alone knows them. */
#define NAMESERVER_LINKS "links"
#define NAMESERVER_LINKS_MAX 32

/* Opens its sockets in the namespace netns_fd. */
int nameserver_open(const struct nameserver_place *at, int netns_fd, struct nameserver **ret,
		    struct err *e);
void nameserver_free(struct nameserver *s);
/* Adds the names of another network; fd is the file of its table, which stays the caller's. */
int nameserver_join(struct nameserver *s, const struct namezone_place *at, struct err *e);
/* Removes a network's names; a network that was not added is no failure. */
void nameserver_part(struct nameserver *s, const char *network);

/*
 * Called by proxy.c: once the loop is set up; when a socket is ready; and to pass the time and get
 * a deadline.
 */
void nameserver_begin(struct nameserver *s, struct proxy *p);
void nameserver_serve(struct nameserver *s, struct watch *w, uint32_t events);
void nameserver_tick(struct nameserver *s, uint64_t now);
uint64_t nameserver_next(const struct nameserver *s, uint64_t at);

#endif
