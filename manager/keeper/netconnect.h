/* SPDX-License-Identifier: Apache-2.0 */
/* netconnect - a sandbox, running or stopped, joins another network (manager/host/netjoin.h). */
#ifndef BERTH_MANAGER_KEEPER_NETCONNECT_H
#define BERTH_MANAGER_KEEPER_NETCONNECT_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"

/*
 * kept: it does not run, and joins when it starts.  aliases: an array of its names there, or NULL; addresses: those that it asks for, or NULL.
 * ERR_NOT_FOUND, ERR_EXISTS, ERR_LIMIT, ERR_INVALID.
 */
int netconnect(struct registry *r, const char *id, int kept, const char *network,
	       const json_t *aliases, const json_t *addresses, struct err *e);
/* The network may be NETJOIN_BRIDGE, where the sandbox is stopped and on another network. */
int netdisconnect(struct registry *r, const char *id, int kept, const char *network,
		  struct err *e);

#endif
