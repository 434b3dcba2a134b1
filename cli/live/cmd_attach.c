/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth attach: join a service's main command, follow a detached command to its end, or come
 * back to a terminal.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/detachkeys.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/follow.h"
#include "manager/keeper/protocol.h"
#include "runtime/sandbox/reason.h"

enum { OPT_FROM = 1, OPT_STDERR_FROM, OPT_DETACH_KEYS, OPT_NO_STDIN, OPT_SIG_PROXY };

static const struct opt options[] = {
	{ "from", 0, OPT_VALUE, "OFFSET",
	  "first byte wanted of its standard output (default: 0; of a service: the next)",
	  OPT_FROM },
	{ "stderr-from", 0, OPT_VALUE, "OFFSET",
	  "first byte wanted of its standard error (default: as for --from)", OPT_STDERR_FROM },
	{ "no-stdin", 0, OPT_FLAG, NULL, "send nothing to a service's main command", OPT_NO_STDIN },
	{ "sig-proxy", 0, OPT_VALUE, "true|false",
	  "pass signals on to a service's main command (default: true)", OPT_SIG_PROXY,
	  COMPLETE_WORDS, "true false" },
	{ "detach-keys", 0, OPT_VALUE, "KEYS", "what leaves a terminal without ending it (default: " DETACH_KEYS ")",
	  OPT_DETACH_KEYS },
};

#define REPLAY 16384	/* bytes of a terminal's output that attach shows again */

struct attach {
	uint64_t from[2];
	int from_given;
	const char *keys;
	int no_stdin, no_signals;
	/* of the command */
	const char *command;
	int is_main, tty, stdin_open;
};

static int set_attach_option(void *ctx, int id, const char *value, struct err *e)
{
	struct attach *a = ctx;

	if (id == OPT_DETACH_KEYS) {
		struct detach_keys keys;

		a->keys = value;
		return detach_keys_parse(value, &keys, e);
	}
	if (id == OPT_NO_STDIN) {
		a->no_stdin = 1;
		return 0;
	}
	if (id == OPT_SIG_PROXY) {
		a->no_signals = !strcmp(value, "false");
		if (a->no_signals || !strcmp(value, "true"))
			return 0;
		return err_set(e, ERR_INVALID, "'%.20s' is neither true nor false", value);
	}
	a->from_given = 1;
	return num_u64(value, "offset", 0, INT64_MAX, &a->from[id == OPT_STDERR_FROM], e);
}

static void take_attached(struct attach *a, const json_t *c)
{
	uint64_t total = (uint64_t)json_integer_value(json_object_get(c, "stdout_bytes"));

	a->tty = json_is_true(json_object_get(c, "tty"));
	a->stdin_open = json_is_true(json_object_get(c, "stdin_open"));
	if (a->from_given)
		return;
	/* the last of a terminal's output is enough; a service has written for ever */
	if (a->tty && isatty(STDIN_FILENO)) {
		a->from[0] = total > REPLAY ? total - REPLAY : 0;
	} else if (a->is_main) {
		a->from[0] = total;
		a->from[1] = (uint64_t)json_integer_value(json_object_get(c, "stderr_bytes"));
	}
}

/* The keeper's answer about it. */
static int look_at_attached(struct attach *a, int sock, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_commands);
	autojson json_t *answer = keeper_call(sock, rq, NULL, 0, NULL, e);
	const json_t *c;
	size_t i;

	if (!answer)
		return -1;
	json_array_foreach(json_object_get(answer, "commands"), i, c) {
		const char *id = json_string_value(json_object_get(c, "command"));

		if (a->is_main ? json_is_true(json_object_get(c, KEEPER_MAIN)) : !strcmp(id, a->command)) {
			take_attached(a, c);
			return 0;
		}
	}
	if (a->is_main)
		return err_set(e, ERR_NOT_FOUND,
			       "it has no main command that runs; hint: name one that berth commands lists");
	return err_set(e, ERR_NOT_FOUND, "no command '%.40s'; hint: berth commands lists them", a->command);
}

static int follow_attached(const struct attach *a, int sock, json_t **ret_verdict, struct err *e)
{
	struct follow f = { .sock = sock, .command = a->command, .stream = "both",
			    .from = { a->from[0], a->from[1] },
			    .to = { STDOUT_FILENO, STDERR_FILENO } };
	int r = 0;

	while (r == 0) {
		if (follow_ask(&f, e) < 0)
			return -1;
		r = follow_take(&f, ret_verdict, e);
	}
	return r;
}

static int attach_to_sandbox(struct attach *a, const char *ref, json_t **ret_verdict, struct err *e)
{
	struct sandbox_ref s;
	int r;

	sandbox_ref_init(&s);
	r = sandbox_ref_connect(&s, ref, 0, e);
	if (r == 0)
		r = look_at_attached(a, s.sock, e);
	if (r == 0 && a->tty && isatty(STDIN_FILENO) && !a->no_stdin)
		r = follow_terminal(&s, a->command, a->from[0], a->keys, ret_verdict, e);
	else if (r == 0 && a->is_main && !a->no_signals)
		r = follow_joined(&s, a->command, a->from,
				  (a->stdin_open || a->tty) && !a->no_stdin ? FOLLOW_STDIN :
									      FOLLOW_NO_STDIN,
				  0, ret_verdict, e);
	else if (r == 0)
		r = follow_attached(a, s.sock, ret_verdict, e);
	sandbox_ref_close(&s);
	return r;
}

static int berth_attach_main(const struct command *self, int argc, char **argv)
{
	struct attach a = { .keys = DETACH_KEYS };
	autojson json_t *verdict = NULL;
	struct err e = { 0 };
	int rest, help = 0, r;

	r = command_options(self, argc, argv, set_attach_option, &a, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && argc - rest != 1 && argc - rest != 2)
		r = err_set(&e, ERR_USAGE, "a sandbox is wanted, or one and a command's id; hint: berth commands ID lists them");
	if (r == 0) {
		a.is_main = argc - rest == 1;
		a.command = a.is_main ? KEEPER_MAIN : argv[rest + 1];
		r = attach_to_sandbox(&a, argv[rest], &verdict, &e);
	}
	if (r < 0)
		return command_fail(self, &e, 0);
	if (r == 0)
		fprintf(stderr, "\r\nberth: left %s running; berth attach comes back\n",
			a.is_main ? "the main command" : a.command);
	if (r != 0)
		reason_tell("berth attach", verdict, 1);
	return r == 0 ? 0 : follow_status(verdict);
}

const struct command cmd_attach = {
	.name = "attach",
	.args = "SANDBOX [COMMAND]",
	.summary = "join a service, or follow a detached command to its end, with its exit status",
	.detail = "Both streams, from their start or an offset on.  A command with a terminal (berth shell) gets the\n"
		  "keys typed; the detach keys leave it running.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = berth_attach_main,
};
