/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netmembers - the members of networks, and the end of a network without members.
 *
 * The first part is about the networks that a sandbox is on besides the one it was made with.
 *
 * The sandbox's record holds them as "networks": [{"network", "aliases", "addresses"}], so that a
 * start joins them again and a network with a stopped sandbox is not removed. Through such a
 * network the sandbox reaches its members and no other host: its way out stays that of the network
 * it was made with.
 */
#ifndef BERTH_MANAGER_HOST_NETMEMBERS_H
#define BERTH_MANAGER_HOST_NETMEMBERS_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"

/* ---- the networks that a sandbox is on ---- */

#define NETJOIN_MAX 7
#define NETJOIN_BRIDGE "bridge"	/* name of the bridge without a name */

/* Makes the network's policy for berth-net: a new reference. aliases: an array or NULL. */
json_t *netjoin_policy(const struct config *c, const char *network, const json_t *end,
		       struct err *e);
/*
 * Checks that the sandbox of the record may join: ERR_INVALID if it cannot be on the network,
 * ERR_EXISTS if it is.
 */
int netjoin_check(const json_t *record, const char *network, const json_t *end, struct err *e);
/* Adds the network to the record, or removes it if aliases is NULL. */
int netjoin_edit(json_t *record, const char *network, const json_t *end, struct err *e);
/*
 * As netjoin_edit(), in the record that the next start reads. ERR_NOT_FOUND if there is no such
 * network, or the sandbox is not on it.
 */
int netjoin_record(struct registry *r, const char *id, const char *network, const json_t *end,
		   struct err *e);
/*
 * Takes a stopped sandbox off the bridge without a name: from its next start it is as if it had
 * been made with the first network that it joined, which is then its way out. ERR_INVALID if it
 * joined none.
 */
int netjoin_leave_bridge(struct registry *r, const char *id, struct err *e);
/* Returns 1 if the sandbox joined the network, by its record. */
int netjoin_is_on(const json_t *record, const char *network);

/* ---- the members of a network, and its end ---- */

/*
 * The members of a network with a name (nets.h), and the network's end, which is possible only
 * without them.
 */

/*
 * name: of a network, or NETJOIN_BRIDGE.
 * Returns the members, running and stopped, as [{"id", "name", "status", "address", "address6"}]: a
 * new reference. A stopped member has no address.
 */
json_t *netend_members(struct registry *r, const char *name, struct err *e);
/* Removes the network; ERR_BUSY while it has members. */
int netend_remove(struct registry *r, const char *name, struct err *e);
/* Removes networks whose creation or removal was interrupted. */
int netend_clear(struct registry *r, struct err *e);

/* ---- what dead supervisors left ---- */

/*
 * Clears what sandboxes with a bridge left on the host when their supervisor died: for registry.c
 * and berth gc.
 */

/* Clears the network of one dead sandbox; costs one access(2) if it had none. */
int netclear_one(struct registry *r, const char *id, struct err *e);
/*
 * Removes everything that belongs to no running sandbox; and the bridge with its rules, if no
 * sandbox uses them.
 */
int netclear_all(struct registry *r, unsigned *ret_cleared, struct err *e);
/* Renames the sandbox on the networks that it is on. */
int netclear_rename(struct registry *r, const char *id, const char *name, struct err *e);

#endif
