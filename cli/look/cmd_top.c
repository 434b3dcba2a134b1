/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth top: the processes of a sandbox, as the kernel lists them: by its
 * cgroup, so that nothing in it can hide.  Names and arguments are hostile text.
 */
#include <stdint.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_status.h"

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

static void print_table(const json_t *list)
{
	const json_t *p;
	size_t i;

	printf("%6s  %8s  %-6s  %1s  %9s  %10s  %s\n", "PID", "HOST PID", "OF", "S", "CPU(ms)", "MEMORY(K)", "COMMAND");
	json_array_foreach(list, i, p)
		printf("%6lld  %8lld  %-6s  %1s  %9lld  %10lld  %.80s\n", (long long)json_integer_value(json_object_get(p, "pid")),
		       (long long)json_integer_value(json_object_get(p, "host_pid")),
		       json_string_value(json_object_get(p, "of")), json_string_value(json_object_get(p, "state")),
		       (long long)json_integer_value(json_object_get(p, "cpu_ms")),
		       (long long)json_integer_value(json_object_get(p, "memory_bytes")) / 1024,
		       json_string_value(json_object_get(p, "command")));
}

static int top(const char *ref, int json, struct err *e)
{
	autojson json_t *list = NULL;
	struct sandbox_ref s;

	sandbox_ref_init(&s);
	if (sandbox_ref_connect(&s, ref, 0, e) == 0)
		list = processes_list(&s, SIZE_MAX, NULL, e);
	sandbox_ref_close(&s);
	if (!list)
		return -1;
	if (json)
		return command_print_json(list, JSON_COMPACT, e);
	print_table(list);
	return 0;
}

static int top_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	int rest, help = 0, json = 0, r;

	r = command_options(self, argc, argv, set_option, &json, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth top ID");
	if (r == 0)
		r = top(argv[rest], json, &e);
	return r < 0 ? command_fail(self, &e, json) : 0;
}

const struct command cmd_top = {
	.name = "top",
	.args = "SANDBOX",
	.summary = "list the processes of a sandbox",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = top_main,
	.print = print_table,
};
