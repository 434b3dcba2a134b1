/* SPDX-License-Identifier: Apache-2.0 */
/* berth ui: a link to berthd's page, which signs a browser in once. */
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/localdaemon.h"

enum { OPT_JSON = 1 };

static const struct opt ui_options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, errors too", OPT_JSON },
};

static int note_ui_json(void *ctx, int id, const char *value, struct err *e)
{
	(void)id, (void)value, (void)e;
	*(int *)ctx = 1;
	return 0;
}

static int ui_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	int rest, help = 0, json = 0;
	int r = command_options(self, argc, argv, note_ui_json, &json, &rest, &help, &e);

	if (r == 0 && help)
		return 0;
	if (r == 0 && rest < argc)
		r = err_set(&e, ERR_USAGE, "unexpected argument '%.80s'", argv[rest]);
	if (r == 0)
		r = localdaemon_become(self, argc, argv, "which serves the page, ", "systemctl start berthd", &e);
	return command_fail(self, &e, json);
}

const struct command cmd_ui = {
	.name = "ui",
	.args = "",
	.summary = "a link that signs a browser in to berthd's page, once",
	.detail = "berthd serves the page when its configuration says [ui] enabled = true, at the\n"
		  "address of [daemon] listen.  The link is good for [ui] link_time, for one use, with\n"
		  "the rights of who asks.\n",
	.opts = ui_options,
	.opt_count = ARRAY_LEN(ui_options),
	.run = ui_main,
};
