/* SPDX-License-Identifier: Apache-2.0 */
/* berth commands, output, send and signal: the commands of a sandbox, what they write and what they get. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* ---- commands ---- */

/* berth commands: the running commands of a sandbox, and the detached ones that ended. */

enum { COMMANDS_JSON = 1 };

static const struct opt commands_options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print a JSON array, errors as JSON too", COMMANDS_JSON },
};

static int set_commands_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)id;
	(void)value;
	(void)e;
	*(int *)ctx = 1;
	return 0;
}

static void print_command_row(const json_t *c)
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

static void print_command_table(const json_t *all)
{
	const json_t *one;
	size_t i;

	printf("%-6s  %-8s  %-14s  %8s  %10s  %10s  %s\n", "ID", "STATE", "END", "AGE(s)", "STDOUT", "STDERR", "COMMAND");
	json_array_foreach (all, i, one)
		print_command_row(one);
}

static int list_commands_of(const char *ref, int json, struct err *e)
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
	print_command_table(all);
	return 0;
}

static int commands_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	int rest, help = 0, json = 0, result;

	result = command_options(self, argc, argv, set_commands_option, &json, &rest, &help, &e);
	if (result == 0 && help)
		return 0;
	if (result == 0 && rest + 1 != argc)
		result = err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth commands ID");
	if (result == 0)
		result = list_commands_of(argv[rest], json, &e);
	return result < 0 ? command_fail(self, &e, json) : 0;
}

const struct command cmd_commands = {
	.name = "commands",
	.args = "SANDBOX",
	.summary = "list the commands of a sandbox",
	.detail = "Commands that ended are listed while their output is kept: the last 64 detached ones.",
	.opts = commands_options,
	.opt_count = ARRAY_LEN(commands_options),
	.complete = COMPLETE_SANDBOX,
	.run = commands_main,
	.print = print_command_table,
};

/* ---- output ---- */

/* berth output: the output of a detached command, from any byte on. */

enum { OUTPUT_FROM = 1, OUTPUT_STDERR, OUTPUT_FOLLOW, OUTPUT_JSON };

static const struct opt output_options[] = {
	{ "from", 0, OPT_VALUE, "OFFSET", "first byte wanted, counted from the start (default: 0)", OUTPUT_FROM },
	{ "stderr", 0, OPT_FLAG, NULL, "its standard error instead of its standard output", OUTPUT_STDERR },
	{ "follow", 'f', OPT_FLAG, NULL, "go on as more comes, until the command ends", OUTPUT_FOLLOW },
	{ "json", 0, OPT_FLAG, NULL, "print JSON objects with the data and the next offset, one a line", OUTPUT_JSON },
};

struct output {
	uint64_t from;
	int err, follow, json;
};

static int set_output_option(void *ctx, int id, const char *value, struct err *e)
{
	struct output *o = ctx;

	if (id == OUTPUT_FROM)
		return num_u64(value, "offset", 0, INT64_MAX, &o->from, e);
	*(id == OUTPUT_STDERR ? &o->err : id == OUTPUT_FOLLOW ? &o->follow : &o->json) = 1;
	return 0;
}

static int print_output_json(json_t *answer, const struct buf *b, struct err *e)
{
	json_object_del(answer, "v");
	if (json_set_bytes(answer, "data", b->data, b->len, e) < 0)
		return -1;
	return command_print_json(answer, JSON_COMPACT, e);
}

/* Prints one available piece: 1 if there is more, 0 at the end of what is available. */
static int piece(struct output *o, int sock, const char *command, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_output), *answer = NULL;
	autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
	autoclose int fd = -1;
	uint64_t start, total;

	request_set_command(rq, command);
	request_set_stream(rq, o->err ? "stderr" : "stdout");
	request_set_from(rq, o->from);
	answer = keeper_call(sock, rq, NULL, 0, &fd, e);
	if (!answer || (fd >= 0 && wire_read_data(fd, &b, e) < 0))
		return -1;
	start = (uint64_t)json_integer_value(json_object_get(answer, "from"));
	total = (uint64_t)json_integer_value(json_object_get(answer, "total"));
	if (o->json && print_output_json(answer, &b, e) < 0)
		return -1;
	if (!o->json && start > o->from)
		log_note("berth output", "%llu bytes were dropped here", (unsigned long long)(start - o->from));
	if (!o->json && io_write_all(STDOUT_FILENO, b.data ? b.data : "", b.len) < 0)
		return err_sys(e, "write the output");
	o->from = (uint64_t)json_integer_value(json_object_get(answer, "next"));
	return o->from < total;
}

static int follow_output(const struct output *o, int sock, const char *command, struct err *e)
{
	struct follow f = { .sock = sock, .command = command, .stream = o->err ? "stderr" : "stdout", .json = o->json,
			    .from = { o->from, o->from }, .to = { STDOUT_FILENO, STDOUT_FILENO } };
	autojson json_t *verdict = NULL;
	int r = 0;

	while (r == 0) {
		if (follow_ask(&f, e) < 0)
			return -1;
		r = follow_take(&f, &verdict, e);
	}
	return r < 0 ? -1 : 0;
}

static int output_main(const struct command *self, int argc, char **argv)
{
	struct output o = { 0 };
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_output_option, &o, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a sandbox and a command's id are wanted; hint: berth commands ID lists them");
	if (r == 0)
		r = sandbox_ref_connect(&s, argv[rest], 0, &e);
	if (r == 0 && o.follow)
		r = follow_output(&o, s.sock, argv[rest + 1], &e);
	else
		while (r == 0 && (r = piece(&o, s.sock, argv[rest + 1], &e)) > 0 && !o.json)
			r = 0;
	sandbox_ref_close(&s);
	return r < 0 ? command_fail(self, &e, o.json) : 0;
}

const struct command cmd_output = {
	.name = "output",
	.args = "SANDBOX COMMAND",
	.summary = "show what a detached command wrote",
	.detail = "The first and the last MiB are kept; what was dropped between them is counted.  Offsets never\n"
		  "change: who asks again with the offset reached misses nothing and gets nothing twice.",
	.opts = output_options,
	.opt_count = ARRAY_LEN(output_options),
	.complete = COMPLETE_SANDBOX,
	.run = output_main,
};

/* ---- send ---- */

/* berth send: input for a detached command or for what runs in a shell session. */

#define CHUNK (1u << 16)
#define SESSION_CHUNK 2048	/* below a terminal's line buffer of 4096 */

enum { SEND_SESSION = 1, SEND_EOF, SEND_NO_NEWLINE };

static const struct opt send_options[] = {
	{ "session", 's', OPT_VALUE, "NAME", "to the terminal of this shell session instead of a command", SEND_SESSION },
	{ "eof", 0, OPT_FLAG, NULL, "then end of file", SEND_EOF },
	{ "no-newline", 'n', OPT_FLAG, NULL, "TEXT as it is, without a newline after it", SEND_NO_NEWLINE },
};

struct send {
	const char *session;
	int eof, no_newline;
};

static int set_send_option(void *ctx, int id, const char *value, struct err *e)
{
	struct send *s = ctx;

	(void)e;
	if (id == SEND_SESSION)
		s->session = value;
	else
		*(id == SEND_EOF ? &s->eof : &s->no_newline) = 1;
	return 0;
}

static int send_chunk(const struct send *s, int sock, const char *command, const char *p, size_t n, int eof, struct err *e)
{
	do {
		autojson json_t *rq = protocol_request(OP_send);
		autojson json_t *answer = NULL;
		autoclose int fd = -1;
		size_t sent;

		if (s->session)
			request_set_session(rq, s->session);
		else
			request_set_command(rq, command);
		request_set_eof(rq, eof);
		if (n && (fd = wire_data(p, n, e)) < 0)
			return -1;
		answer = keeper_call(sock, rq, &fd, fd >= 0 ? 1 : 0, NULL, e);
		if (!answer)
			return -1;
		sent = (size_t)json_integer_value(json_object_get(answer, "sent"));
		if (!sent && n)
			return err_set(e, ERR_BUSY, "nobody reads what was sent");
		if (sent >= n)
			return 0;
		p += sent;
		n -= sent;
	} while (n);
	return 0;
}

/* stdin, in pieces as they come. */
static int send_stdin(const struct send *s, int sock, const char *command, struct err *e)
{
	char buf[CHUNK];
	ssize_t n;

	while ((n = read(STDIN_FILENO, buf, s->session ? SESSION_CHUNK : sizeof(buf))) > 0)
		if (send_chunk(s, sock, command, buf, (size_t)n, 0, e) < 0)
			return -1;
	return n < 0 ? err_sys(e, "read stdin") : 0;
}

static int send_given_text(const struct send *s, int sock, const char *command, const char *text, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	size_t at = 0, n;

	if (buf_adds(&b, text, e) < 0 || (!s->no_newline && buf_adds(&b, "\n", e) < 0))
		return -1;
	for (; at < b.len; at += n) {
		n = b.len - at < SESSION_CHUNK ? b.len - at : SESSION_CHUNK;
		if (send_chunk(s, sock, command, b.data + at, n, 0, e) < 0)
			return -1;
	}
	return 0;
}

static int send_all_input(const struct send *s, int sock, const char *command, const char *text, struct err *e)
{
	if (text && (strcmp(text, "-") ? send_given_text(s, sock, command, text, e) : send_stdin(s, sock, command, e)) < 0)
		return -1;
	return s->eof ? send_chunk(s, sock, command, NULL, 0, 1, e) : 0;
}

static int is_command_id(const char *s)
{
	return s[0] == 'c' && s[1] && s[1 + strspn(s + 1, "0123456789")] == '\0';
}

static int send_main(const struct command *self, int argc, char **argv)
{
	struct send s = { 0 };
	struct sandbox_ref ref;
	struct err e = { 0 };
	int rest, help = 0, r, words;
	const char *command = NULL, *text;

	sandbox_ref_init(&ref);
	r = command_options(self, argc, argv, set_send_option, &s, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	/* berth send ID yes: no command's id, so the answer to what the usual session asks */
	if (r == 0 && !s.session && argc - rest == 2 && !is_command_id(argv[rest + 1]))
		s.session = "main";
	words = argc - rest - (s.session ? 1 : 2);
	if (r == 0 && (words < 0 || words > 1))
		r = err_set(&e, ERR_USAGE, words > 1 ? "more than one text; hint: quote it, and put options before the sandbox" :
			    "a sandbox and a command's id (or --session) are wanted; hint: berth send ID c3 'TEXT'");
	if (r == 0 && !words && !s.eof)
		r = err_set(&e, ERR_USAGE, "nothing to send; hint: a text, - for stdin, or --eof");
	if (r == 0)
		r = sandbox_ref_connect(&ref, argv[rest], 0, &e);
	if (r == 0) {
		if (!s.session)
			command = argv[rest + 1];
		text = words ? argv[argc - 1] : NULL;
		r = send_all_input(&s, ref.sock, command, text, &e);
	}
	sandbox_ref_close(&ref);
	return r < 0 ? command_fail(self, &e, 0) : 0;
}

const struct command cmd_send = {
	.name = "send",
	.args = "SANDBOX [COMMAND] [TEXT|-]",
	.summary = "send input to a detached command or a shell session",
	.detail = "TEXT gets a newline; - sends stdin as it is.  It returns when the command's stdin took everything.",
	.opts = send_options,
	.opt_count = ARRAY_LEN(send_options),
	.complete = COMPLETE_SANDBOX,
	.run = send_main,
};

/* ---- signal ---- */

/* berth signal: a signal for a command or for what runs in a shell session. */

enum { SIGNAL_SESSION = 1, SIGNAL_ALL };

static const struct opt signal_options[] = {
	{ "session", 's', OPT_VALUE, "NAME", "to the foreground of this shell session instead of a command", SIGNAL_SESSION },
	{ "all", 0, OPT_FLAG, NULL, "with KILL: every process of the command, not only its first", SIGNAL_ALL },
};

struct sig {
	const char *session;
	int all;
};

static int set_signal_option(void *ctx, int id, const char *value, struct err *e)
{
	struct sig *s = ctx;

	(void)e;
	if (id == SIGNAL_SESSION)
		s->session = value;
	else
		s->all = 1;
	return 0;
}

static int send_signal_to_command(const struct sig *s, char **words, struct err *e)
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

	r = command_options(self, argc, argv, set_signal_option, &s, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && argc - rest != (s.session ? 2 : 3))
		r = err_set(&e, ERR_USAGE, "a sandbox, a command's id (or --session) and a signal are wanted; hint: berth signal ID c3 TERM");
	if (r == 0)
		r = send_signal_to_command(&s, argv + rest, &e);
	return r < 0 ? command_fail(self, &e, 0) : 0;
}

const struct command cmd_signal = {
	.name = "signal",
	.args = "SANDBOX [COMMAND] SIGNAL",
	.summary = "send a signal to a command or a shell session",
	.opts = signal_options,
	.opt_count = ARRAY_LEN(signal_options),
	.complete = COMPLETE_SANDBOX,
	.run = signal_main,
};
