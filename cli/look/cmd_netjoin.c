/* SPDX-License-Identifier: Apache-2.0 */
/* berth network connect, disconnect: a sandbox on more networks than one. */
#include <stdio.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/keeper/netconnect.h"

enum { OPT_JSON = 1, OPT_ALIAS };

static const struct opt connect_options[] = {
	{ "alias", 0, OPT_LIST, "NAME", "another name of the sandbox on this network", OPT_ALIAS },
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

static const struct opt disconnect_options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

struct netjoin {
	json_t *aliases;
	int json;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct netjoin *n = ctx;

	if (id == OPT_ALIAS)
		return json_array_append_new(n->aliases, json_string(value)) < 0 ?
		       err_set(e, ERR_INVALID, "the alias is not valid UTF-8") : 0;
	n->json = 1;
	return 0;
}

static int run(const struct command *self, int argc, char **argv, int joins)
{
	struct netjoin n = { .aliases = json_array() };
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_option, &n, &rest, &help, &e);
	if (r == 0 && !help && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a network and a sandbox are wanted; hint: berth %s "
					   "NETWORK SANDBOX", self->name);
	if (r == 0 && !help)
		r = sandbox_ref_find(&s, argv[rest + 1], &e);
	if (r == 0 && !help)
		r = joins ? netconnect(&s.registry, s.id, s.kept, argv[rest], n.aliases, &e) :
			    netdisconnect(&s.registry, s.id, s.kept, argv[rest], &e);
	if (r == 0 && !help && n.json)
		printf("{\"id\":\"%s\",\"network\":\"%s\"}\n", s.id, argv[rest]);
	json_decref(n.aliases);
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
	.run = connect_main,
};

const struct command cmd_network_disconnect = {
	.name = "network disconnect",
	.args = "NETWORK SANDBOX",
	.summary = "take a sandbox off a network that it joined",
	.opts = disconnect_options,
	.opt_count = ARRAY_LEN(disconnect_options),
	.run = disconnect_main,
};
