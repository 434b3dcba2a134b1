/* SPDX-License-Identifier: Apache-2.0 */
/* berth signal: a signal for a command or for what runs in a shell session. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/keeper/protocol.h"
#include "manager/ops/optvalues.h"

enum { OPT_SESSION = 1, OPT_ALL };

static const struct opt options[] = {
	{ "session", 's', OPT_VALUE, "NAME", "to the foreground of this shell session instead of a command", OPT_SESSION },
	{ "all", 0, OPT_FLAG, NULL, "with KILL: every process of the command, not only its first", OPT_ALL },
};

struct sig {
	const char *session;
	int all;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct sig *s = ctx;

	(void)e;
	if (id == OPT_SESSION)
		s->session = value;
	else
		s->all = 1;
	return 0;
}

static int send_signal(const struct sig *s, char **words, struct err *e)
{
	autojson json_t *rq = NULL, *answer = NULL;
	struct sandbox_ref ref;
	uint64_t signo;

	if (signal_number(words[s->session ? 1 : 2], &signo, e) < 0)
		return -1;
	if (s->all && signo != SIGKILL)
		return err_set(e, ERR_INVALID, "--all goes with KILL only");
	rq = protocol_request(OP_signal);
	if (s->session)
		request_set_session(rq, s->session);
	else
		request_set_command(rq, words[1]);
	request_set_signal(rq, signo);
	request_set_all(rq, s->all);
	sandbox_ref_init(&ref);
	if (sandbox_ref_connect(&ref, words[0], 0, e) == 0)
		answer = keeper_call(ref.sock, rq, NULL, 0, NULL, e);
	sandbox_ref_close(&ref);
	return answer ? 0 : -1;
}

static int signal_main(const struct command *self, int argc, char **argv)
{
	struct sig s = { 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	r = command_options(self, argc, argv, set_option, &s, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && argc - rest != (s.session ? 2 : 3))
		r = err_set(&e, ERR_USAGE, "a sandbox, a command's id (or --session) and a signal are wanted; hint: berth signal ID c3 TERM");
	if (r == 0)
		r = send_signal(&s, argv + rest, &e);
	return r < 0 ? command_fail(self, &e, 0) : 0;
}

const struct command cmd_signal = {
	.name = "signal",
	.args = "SANDBOX [COMMAND] SIGNAL",
	.summary = "send a signal to a command or a shell session",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = signal_main,
};
