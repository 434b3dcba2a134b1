/* SPDX-License-Identifier: Apache-2.0 */
/* berth commands: the running commands of a sandbox, and the detached ones that ended. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/keeper/protocol.h"

enum { OPT_JSON = 1 };

static const struct opt options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print a JSON array, errors as JSON too", OPT_JSON },
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)id;
	(void)value;
	(void)e;
	*(int *)ctx = 1;
	return 0;
}

static void print_row(const json_t *c)
{
	const char *id = json_string_value(json_object_get(c, "command"));
	const char *state = json_string_value(json_object_get(c, "state"));
	const char *text = json_string_value(json_object_get(c, "text"));
	const json_t *verdict = json_object_get(c, "verdict");
	char shown[64] = "", clean[128];

	if (verdict)
		snprintf(shown, sizeof(shown), "%.12s %d", json_string_value(json_object_get(verdict, "cause")),
			 (int)json_integer_value(json_object_get(verdict, "exit_status")));
	log_clean(clean, sizeof(clean), text ? text : "", 0);
	printf("%-6s  %-8s  %-14s  %8.1f  %10lld  %10lld  %.60s\n", id ? id : "", state ? state : "", shown,
	       (double)json_integer_value(json_object_get(c, "age_ms")) / 1000,
	       (long long)json_integer_value(json_object_get(c, "stdout_bytes")),
	       (long long)json_integer_value(json_object_get(c, "stderr_bytes")), clean);
}

static void print_table(const json_t *all)
{
	const json_t *one;
	size_t i;

	printf("%-6s  %-8s  %-14s  %8s  %10s  %10s  %s\n", "ID", "STATE", "END", "AGE(s)", "STDOUT", "STDERR", "COMMAND");
	json_array_foreach (all, i, one)
		print_row(one);
}

static int list(const char *ref, int json, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_commands), *answer = NULL;
	struct sandbox_ref s;
	const json_t *all;

	sandbox_ref_init(&s);
	if (sandbox_ref_connect(&s, ref, 0, e) == 0)
		answer = keeper_call(s.sock, rq, NULL, 0, NULL, e);
	sandbox_ref_close(&s);
	if (!answer)
		return -1;
	all = json_object_get(answer, "commands");
	if (json)
		return command_print_json(all, JSON_COMPACT, e);
	print_table(all);
	return 0;
}

static int commands_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	int rest, help = 0, json = 0, result;

	result = command_options(self, argc, argv, set_option, &json, &rest, &help, &e);
	if (result == 0 && help)
		return 0;
	if (result == 0 && rest + 1 != argc)
		result = err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth commands ID");
	if (result == 0)
		result = list(argv[rest], json, &e);
	return result < 0 ? command_fail(self, &e, json) : 0;
}

const struct command cmd_commands = {
	.name = "commands",
	.args = "SANDBOX",
	.summary = "list the commands of a sandbox",
	.detail = "Commands that ended are listed while their output is kept: the last 64 detached ones.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = commands_main,
	.print = print_table,
};
