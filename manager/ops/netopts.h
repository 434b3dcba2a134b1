/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netopts - the network options of run and create.
 *
 * Each value is checked when it is read; netopts_finish() checks that they fit the mode and
 * makes the JSON that berth-net reads (spec.net_policy).
 */
#ifndef BERTH_MANAGER_OPS_NETOPTS_H
#define BERTH_MANAGER_OPS_NETOPTS_H

#include "base/buf.h"
#include "base/json.h"
#include "manager/host/config.h"
#include "runtime/sandbox/spec.h"

enum netopts_list { NETOPTS_ALLOW_HOST, NETOPTS_DENY_HOST, NETOPTS_ALLOW_NET, NETOPTS_DENY_NET, NETOPTS_DNS, NETOPTS_PUBLISH,
		    NETOPTS_DNS_SEARCH, NETOPTS_DNS_OPTION, NETOPTS_LINK, NETOPTS_LISTS };
enum netopts_budget { NETOPTS_BYTES, NETOPTS_CONNECTIONS, NETOPTS_RATE, NETOPTS_BUDGETS };

#define NETOPTS_CONTAINER "container:"	/* --network container:SANDBOX */

struct netopts {
	json_t *policy;		/* NULL until the first option */
	char name[65];		/* name of the network; "": the bridge without a name */
	char joins[65];		/* the sandbox whose network it joins, by name or id; "": none */
	char *text;		/* spec.net_policy points to it */
	json_t *own;		/* on a network with rules: the sandbox's own rules */
	char *own_text;		/* spec.net_egress points to it */
	char *relay_policy;	/* spec.net_relay points to it */
	json_t *hosts;		/* from --add-host, [["NAME", "ADDRESS"]]; NULL: none */
	struct buf lines;	/* spec.hosts points to it */
};

/* Returns the key of a list in the policy, and the name of its option. */
const char *netopts_key(enum netopts_list l);
const char *netopts_option(enum netopts_list l);
/* Checks that value has the list's grammar: ERR_INVALID. */
int netopts_check(enum netopts_list l, const char *value, struct err *e);
int netopts_add(struct netopts *o, enum netopts_list l, const char *value, struct err *e);
int netopts_set(struct netopts *o, enum netopts_budget b, const char *value, struct err *e);
/* Parses a budget's value; "unlimited" is 0. */
int netopts_budget(enum netopts_budget b, const char *value, uint64_t *ret, struct err *e);
/*
 * Parses --network: a mode, or the name of a network, which netopts_finish() looks up.
 */
int netopts_mode(struct netopts *o, const char *value, enum spec_network *ret, struct err *e);
/* Adds another name by which the members of its network find it. */
int netopts_alias(struct netopts *o, const char *value, struct err *e);
/* Sets an address that it gets on its network. */
int netopts_ip(struct netopts *o, const char *value, struct err *e);
/* Returns the addresses set by netopts_ip(): an array, or NULL. */
const json_t *netopts_addresses(const struct netopts *o);
/* Adds "NAME:ADDRESS" for /etc/hosts; host-gateway is the host. */
int netopts_host(struct netopts *o, const char *value, struct err *e);
/* Sets s->hosts, s->net_policy if the mode of s has one, and s->net_relay if ports are relayed. */
int netopts_finish(struct netopts *o, const struct config *c, struct spec *s, struct err *e);
/* Tells whether its bridge has no way out, on a host that does not forward; after netopts_finish(). */
int netopts_is_unrouted(const struct netopts *o, const struct config *c, const struct spec *s);
/* Tells whether a port was published without one of the host, so that berth chooses it. */
int netopts_chose_port(const struct netopts *o);
/* Tells whether a value other than "unlimited" was given for it. */
int netopts_has(const struct netopts *o, enum netopts_budget b);
/* Tells whether "unlimited" was given for it. */
int netopts_is_unlimited(const struct netopts *o, enum netopts_budget b);
void netopts_release(struct netopts *o);

#endif
