/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netclient - a client's requests to keepers about networks.
 *
 * A sandbox, running or stopped, joins another network (manager/host/netmembers.h).
 */
#ifndef BERTH_MANAGER_KEEPER_NETCLIENT_H
#define BERTH_MANAGER_KEEPER_NETCLIENT_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"
#include "runtime/sandbox/spec.h"

/* ---- another network ---- */

/*
 * Joins a network. kept: the sandbox does not run, and joins when it starts. aliases: an array of
 * its names there, or NULL; addresses: those that it asks for, or NULL. ERR_NOT_FOUND, ERR_EXISTS,
 * ERR_LIMIT, ERR_INVALID.
 */
int netconnect(struct registry *r, const char *id, int kept, const char *network,
	       const json_t *aliases, const json_t *addresses, struct err *e);
/* Leaves a network, which may be NETJOIN_BRIDGE if the sandbox is stopped and on another network. */
int netdisconnect(struct registry *r, const char *id, int kept, const char *network,
		  struct err *e);

/* ---- the network namespace of another sandbox ---- */

/*
 * The network namespace of another sandbox, for one that joins it (--network
 * container:NAME).
 *
 * The keeper of the other sandbox sends it, because it alone knows that the namespace is still that
 * of its sandbox. The namespace exists as long as a process is in it; its interfaces, proxy and
 * resolver end with the other sandbox.
 */

struct netguest {
	char id[65];
	int netns_fd, init_fd;
	json_t *told;	/* owns the strings that struct spec borrows */
};

#define NETGUEST_NONE { .id = "", .netns_fd = -1, .init_fd = -1 }

/*
 * Finds the sandbox that ref names, if it has the same owner; tenant "": no tenant. ERR_NOT_FOUND,
 * ERR_DENIED.
 */
int netguest_find(struct registry *r, const char *ref, const char *tenant, char ret_id[65],
		  struct err *e);
/*
 * As netguest_find(), and opens its network: fills in the members of s that come from the other
 * sandbox, which are borrowed from *ret. ERR_NOT_FOUND if it does not run, ERR_INVALID if its
 * network cannot be joined.
 */
int netguest_open(struct registry *r, const char *ref, const char *tenant, struct netguest *ret,
		  struct spec *s, struct err *e);
void netguest_close(struct netguest *g);

/* ---- a port of a sandbox ---- */

/* Asks a keeper for a socket that connects to 127.0.0.1:port in the sandbox, or with6 to [::1]:port: a new reference. */
json_t *netport_request(uint16_t port, int with6);
/*
 * Whether that socket, which poll(2) calls writable, is connected: 1, and it is kept alive; 0:
 * nothing listens there; -1.
 */
int netport_connected(int fd, uint16_t port, struct err *e);
/* What the client is told when both families say 0: -1. */
int netport_nothing(const char *id, uint16_t port, struct err *e);

/* ---- rules of a network ---- */

/* The result of a change of the rules that the members of a network share, which all of them get. */

struct netrules_done {
	unsigned members;	/* running members that have the new rules */
	uint64_t cut;		/* connections that no longer complied */
};

/*
 * Writes the changes and sends them to every running member. Members that start meanwhile read the
 * record once they can be reached. -1 also if a member could not be reached, after all others were.
 */
int netrules_update(struct registry *r, const char *network, const json_t *changes,
		    json_t **ret_record, struct netrules_done *ret, struct err *e);

#endif
