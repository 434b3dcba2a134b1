/* SPDX-License-Identifier: Apache-2.0 */
/* berth network connect, disconnect: a sandbox on more networks than one. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/look/networks.h"
#include "manager/host/netmembers.h"
#include "manager/host/nets.h"
#include "manager/keeper/netclient.h"
#include "manager/ops/netopts.h"

enum { OPT_JSON = 1, OPT_ALIAS, OPT_IP, OPT_TENANT };

static const struct opt connect_options[] = {
	{ "alias", 0, OPT_LIST, "NAME", "another name of the sandbox on this network", OPT_ALIAS },
	{ "ip", 0, OPT_LIST, "ADDRESS", "the address of the sandbox on this network, of IPv4, IPv6 or one of each", OPT_IP },
	NETWORKS_TENANT(OPT_TENANT),
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

static const struct opt disconnect_options[] = {
	NETWORKS_TENANT(OPT_TENANT),
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

struct netjoin {
	json_t *aliases;
	struct netopts addresses;	/* those alone */
	int json;
	const char *tenant;	/* "": the operator */
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct netjoin *n = ctx;

	if (id == OPT_ALIAS)
		return json_array_append_new(n->aliases, json_string(value)) < 0 ?
		       err_set(e, ERR_INVALID, "the alias is not valid UTF-8") : 0;
	if (id == OPT_IP)
		return netopts_ip(&n->addresses, value, e);
	if (id == OPT_TENANT)
		return networks_set_tenant(&n->tenant, value, e);
	n->json = 1;
	return 0;
}

/* A tenant's sandbox goes on the tenant's networks, and on no other. */
static int find(const struct netjoin *n, int joins, struct sandbox_ref *s, const char *network,
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

static int run(const struct command *self, int argc, char **argv, int joins)
{
	struct netjoin n = { .aliases = json_array(), .tenant = "" };
	struct sandbox_ref s;
	struct err e = { 0 };
	char key[NETS_NAME_MAX + 1];
	int rest, help = 0, r;

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_option, &n, &rest, &help, &e);
	if (r == 0 && !help && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a network and a sandbox are wanted; hint: berth %s "
					   "NETWORK SANDBOX", self->name);
	if (r == 0 && !help)
		r = find(&n, joins, &s, argv[rest], argv[rest + 1], key, &e);
	if (r == 0 && !help)
		r = joins ? netconnect(&s.registry, s.id, s.kept, key, n.aliases, netopts_addresses(&n.addresses), &e) :
			    netdisconnect(&s.registry, s.id, s.kept, key, &e);
	if (r == 0 && !help && n.json)
		printf("{\"id\":\"%s\",\"network\":\"%s\"}\n", s.id, argv[rest]);
	json_decref(n.aliases);
	netopts_release(&n.addresses);
	sandbox_ref_close(&s);
	return r < 0 ? command_fail(self, &e, n.json) : 0;
}

static int connect_main(const struct command *self, int argc, char **argv)
{
	return run(self, argc, argv, 1);
}

static int disconnect_main(const struct command *self, int argc, char **argv)
{
	return run(self, argc, argv, 0);
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
