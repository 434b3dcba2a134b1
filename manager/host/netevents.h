/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netevents - refusals of a sandbox's network, as events.
 *
 * For egress the proxy reports each refusal in a packet, which is hostile like everything from
 * it. For bridge the kernel counts, and a counter that has grown makes an event. There are at
 * most NETEVENTS_BURST events a second; the number of those left out is in the next one.
 */
#ifndef BERTH_MANAGER_HOST_NETEVENTS_H
#define BERTH_MANAGER_HOST_NETEVENTS_H

#include <stdint.h>

#include "base/json.h"
#include "runtime/sandbox/nethelper.h"

#define NETEVENTS_BURST 10

struct netevents {
	uint64_t window_ms;		/* start of the second that is counted now */
	unsigned count;			/* events in it */
	uint64_t left_out;
	uint64_t denied, over;		/* a bridge's counters when last reported */
	int exhausted;
};

/* Records the event; members is consumed. */
typedef void netevents_fn(void *ctx, const char *event, json_t *members);

/*
 * Reads the proxy's packets at fd: "network-denied" and "network-cut" with the members of its log.
 * 0, or -1 when the proxy is gone. now is CLOCK_MONOTONIC.
 */
int netevents_notices(struct netevents *n, int fd, uint64_t now_ms, netevents_fn *emit, void *ctx);
/*
 * Compares the counters with the last report: "network-denied" {"packets"} and "network-limit"
 * {"connections"} for bridge, "network-budget" for both, once.
 */
void netevents_counters(struct netevents *n, const struct netcounters *c, int is_bridge, netevents_fn *emit, void *ctx);

#endif
