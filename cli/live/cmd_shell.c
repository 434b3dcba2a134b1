/* SPDX-License-Identifier: Apache-2.0 */
/* berth shell: an interactive shell for people, which can be left and come back to. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/detachkeys.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/follow.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/ops/optvalues.h"

enum { OPT_USER = 1, OPT_WORKDIR, OPT_SHELL, OPT_ENV, OPT_ENV_FILE, OPT_DETACH_KEYS, OPT_START, OPT_SESSION };

static const struct opt options[] = {
	{ "session", 's', OPT_VALUE, "NAME", "the shell of this name: a new one, or the one that was left", OPT_SESSION },
	{ "user", 'u', OPT_VALUE, "USER[:GROUP]", "whose shell (default: the sandbox's user)", OPT_USER },
	{ "workdir", 'w', OPT_VALUE, "DIR", "where it starts (default: the sandbox's)", OPT_WORKDIR },
	{ "shell", 0, OPT_VALUE, "PROGRAM", "which shell (default: bash, or sh without bash)", OPT_SHELL },
	{ "env", 'e', OPT_LIST, "NAME[=VALUE]", "environment variable, on top of the sandbox's; without a value: the caller's", OPT_ENV },
	{ "env-file", 0, OPT_LIST, "FILE", "environment variables, one NAME=VALUE a line", OPT_ENV_FILE, COMPLETE_FILE },
	{ "detach-keys", 0, OPT_VALUE, "KEYS", "what leaves it running (default: " DETACH_KEYS ")", OPT_DETACH_KEYS },
	{ "start", 0, OPT_FLAG, NULL, "start the sandbox first if it does not run", OPT_START },
};

struct shell {
	json_t *rq, *env;
	const char *shell, *keys, *session;
	int start;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct shell *s = ctx;
	struct detach_keys keys;

	switch (id) {
	case OPT_USER:
		request_set_user(s->rq, value);
		return 0;
	case OPT_WORKDIR:
		if (value[0] != '/')
			return err_set(e, ERR_INVALID, "'%.200s' must be an absolute path in the sandbox", value);
		request_set_workdir(s->rq, value);
		return 0;
	case OPT_SESSION:
		s->session = value;
		request_set_name(s->rq, value);
		return 0;
	case OPT_SHELL:
		s->shell = value;
		return 0;
	case OPT_ENV:
	case OPT_ENV_FILE:
		return envopts_add(s->env, id == OPT_ENV_FILE, value, e);
	case OPT_DETACH_KEYS:
		s->keys = value;
		return detach_keys_parse(value, &keys, e);
	default:
		s->start = 1;
		return 0;
	}
}

static void build_request(struct shell *s)
{
	const char *term = getenv("TERM");
	struct winsize w = { .ws_row = 24, .ws_col = 80 };
	char entry[128];

	if (term && json_array_size(s->env) == 0) {
		snprintf(entry, sizeof(entry), "TERM=%.100s", term);
		json_array_append_new(s->env, json_string(entry));
	}
	(void)!ioctl(STDIN_FILENO, TIOCGWINSZ, &w);
	request_set_env(s->rq, json_incref(s->env));
	request_set_tty(s->rq, 1);
	request_set_detach(s->rq, 1);
	request_set_max_silent_ms(s->rq, 0);
	request_set_timeout_ms(s->rq, 0);	/* a person types in it: the limit is for commands */
	request_set_rows(s->rq, w.ws_row);
	request_set_cols(s->rq, w.ws_col);
}

/* Without --shell: bash, and sh where the image has no bash. */
static json_t *start_shell(struct shell *s, int sock, struct err *e)
{
	const char *const names[] = { s->shell ? s->shell : "bash", "sh" };
	json_t *answer = NULL;
	size_t i;

	for (i = 0; i < (s->shell ? 1 : ARRAY_LEN(names)) && !answer; i++) {
		if (i && e->code != ERR_EXEC_NOT_FOUND)
			break;
		request_set_argv(s->rq, json_pack("[s]", names[i]));
		answer = keeper_call(sock, s->rq, NULL, 0, NULL, e);
	}
	return answer;
}

/* The running shell of the session's name: its id (a new reference in *ret), and where the last of its output begins. */
static int find_session(const struct shell *s, int sock, json_t **ret, uint64_t *ret_from, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_commands), *answer = keeper_call(sock, rq, NULL, 0, NULL, e);
	const char *name, *state;
	uint64_t total;
	json_t *c;
	size_t i;

	*ret = NULL;
	if (!answer)
		return -1;
	json_array_foreach(json_object_get(answer, "commands"), i, c) {
		name = json_string_value(json_object_get(c, "name"));
		state = json_string_value(json_object_get(c, "state"));
		if (!name || strcmp(name, s->session) || !state || !strcmp(state, "ended"))
			continue;
		total = (uint64_t)json_integer_value(json_object_get(c, "stdout_bytes"));
		*ret_from = total > SHELL_SHOWN_AGAIN ? total - SHELL_SHOWN_AGAIN : 0;
		*ret = json_incref(json_object_get(c, "command"));
	}
	return 0;
}

static int use_shell(struct shell *s, struct sandbox_ref *ref, int *ret_status, struct err *e)
{
	autojson json_t *answer = NULL, *verdict = NULL, *forget = NULL, *forgotten = NULL, *found = NULL;
	uint64_t from = 0;
	const char *id;
	struct err ignored;
	int r;

	build_request(s);
	if (s->session && find_session(s, ref->sock, &found, &from, e) < 0)
		return -1;
	answer = found ? NULL : start_shell(s, ref->sock, e);
	if (!answer && !found)
		return -1;
	id = json_string_value(found ? found : json_object_get(answer, "command"));
	if (!id)
		return err_set(e, ERR_INTERNAL, "the keeper named no command");
	r = follow_terminal(ref, id, from, s->keys, &verdict, e);
	if (r == 0 && s->session)
		fprintf(stderr, "\r\nberth: left the shell running; berth shell --session %s %s comes back\n", s->session, ref->id);
	else if (r == 0)
		fprintf(stderr, "\r\nberth: left the shell running; berth attach %s %s comes back\n", ref->id, id);
	if (r == 1) {
		*ret_status = follow_status(verdict);
		forget = protocol_request(OP_forget);
		request_set_command(forget, id);
		forgotten = keeper_call(ref->sock, forget, NULL, 0, NULL, &ignored);
	}
	return r < 0 ? -1 : 0;
}

static int shell_main(const struct command *self, int argc, char **argv)
{
	struct shell s = { .rq = protocol_request(OP_exec), .env = json_array(), .keys = DETACH_KEYS };
	struct sandbox_ref ref;
	struct err e = { 0 };
	int rest, help = 0, r, status = 0;

	sandbox_ref_init(&ref);
	r = command_options(self, argc, argv, set_option, &s, &rest, &help, &e);
	if (r == 0 && !help) {
		if (rest + 1 != argc)
			r = err_set(&e, ERR_USAGE, rest < argc ? "a command is not part of shell; hint: berth exec, or berth sh" :
				    "no sandbox given; hint: berth shell ID");
		if (r == 0)
			r = sandbox_ref_connect(&ref, argv[rest], s.start, &e);
		if (r == 0)
			r = use_shell(&s, &ref, &status, &e);
	}
	if (r < 0)
		status = command_fail(self, &e, 0);
	sandbox_ref_close(&ref);
	json_decref(s.rq);
	json_decref(s.env);
	return status;
}

const struct command cmd_shell = {
	.name = "shell",
	.args = "SANDBOX",
	.summary = "an interactive shell in a sandbox, for people",
	.detail = "The detach keys leave the shell running; berth attach comes back to it.  berth sh is the one for\n"
		  "programs.  The exit status is the shell's.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = shell_main,
};
