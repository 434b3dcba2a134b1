/* SPDX-License-Identifier: Apache-2.0 */
/* berth wait: until a detached command ends, with its exit status; or until a sandbox stops. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/follow.h"
#include "manager/keeper/wire.h"

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
	if (!json)
		follow_note_lost("berth wait", json_object_get(answer, "verdict"));
	return json ? command_print_json(json_object_get(answer, "verdict"), JSON_COMPACT, e) : 0;
}

/* It has stopped when the keeper closes the connection: then nothing of it is left. */
static int wait_for_sandbox(const char *ref, int json, struct err *e)
{
	autojson json_t *record = NULL, *said = NULL;
	struct sandbox_ref s;
	struct err ignored;
	const char *reason;
	size_t n;
	int r, got = 0;

	sandbox_ref_init(&s);
	r = sandbox_ref_find(&s, ref, e);
	if (r == 0 && !s.kept)
		s.sock = keeper_connect(&s.registry, s.id, e);
	if (r == 0 && s.sock < 0 && !s.kept && e->code != ERR_NOT_FOUND)
		r = -1;
	if (r == 0 && s.sock >= 0)
		got = wire_recv(s.sock, -1, &said, NULL, 0, &n, e);
	if (got < 0 || (got > 0 && wire_check(said, e) < 0))
		r = -1;
	if (r == 0 && json) {
		record = registry_load(&s.registry, s.id, "record.json", &ignored);
		reason = json_string_value(json_object_get(record, "stop_reason"));
		printf("{\"id\":\"%s\",\"status\":\"%s\"", s.id, record ? "stopped" : "removed");
		printf(reason ? ",\"reason\":\"%s\"}\n" : "}\n", reason);
	}
	sandbox_ref_close(&s);
	return r;
}

static int wait_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	int rest, help = 0, json = 0, r, status = 0;

	r = command_options(self, argc, argv, set_option, &json, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && (argc - rest < 1 || argc - rest > 2))
		r = err_set(&e, ERR_USAGE, "a sandbox is wanted, or one and a command's id; hint: berth wait ID c3");
	if (r == 0)
		r = argc - rest == 1 ? wait_for_sandbox(argv[rest], json, &e) : wait_for(argv + rest, json, &status, &e);
	return r < 0 ? command_fail(self, &e, json) : status;
}

const struct command cmd_wait = {
	.name = "wait",
	.args = "SANDBOX [COMMAND]",
	.summary = "wait for a detached command, or for a sandbox to stop",
	.detail = "The exit status is the command's; 0 once the sandbox has stopped.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = wait_main,
};
