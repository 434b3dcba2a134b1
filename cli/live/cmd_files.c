/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth open-files: what berthd starts before it works on files of a sandbox that does not run.
 * The keeper that this makes serves nothing else, and ends with its last client.
 */
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"

enum { OPT_JSON = 1 };

static const struct opt options[] = {
	{"json", 0, OPT_FLAG, NULL, "errors are JSON, as always here", OPT_JSON},
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)ctx, (void)id, (void)value, (void)e;
	return 0;
}

static int files_main(const struct command *self, int argc, char **argv)
{
	int status = 0, rest = 0, help = 0, r;
	struct sandbox_ref s;
	struct err e = {0};

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_option, NULL, &rest, &help, &e);
	if (r == 0 && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE, "berthd starts it by itself, with one id");
	if (r == 0)
		r = sandbox_ref_find(&s, argv[rest], &e);
	if (r == 0)
		r = s.kept ? resident_start_files(&s.registry, s.id, &e) :
			     err_set(&e, ERR_EXISTS, "sandbox %s is running", s.id);
	if (r < 0)
		status = command_fail(self, &e, 1);
	sandbox_ref_close(&s);
	return status;
}

const struct command cmd_open_files = {
	.name = "open-files",
	.args = "ID",
	.summary = "let clients work on the files of a sandbox that does not run",
	.opts = options,
	.opt_count = 1,
	.run = files_main,
	.flags = COMMAND_HIDDEN,
};
