/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nethelper - the supervisor's side of berth-net, the helper for --network bridge and egress.
 *
 * It is a separate program, so that neither its libraries nor its work slow a sandbox without a
 * network. The supervisor starts it once the sandbox's network namespace exists and before anything
 * of the image is looked at, and waits for its answer. For egress it stays, as the sandbox's proxy,
 * and dies with us. For bridge it ends when everything is made, unless ports are published on the
 * host's loopback: then it stays and forwards them to the sandbox (net/forward.h).
 * runtime/net/netwire.h has their protocol.
 */
#ifndef BERTH_RUNTIME_SANDBOX_NETHELPER_H
#define BERTH_RUNTIME_SANDBOX_NETHELPER_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "base/program.h"
#include "runtime/net/netwire.h"
#include "runtime/sandbox/spec.h"

struct nethelper {
	struct helper proc;
	struct helper resolver;	/* for a bridge without a name, once it joined a network */
	/* egress: socket with a packet for each refused request; joined: a pidfd; else -1 */
	int notice_fd;
	struct netcounters *counters;	/* for egress, else NULL */
	int bridge;			/* there is a network to remove */
	json_t *told;			/* bridge: its addresses, for nethelper_describe() */
	struct netcounters last;	/* its counters, once it was stopped */
};

void nethelper_init(struct nethelper *h);
/*
 * Starts berth-net for s; log_dir (or NULL) is the directory for the log of egress.
 * nethelper_ready() must follow.
 */
int nethelper_start(struct nethelper *h, const struct spec *s, int netns_fd, const char *log_dir, struct err *e);
/*
 * Starts the proxy of a member of a network with a policy, beside its bridge; does nothing for
 * other sandboxes.
 */
int nethelper_start_member(struct nethelper *h, const struct spec *s, int netns_fd, struct err *e);
/* Starts the relay of its published ports; does nothing for sandboxes without. */
int nethelper_start_relay(struct nethelper *h, const struct spec *s, int netns_fd, struct err *e);
/*
 * Watches the sandbox whose network s joins: notice_fd becomes readable when that sandbox ends.
 */
int nethelper_watch(struct nethelper *h, const struct spec *s, struct err *e);
/* Waits for berth-net's answer. */
int nethelper_ready(struct nethelper *h, struct err *e);
/* Applies another policy, at once; *ret_cut connections were cut. netns_fd: the sandbox's network. */
int nethelper_update(struct nethelper *h, const struct spec *s, const char *policy, int netns_fd,
		     uint64_t *ret_cut, struct err *e);
/* Returns 1 if its process of the bridge stays for "loopback" (published ports) or "resolver". */
int nethelper_serves(const struct nethelper *h, const char *what);
/* Tells whether its process still runs, if one stays: a dead proxy counts nothing more. */
int nethelper_lives(const struct nethelper *h);
/* Ends berth-net and removes what it made. Idempotent. */
int nethelper_stop(struct nethelper *h, const struct spec *s, struct err *e);
/* Returns {"mode":..., counters}, a new reference. */
json_t *nethelper_describe(const struct nethelper *h, const struct spec *s);
/* Adds the ports of a relay, and whether it runs, to the description of the sandbox's network. */
void nethelper_describe_relay(const struct nethelper *h, json_t *network);
/* Reads the counters so far: 1; 0 if this network is not counted; -1 if the kernel reports none. */
int nethelper_count(const struct nethelper *h, const struct spec *s, struct netcounters *ret, struct err *e);
/*
 * Returns the bytes of the budget that are spent, including those of earlier runs of the sandbox
 * (spec.net_used_bytes).
 */
uint64_t nethelper_used(const struct netcounters *c, const struct spec *s);
/*
 * Adds interface number `interface` to the running sandbox's network namespace netns_fd. It joins
 * the network that policy names (JSON, bridge.h), where the sandbox is called name. The sandbox's
 * resolver then knows the names: on the bridge without a name it starts with the first network.
 * *ret_told: the addresses, a new reference.
 */
int nethelper_join(struct nethelper *h, const struct spec *s, const char *name, int netns_fd,
		   unsigned interface, const json_t *policy, json_t **ret_told, struct err *e);
/* Removes that interface. */
int nethelper_part(struct nethelper *h, const struct spec *s, const json_t *policy, struct err *e);
/*
 * Runs berth-net VERB with job (JSON text) and waits; ret_answer, unless NULL, gets its answer (a
 * new reference).
 */
int nethelper_call(const char *verb, const char *job, json_t **ret_answer, struct err *e);
/*
 * As nethelper_call(), for a verb of the bridge, with a job made of id, extra members (",\"a\":1"
 * or "") and the policy's text.
 */
int nethelper_bridge(const char *verb, const char *id, const char *extra, const char *policy, json_t **ret_answer, struct err *e);

#endif
