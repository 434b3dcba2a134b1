/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge - berth-net for --network bridge: one short run per event.
 *
 * A job is {"id", "uid", "files", "policy": {..., "bridge": {"name", "pool", "pool6", "forwarding", "dir"}}}: the policy
 * as netpolicy.h has it, and where the network of this configuration stands.  A network
 * with a name (manager/host/nets.h) has also "network", "home", "internal", "limit" and
 * "max_rate".  All is made in the caller's network namespace.  Order of the making: the
 * address and the record on disk, the rules, the interfaces; each step can be found and undone by
 * the record, whenever it was cut off.
 */
#ifndef BERTH_RUNTIME_NET_BRIDGE_H
#define BERTH_RUNTIME_NET_BRIDGE_H

#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "runtime/net/link.h"
#include "runtime/net/netpolicy.h"
#include "runtime/net/pool.h"
#include "runtime/net/ruleset.h"

/*
 * Makes the network of the sandbox whose namespace is NETHELPER_NETNS. If ports are published on
 * the host's loopback, it does not return before the supervisor has ended.
 */
int bridge_up(const json_t *job, struct err *e);
/*
 * The resolver of a sandbox on the bridge without a name, which joins networks later: it knows no
 * name at first, and does not return before the supervisor has ended.
 */
int bridge_resolver(const json_t *job, struct err *e);
/* Removes it, and answers with its counters; a sandbox without one is no failure. */
int bridge_down(const json_t *job, struct err *e);
/* Another policy. */
int bridge_change(const json_t *job, struct err *e);
/* The sandbox has the name of the job from now on, in the table of its network's names. */
int bridge_rename(const json_t *job, struct err *e);
/*
 * Removes the networks of sandboxes that are gone ("sandboxes" of the job is the directory with
 * an entry for each living one), and the bridge and the table if no sandbox uses them.
 */
int bridge_gc(const json_t *job, struct err *e);
/*
 * Closes a named network for good, and removes its kernel objects; ERR_BUSY while it has
 * members.
 */
int bridge_remove(const json_t *job, struct err *e);
/* Makes all of it in a namespace of its own, to see what this kernel can do. */
int bridge_probe(const json_t *job, struct err *e);

/* ---- one run, as its parts share it ---- */

/* bridge_state - what bridge*.c share: the job of one run of berth-net, as it was read. */

struct forward;

struct bridge {
	const char *id, *name, *dir, *files, *hostname;
	const char *network;		/* "": the bridge that has no name */
	uint64_t limit;			/* members of a network; 0: no limit */
	const char *sandbox;		/* its name, "": none */
	struct ruleset_kind kind;
	int forwarding;			/* berth may switch it on */
	json_t *policy_json;		/* borrowed */
	struct netpolicy policy;
	struct link_plan link;
	struct pool pool;
	struct pool home;		/* where berth's switches of forwarding are recorded */
	struct pool_plan plan;		/* the addresses that members may have */
	uint64_t number;		/* of its address */
	uint64_t used_before;		/* of the byte budget, by earlier runs */
};

/* Reads the job; bridge_unload() must follow, also after an error. */
int bridge_load(struct bridge *b, const json_t *job, struct err *e);
void bridge_unload(struct bridge *b);
/* The lock of the network, and that of the host's switches. */
int bridge_lock(struct bridge *b, struct err *e);
void bridge_unlock(struct bridge *b);
/* Success, with j or {}. */
void bridge_answer(const json_t *j);
/* Nobody is on it any more. */
int bridge_remove_all(struct bridge *b, struct err *e);
/*
 * Removes it in an order in which nothing gets through: a sandbox in no set may send nothing.
 * Its last counters go to *ret_last. With soon the caller gets its answer before the interface
 * is removed, which takes long.
 */
int bridge_take_back(struct bridge *b, int locked, int soon, json_t **ret_last, struct err *e);
/* Its names for the others: the first is the name of its address. Under the lock. */
int bridge_take_names(struct bridge *b, struct err *e);
void bridge_forget_names(struct bridge *b, uint64_t number);
/* What stays when all is made: ports of the loopback, and the names of a network; or NULL. */
int bridge_open_servers(struct bridge *b, struct forward **ret, struct err *e);
/*
 * Gives up its rights, answers with told, and serves until the supervisor has gone.  The supervisor
 * takes a failure back, as no rights are left here.
 */
int bridge_stay(struct forward *f, const json_t *job, const json_t *told, pid_t parent,
		struct err *e);

#endif
