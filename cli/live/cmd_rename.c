/* SPDX-License-Identifier: Apache-2.0 */
/* berth rename: another name for a sandbox, running or not. */
#include <stdio.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/journal.h"
#include "manager/host/names.h"

enum { OPT_JSON = 1 };

static const struct opt options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)id;
	(void)value;
	(void)e;
	*(int *)ctx = 1;
	return 0;
}

static int rename_main(const struct command *self, int argc, char **argv)
{
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, json = 0, r;

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_option, &json, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a sandbox and its new name are wanted; hint: berth rename ID NAME");
	if (r == 0)
		r = sandbox_ref_find(&s, argv[rest], &e);
	if (r == 0)
		r = registry_check_given(argv[rest + 1], &e);
	if (r == 0)
		r = registry_rename(&s.registry, s.id, argv[rest + 1], &e);
	if (r == 0)
		events_add(&s.registry, "rename", s.id, json_pack("{s:s}", "name", argv[rest + 1]));
	if (r == 0 && json)
		printf("{\"id\":\"%s\",\"name\":\"%s\"}\n", s.id, argv[rest + 1]);
	sandbox_ref_close(&s);
	return r < 0 ? command_fail(self, &e, json) : 0;
}

const struct command cmd_rename = {
	.name = "rename",
	.args = "SANDBOX NAME",
	.summary = "give a sandbox another name",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = rename_main,
};
