/* SPDX-License-Identifier: Apache-2.0 */
/* berth sh and shell: the persistent shell sessions of a sandbox, for a program and for a person. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/detachkeys.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/follow.h"
#include "cli/live/sandbox_open.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/ops/optvalues.h"
#include "runtime/sandbox/reason.h"

/* ---- sh ---- */

/* berth sh: a command in a persistent shell session. */

#define TEXT_MAX (8u << 20)
#define STATUS_UNFINISHED 123	/* the command runs on: it awaits input, was frozen, or was left running */

enum { SH_SESSION = 1, SH_TIMEOUT, SH_ON_TIMEOUT, SH_SPLIT, SH_WAIT, SH_SESSIONS, SH_CLOSE, SH_START, SH_JSON, SH_QUEUE_TIMEOUT, SH_NO_WAIT,
	SH_CHECKPOINT, SH_MAX_SILENT };

static const struct opt sh_options[] = {
	{ "session", 's', OPT_VALUE, "NAME", "which shell (default: main)", SH_SESSION },
	{ "timeout", 0, OPT_VALUE, "TIME", "wall time of the command; 0 means none (default: the sandbox's, or 300s)", SH_TIMEOUT },
	{ "max-silent-time", 0, OPT_VALUE, "TIME",
	  "time without output before --on-timeout; 0 means none (default: the sandbox's)",
	  SH_MAX_SILENT },
	{ "on-timeout", 0, OPT_VALUE, "WHAT", "kill its tree, interrupt, freeze or detach (default: kill)", SH_ON_TIMEOUT,
	  COMPLETE_WORDS, "kill interrupt freeze detach" },
	{ "split", 0, OPT_FLAG, NULL, "no terminal; stdout and stderr apart", SH_SPLIT },
	{ "queue-timeout", 0, OPT_VALUE, "TIME", "how long it may wait for its turn; 0 is for ever (default: as --timeout's)",
	  SH_QUEUE_TIMEOUT },
	{ "checkpoint", 0, OPT_FLAG, NULL, "make a checkpoint first, for berth undo",
	  SH_CHECKPOINT },
	{ "no-wait", 0, OPT_FLAG, NULL, "fail when the session runs another command, instead of waiting for it", SH_NO_WAIT },
	{ "wait", 0, OPT_FLAG, NULL, "no new command: wait for the one that runs", SH_WAIT },
	{ "list", 'l', OPT_FLAG, NULL, "list the sandbox's sessions", SH_SESSIONS },
	{ "close", 0, OPT_FLAG, NULL, "end the session with all it runs", SH_CLOSE },
	{ "start", 0, OPT_FLAG, NULL, "start the sandbox first if it does not run", SH_START },
	{ "json", 0, OPT_FLAG, NULL, "print status, verdict and output as one JSON object", SH_JSON },
};

struct sh {
	json_t *rq;
	int op;		/* OPT_WAIT, OPT_SESSIONS, OPT_CLOSE or 0 */
	int start, json;
};

static int set_sh_option(void *ctx, int id, const char *value, struct err *e)
{
	struct sh *s = ctx;
	uint64_t v;

	switch (id) {
	case SH_SESSION:
		request_set_session(s->rq, value);
		return 0;
	case SH_TIMEOUT:
		if (num_duration_ms(value, "timeout", 366ULL * 86400000, &v, e) < 0)
			return -1;
		request_set_timeout_ms(s->rq, v);
		return 0;
	case SH_MAX_SILENT:
		if (num_duration_ms(value, "max-silent-time", 366ULL * 86400000, &v, e) < 0)
			return -1;
		request_set_max_silent_ms(s->rq, v);
		return 0;
	case SH_QUEUE_TIMEOUT:
		if (num_duration_ms(value, "queue-timeout", 366ULL * 86400000, &v, e) < 0)
			return -1;
		request_set_queue_ms(s->rq, v);
		return 0;
	case SH_CHECKPOINT:
		request_set_checkpoint(s->rq, 1);
		return 0;
	case SH_NO_WAIT:
		request_set_no_wait(s->rq, 1);
		return 0;
	case SH_ON_TIMEOUT:
		request_set_on_timeout(s->rq, value);
		return 0;
	case SH_SPLIT:
		request_set_split(s->rq, 1);
		return 0;
	case SH_START:
		s->start = 1;
		return 0;
	case SH_JSON:
		s->json = 1;
		return 0;
	default:
		if (s->op && s->op != id)
			return err_set(e, ERR_USAGE, "only one of --wait, --list and --close can be done");
		s->op = id;
		return 0;
	}
}

/*
 * --list, --close and --wait run no text; a text given with them was meant to be run, so it is
 * an error.
 */
static int check_sh_words(const struct sh *s, char **words, struct err *e)
{
	return !s->op || !*words ? 0 : err_set(e, ERR_USAGE, "unexpected argument '%.80s'; hint: without --list, --close and --wait "
					       "it is run", *words);
}

/* Words are joined by spaces, as sh -c would be given them; without words the text comes from stdin. */
static int get_text(char **words, struct buf *b, struct err *e)
{
	int first = 1;

	if (!*words)
		return io_read_all(STDIN_FILENO, b, "stdin", e);
	for (; *words; words++, first = 0)
		if ((!first && buf_adds(b, " ", e) < 0) || buf_adds(b, *words, e) < 0)
			return -1;
	return 0;
}

static int print_output(const json_t *answer, const char *prefix, const struct buf *b, int to, struct err *e)
{
	char key[32];
	json_int_t head, dropped;

	snprintf(key, sizeof(key), "%s_head_bytes", prefix);
	head = json_integer_value(json_object_get(answer, key));
	snprintf(key, sizeof(key), "%s_dropped", prefix);
	dropped = json_integer_value(json_object_get(answer, key));
	if (head < 0 || (size_t)head > b->len)
		head = (json_int_t)b->len;
	if (io_write_all(to, b->data ? b->data : "", (size_t)head) < 0)
		return err_sys(e, "write the output");
	if (dropped)
		log_note("berth sh", "%lld bytes of output were dropped here", (long long)dropped);
	if (io_write_all(to, b->data ? b->data + head : "", b->len - (size_t)head) < 0)
		return err_sys(e, "write the output");
	return 0;
}

static int exit_status(const json_t *answer)
{
	const json_t *verdict = json_object_get(answer, "verdict");

	return verdict ? (int)json_integer_value(json_object_get(verdict, "exit_status")) : STATUS_UNFINISHED;
}

static int show_sh_answer(const struct sh *s, json_t *answer, const int *fds, size_t n, struct err *e)
{
	autobuf struct buf out = BUF_INIT(WIRE_DATA_MAX), err = BUF_INIT(WIRE_DATA_MAX);
	const char *status = json_string_value(json_object_get(answer, "status"));
	const json_t *verdict = json_object_get(answer, "verdict");

	if ((n > 0 && wire_read_data(fds[0], &out, e) < 0) || (n > 1 && wire_read_data(fds[1], &err, e) < 0))
		return -1;
	if (!s->json) {
		if (print_output(answer, "output", &out, STDOUT_FILENO, e) < 0 ||
		    (n > 1 && print_output(answer, "stderr", &err, STDERR_FILENO, e) < 0))
			return -1;
		if (status && strcmp(status, "done") && (!verdict || !isatty(STDERR_FILENO)))
			log_note("berth sh", "%s", status);
		if (!reason_tell("berth sh", verdict, 1) && json_object_get(answer, "session_ended"))
			log_note("berth sh", "the shell ended; the next command gets a fresh one");
		return 0;
	}
	json_object_del(answer, "v");
	if (json_set_bytes(answer, "output", out.data, out.len, e) < 0 || (n > 1 && json_set_bytes(answer, "stderr", err.data, err.len, e) < 0))
		return -1;
	json_object_set_new(answer, "exit_status", json_integer(exit_status(answer)));
	return command_print_json(answer, JSON_COMPACT, e);
}

static int talk(struct sh *s, int sock, char **words, int *ret_status, struct err *e)
{
	static const enum protocol_op ops[] = {
		[0] = OP_sh, [SH_WAIT] = OP_sh_wait, [SH_SESSIONS] = OP_sessions, [SH_CLOSE] = OP_session_close,
	};
	autobuf struct buf text = BUF_INIT(TEXT_MAX);
	autojson json_t *answer = NULL;
	autoclose int data = -1;
	int fds[WIRE_FDS_MAX], r;
	size_t n = 0, i;

	request_set_op(s->rq, protocol_operations[ops[s->op]].name);
	if (s->op && protocol_check(s->rq, 0, e) == OP_COUNT)
		return err_set(e, ERR_INVALID, "an option has no effect with %s",
			       s->op == SH_WAIT ? "--wait" : s->op == SH_CLOSE ? "--close" : "--list");
	if (!s->op) {
		if (get_text(words, &text, e) < 0)
			return -1;
		data = wire_data(text.data ? text.data : "", text.len, e);
		if (data < 0)
			return -1;
	}
	if (wire_request(sock, s->rq, &data, data >= 0 ? 1 : 0, e) < 0)
		return -1;
	r = wire_recv(sock, -1, &answer, fds, WIRE_FDS_MAX, &n, e);
	if (r == 0)
		return wire_ended(e);
	if (r < 0 || wire_check(answer, e) < 0)
		return -1;
	if (s->op == SH_SESSIONS || s->op == SH_CLOSE) {
		if (s->op == SH_SESSIONS || s->json)
			return command_print_json(s->op == SH_SESSIONS ? json_object_get(answer, "sessions") : answer, JSON_COMPACT, e);
		return 0;
	}
	*ret_status = exit_status(answer);
	r = show_sh_answer(s, answer, fds, n, e);
	for (i = 0; i < n; i++)
		close(fds[i]);
	return r;
}

static int sh_main(const struct command *self, int argc, char **argv)
{
	struct sh s = { .rq = protocol_request(OP_sh) };
	struct sandbox_ref ref;
	struct err e = { 0 };
	int rest, words = 0, help = 0, status = 0, result;

	sandbox_ref_init(&ref);
	result = command_options(self, argc, argv, set_sh_option, &s, &rest, &help, &e);
	/* options may stand behind the sandbox too: berth sh ID --timeout 5 -- COMMAND */
	if (result == 0 && !help && rest < argc)
		result = command_options(self, argc - rest, argv + rest, set_sh_option, &s, &words, &help, &e);
	if (result == 0 && !help) {
		if (rest >= argc)
			result = err_set(&e, ERR_USAGE, "no sandbox given; hint: berth sh ID 'COMMAND'");
		if (result == 0)
			result = check_sh_words(&s, argv + rest + words, &e);
		if (result == 0)
			result = sandbox_ref_connect(&ref, argv[rest], s.start, &e);
		if (result == 0)
			result = talk(&s, ref.sock, argv + rest + words, &status, &e);
	}
	if (result < 0)
		status = command_fail(self, &e, s.json);
	sandbox_ref_close(&ref);
	json_decref(s.rq);
	return status;
}

const struct command cmd_sh = {
	.name = "sh",
	.args = "SANDBOX [-- COMMAND]",
	.summary = "run a command in a persistent shell of a sandbox",
	.detail = "Directory, variables, functions and background jobs last from one command to the next.  Without\n"
		  "COMMAND the text is read from stdin.  At a timeout the command's processes die and the shell\n"
		  "lives.  The exit status is the command's; 124 for a timeout; 123 when it runs on (it awaits input,\n"
		  "was frozen or detached): berth sh --wait goes on waiting.",
	.opts = sh_options,
	.opt_count = ARRAY_LEN(sh_options),
	.complete = COMPLETE_SANDBOX,
	.run = sh_main,
};

/* ---- shell ---- */

/* berth shell: an interactive shell for people, which can be left and come back to. */

enum { SHELL_USER = 1, SHELL_WORKDIR, SHELL_PROGRAM, SHELL_ENV, SHELL_ENV_FILE, SHELL_DETACH_KEYS, SHELL_START, SHELL_SESSION };

static const struct opt shell_options[] = {
	{ "session", 's', OPT_VALUE, "NAME", "the shell of this name: a new one, or the one that was left", SHELL_SESSION },
	{ "user", 'u', OPT_VALUE, "USER[:GROUP]", "whose shell (default: the sandbox's user)", SHELL_USER },
	{ "workdir", 'w', OPT_VALUE, "DIR", "where it starts (default: the sandbox's)", SHELL_WORKDIR },
	{ "shell", 0, OPT_VALUE, "PROGRAM", "which shell (default: bash, or sh without bash)", SHELL_PROGRAM },
	{ "env", 'e', OPT_LIST, "NAME[=VALUE]", "environment variable, on top of the sandbox's; without a value: the caller's", SHELL_ENV },
	{ "env-file", 0, OPT_LIST, "FILE", "environment variables, one NAME=VALUE a line", SHELL_ENV_FILE, COMPLETE_FILE },
	{ "detach-keys", 0, OPT_VALUE, "KEYS", "what leaves it running (default: " DETACH_KEYS ")", SHELL_DETACH_KEYS },
	{ "start", 0, OPT_FLAG, NULL, "start the sandbox first if it does not run", SHELL_START },
};

struct shell {
	json_t *rq, *env;
	const char *shell, *keys, *session;
	int start;
};

static int set_shell_option(void *ctx, int id, const char *value, struct err *e)
{
	struct shell *s = ctx;
	struct detach_keys keys;

	switch (id) {
	case SHELL_USER:
		request_set_user(s->rq, value);
		return 0;
	case SHELL_WORKDIR:
		if (value[0] != '/')
			return err_set(e, ERR_INVALID, "'%.200s' must be an absolute path in the sandbox", value);
		request_set_workdir(s->rq, value);
		return 0;
	case SHELL_SESSION:
		s->session = value;
		request_set_name(s->rq, value);
		return 0;
	case SHELL_PROGRAM:
		s->shell = value;
		return 0;
	case SHELL_ENV:
	case SHELL_ENV_FILE:
		return envopts_add(s->env, id == SHELL_ENV_FILE, value, e);
	case SHELL_DETACH_KEYS:
		s->keys = value;
		return detach_keys_parse(value, &keys, e);
	default:
		s->start = 1;
		return 0;
	}
}

static void build_shell_request(struct shell *s)
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
static json_t *start_session_shell(struct shell *s, int sock, struct err *e)
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
static int find_shell_session(const struct shell *s, int sock, json_t **ret, uint64_t *ret_from, struct err *e)
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

	build_shell_request(s);
	if (s->session && find_shell_session(s, ref->sock, &found, &from, e) < 0)
		return -1;
	answer = found ? NULL : start_session_shell(s, ref->sock, e);
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
		reason_tell("berth shell", verdict, 1);
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
	r = command_options(self, argc, argv, set_shell_option, &s, &rest, &help, &e);
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
	.opts = shell_options,
	.opt_count = ARRAY_LEN(shell_options),
	.complete = COMPLETE_SANDBOX,
	.run = shell_main,
};
