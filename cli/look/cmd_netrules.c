/* SPDX-License-Identifier: Apache-2.0 */
/* berth network update: the rules of a network with rules, for all its members at once. */
#include <stdio.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "cli/look/netrules.h"
#include "manager/host/nets.h"
#include "manager/keeper/netclient.h"

enum { OPT_JSON = 1, OPT_FIRST_RULE };

static const struct opt update_options[] = {
	NETRULES_TABLE(OPT_FIRST_RULE),
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

struct update {
	struct sandbox_ref s;
	struct netopts rules;
	int json;
};

int netrules_set(struct netopts *o, int which, const char *value, struct err *e)
{
	if (which == NETRULES_BYTES || which == NETRULES_CONNECTIONS)
		return netopts_set(o, which == NETRULES_BYTES ? NETOPTS_BYTES :
								NETOPTS_CONNECTIONS,
				   value, e);
	return netopts_add(o, (enum netopts_list)which, value, e);
}

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct update *u = ctx;

	if (id != OPT_JSON)
		return netrules_set(&u->rules, id - OPT_FIRST_RULE, value, e);
	u->json = 1;
	return 0;
}

static int update(struct update *u, const char *name, struct err *e)
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

static int update_main(const struct command *self, int argc, char **argv)
{
	struct update u = { .json = 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&u.s);
	r = command_options(self, argc, argv, set_option, &u, &rest, &help, &e);
	if (r == 0 && !help && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE, "one network is wanted; hint: berth network update "
					   "--allow-host NAME NETWORK");
	if (r == 0 && !help)
		r = update(&u, argv[rest], &e);
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
	.run = update_main,
};
