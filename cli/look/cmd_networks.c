/* SPDX-License-Identifier: Apache-2.0 */
/* berth network create, rm, prune: networks that have a name. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/look/netrules.h"
#include "cli/look/networks.h"
#include "manager/host/filter.h"
#include "manager/host/labels.h"
#include "manager/host/netmembers.h"
#include "manager/host/nets.h"
#include "manager/host/tenant.h"
#include "runtime/net/netgroup.h"

enum {
	OPT_JSON = 1, OPT_INTERNAL, OPT_SUBNET, OPT_LABEL, OPT_FILTER, OPT_DRY_RUN, OPT_FORCE,
	OPT_TENANT, OPT_RATE, OPT_GATEWAY, OPT_RANGE, OPT_AUX, OPT_NO_IPV6,
	OPT_FIRST_RULE,	/* of netrules.h */
};

static const struct opt rm_options[] = {
	NETWORKS_TENANT(OPT_TENANT),
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON },
};

static const struct opt create_options[] = {
	{ "internal", 0, OPT_FLAG, NULL, "its members reach only each other",
	 OPT_INTERNAL },
	{ "subnet", 0, OPT_LIST, "CIDR", "addresses of its members, IPv4, IPv6 or one of each "
					 "(default: free ones)",
	  OPT_SUBNET },
	{ "gateway", 0, OPT_LIST, "ADDRESS", "the bridge's own address in a subnet (default: the first)", OPT_GATEWAY },
	{ "ip-range", 0, OPT_LIST, "CIDR", "the part of a subnet whose addresses members get by themselves", OPT_RANGE },
	{ "aux-address", 0, OPT_LIST, "NAME=ADDRESS", "an address that no member gets", OPT_AUX },
	{ "no-ipv6", 0, OPT_FLAG, NULL, "its members have addresses of IPv4 only", OPT_NO_IPV6 },
	{ "label", 0, OPT_LIST, "KEY=VALUE", "a label of the network", OPT_LABEL },
	NETWORKS_TENANT(OPT_TENANT),
	{ "network-rate", 0, OPT_VALUE, "RATE",
	  "bytes a second of all members to and from the outside, or with bit, bits (default: "
	  "unlimited)",
	  OPT_RATE },
	NETRULES_TABLE(OPT_FIRST_RULE),
	NETRULES_DNS(OPT_FIRST_RULE),
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON },
};

static const struct opt prune_options[] = {
	{ "filter", 0, OPT_LIST, "KEY=VALUE", "only those of that name=, label= or until=",
	  OPT_FILTER },
	{ "dry-run", 'n', OPT_FLAG, NULL, "only print the names of what would be removed",
	  OPT_DRY_RUN },
	{ "force", 'f', OPT_FLAG, NULL,
	  "as for berth prune; a network holds no data, so this command never asks",
	  OPT_FORCE },
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON },
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
	return json_object_setn_new_nocheck(n->aux, value, (size_t)(eq - value), json_string(eq + 1)) < 0 ? err_nomem(e) : 0;
}

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct networks *n = ctx;

	switch (id) {
	case OPT_INTERNAL:
		n->wanted.internal = 1;
		return 0;
	case OPT_SUBNET:
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
	case OPT_LABEL:
		return labels_add(&n->labels, value, e);
	case OPT_FILTER:
		return filter_add(&n->filter, value, e);
	case OPT_DRY_RUN:
		n->dry_run = 1;
		return 0;
	case OPT_FORCE:
		return 0;
	case OPT_RATE:
		return netopts_budget(NETOPTS_RATE, value, &n->wanted.max_rate, e);
	case OPT_TENANT:
		return networks_set_tenant(&n->tenant, value, e);
	case OPT_JSON:
		n->json = 1;
		return 0;
	default:
		return netrules_set(&n->rules, id - OPT_FIRST_RULE, value, e);
	}
}

typedef int action(struct networks *n, int argc, char **argv, struct err *e);

static int run(const struct command *self, int argc, char **argv, action *act)
{
	struct networks n = { .filter = { .keys = networks_filter_keys }, .tenant = "" };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&n.s);
	r = command_options(self, argc, argv, set_option, &n, &rest, &help, &e);
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
static int check_rate(const struct networks *n, struct err *e)
{
	if (!n->wanted.max_rate || !n->wanted.internal)
		return 0;
	return err_set(e, ERR_INVALID,
		       "--network-rate bounds what passes the bridge, and nothing of a network "
		       "that is internal or has rules does; "
		       "hint: --network-rate of berth create bounds one member");
}

static int create(struct networks *n, int argc, char **argv, struct err *e)
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
	if (check_rate(n, e) < 0)
		return -1;
	if (nets_create(n->s.registry.config, &n->wanted, &record, e) < 0)
		return -1;
	if (n->json)
		return command_print_json(record, JSON_COMPACT, e);
	return puts(argv[0]) < 0 || fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int create_main(const struct command *self, int argc, char **argv)
{
	return run(self, argc, argv, create);
}

/* ---- rm, prune ---------------------------------------------------------------------------- */

static int tell_removed(const struct networks *n, json_t *names, struct err *e)
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

static int rm(struct networks *n, int argc, char **argv, struct err *e)
{
	autojson json_t *removed = json_array();
	char key[NETS_NAME_MAX + 1];
	int i;

	if (argc < 1)
		return err_set(e, ERR_USAGE, "no network given; hint: berth network rm NAME");
	for (i = 0; i < argc; i++)
		if (nets_key(argv[i], n->tenant, key, e) < 0 ||
		    netend_remove(&n->s.registry, key, e) < 0 ||
		    json_array_append_new(removed, json_string(argv[i])) < 0)
			return -1;
	return tell_removed(n, removed, e);
}

static int rm_main(const struct command *self, int argc, char **argv)
{
	return run(self, argc, argv, rm);
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

static int prune(struct networks *n, int argc, char **argv, struct err *e)
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
				  netend_remove(&n->s.registry, json_string_value(v), e)) == 0)
			json_array_append(removed, v);
		else if (e->code != ERR_BUSY && e->code != ERR_NOT_FOUND)
			return -1;
	}
	return tell_removed(n, removed, e);
}

static int prune_main(const struct command *self, int argc, char **argv)
{
	return run(self, argc, argv, prune);
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

json_t *networks_list(struct registry *r, const char *tenant, struct err *e)
{
	struct listing l = { r, json_array(), tenant, e };

	if (l.list && nets_each(r->config, add_row, &l, e) == 0)
		return l.list;
	json_decref(l.list);
	return NULL;
}

/* Of a network with rules: what its members have used of its budgets. */
static int add_used(struct registry *r, const char *name, json_t *record, struct err *e)
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

int networks_dir(struct registry *r, const char *name, struct err *e)
{
	char path[100];
	int fd;

	if (nets_check_name(name, e) < 0)
		return -1;
	snprintf(path, sizeof(path), NETS_DIR "/%s", name);
	fd = openat(r->state_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open the directory of network %s", name) : fd;
}

json_t *networks_find(struct registry *r, const char *name, struct err *e)
{
	json_t *record = nets_load(r->config, name, e), *members;

	if (!record)
		return NULL;
	members = netend_members(r, name, e);
	if (members && json_object_set_new(record, "members", members) == 0 &&
	    add_used(r, name, record, e) == 0)
		return record;
	json_decref(record);
	return NULL;
}

/* As the operator calls it. */
static const char *name_of(const json_t *record, char key[NETS_NAME_MAX + 1])
{
	const char *tenant = json_string_value(json_object_get(record, "tenant"));

	snprintf(key, NETS_NAME_MAX + 1, "%s%s%s",
		 json_string_value(json_object_get(record, "name")), tenant ? "@" : "",
		 tenant ? tenant : "");
	return key;
}

int networks_set_tenant(const char **ret, const char *value, struct err *e)
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
		printf("%-20s  %-18s  %-8s  %7zu  %s\n", name_of(j, key),
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
	.run = create_main,
};

const struct command cmd_network_rm = {
	.name = "network rm",
	.args = "NAME...",
	.summary = "remove networks that have no members",
	.opts = rm_options,
	.opt_count = ARRAY_LEN(rm_options),
	.complete = COMPLETE_NETWORK,
	.run = rm_main,
};

const struct command cmd_network_prune = {
	.name = "network prune",
	.summary = "remove every network that has no members",
	.opts = prune_options,
	.opt_count = ARRAY_LEN(prune_options),
	.run = prune_main,
};
