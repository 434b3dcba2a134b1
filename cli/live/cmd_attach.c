/* SPDX-License-Identifier: Apache-2.0 */
/* berth attach: follow a detached command to its end, or come back to its terminal. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/detachkeys.h"
#include "cli/live/follow.h"

enum { OPT_FROM = 1, OPT_STDERR_FROM, OPT_DETACH_KEYS };

static const struct opt options[] = {
	{ "from", 0, OPT_VALUE, "OFFSET", "first byte wanted of its standard output (default: 0)", OPT_FROM },
	{ "stderr-from", 0, OPT_VALUE, "OFFSET", "first byte wanted of its standard error (default: 0)", OPT_STDERR_FROM },
	{ "detach-keys", 0, OPT_VALUE, "KEYS", "what leaves a terminal without ending it (default: " DETACH_KEYS ")",
	  OPT_DETACH_KEYS },
};

#define REPLAY 16384	/* bytes of a terminal's output that attach shows again */

struct attach {
	uint64_t from[2];
	int from_given;
	const char *keys;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct attach *a = ctx;

	if (id == OPT_DETACH_KEYS) {
		struct detach_keys keys;

		a->keys = value;
		return detach_keys_parse(value, &keys, e);
	}
	a->from_given = 1;
	return num_u64(value, "offset", 0, INT64_MAX, &a->from[id == OPT_STDERR_FROM], e);
}

/* 1 when the command has a terminal; then the last of its output is enough. */
static int has_terminal(struct attach *a, int sock, const char *command, struct err *e)
{
	autojson json_t *rq = json_pack("{s:s}", "op", "commands");
	autojson json_t *answer = keeper_call(sock, rq, NULL, 0, NULL, e);
	const json_t *c;
	size_t i;

	if (!answer)
		return -1;
	json_array_foreach(json_object_get(answer, "commands"), i, c) {
		uint64_t total = (uint64_t)json_integer_value(json_object_get(c, "stdout_bytes"));

		if (strcmp(json_string_value(json_object_get(c, "command")), command))
			continue;
		if (!json_is_true(json_object_get(c, "tty")))
			return 0;
		if (!a->from_given && isatty(STDIN_FILENO) && total > REPLAY)
			a->from[0] = total - REPLAY;
		return 1;
	}
	return err_set(e, ERR_NOT_FOUND, "no command '%.40s'; hint: berth commands lists them", command);
}

static int follow(const struct attach *a, int sock, const char *command, json_t **ret_verdict, struct err *e)
{
	struct follow f = { .sock = sock, .command = command, .stream = "both", .from = { a->from[0], a->from[1] },
			    .to = { STDOUT_FILENO, STDERR_FILENO } };
	int r = 0;

	while (r == 0) {
		if (follow_ask(&f, e) < 0)
			return -1;
		r = follow_take(&f, ret_verdict, e);
	}
	return r;
}

static int attach_main(const struct command *self, int argc, char **argv)
{
	struct attach a = { .keys = DETACH_KEYS };
	autojson json_t *verdict = NULL;
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, r, tty = 0;

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_option, &a, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a sandbox and a command's id are wanted; hint: berth commands ID lists them");
	if (r == 0)
		r = sandbox_ref_connect(&s, argv[rest], 0, &e);
	if (r == 0)
		r = tty = has_terminal(&a, s.sock, argv[rest + 1], &e);
	if (r >= 0)
		r = tty && isatty(STDIN_FILENO) ? follow_terminal(&s, argv[rest + 1], a.from[0], a.keys, &verdict, &e) :
		    follow(&a, s.sock, argv[rest + 1], &verdict, &e);
	sandbox_ref_close(&s);
	if (r < 0)
		return command_fail(self, &e, 0);
	if (r == 0)
		fprintf(stderr, "\r\nberth: left %s running; berth attach comes back\n", argv[rest + 1]);
	if (r != 0)
		follow_note_lost("berth attach", verdict);
	return r == 0 ? 0 : follow_status(verdict);
}

const struct command cmd_attach = {
	.name = "attach",
	.args = "SANDBOX COMMAND",
	.summary = "follow a detached command to its end, with its exit status",
	.detail = "Both streams, from their start or an offset on.  A command with a terminal (berth shell) gets the\n"
		  "keys typed; the detach keys leave it running.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = attach_main,
};
