/* SPDX-License-Identifier: Apache-2.0 */
/* berth network: networks that have a name, their members, and the network of each sandbox. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "cli/look/networks.h"
#include "manager/host/filter.h"
#include "manager/host/journal.h"
#include "manager/host/labels.h"
#include "manager/host/netmembers.h"
#include "manager/host/nets.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/host/tenant.h"
#include "manager/keeper/netclient.h"
#include "manager/keeper/protocol.h"
#include "manager/ops/netopts.h"
#include "runtime/net/netgroup.h"
#include "runtime/sandbox/nethelper.h"

/* The row of --tenant, and its value: ERR_INVALID. */
#define NETWORKS_TENANT(id) { "tenant", 0, OPT_VALUE, "NAME", "as this tenant of berthd", id }

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

static int networks_dir(struct registry *r, const char *name, struct err *e);
static int networks_set_tenant(const char **ret, const char *value, struct err *e);

/* ---- update ---- */

/* berth network update: the rules of a network with rules, for all its members at once. */

enum { RULES_JSON = 1, RULES_FIRST };

static const struct opt update_options[] = {
	NETRULES_TABLE(RULES_FIRST),
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", RULES_JSON },
};

struct update {
	struct sandbox_ref s;
	struct netopts rules;
	int json;
};

/* which: the id of an option less the first. */
static int netrules_set(struct netopts *o, int which, const char *value, struct err *e)
{
	if (which == NETRULES_BYTES || which == NETRULES_CONNECTIONS)
		return netopts_set(o, which == NETRULES_BYTES ? NETOPTS_BYTES :
								NETOPTS_CONNECTIONS,
				   value, e);
	return netopts_add(o, (enum netopts_list)which, value, e);
}

static int set_network_rule_option(void *ctx, int id, const char *value, struct err *e)
{
	struct update *u = ctx;

	if (id != RULES_JSON)
		return netrules_set(&u->rules, id - RULES_FIRST, value, e);
	u->json = 1;
	return 0;
}

static int update_network_rules(struct update *u, const char *name, struct err *e)
{
	autojson json_t *record = NULL;
	struct netrules_done done = { 0 };

	if (!netmerge_wanted(u->rules.policy))
		return err_set(e, ERR_USAGE, "no rule given; hint: berth network update "
					     "--allow-host NAME NETWORK");
	if (sandbox_ref_registry(&u->s, e) < 0 ||
	    netrules_update(&u->s.registry, name, u->rules.policy, &record, &done, e) < 0)
		return -1;
	if (u->json)
		printf("{\"name\":\"%s\",\"members\":%u,\"cut\":%llu}\n", name, done.members,
		       (unsigned long long)done.cut);
	else
		puts(name);
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int run_network_update(const struct command *self, int argc, char **argv)
{
	struct update u = { .json = 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&u.s);
	r = command_options(self, argc, argv, set_network_rule_option, &u, &rest, &help, &e);
	if (r == 0 && !help && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE, "one network is wanted; hint: berth network update "
					   "--allow-host NAME NETWORK");
	if (r == 0 && !help)
		r = update_network_rules(&u, argv[rest], &e);
	netopts_release(&u.rules);
	sandbox_ref_close(&u.s);
	return r < 0 ? command_fail(self, &e, u.json) : 0;
}

const struct command cmd_network_update = {
	.name = "network update",
	.args = "NETWORK",
	.summary = "change the rules and budgets that the members of a network share",
	.opts = update_options,
	.opt_count = ARRAY_LEN(update_options),
	.complete = COMPLETE_NETWORK,
	.run = run_network_update,
};

/* ---- create, rm, prune ---- */

/* berth network create, rm, prune: networks that have a name. */

enum {
	NAMED_JSON = 1, NAMED_INTERNAL, NAMED_SUBNET, NAMED_LABEL, NAMED_FILTER, NAMED_DRY_RUN, NAMED_FORCE,
	NAMED_TENANT, NAMED_RATE, OPT_GATEWAY, OPT_RANGE, OPT_AUX, OPT_NO_IPV6, OPT_PUBLIC,
	NAMED_FIRST_RULE,	/* of NETRULES_TABLE */
};

static const struct opt rm_options[] = {
	NETWORKS_TENANT(NAMED_TENANT),
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", NAMED_JSON },
};

static const struct opt create_options[] = {
	{ "internal", 0, OPT_FLAG, NULL, "its members reach only each other",
	 NAMED_INTERNAL },
	{ "subnet", 0, OPT_LIST, "CIDR", "addresses of its members, IPv4, IPv6 or one of each "
					 "(default: free ones)",
	  NAMED_SUBNET },
	{ "gateway", 0, OPT_LIST, "ADDRESS", "the bridge's own address in a subnet (default: the first)", OPT_GATEWAY },
	{ "ip-range", 0, OPT_LIST, "CIDR", "the part of a subnet whose addresses members get by themselves", OPT_RANGE },
	{ "aux-address", 0, OPT_LIST, "NAME=ADDRESS", "an address that no member gets", OPT_AUX },
	{ "no-ipv6", 0, OPT_FLAG, NULL, "its members have addresses of IPv4 only", OPT_NO_IPV6 },
	{ "public-subnet", 0, OPT_FLAG, NULL, "a subnet may be of public addresses, which its members then do not reach", OPT_PUBLIC },
	{ "label", 0, OPT_LIST, "KEY=VALUE", "a label of the network", NAMED_LABEL },
	NETWORKS_TENANT(NAMED_TENANT),
	{ "network-rate", 0, OPT_VALUE, "RATE",
	  "bytes a second of all members to and from the outside, or with bit, bits (default: "
	  "unlimited)",
	  NAMED_RATE },
	NETRULES_TABLE(NAMED_FIRST_RULE),
	NETRULES_DNS(NAMED_FIRST_RULE),
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", NAMED_JSON },
};

static const struct opt prune_options[] = {
	{ "filter", 0, OPT_LIST, "KEY=VALUE", "only those of that name=, label= or until=",
	  NAMED_FILTER },
	{ "dry-run", 'n', OPT_FLAG, NULL, "only print the names of what would be removed",
	  NAMED_DRY_RUN },
	{ "force", 'f', OPT_FLAG, NULL,
	  "as for berth prune; a network holds no data, so this command never asks",
	  NAMED_FORCE },
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", NAMED_JSON },
};

static const struct filter_key networks_filter_keys[] = {
	{ "name", FILTER_GLOB, "name" },
	{ "label", FILTER_LABEL, "labels" },
	{ "until", FILTER_UNTIL, "created" },
	{ NULL, FILTER_GLOB, NULL },
};

struct networks {
	struct sandbox_ref s;
	struct nets_wanted wanted;
	size_t subnets, gateways, ranges;
	json_t *labels, *aux;
	struct netopts rules;
	const char *tenant;	/* "": the operator */
	struct filter filter;
	int json, dry_run;
};

/* One of IPv4, and one of IPv6. */
static int add_of_family(const char *list[NETS_SUBNETS], size_t *count, const char *option, const char *value, struct err *e)
{
	if (*count == NETS_SUBNETS || (*count && !strchr(list[0], ':') == !strchr(value, ':')))
		return err_set(e, ERR_LIMIT, "--%s: one of IPv4 and one of IPv6 is taken", option);
	list[(*count)++] = value;
	return 0;
}

static int add_aux(struct networks *n, const char *value, struct err *e)
{
	const char *eq = strchr(value, '=');

	if (!eq || eq == value || !eq[1])
		return err_set(e, ERR_INVALID, "'%.80s' is not NAME=ADDRESS; hint: --aux-address router=10.1.2.5", value);
	if (!n->aux)
		n->aux = json_object();
	if (json_object_getn(n->aux, value, (size_t)(eq - value)))
		return err_set(e, ERR_INVALID, "--aux-address names %.*s twice; hint: a name for each address", (int)(eq - value), value);
	return json_object_setn_new_nocheck(n->aux, value, (size_t)(eq - value), json_string(eq + 1)) < 0 ? err_nomem(e) : 0;
}

static int set_named_network_option(void *ctx, int id, const char *value, struct err *e)
{
	struct networks *n = ctx;

	switch (id) {
	case NAMED_INTERNAL:
		n->wanted.internal = 1;
		return 0;
	case NAMED_SUBNET:
		if (n->subnets == NETS_SUBNETS)
			return err_set(e, ERR_LIMIT, "a network has one subnet of IPv4 and one of "
						     "IPv6");
		n->wanted.subnets[n->subnets++] = value;
		return 0;
	case OPT_GATEWAY:
		return add_of_family(n->wanted.gateways, &n->gateways, "gateway", value, e);
	case OPT_RANGE:
		return add_of_family(n->wanted.ranges, &n->ranges, "ip-range", value, e);
	case OPT_AUX:
		return add_aux(n, value, e);
	case OPT_NO_IPV6:
		n->wanted.no_ipv6 = 1;
		return 0;
	case OPT_PUBLIC:
		n->wanted.public_subnet = 1;
		return 0;
	case NAMED_LABEL:
		return labels_add(&n->labels, value, e);
	case NAMED_FILTER:
		return filter_add(&n->filter, value, e);
	case NAMED_DRY_RUN:
		n->dry_run = 1;
		return 0;
	case NAMED_FORCE:
		return 0;
	case NAMED_RATE:
		return netopts_budget(NETOPTS_RATE, value, &n->wanted.max_rate, e);
	case NAMED_TENANT:
		return networks_set_tenant(&n->tenant, value, e);
	case NAMED_JSON:
		n->json = 1;
		return 0;
	default:
		return netrules_set(&n->rules, id - NAMED_FIRST_RULE, value, e);
	}
}

typedef int action(struct networks *n, int argc, char **argv, struct err *e);

static int run_named_network_verb(const struct command *self, int argc, char **argv, action *act)
{
	struct networks n = { .filter = { .keys = networks_filter_keys }, .tenant = "" };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&n.s);
	r = command_options(self, argc, argv, set_named_network_option, &n, &rest, &help, &e);
	if (r == 0 && !help && (r = sandbox_ref_registry(&n.s, &e)) == 0)
		r = act(&n, argc - rest, argv + rest, &e);
	json_decref(n.labels);
	json_decref(n.aux);
	netopts_release(&n.rules);
	sandbox_ref_close(&n.s);
	return r < 0 ? command_fail(self, &e, n.json) : 0;
}

/* ---- create ------------------------------------------------------------------------------ */

/* [tenant] network_hosts: what a network that is not internal leads to, by proxies alone. */
static int add_tenant_hosts(struct networks *n, const struct tenant *t, struct err *e)
{
	autofree char *hosts = strdup(t->network_hosts);
	char *next = hosts, *host;

	if (!hosts)
		return err_nomem(e);
	while ((host = strsep(&next, "\n")))
		if (host[0] && netopts_add(&n->rules, NETOPTS_ALLOW_HOST, host, e) < 0)
			return -1;
	return 0;
}

/* A tenant's network leads where the operator says, and berth chooses its addresses. */
static int of_tenant(struct networks *n, struct err *e)
{
	struct tenant t;

	if (n->rules.policy || n->subnets || n->gateways || n->ranges || n->aux)
		return err_set(e, ERR_INVALID, "the operator chooses the rules of a tenant's "
			       "network, and berth its subnet; hint: without --subnet and rules");
	if (tenant_load(&t, n->s.registry.config, n->tenant, e) < 0)
		return -1;
	n->wanted.tenant = n->tenant;
	n->wanted.tenant_max = t.networks;
	if (!n->wanted.internal && add_tenant_hosts(n, &t, e) < 0)
		return -1;
	n->wanted.internal = 1;
	return 0;
}

/* Each member of a network with rules has a proxy of its own, and no packet passes the bridge. */
static int check_named_network_rate(const struct networks *n, struct err *e)
{
	if (!n->wanted.max_rate || !n->wanted.internal)
		return 0;
	return err_set(e, ERR_INVALID,
		       "--network-rate bounds what passes the bridge, and nothing of a network "
		       "that is internal or has rules does; "
		       "hint: --network-rate of berth create bounds one member");
}

static int create_named_network(struct networks *n, int argc, char **argv, struct err *e)
{
	autojson json_t *record = NULL;
	char key[NETS_NAME_MAX + 1];

	if (argc != 1)
		return err_set(e, ERR_USAGE, "one name is wanted; hint: berth network create NAME");
	if (nets_key(argv[0], n->tenant, key, e) < 0 || (n->tenant[0] && of_tenant(n, e) < 0))
		return -1;
	n->wanted.name = key;
	n->wanted.labels = n->labels;
	n->wanted.aux = n->aux;
	/* their way out is a proxy, and no other */
	if ((n->wanted.egress = n->rules.policy))
		n->wanted.internal = 1;
	if (check_named_network_rate(n, e) < 0)
		return -1;
	if (nets_create(n->s.registry.config, &n->wanted, &record, e) < 0)
		return -1;
	events_add(&n->s.registry, "network-create", "", json_pack("{s:s,s:O*}", "name", key, "labels", n->labels));
	if (n->json)
		return command_print_json(record, JSON_COMPACT, e);
	return puts(argv[0]) < 0 || fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int run_network_create(const struct command *self, int argc, char **argv)
{
	return run_named_network_verb(self, argc, argv, create_named_network);
}

/* ---- rm, prune ---------------------------------------------------------------------------- */

static int tell_removed_networks(const struct networks *n, json_t *names, struct err *e)
{
	autojson json_t *answer = json_pack("{s:O}", n->dry_run ? "would_remove" : "removed",
					    names);
	json_t *v;
	size_t i;

	if (n->json)
		return answer ? command_print_json(answer, JSON_COMPACT, e) : err_nomem(e);
	json_array_foreach(names, i, v)
		puts(json_string_value(v));
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int drop_named_network(struct networks *n, const char *key, struct err *e)
{
	if (netend_remove(&n->s.registry, key, e) < 0)
		return -1;
	events_add(&n->s.registry, "network-rm", "", json_pack("{s:s}", "name", key));
	return 0;
}

static int remove_named_networks(struct networks *n, int argc, char **argv, struct err *e)
{
	autojson json_t *removed = json_array();
	char key[NETS_NAME_MAX + 1];
	int i;

	if (argc < 1)
		return err_set(e, ERR_USAGE, "no network given; hint: berth network rm NAME");
	for (i = 0; i < argc; i++)
		if (nets_key(argv[i], n->tenant, key, e) < 0 ||
		    drop_named_network(n, key, e) < 0 ||
		    json_array_append_new(removed, json_string(argv[i])) < 0)
			return -1;
	return tell_removed_networks(n, removed, e);
}

static int run_network_rm(const struct command *self, int argc, char **argv)
{
	return run_named_network_verb(self, argc, argv, remove_named_networks);
}

static int note_name(void *ctx, const char *name)
{
	return json_array_append_new(ctx, json_string(name));
}

/* 0: it has no members; -1 as netend_remove() says it. */
static int is_used(struct networks *n, const char *name, struct err *e)
{
	autojson json_t *members = netend_members(&n->s.registry, name, e);

	if (!members)
		return -1;
	return json_array_size(members) ? err_set(e, ERR_BUSY, "network %s has members", name) : 0;
}

static int prune_named_networks(struct networks *n, int argc, char **argv, struct err *e)
{
	autojson json_t *names = json_array(), *removed = json_array();
	json_t *v;
	size_t i;

	if (argc)
		return err_set(e, ERR_USAGE, "unexpected argument '%.80s'", argv[0]);
	if (nets_each(n->s.registry.config, note_name, names, e) != 0)
		return -1;
	json_array_foreach(names, i, v) {
		autojson json_t *record = nets_load(n->s.registry.config, json_string_value(v), e);

		/* a tenant removes its own */
		if (!record || strchr(json_string_value(v), '@') ||
		    !filter_matches(&n->filter, record))
			continue;
		if ((n->dry_run ? is_used(n, json_string_value(v), e) :
				  drop_named_network(n, json_string_value(v), e)) == 0)
			json_array_append(removed, v);
		else if (e->code != ERR_BUSY && e->code != ERR_NOT_FOUND)
			return -1;
	}
	return tell_removed_networks(n, removed, e);
}

static int run_network_prune(const struct command *self, int argc, char **argv)
{
	return run_named_network_verb(self, argc, argv, prune_named_networks);
}

/* ---- for cmd_network.c ---------------------------------------------------------------------- */

struct listing {
	struct registry *r;
	json_t *list;
	const char *tenant;
	struct err *e;
};

static int add_row(void *ctx, const char *name)
{
	struct listing *l = ctx;
	const size_t n = strcspn(name, "@");
	autojson json_t *members = NULL;
	json_t *record;

	if (l->tenant[0] && (!name[n] || strcmp(name + n + 1, l->tenant)))
		return 0;
	members = netend_members(l->r, name, l->e);
	record = members ? nets_load(l->r->config, name, l->e) : NULL;
	if (!record)	/* removed just now */
		return members && l->e->code == ERR_NOT_FOUND ? 0 : -1;
	json_object_set(record, "members", members);
	return json_array_append_new(l->list, record);
}

/* Every record with "members", or tenant's (not ""): a new reference, or NULL. */
static json_t *networks_list(struct registry *r, const char *tenant, struct err *e)
{
	struct listing l = { r, json_array(), tenant, e };

	if (l.list && nets_each(r->config, add_row, &l, e) == 0)
		return l.list;
	json_decref(l.list);
	return NULL;
}

/* Of a network with rules: what its members have used of its budgets. */
static int add_network_budget_use(struct registry *r, const char *name, json_t *record, struct err *e)
{
	autoclose int dir = -1, fd = -1;
	struct netgroup g = { 0 };

	if (!json_object_get(record, NETS_EGRESS))
		return 0;
	dir = networks_dir(r, name, e);
	if (dir < 0)
		return -1;
	fd = openat(dir, NETGROUP_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && pread(fd, &g, sizeof(g), 0) != (ssize_t)sizeof(g))
		return err_sys(e, "read the budget of network %s", name);
	return json_object_set_new(record, "used",
				   json_pack("{s:I,s:I}", "bytes", (json_int_t)g.bytes,
					     "connections", (json_int_t)g.connections));
}

/* The directory of a network: its log is in there. */
static int networks_dir(struct registry *r, const char *name, struct err *e)
{
	char path[100];
	int fd;

	if (nets_check_name(name, e) < 0)
		return -1;
	snprintf(path, sizeof(path), NETS_DIR "/%s", name);
	fd = openat(r->state_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open the directory of network %s", name) : fd;
}

/* One of them; ERR_NOT_FOUND. */
static json_t *networks_find(struct registry *r, const char *name, struct err *e)
{
	json_t *record = nets_load(r->config, name, e), *members;

	if (!record)
		return NULL;
	members = netend_members(r, name, e);
	if (members && json_object_set_new(record, "members", members) == 0 &&
	    add_network_budget_use(r, name, record, e) == 0)
		return record;
	json_decref(record);
	return NULL;
}

/* As the operator calls it. */
static const char *operators_network_name(const json_t *record, char key[NETS_NAME_MAX + 1])
{
	const char *tenant = json_string_value(json_object_get(record, "tenant"));

	snprintf(key, NETS_NAME_MAX + 1, "%s%s%s",
		 json_string_value(json_object_get(record, "name")), tenant ? "@" : "",
		 tenant ? tenant : "");
	return key;
}

static int networks_set_tenant(const char **ret, const char *value, struct err *e)
{
	*ret = value;
	return path_is_name(value) ? 0 : err_set(e, ERR_INVALID, "'%.80s' is not a tenant's name; "
						 "hint: a-z 0-9 _ . -", value);
}

void networks_print(const json_t *list)
{
	char key[NETS_NAME_MAX + 1];
	json_t *j;
	size_t i;

	printf("%-20s  %-18s  %-8s  %7s  %s\n", "NAME", "SUBNET", "INTERNAL", "MEMBERS", "CREATED");
	json_array_foreach(list, i, j)
		printf("%-20s  %-18s  %-8s  %7zu  %s\n", operators_network_name(j, key),
		       json_string_value(json_object_get(j, "subnet")),
		       json_is_true(json_object_get(j, "internal")) ? "yes" : "no",
		       json_array_size(json_object_get(j, "members")),
		       json_string_value(json_object_get(j, "created")));
}

const struct command cmd_network_create = {
	.name = "network create",
	.args = "NAME",
	.summary = "make a network, whose members see each other",
	.opts = create_options,
	.opt_count = ARRAY_LEN(create_options),
	.run = run_network_create,
};

const struct command cmd_network_rm = {
	.name = "network rm",
	.args = "NAME...",
	.summary = "remove networks that have no members",
	.opts = rm_options,
	.opt_count = ARRAY_LEN(rm_options),
	.complete = COMPLETE_NETWORK,
	.run = run_network_rm,
};

const struct command cmd_network_prune = {
	.name = "network prune",
	.summary = "remove every network that has no members",
	.opts = prune_options,
	.opt_count = ARRAY_LEN(prune_options),
	.run = run_network_prune,
};

/* ---- connect, disconnect ---- */

/* berth network connect, disconnect: a sandbox on more networks than one. */

enum { JOIN_JSON = 1, JOIN_ALIAS, OPT_IP, JOIN_TENANT };

static const struct opt connect_options[] = {
	{ "alias", 0, OPT_LIST, "NAME", "another name of the sandbox on this network", JOIN_ALIAS },
	{ "ip", 0, OPT_LIST, "ADDRESS", "an address of the sandbox on this network: one of IPv4, one of IPv6, one of its hardware", OPT_IP },
	NETWORKS_TENANT(JOIN_TENANT),
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", JOIN_JSON },
};

static const struct opt disconnect_options[] = {
	NETWORKS_TENANT(JOIN_TENANT),
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", JOIN_JSON },
};

struct netjoin {
	json_t *aliases;
	struct netopts addresses;	/* those alone */
	int json;
	const char *tenant;	/* "": the operator */
};

static int set_netjoin_option(void *ctx, int id, const char *value, struct err *e)
{
	struct netjoin *n = ctx;

	if (id == JOIN_ALIAS)
		return json_array_append_new(n->aliases, json_string(value)) < 0 ?
		       err_set(e, ERR_INVALID, "the alias is not valid UTF-8") : 0;
	if (id == OPT_IP)
		return netopts_ip(&n->addresses, value, e);
	if (id == JOIN_TENANT)
		return networks_set_tenant(&n->tenant, value, e);
	n->json = 1;
	return 0;
}

/* A tenant's sandbox goes on the tenant's networks, and on no other. */
static int find_netjoin_sandbox(const struct netjoin *n, int joins, struct sandbox_ref *s, const char *network,
				const char *sandbox, char key[NETS_NAME_MAX + 1], struct err *e)
{
	char id[65];

	if (joins && n->tenant[0] && n->addresses.policy)
		return err_set(e, ERR_INVALID, "berth chooses the addresses on a tenant's network; hint: without --ip");
	/* the bridge without a name is nobody's */
	if (!joins && !strcmp(network, NETJOIN_BRIDGE))
		memcpy(key, NETJOIN_BRIDGE, sizeof(NETJOIN_BRIDGE));
	else if (nets_key(network, n->tenant, key, e) < 0)
		return -1;
	if (!n->tenant[0])
		return sandbox_ref_find(s, sandbox, e);
	return sandbox_ref_registry(s, e) < 0 ||
	       netguest_find(&s->registry, sandbox, n->tenant, id, e) < 0 ||
	       sandbox_ref_find(s, id, e) < 0 ? -1 : 0;
}

static int run_network_join(const struct command *self, int argc, char **argv, int joins)
{
	struct netjoin n = { .aliases = json_array(), .tenant = "" };
	struct sandbox_ref s;
	struct err e = { 0 };
	char key[NETS_NAME_MAX + 1];
	int rest, help = 0, r;

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_netjoin_option, &n, &rest, &help, &e);
	if (r == 0 && !help && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a network and a sandbox are wanted; hint: berth %s "
					   "NETWORK SANDBOX", self->name);
	if (r == 0 && !help)
		r = find_netjoin_sandbox(&n, joins, &s, argv[rest], argv[rest + 1], key, &e);
	if (r == 0 && !help)
		r = joins ? netconnect(&s.registry, s.id, s.kept, key, n.aliases, netopts_addresses(&n.addresses), &e) :
			    netdisconnect(&s.registry, s.id, s.kept, key, &e);
	if (r == 0 && !help)
		events_add(&s.registry, joins ? "connect" : "disconnect", s.id, json_pack("{s:s}", "network", key));
	if (r == 0 && !help && n.json)
		printf("{\"id\":\"%s\",\"network\":\"%s\"}\n", s.id, argv[rest]);
	json_decref(n.aliases);
	netopts_release(&n.addresses);
	sandbox_ref_close(&s);
	return r < 0 ? command_fail(self, &e, n.json) : 0;
}

static int connect_main(const struct command *self, int argc, char **argv)
{
	return run_network_join(self, argc, argv, 1);
}

static int disconnect_main(const struct command *self, int argc, char **argv)
{
	return run_network_join(self, argc, argv, 0);
}

const struct command cmd_network_connect = {
	.name = "network connect",
	.args = "NETWORK SANDBOX",
	.summary = "put a sandbox on one more network",
	.opts = connect_options,
	.opt_count = ARRAY_LEN(connect_options),
	.complete = COMPLETE_NETWORK,
	.run = connect_main,
};

const struct command cmd_network_disconnect = {
	.name = "network disconnect",
	.args = "NETWORK SANDBOX",
	.summary = "take a sandbox off a network that it joined",
	.opts = disconnect_options,
	.opt_count = ARRAY_LEN(disconnect_options),
	.complete = COMPLETE_NETWORK,
	.run = disconnect_main,
};

/* ---- ls, inspect, log ---- */

/* berth network ls, inspect, log: the networks of sandboxes, and their use. */

#define LOG_MAX (4u << 20)
#define FOLLOW_MS 200

enum { SHOW_JSON = 1, SHOW_FOLLOW, SHOW_DENIED, SHOW_NAMED, SHOW_TENANT, SHOW_QUIET };

static const struct opt inspect_options[] = {
	NETWORKS_TENANT(SHOW_TENANT),
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", SHOW_JSON },
};

static const struct opt ls_options[] = {
	{ "named", 0, OPT_FLAG, NULL, "the networks that berth network create made", SHOW_NAMED },
	{ "tenant", 0, OPT_VALUE, "NAME", "with --named: those of this tenant of berthd",
	  SHOW_TENANT },
	{ "quiet", 'q', OPT_FLAG, NULL, "only the ids of the sandboxes; with --named the names of the networks", SHOW_QUIET },
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", SHOW_JSON },
};

static const struct opt log_options[] = {
	{ "follow", 'f', OPT_FLAG, NULL, "go on until the sandbox ends", SHOW_FOLLOW },
	{ "denied", 0, OPT_FLAG, NULL, "only what was denied, cut or failed", SHOW_DENIED },
	{ "json", 0, OPT_FLAG, NULL, "one JSON object a line, errors too", SHOW_JSON },
};

struct network {
	struct sandbox_ref s;
	int json, follow, denied, named, quiet;
	const char *tenant;	/* NULL: the operator */
	json_t *list;
};

static int set_network_option(void *ctx, int id, const char *value, struct err *e)
{
	struct network *n = ctx;

	if (id == SHOW_TENANT)
		return networks_set_tenant(&n->tenant, value, e);
	*(id == SHOW_JSON ? &n->json : id == SHOW_FOLLOW ? &n->follow : id == SHOW_NAMED ? &n->named :
	  id == SHOW_QUIET ? &n->quiet : &n->denied) = 1;
	return 0;
}

/* ---- ls ------------------------------------------------------------------------------ */

/* The keeper's answer about it; NULL if it has none (berth run) or does not run. */
static json_t *ask_keeper_network(struct network *n, const char *id)
{
	struct err ignored;
	autoclose int sock = keeper_connect(&n->s.registry, id, &ignored);
	autojson json_t *rq = protocol_request(OP_network), *answer = NULL;
	json_t *found = NULL;

	if (sock >= 0)
		answer = keeper_call(sock, rq, NULL, 0, NULL, &ignored);
	if (answer && json_get_obj(answer, "network", &found, "answer", &ignored) == 1)
		return json_incref(found);
	return NULL;
}

static int note_sandbox_network(void *ctx, const char *id, int kept, json_t *record)
{
	struct network *n = ctx;
	json_t *net = kept ? NULL : ask_keeper_network(n, id), *row;

	if (!net)
		net = json_incref(record_network(record));
	if (!net)
		net = json_pack("{s:s}", "mode", "unknown");
	row = json_pack("{s:s,s:O?,s:s,s:o}", "id", id, "name", json_object_get(record, "name"), "status",
			kept ? "stopped" : "running", "network", net);
	return json_array_append_new(n->list, row);
}

static const char *network_text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s && s[0] ? s : "-";
}

static void network_number_text(const json_t *j, const char *key, char out[24])
{
	const json_t *v = json_object_get(j, key);

	if (v)
		snprintf(out, 24, "%lld", (long long)json_integer_value(v));
	else
		snprintf(out, 24, "-");
}

static void print_network_row(const json_t *row)
{
	const json_t *net = json_object_get(row, "network");
	char denied[24], in[24], out[24];

	network_number_text(net, "denied", denied);
	network_number_text(net, "bytes_in", in);
	network_number_text(net, "bytes_out", out);
	printf("%-12s  %-16.16s  %-8s  %-9s  %-15s  %8s  %12s  %12s\n", network_text_of(row, "id"), network_text_of(row, "name"),
	       network_text_of(row, "status"), network_text_of(net, "mode"), network_text_of(net, "address"), denied, in, out);
}

/* Of sandboxes; those of networks with a name are networks_print()'s. */
static void print_network_table(const json_t *list)
{
	const json_t *row;
	size_t i;

	printf("%-12s  %-16s  %-8s  %-9s  %-15s  %8s  %12s  %12s\n", "ID", "NAME", "STATUS", "MODE", "ADDRESS", "DENIED", "BYTES IN",
	       "BYTES OUT");
	json_array_foreach(list, i, row)
		print_network_row(row);
}

static int print_each(const json_t *list, const char *key, struct err *e)
{
	const json_t *row;
	size_t i;

	json_array_foreach(list, i, row)
		puts(network_text_of(row, key));
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int list_sandbox_networks(struct network *n, struct err *e)
{
	if (n->tenant && !n->named)
		return err_set(e, ERR_USAGE, "--tenant goes with --named");
	if (sandbox_ref_registry(&n->s, e) < 0)
		return -1;
	n->list = n->named ? networks_list(&n->s.registry, n->tenant ? n->tenant : "", e) :
			     json_array();
	if (!n->list)
		return -1;
	if (n->named && n->quiet && !n->json)
		return print_each(n->list, "name", e);
	if (n->named && !n->json) {
		networks_print(n->list);
		return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
	}
	if (!n->named && registry_list(&n->s.registry, 1, note_sandbox_network, n, e) < 0)
		return -1;
	if (n->json)
		return command_print_json(n->list, JSON_COMPACT, e);
	if (n->quiet)
		return print_each(n->list, "id", e);
	print_network_table(n->list);
	return 0;
}

static int run_network_ls(const struct command *self, int argc, char **argv)
{
	struct network n = { 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&n.s);
	r = command_options(self, argc, argv, set_network_option, &n, &rest, &help, &e);
	if (r == 0 && !help)
		r = rest < argc ? err_set(&e, ERR_USAGE, "unexpected argument '%.80s'", argv[rest]) : list_sandbox_networks(&n, &e);
	json_decref(n.list);
	sandbox_ref_close(&n.s);
	return r < 0 ? command_fail(self, &e, n.json) : 0;
}

/* ---- inspect ---------------------------------------------------------------------------- */

struct picker {
	const char *id;
	json_t *found;
};

static int pick(void *ctx, const char *id, int kept, json_t *record)
{
	struct picker *p = ctx;

	(void)kept;
	if (!p->found && !strcmp(id, p->id))
		p->found = json_incref(record_network(record));
	return 0;
}

/* It does not run: the used part of its budgets is that of its stop. */
static void add_stopped_network_use(struct network *n, json_t *net)
{
	struct err ignored;
	json_t *used = n->s.kept ? registry_load(&n->s.registry, n->s.id, NETWORK_USED_FILE, &ignored) : NULL, *connections;

	if (!used)
		return;
	json_object_set_new(net, "budget", json_pack("{s:O*}", "bytes_used", json_object_get(used, "bytes")));
	connections = json_object_get(used, "connections");
	if (connections && !strcmp(network_text_of(net, "mode"), "egress"))
		json_object_set(json_object_get(net, "budget"), "connections_used", connections);
	json_decref(used);
}

static int inspect_network(struct network *n, const char *ref, struct err *e)
{
	autojson json_t *net = NULL;
	struct picker p = { NULL, NULL };
	char key[NETS_NAME_MAX + 1];

	if (sandbox_ref_registry(&n->s, e) < 0)
		return -1;
	if (n->tenant && nets_key(ref, n->tenant, key, e) < 0)
		return -1;
	net = networks_find(&n->s.registry, n->tenant ? key : ref, e);
	if (!net && n->tenant)
		return -1;
	if (net)
		return command_print_json(net, n->json ? JSON_COMPACT : JSON_INDENT(2), e);
	if ((e->code != ERR_NOT_FOUND && e->code != ERR_INVALID) ||
	    sandbox_ref_find(&n->s, ref, e) < 0)
		return -1;
	net = n->s.kept ? NULL : ask_keeper_network(n, n->s.id);
	if (!net) {
		p.id = n->s.id;
		if (registry_list(&n->s.registry, 1, pick, &p, e) < 0)
			return -1;
		net = p.found ? p.found : json_object();
		add_stopped_network_use(n, net);
	}
	json_object_set_new(net, "id", json_string(n->s.id));
	return command_print_json(net, n->json ? JSON_COMPACT : JSON_INDENT(2), e);
}

static int run_network_inspect(const struct command *self, int argc, char **argv)
{
	struct network n = { 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&n.s);
	r = command_options(self, argc, argv, set_network_option, &n, &rest, &help, &e);
	if (r == 0 && !help)
		r = rest + 1 != argc ? err_set(&e, ERR_USAGE, "one network or sandbox is wanted; "
							      "hint: berth network inspect NAME") :
				       inspect_network(&n, argv[rest], &e);
	sandbox_ref_close(&n.s);
	return r < 0 ? command_fail(self, &e, n.json) : 0;
}

/* ---- log ------------------------------------------------------------------------------------ */

static void print_entry(const struct network *n, const char *line, size_t len)
{
	struct err ignored;
	autojson json_t *j = json_parse(line, len, LOG_MAX, "network log", &ignored);
	const char *verdict = j ? network_text_of(j, "verdict") : "";
	char target[300], clean[600];

	if (!j || (n->denied && (!strcmp(verdict, "allow") || !strcmp(verdict, "policy"))))
		return;
	if (n->json) {
		printf("%.*s\n", (int)len, line);
		return;
	}
	snprintf(target, sizeof(target), "%.253s:%lld", network_text_of(j, "host"), (long long)json_integer_value(json_object_get(j, "port")));
	log_clean(clean, sizeof(clean), network_text_of(j, json_object_get(j, "reason") ? "reason" : "rule"), 0);
	printf("%s  %-6s  %-7s  %-40s  out %lld in %lld  %s\n", network_text_of(j, "time"), verdict, network_text_of(j, "protocol"), target,
	       (long long)json_integer_value(json_object_get(j, "bytes_out")),
	       (long long)json_integer_value(json_object_get(j, "bytes_in")), clean);
}

/* The directory of the log: of a lasting sandbox below state_dir, else below run_dir. */
static int log_dir(const struct network *n)
{
	int fd = openat(n->s.registry.kept_fd, n->s.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 ? fd : openat(n->s.registry.sandboxes_fd, n->s.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Both halves as one text in the order of time: the half whose first line is older comes first. */
static int read_network_log(int dir, struct buf *out, struct err *e)
{
	autobuf struct buf a = BUF_INIT(LOG_MAX), b = BUF_INIT(LOG_MAX);
	struct buf *first = &a, *second = &b;

	if (io_read_file(dir, NETHELPER_LOG_NAME, &a, e) < 0)
		return -1;
	if (io_read_file(dir, NETHELPER_LOG_OLD_NAME, &b, e) < 0)
		return -1;
	/* lines begin with {"time":"..." */
	if (b.len && (!a.len || strncmp(a.data, b.data, a.len < 40 || b.len < 40 ? 0 : 40) > 0))
		first = &b, second = &a;
	return buf_add(out, first->data ? first->data : "", first->len, e) < 0 ? -1 :
	       buf_add(out, second->data ? second->data : "", second->len, e);
}

/* Prints what follows the line that was printed last. */
static int print_news(const struct network *n, int dir, char last[512], struct err *e)
{
	autobuf struct buf b = BUF_INIT(2 * LOG_MAX);
	const char *p, *end, *eol;

	if (read_network_log(dir, &b, e) < 0)
		return -1;
	p = b.data ? b.data : "";
	end = p + b.len;
	if (last[0]) {
		const char *seen = memmem(p, b.len, last, strlen(last));

		if (seen && (seen = memchr(seen, '\n', (size_t)(end - seen))))
			p = seen + 1;
	}
	for (; (eol = memchr(p, '\n', (size_t)(end - p))); p = eol + 1) {
		print_entry(n, p, (size_t)(eol - p));
		snprintf(last, 512, "%.*s", eol - p < 511 ? (int)(eol - p) : 511, p);
	}
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int show_network_log(struct network *n, const char *ref, struct err *e)
{
	autoclose int dir = -1, alive = -1;
	autojson json_t *net = NULL;
	char last[512] = "";
	int r;

	if (sandbox_ref_registry(&n->s, e) < 0)
		return -1;
	net = networks_find(&n->s.registry, ref, e);
	if (net) {
		dir = networks_dir(&n->s.registry, ref, e);
	} else {
		if (sandbox_ref_find(&n->s, ref, e) < 0)
			return -1;
		dir = log_dir(n);
	}
	if (net && dir >= 0 && !json_object_get(net, "egress"))
		return err_set(e, ERR_NOT_FOUND, "network %s has no log, as it has no rules; hint: "
						 "berth network create --allow-host NAME makes one "
						 "with rules", ref);
	if (net && dir >= 0 && !path_has(dir, NETHELPER_LOG_NAME))
		return 0;	/* nobody was on it yet */
	if (dir < 0 || !path_has(dir, NETHELPER_LOG_NAME))
		return err_set(e, ERR_NOT_FOUND, "sandbox %s has no log of its network; hint: --network egress writes one", n->s.id);
	r = print_news(n, dir, last, e);
	while (r == 0 && n->follow) {
		alive = net ? networks_dir(&n->s.registry, ref, e) :
			      openat(n->s.registry.sandboxes_fd, n->s.id, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (alive < 0)
			break;
		fd_close(&alive);
		poll(NULL, 0, FOLLOW_MS);
		r = print_news(n, dir, last, e);
		if (r < 0 && e->code == ERR_NOT_FOUND)
			return 0;	/* berth run has ended */
	}
	return r;
}

static int log_main(const struct command *self, int argc, char **argv)
{
	struct network n = { 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&n.s);
	r = command_options(self, argc, argv, set_network_option, &n, &rest, &help, &e);
	if (r == 0 && !help)
		r = rest + 1 != argc ? err_set(&e, ERR_USAGE, "one sandbox or network is wanted; hint: berth network log ID") :
				       show_network_log(&n, argv[rest], &e);
	sandbox_ref_close(&n.s);
	return r < 0 ? command_fail(self, &e, n.json) : 0;
}

const struct command cmd_network_ls = {
	.name = "network ls",
	.summary = "list the networks of sandboxes: mode, address, denied requests, bytes",
	.opts = ls_options,
	.opt_count = ARRAY_LEN(ls_options),
	.run = run_network_ls,
	.print = print_network_table,
};

const struct command cmd_network_inspect = {
	.name = "network inspect",
	.args = "NETWORK|SANDBOX",
	.summary = "show a network's members, or a sandbox's rules, counters and address",
	.opts = inspect_options,
	.opt_count = ARRAY_LEN(inspect_options),
	.complete = COMPLETE_SANDBOX,
	.run = run_network_inspect,
};

const struct command cmd_network_log = {
	.name = "network log",
	.args = "NETWORK|SANDBOX",
	.summary = "show what passed the proxy of a sandbox, or those of a network with rules",
	.opts = log_options,
	.opt_count = ARRAY_LEN(log_options),
	.complete = COMPLETE_SANDBOX,
	.run = log_main,
};
