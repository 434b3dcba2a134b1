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

#include "base/err.h"
#include "base/json.h"

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

#endif
