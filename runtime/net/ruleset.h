/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ruleset - decides what may pass the bridge: a table of nftables, and each sandbox's elements of
 * its sets.
 *
 * The rules are the same however many sandboxes there are: the permissions are in sets and maps. A
 * sandbox is added and removed by one transaction, and identified by its address and its id.
 *
 *   from a sandbox   its own addresses only (source, hardware address); its byte budget;
 *                    answers to what came in by a published port; DNS servers it was given;
 *                    not what is denied; what is allowed; else public addresses, and of all these
 *                    no more connections than it may have open.  Not the host itself, not another
 *                    sandbox.  What is refused is counted.
 *   to a sandbox     answers, and published ports.
 *   among members    of a network that has a name: everything, untracked and not counted
 *                    (ruleset.c).
 */
#ifndef BERTH_RUNTIME_NET_RULESET_H
#define BERTH_RUNTIME_NET_RULESET_H

#include "runtime/net/link.h"
#include "runtime/net/netpolicy.h"

/* Returns 1 if the table, whose name is the bridge's, exists, 0 if not; -1 if it is not ours. */
int ruleset_stands(const char *bridge, struct err *e);
/* The differences on a named network (manager/host/nets.h). */
struct ruleset_kind {
	int peers;	/* members reach each other */
	int internal;	/* and no other host */
	uint64_t rate;	/* bytes a second of all members in each direction; 0: no bound */
};

/* Makes the whole table, unless it exists. */
int ruleset_make(const char *bridge, const struct ruleset_kind *kind, struct err *e);
int ruleset_remove(const char *bridge, struct err *e);
/*
 * Adds a sandbox's elements, counters and budget, of which used_before bytes are spent already
 * (netcount.h reads them).
 */
int ruleset_add(const char *id, const struct link_plan *l, const struct netpolicy *p, uint64_t used_before, struct err *e);
/* Replaces the policy in one transaction; the used part of the budget stays used. */
int ruleset_change(const char *id, const struct link_plan *l, const struct netpolicy *old, const struct netpolicy *fresh,
		   uint64_t used_before, struct err *e);
/*
 * Removes what ruleset_add() and ruleset_change() made. The policy may differ from the kernel's (a
 * crash in between): then the sets are searched.
 */
int ruleset_take_back(const char *id, const struct link_plan *l, const struct netpolicy *p, struct err *e);

#endif
