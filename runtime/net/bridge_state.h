/* SPDX-License-Identifier: Apache-2.0 */
/* bridge_state - what bridge*.c share: the job of one run of berth-net, as it was read. */
#ifndef BERTH_RUNTIME_NET_BRIDGE_STATE_H
#define BERTH_RUNTIME_NET_BRIDGE_STATE_H

#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "runtime/net/link.h"
#include "runtime/net/netpolicy.h"
#include "runtime/net/pool.h"
#include "runtime/net/ruleset.h"

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
