/* SPDX-License-Identifier: Apache-2.0 */
/* berth wait: until a detached command ends, with its exit status. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/follow.h"

enum { OPT_JSON = 1 };

static const struct opt options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print the verdict, errors as JSON too", OPT_JSON },
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)id;
	(void)value;
	(void)e;
	*(int *)ctx = 1;
	return 0;
}

static int wait_for(char **words, int json, int *ret_status, struct err *e)
{
	autojson json_t *rq = json_pack("{s:s,s:s}", "op", "wait", "command", words[1]), *answer = NULL;
	autofree char *text = NULL;
	struct sandbox_ref s;

	if (!rq)
		return err_set(e, ERR_INVALID, "the command's id is not valid UTF-8");
	sandbox_ref_init(&s);
	if (sandbox_ref_connect(&s, words[0], 0, e) == 0)
		answer = keeper_call(s.sock, rq, NULL, 0, NULL, e);
	sandbox_ref_close(&s);
	if (!answer)
		return -1;
	*ret_status = follow_status(json_object_get(answer, "verdict"));
	if (json) {
		text = json_dumps(json_object_get(answer, "verdict"), JSON_COMPACT);
		if (!text || puts(text) < 0)
			return err_sys(e, "write to stdout");
	}
	return 0;
}

static int wait_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	int rest, help = 0, json = 0, r, status = 0;

	r = command_options(self, argc, argv, set_option, &json, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a sandbox and a command's id are wanted; hint: berth wait ID c3");
	if (r == 0)
		r = wait_for(argv + rest, json, &status, &e);
	return r < 0 ? command_fail(self, &e, json) : status;
}

const struct command cmd_wait = {
	.name = "wait",
	.args = "SANDBOX COMMAND",
	.summary = "wait for a detached command, with its exit status",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = wait_main,
};
