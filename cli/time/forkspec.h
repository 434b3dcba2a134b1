/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forkspec - what a fork is made with: the options of the first sandbox, and those that the
 * command line of berth fork puts in their place.  Pure, but for the environment of --env NAME.
 */
#ifndef BERTH_CLI_TIME_FORKSPEC_H
#define BERTH_CLI_TIME_FORKSPEC_H

#include "cli/command.h"
#include "cli/run/residentopts.h"

#define FORKSPEC_FIRST_OWN RESIDENT_FIRST_OWN /* ids of a command's own options */

/* Rows of a table of options. */
#define FORKSPEC_TABLE                                                                             \
	{ "env", 'e', OPT_LIST, "NAME[=VALUE]",                                                    \
	  "environment variable, beside those of the first; without a value: the caller's",        \
	  RUNOPT_ENV },                                                                            \
	{ "label", 'l', OPT_LIST, "KEY=VALUE", "label, beside those of the first",                 \
	  RUNOPT_LABEL },                                                                          \
	{ "volume", 'v', OPT_LIST, "NAME:DST[:rw]",                                                \
	  "named volume or absolute directory, beside those of the first", RUNOPT_VOLUME },        \
	{ "ttl", 0, OPT_VALUE, "TIME", "remove it so long after it was made; 0 is never",          \
	  RESIDENT_TTL },                                                                          \
	{ "memory", 'm', OPT_VALUE, "SIZE", "another memory limit", RUNOPT_MEMORY },               \
	{ "cpus", 'c', OPT_VALUE, "N", "another number of CPUs", RUNOPT_CPUS },                    \
	{ "pids", 0, OPT_VALUE, "N", "another number of processes and threads", RUNOPT_PIDS },     \
	{ "network", 0, OPT_VALUE, "MODE",                                                         \
	  "another network, without the rules and ports of the first", RUNOPT_NETWORK,             \
	  COMPLETE_WORDS, "none host bridge egress" },                                             \
	{ "allow-host", 0, OPT_LIST, "NAME[:PORT]", "egress: whom it may reach",                   \
	  RUNOPT_ALLOW_HOST },                                                                     \
	{ "deny-host", 0, OPT_LIST, "NAME[:PORT]", "egress: whom it may not", RUNOPT_DENY_HOST },  \
	{ "allow-net", 0, OPT_LIST, "CIDR", "addresses that may be reached", RUNOPT_ALLOW_NET },   \
	{ "deny-net", 0, OPT_LIST, "CIDR", "addresses that may not", RUNOPT_DENY_NET }

/* Adds an option of FORKSPEC_TABLE to more, an array of [NAME, VALUE]. */
int forkspec_add(json_t *more, int id, const char *value, struct err *e);
/*
 * The spec.json of a fork: a new object, or NULL with e.  Labels, variables and volumes of more
 * come after those of spec; an option of one value replaces spec's; a rule of the network replaces
 * all of spec's rules, and --network its ports, too.
 */
json_t *forkspec_of(const json_t *spec, const json_t *more, struct err *e);

#endif
