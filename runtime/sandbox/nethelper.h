/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nethelper - the supervisor's side of berth-net, the helper for --network bridge and egress.
 *
 * It is a separate program, so that neither its libraries nor its work slow a sandbox without a
 * network. The supervisor starts it once the sandbox's network namespace exists and before
 * anything of the image is looked at, and waits for its answer. For egress it stays, as the
 * sandbox's proxy, and dies with us. For bridge it ends when all is made, unless ports are
 * published on the host's loopback: then it stays and forwards them to the sandbox
 * (net/forward.h). runtime/net/netwire.h has their protocol.
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
	struct helper resolver;	/* of a bridge without a name, once it joined a network */
	/* egress: refused requests, a packet each; joined: a pidfd; else -1 */
	int notice_fd;
	struct netcounters *counters;	/* egress, else NULL */
	int bridge;			/* there is something to take back */
	json_t *told;			/* bridge: its addresses, for nethelper_describe() */
	struct netcounters last;	/* once it was stopped */
};

void nethelper_init(struct nethelper *h);
/* Starts it for s; log_dir (or NULL) is where the log of egress goes.  nethelper_ready() must follow. */
int nethelper_start(struct nethelper *h, const struct spec *s, int netns_fd, const char *log_dir, struct err *e);
/* The proxy of a member of a network with a policy, beside its bridge; of others none. */
int nethelper_start_member(struct nethelper *h, const struct spec *s, int netns_fd, struct err *e);
/*
 * For a sandbox that joins the network of another: notice_fd becomes readable at the end of that
 * sandbox.
 */
int nethelper_watch(struct nethelper *h, const struct spec *s, struct err *e);
/* Waits for its answer. */
int nethelper_ready(struct nethelper *h, struct err *e);
/* Another policy, at once; *ret_cut connections were cut.  netns_fd: the sandbox's network. */
int nethelper_update(struct nethelper *h, const struct spec *s, const char *policy, int netns_fd,
		     uint64_t *ret_cut, struct err *e);
/* 1 if its process of the bridge stays for "loopback" (published ports) or "resolver". */
int nethelper_serves(const struct nethelper *h, const char *what);
/* Whether its process still runs, where one stays: what a proxy counts, it counts no more after. */
int nethelper_lives(const struct nethelper *h);
/* Ends it and removes what it made. Idempotent. */
int nethelper_stop(struct nethelper *h, const struct spec *s, struct err *e);
/* {"mode":..., counters}: a new reference. */
json_t *nethelper_describe(const struct nethelper *h, const struct spec *s);
/* Its counters so far: 1; 0 if this network is not counted; -1 if the kernel reports none. */
int nethelper_count(const struct nethelper *h, const struct spec *s, struct netcounters *ret, struct err *e);
/* Bytes of the budget that are spent, those of earlier runs of the sandbox included (spec.net_used_bytes). */
uint64_t nethelper_used(const struct netcounters *c, const struct spec *s);
/*
 * One more interface, number interface, in the running sandbox's network namespace netns_fd: that
 * of the network that policy names (JSON, bridge.h), where the sandbox is called name.  Its
 * resolver knows the names then: on the bridge without a name it starts with the first network.
 * *ret_told: its addresses, a new reference.
 */
int nethelper_join(struct nethelper *h, const struct spec *s, const char *name, int netns_fd,
		   unsigned interface, const json_t *policy, json_t **ret_told, struct err *e);
/* Takes it back. */
int nethelper_part(struct nethelper *h, const struct spec *s, const json_t *policy, struct err *e);
/*
 * Runs berth-net VERB with job (JSON text) and waits; ret_answer, when not NULL,
 * gets what it says (a new reference).
 */
int nethelper_call(const char *verb, const char *job, json_t **ret_answer, struct err *e);
/* The same for a verb of the bridge, with a job made of id, extra members (",\"a\":1" or "") and the policy's text. */
int nethelper_bridge(const char *verb, const char *id, const char *extra, const char *policy, json_t **ret_answer, struct err *e);

#endif
