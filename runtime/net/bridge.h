/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bridge - berth-net for --network bridge: one short run per event.
 *
 * A job is {"id", "uid", "files", "policy": {..., "bridge": {"name", "pool", "pool6", "forwarding",
 * "dir"}}}: the policy as netpolicy.h has it, and the place of this configuration's network. A
 * network with a name (manager/host/nets.h) also has "network", "home", "internal", "limit" and
 * "max_rate". Everything is made in the caller's network namespace, in this order: the address and
 * the record on disk, the rules, the interfaces. The record suffices to find and undo each step,
 * wherever the run was interrupted.
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
 * Serves as the resolver of a sandbox on the bridge without a name, which joins networks later: it
 * knows no name at first, and does not return before the supervisor has ended.
 */
int bridge_resolver(const json_t *job, struct err *e);
/* Removes the sandbox's network, and answers with its counters; a sandbox without one is no failure. */
int bridge_down(const json_t *job, struct err *e);
/* Gives the sandbox another policy. */
int bridge_change(const json_t *job, struct err *e);
/* Gives the sandbox the name of the job, in the table of its network's names. */
int bridge_rename(const json_t *job, struct err *e);
/*
 * Removes the networks of sandboxes that are gone ("sandboxes" of the job is the directory with an
 * entry for each existing sandbox), and the bridge and the table if no sandbox uses them.
 */
int bridge_gc(const json_t *job, struct err *e);
/*
 * Closes a named network for good, and removes its kernel objects; ERR_BUSY while it has
 * members.
 */
int bridge_remove(const json_t *job, struct err *e);
/* Makes a bridge and everything with it in a namespace of its own, to see what this kernel can do. */
int bridge_probe(const json_t *job, struct err *e);

/* ---- one run, as its parts share it ---- */

/* bridge_state - the state that bridge*.c share: the job of one run of berth-net, as it was read. */

struct forward;

struct bridge {
	const char *id, *name, *dir, *files, *hostname;
	const char *network;		/* "": the bridge without a name */
	uint64_t limit;			/* most members of a network; 0: no limit */
	const char *sandbox;		/* the sandbox's name; "": none */
	struct ruleset_kind kind;
	int forwarding;			/* berth may switch forwarding on */
	int unrouted;			/* made on a host that forwards nothing: without a way out */
	json_t *policy_json;		/* borrowed */
	struct netpolicy policy;
	struct link_plan link;
	struct pool pool;
	struct pool home;		/* where the pool records which switches of forwarding berth turned
					 * on */
	struct pool_plan plan;		/* the addresses that members may have */
	uint64_t number;		/* number of the sandbox's address */
	uint64_t used_before;		/* bytes of the budget that earlier runs used */
};

/* Reads the job; bridge_unload() must follow, also after an error. */
int bridge_load(struct bridge *b, const json_t *job, struct err *e);
void bridge_unload(struct bridge *b);
/* Takes the lock of the network, and the lock of the host's switches. */
int bridge_lock(struct bridge *b, struct err *e);
void bridge_unlock(struct bridge *b);
/* Answers success, with j or {}. */
void bridge_answer(const json_t *j);
/* Removes the bridge, which has no member any more. */
int bridge_remove_all(struct bridge *b, struct err *e);
/*
 * Removes the sandbox's part in an order in which no packet gets through: a sandbox in no set may
 * send nothing. Its last counters go to *ret_last. With soon the caller gets its answer before the
 * interface is removed, which takes long.
 */
int bridge_take_back(struct bridge *b, int locked, int soon, json_t **ret_last, struct err *e);
/*
 * Enters the sandbox's names, by which others find it; the first is the name of its address. Call
 * it under the lock.
 */
int bridge_take_names(struct bridge *b, struct err *e);
void bridge_forget_names(struct bridge *b, uint64_t number);
/*
 * Opens the servers that stay once everything is made: ports of the loopback, and the names of a
 * network. *ret is NULL if there are none.
 */
int bridge_open_servers(struct bridge *b, struct forward **ret, struct err *e);
/*
 * Gives up its rights, answers with told, and serves until the supervisor has gone. After a failure
 * the supervisor removes what was made, because this process has no rights left.
 */
int bridge_stay(struct forward *f, const json_t *job, const json_t *told, pid_t parent,
		struct err *e);

#endif
