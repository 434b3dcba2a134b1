/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nets - networks that have a name: an object of this host, which sandboxes join.
 *
 * On disk, below state_dir/networks/ (0700):
 *   NAME/network.json    what it is: "name", "bridge", "subnet", "subnet6", "internal", "created", "labels"
 *                        and, where it has them, "max_rate", "gateway", "gateway6", "ranges", "aux", "ipv6": false
 *   NAME/members/    who has which address (runtime/net/pool.h); made by the first member
 *   .NAME            one that is being made or removed: gc takes it away
 * The directory is flock'ed while a network is made or removed.  The kernel has nothing of a network without
 * members.  A network is removed in this order: its members' directory is closed, then the kernel's objects are
 * removed, then the name.
 */
#ifndef BERTH_MANAGER_HOST_NETS_H
#define BERTH_MANAGER_HOST_NETS_H

#include "base/err.h"
#include "base/json.h"
#include "base/netaddr.h"
#include "manager/host/config.h"

#define NETS_DIR "networks"
#define NETS_RECORD "network.json"
#define NETS_FORMAT 1	/* "version" of a record */
#define NETS_SUBNETS 2
#define NETS_AUX_MAX 32
#define NETS_EGRESS "egress"	/* Member of a record with the policy that the network's members share; may
				 * be absent. */

struct nets_wanted {
	const char *name;			/* as made by nets_key() */
	const char *tenant;			/* the tenant that owns it, or NULL */
	uint64_t tenant_max;			/* how many networks the tenant may have */
	const char *subnets[NETS_SUBNETS];	/* "10.1.0.0/24", one for each family; NULL: chosen */
	const char *gateways[NETS_SUBNETS];	/* the bridge's own addresses in subnets; NULL: the first ones */
	const char *ranges[NETS_SUBNETS];	/* the parts of subnets that are given out; NULL: all */
	const json_t *aux;			/* {NAME: ADDRESS}, addresses that no member gets, or NULL */
	int no_ipv6;				/* members have IPv4 addresses only */
	int public_subnet;			/* subnets may be of public addresses */
	int internal;
	uint64_t max_rate;			/* bytes a second of all members; 0: no bound */
	const json_t *labels;			/* an object, or NULL */
	const json_t *egress;			/* keys of netpolicy.h, or NULL */
};

#define NETS_NAME_MAX 64

/*
 * Checks a name: ERR_INVALID if it is neither a name for a network nor the key of a tenant's,
 * NAME@TENANT. The modes of --network are not names.
 */
int nets_check_name(const char *name, struct err *e);
/*
 * Makes the key of tenant's network name, by which nets and the options of a sandbox know it;
 * tenant "": the operator's, for whom name may be a key already. ERR_INVALID, also if both together
 * are too long.
 */
int nets_key(const char *name, const char *tenant, char ret[NETS_NAME_MAX + 1], struct err *e);
/* Makes the network; *ret: its record, a new reference. ERR_EXISTS, ERR_LIMIT at [network] max_networks. */
int nets_create(const struct config *c, const struct nets_wanted *w, json_t **ret, struct err *e);
/* Reads the record: a new reference, or NULL with ERR_NOT_FOUND and a hint. */
json_t *nets_load(const struct config *c, const char *name, struct err *e);
/*
 * Changes the policy that the members share, checks it and writes it; *ret: the record, a new
 * reference. ERR_INVALID for a network without a policy.
 */
int nets_change(const struct config *c, const char *name, const json_t *changes, json_t **ret,
		struct err *e);

#define NETS_FORWARDS "/proc/sys/net/ipv4/ip_forward"

/* Whether a file of /proc/sys says 1. */
int nets_is_switch_on(const char *path);
/* Whether a bridge leads out: the host forwards IPv4, or berth may switch that on. */
int nets_is_routed(const struct config *c);
/*
 * Describes the bridge without a name for berth-net (runtime/net/bridge.h): a new reference, or
 * NULL.
 */
json_t *nets_bridge(const struct config *c);
/* Describes a network with a name for berth-net: a new reference. */
json_t *nets_place(const struct config *c, const char *name, struct err *e);
/*
 * Whether a member of the network, whose nets_place() is place, may have these addresses, an array of
 * strings or NULL: it is said when a sandbox asks for them, not when it starts.
 */
int nets_check_addresses(const json_t *place, const char *network, const json_t *addresses, struct err *e);
/* Calls each with the name of every network, until it returns non-zero, which is returned. */
int nets_each(const struct config *c, int (*each)(void *ctx, const char *name), void *ctx,
	      struct err *e);
/* For netmembers.c: open the directory, lock it, and walk the networks in it, or the hidden ones. */
int nets_open(const struct config *c, struct err *e);
int nets_lock(int dir, struct err *e);
int nets_each_in(int dir, int hidden, int (*each)(void *ctx, const char *name), void *ctx,
		 struct err *e);

/* ---- ranges of addresses ---- */

/*
 * Chooses the range of addresses for a named network.
 *
 * Pure: the caller has gathered the list of used ranges.
 */

#define SUBNETS_TAKEN 1024
#define SUBNETS_BITS 24	/* prefix length of a chosen range */

struct subnets {
	struct netcidr list[SUBNETS_TAKEN];
	size_t count;
};

/* Adds a used range; ERR_LIMIT if the list is full. */
int subnets_add(struct subnets *t, const struct netcidr *c, struct err *e);
/* Returns the range of the list that shares an address with c, or NULL. */
const struct netcidr *subnets_overlap(const struct subnets *t, const struct netcidr *c);
/*
 * Chooses the first free IPv4 range with SUBNETS_BITS, or base itself if that is smaller: 0, or -1.
 */
int subnets_choose(const struct subnets *t, const struct netcidr *base, struct netcidr *ret);
/* "10.0.0.0/8" */
void subnets_text(const struct netcidr *c, char out[NETADDR_TEXT + 5]);

/* ---- changes of rules ---- */

/*
 * Changes the rules of a network or a sandbox; pure.
 *
 * A policy and its changes are objects with the keys of netpolicy.h.
 */

/* Tells whether changes has any. */
int netmerge_wanted(const json_t *changes);
/*
 * Merges changes into policy. A host or range that is now allowed is no longer denied, and the
 * reverse; a budget replaces the old one. With "reset_rules" the changes replace all earlier hosts
 * and denied ranges.
 */
int netmerge(json_t *policy, const json_t *changes, struct err *e);

#endif
