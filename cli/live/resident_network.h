/* SPDX-License-Identifier: Apache-2.0 */
/* resident_network - what the network of a lasting sandbox needs of others before it starts. */
#ifndef BERTH_CLI_LIVE_RESIDENT_NETWORK_H
#define BERTH_CLI_LIVE_RESIDENT_NETWORK_H

#include "manager/keeper/netclient.h"
#include "manager/ops/runopts.h"

/*
 * A sandbox that is being made with --network container:REF joins that sandbox at every start,
 * however it is renamed: spec says the id from now on.
 */
int resident_network_pin(struct registry *r, struct runopts *o, const char *tenant, json_t *spec,
			 struct err *e);
/* Before runopts_finish() of a start: the network that it joins, if it joins one. */
int resident_network_open(struct registry *r, struct runopts *o, const char *tenant,
			  struct netguest *ret, struct err *e);
/* After it: the directory for what berth-net writes, and what of its budgets earlier runs used. */
int resident_network_settle(struct registry *r, struct spec *s, const char *scratch,
			    struct err *e);

#endif
