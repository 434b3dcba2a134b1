/* SPDX-License-Identifier: Apache-2.0 */
/* netrules - the options for the rules that a network's members share, of create and update. */
#ifndef BERTH_CLI_LOOK_NETRULES_H
#define BERTH_CLI_LOOK_NETRULES_H

#include "cli/command.h"
#include "manager/ops/netopts.h"

enum { NETRULES_BYTES = NETOPTS_LISTS, NETRULES_CONNECTIONS };

/* Their ids begin at first. */
#define NETRULES_TABLE(first) \
	{ "allow-host", 0, OPT_LIST, "NAME[:PORT]", \
	  "whom members may reach, through a proxy; with this or another rule there is no other " \
	  "way out", \
	  (first) + NETOPTS_ALLOW_HOST }, \
	{ "deny-host", 0, OPT_LIST, "NAME[:PORT]", \
	  "whom members may not reach, whatever else allows it", (first) + NETOPTS_DENY_HOST }, \
	{ "allow-net", 0, OPT_LIST, "CIDR", \
	  "addresses that are not public and may be reached all the same", \
	  (first) + NETOPTS_ALLOW_NET }, \
	{ "deny-net", 0, OPT_LIST, "CIDR", "addresses that may not be reached", \
	  (first) + NETOPTS_DENY_NET }, \
	{ "network-bytes", 0, OPT_VALUE, "SIZE", \
	  "bytes in and out of all members before nothing passes, or unlimited", \
	  (first) + NETRULES_BYTES }, \
	{ "network-connections", 0, OPT_VALUE, "N", \
	  "connections of all members before nothing passes, or unlimited", \
	  (first) + NETRULES_CONNECTIONS }

#define NETRULES_DNS(first) \
	{ "dns", 0, OPT_LIST, "ADDRESS", "DNS server of the proxies (default: those of the host)", \
	  (first) + NETOPTS_DNS }

/* which: the id of an option less the first. */
int netrules_set(struct netopts *o, int which, const char *value, struct err *e);

#endif
