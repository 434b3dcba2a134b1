/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netguest - the network namespace of another sandbox, for one that joins it (--network
 * container:NAME).
 *
 * The keeper of the other sandbox hands it over, since it alone knows that the namespace is still
 * that of its sandbox.  The namespace lives as long as anybody is in it; its interfaces, proxy and
 * resolver end with the other sandbox.
 */
#ifndef BERTH_MANAGER_KEEPER_NETGUEST_H
#define BERTH_MANAGER_KEEPER_NETGUEST_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"
#include "runtime/sandbox/spec.h"

struct netguest {
	char id[65];
	int netns_fd, init_fd;
	json_t *told;	/* what struct spec borrows strings from */
};

#define NETGUEST_NONE { .id = "", .netns_fd = -1, .init_fd = -1 }

/*
 * The id of the sandbox that ref names, if it is of the same owner; tenant "": of no tenant.
 * ERR_NOT_FOUND, ERR_DENIED.
 */
int netguest_find(struct registry *r, const char *ref, const char *tenant, char ret_id[65],
		  struct err *e);
/*
 * The same, and its network: fills in what s has from the other sandbox, which is borrowed from
 * *ret.  ERR_NOT_FOUND when it does not run, ERR_INVALID when its network cannot be joined.
 */
int netguest_open(struct registry *r, const char *ref, const char *tenant, struct netguest *ret,
		  struct spec *s, struct err *e);
void netguest_close(struct netguest *g);

#endif
