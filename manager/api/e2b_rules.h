/* SPDX-License-Identifier: Apache-2.0 */
/*
 * e2b_rules - E2B's rules of a sandbox's network, as rules of berth's.
 *
 * With E2B what is allowed goes before what is denied, and with berth a denial wins: the ranges to
 * deny are those of denyOut without those of allowOut.  Names that are allowed take berth's egress
 * mode, whose proxy knows them.  Rules only take away from what the configuration of berthd gives a
 * sandbox, so a tenant may have them (S19).  Pure.
 */
#ifndef BERTH_MANAGER_API_E2B_RULES_H
#define BERTH_MANAGER_API_E2B_RULES_H

#include "base/err.h"
#include "base/json.h"
#include "base/netaddr.h"

#define E2B_RANGES_MAX 256 /* of a policy (netpolicy.h) */

struct e2b_ranges {
	struct netcidr v[E2B_RANGES_MAX];
	size_t n;
};

struct e2b_rules {
	struct e2b_ranges allow, deny; /* deny: without what is allowed, once settled */
	json_t *names;	/* that are allowed */
	int closed;	/* nothing is allowed */
};

/* Whether a member says something: not null, false or empty. */
int e2b_rules_given(const json_t *object, const char *key);
/* ERR_UNSUPPORTED for a member of a network that berth does not keep, ERR_INVALID. */
int e2b_rules_check(const json_t *network, struct err *e);
/*
 * What allow_internet_access and the members allowOut and denyOut of network ask for; r is zeroed,
 * and r->names is the caller's to release, also after an error. ERR_INVALID, ERR_LIMIT.
 */
int e2b_rules_read(const json_t *access, const json_t *network, struct e2b_rules *r, struct err *e);
/*
 * {"allow-host": [...], "deny-net": [...]} for a sandbox in egress mode, or one on the bridge; a
 * new reference, or NULL: ERR_DENIED for an address that is not public, ERR_UNSUPPORTED.
 */
json_t *e2b_rules_options(const struct e2b_rules *r, int egress, struct err *e);
/* ERR_UNSUPPORTED: there is no network that rules could open. */
int e2b_rules_refuse_none(struct err *e);
/*
 * The options of the network that a create of E2B's asks for, which its caller needs no right to:
 * they take away from what [sandbox] network_enabled (enabled) gives. NULL with E2B's own error.
 */
json_t *e2b_rules_of_create(const json_t *body, int enabled, struct err *e);

#endif
