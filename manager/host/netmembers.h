/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netmembers - who is on which network, and what is left when nobody is.
 *
 * The networks that a sandbox is on besides the one it was made with.
 *
 * Its record holds them as "networks": [{"network", "aliases", "addresses"}], so that a start joins them again
 * and a network that a stopped sandbox is on is not removed.  The sandbox reaches the members of
 * such a network, and nobody else by it: its way out stays that of the network it was made with.
 */
#ifndef BERTH_MANAGER_HOST_NETMEMBERS_H
#define BERTH_MANAGER_HOST_NETMEMBERS_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"

/* ---- the networks that a sandbox is on ---- */

#define NETJOIN_MAX 7
#define NETJOIN_BRIDGE "bridge"	/* the one without a name */

/* What berth-net is to know of the network: a new reference.  aliases: an array or NULL. */
json_t *netjoin_policy(const struct config *c, const char *network, const json_t *end,
		       struct err *e);
/* ERR_INVALID when the sandbox of the record cannot be on it, ERR_EXISTS when it is. */
int netjoin_check(const json_t *record, const char *network, const json_t *end, struct err *e);
/* The record with the network, or without it where aliases is NULL. */
int netjoin_edit(json_t *record, const char *network, const json_t *end, struct err *e);
/*
 * The same for the record that the next start reads.  ERR_NOT_FOUND if there is no such network, or
 * the sandbox is not on it.
 */
int netjoin_record(struct registry *r, const char *id, const char *network, const json_t *end,
		   struct err *e);
/*
 * A stopped sandbox on the bridge without a name is from its next start as if it had been made
 * with the first network that it joined, which is its way out then.  ERR_INVALID without one.
 */
int netjoin_leave_bridge(struct registry *r, const char *id, struct err *e);
/* 1 when the sandbox of the record is on the network by this. */
int netjoin_is_on(const json_t *record, const char *network);

/* ---- the members of a network, and its end ---- */

/*
 * The members of a network with a name (nets.h), and its end, which only comes without
 * them.
 */

/*
 * Its members, living and stopped, as [{"id", "name", "status", "address", "address6"}]: a new
 * reference. A stopped member has no address.
 */
json_t *netend_members(struct registry *r, const char *name, struct err *e);
/* ERR_BUSY while it has members. */
int netend_remove(struct registry *r, const char *name, struct err *e);
/* Removes networks whose making or removal was interrupted. */
int netend_clear(struct registry *r, struct err *e);

/* ---- what dead supervisors left ---- */

/* What sandboxes with a bridge left on the host when their supervisor died: for registry.c and berth gc. */

/* The network of one dead sandbox; costs one access(2) when it had none. */
int netclear_one(struct registry *r, const char *id, struct err *e);
/*
 * Removes everything that belongs to no living sandbox; and the bridge with its rules, if no
 * sandbox uses them.
 */
int netclear_all(struct registry *r, unsigned *ret_cleared, struct err *e);
/* The networks that it is on call it by another name from now on. */
int netclear_rename(struct registry *r, const char *id, const char *name, struct err *e);

#endif
