/* SPDX-License-Identifier: Apache-2.0 */
/* berth sh: a command in a persistent shell session. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

#define TEXT_MAX (8u << 20)
#define STATUS_UNFINISHED 123	/* the command runs on: it awaits input, was frozen, or was left running */

enum { OPT_SESSION = 1, OPT_TIMEOUT, OPT_ON_TIMEOUT, OPT_SPLIT, OPT_WAIT, OPT_SESSIONS, OPT_CLOSE, OPT_START, OPT_JSON, OPT_QUEUE_TIMEOUT, OPT_NO_WAIT,
	OPT_CHECKPOINT, OPT_MAX_SILENT };

static const struct opt options[] = {
	{ "session", 's', OPT_VALUE, "NAME", "which shell (default: main)", OPT_SESSION },
	{ "timeout", 0, OPT_VALUE, "TIME", "wall time of the command; 0 means none (default: the sandbox's, or 300s)", OPT_TIMEOUT },
	{ "max-silent-time", 0, OPT_VALUE, "TIME",
	  "time without output before --on-timeout; 0 means none (default: the sandbox's)",
	  OPT_MAX_SILENT },
	{ "on-timeout", 0, OPT_VALUE, "WHAT", "kill its tree, interrupt, freeze or detach (default: kill)", OPT_ON_TIMEOUT,
	  COMPLETE_WORDS, "kill interrupt freeze detach" },
	{ "split", 0, OPT_FLAG, NULL, "no terminal; stdout and stderr apart", OPT_SPLIT },
	{ "queue-timeout", 0, OPT_VALUE, "TIME", "how long it may wait for its turn; 0 is for ever (default: as --timeout's)",
	  OPT_QUEUE_TIMEOUT },
	{ "checkpoint", 0, OPT_FLAG, NULL, "make a checkpoint first, for berth undo",
	  OPT_CHECKPOINT },
	{ "no-wait", 0, OPT_FLAG, NULL, "fail when the session runs another command, instead of waiting for it", OPT_NO_WAIT },
	{ "wait", 0, OPT_FLAG, NULL, "no new command: wait for the one that runs", OPT_WAIT },
	{ "list", 'l', OPT_FLAG, NULL, "list the sandbox's sessions", OPT_SESSIONS },
	{ "close", 0, OPT_FLAG, NULL, "end the session with all it runs", OPT_CLOSE },
	{ "start", 0, OPT_FLAG, NULL, "start the sandbox first if it does not run", OPT_START },
	{ "json", 0, OPT_FLAG, NULL, "print status, verdict and output as one JSON object", OPT_JSON },
};

struct sh {
	json_t *rq;
	int op;		/* OPT_WAIT, OPT_SESSIONS, OPT_CLOSE or 0 */
	int start, json;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct sh *s = ctx;
	uint64_t v;

	switch (id) {
	case OPT_SESSION:
		request_set_session(s->rq, value);
		return 0;
	case OPT_TIMEOUT:
		if (num_duration_ms(value, "timeout", 366ULL * 86400000, &v, e) < 0)
			return -1;
		request_set_timeout_ms(s->rq, v);
		return 0;
	case OPT_MAX_SILENT:
		if (num_duration_ms(value, "max-silent-time", 366ULL * 86400000, &v, e) < 0)
			return -1;
		request_set_max_silent_ms(s->rq, v);
		return 0;
	case OPT_QUEUE_TIMEOUT:
		if (num_duration_ms(value, "queue-timeout", 366ULL * 86400000, &v, e) < 0)
			return -1;
		request_set_queue_ms(s->rq, v);
		return 0;
	case OPT_CHECKPOINT:
		request_set_checkpoint(s->rq, 1);
		return 0;
	case OPT_NO_WAIT:
		request_set_no_wait(s->rq, 1);
		return 0;
	case OPT_ON_TIMEOUT:
		request_set_on_timeout(s->rq, value);
		return 0;
	case OPT_SPLIT:
		request_set_split(s->rq, 1);
		return 0;
	case OPT_START:
		s->start = 1;
		return 0;
	case OPT_JSON:
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
static int check_words(const struct sh *s, char **words, struct err *e)
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

static int show(const struct sh *s, json_t *answer, const int *fds, size_t n, struct err *e)
{
	autobuf struct buf out = BUF_INIT(WIRE_DATA_MAX), err = BUF_INIT(WIRE_DATA_MAX);
	const char *status = json_string_value(json_object_get(answer, "status"));

	if ((n > 0 && wire_read_data(fds[0], &out, e) < 0) || (n > 1 && wire_read_data(fds[1], &err, e) < 0))
		return -1;
	if (!s->json) {
		if (print_output(answer, "output", &out, STDOUT_FILENO, e) < 0 ||
		    (n > 1 && print_output(answer, "stderr", &err, STDERR_FILENO, e) < 0))
			return -1;
		if (status && strcmp(status, "done"))
			log_note("berth sh", "%s", status);
		if (!follow_note_lost("berth sh", json_object_get(answer, "verdict")) && json_object_get(answer, "session_ended"))
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
		[0] = OP_sh, [OPT_WAIT] = OP_sh_wait, [OPT_SESSIONS] = OP_sessions, [OPT_CLOSE] = OP_session_close,
	};
	autobuf struct buf text = BUF_INIT(TEXT_MAX);
	autojson json_t *answer = NULL;
	autoclose int data = -1;
	int fds[WIRE_FDS_MAX], r;
	size_t n = 0, i;

	request_set_op(s->rq, protocol_operations[ops[s->op]].name);
	if (s->op && protocol_check(s->rq, 0, e) == OP_COUNT)
		return err_set(e, ERR_INVALID, "an option has no effect with %s",
			       s->op == OPT_WAIT ? "--wait" : s->op == OPT_CLOSE ? "--close" : "--list");
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
	if (s->op == OPT_SESSIONS || s->op == OPT_CLOSE) {
		if (s->op == OPT_SESSIONS || s->json)
			return command_print_json(s->op == OPT_SESSIONS ? json_object_get(answer, "sessions") : answer, JSON_COMPACT, e);
		return 0;
	}
	*ret_status = exit_status(answer);
	r = show(s, answer, fds, n, e);
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
	result = command_options(self, argc, argv, set_option, &s, &rest, &help, &e);
	/* options may stand behind the sandbox too: berth sh ID --timeout 5 -- COMMAND */
	if (result == 0 && !help && rest < argc)
		result = command_options(self, argc - rest, argv + rest, set_option, &s, &words, &help, &e);
	if (result == 0 && !help) {
		if (rest >= argc)
			result = err_set(&e, ERR_USAGE, "no sandbox given; hint: berth sh ID 'COMMAND'");
		if (result == 0)
			result = check_words(&s, argv + rest + words, &e);
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
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = sh_main,
};
