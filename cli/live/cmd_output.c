/* SPDX-License-Identifier: Apache-2.0 */
/* berth output: the output of a detached command, from any byte on. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/follow.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

enum { OPT_FROM = 1, OPT_STDERR, OPT_FOLLOW, OPT_JSON };

static const struct opt options[] = {
	{ "from", 0, OPT_VALUE, "OFFSET", "first byte wanted, counted from the start (default: 0)", OPT_FROM },
	{ "stderr", 0, OPT_FLAG, NULL, "its standard error instead of its standard output", OPT_STDERR },
	{ "follow", 'f', OPT_FLAG, NULL, "go on as more comes, until the command ends", OPT_FOLLOW },
	{ "json", 0, OPT_FLAG, NULL, "print JSON objects with the data and the next offset, one a line", OPT_JSON },
};

struct output {
	uint64_t from;
	int err, follow, json;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct output *o = ctx;

	if (id == OPT_FROM)
		return num_u64(value, "offset", 0, INT64_MAX, &o->from, e);
	*(id == OPT_STDERR ? &o->err : id == OPT_FOLLOW ? &o->follow : &o->json) = 1;
	return 0;
}

static int print_json(json_t *answer, const struct buf *b, struct err *e)
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
	if (o->json && print_json(answer, &b, e) < 0)
		return -1;
	if (!o->json && start > o->from)
		log_note("berth output", "%llu bytes were dropped here", (unsigned long long)(start - o->from));
	if (!o->json && io_write_all(STDOUT_FILENO, b.data ? b.data : "", b.len) < 0)
		return err_sys(e, "write the output");
	o->from = (uint64_t)json_integer_value(json_object_get(answer, "next"));
	return o->from < total;
}

static int follow(const struct output *o, int sock, const char *command, struct err *e)
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
	r = command_options(self, argc, argv, set_option, &o, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a sandbox and a command's id are wanted; hint: berth commands ID lists them");
	if (r == 0)
		r = sandbox_ref_connect(&s, argv[rest], 0, &e);
	if (r == 0 && o.follow)
		r = follow(&o, s.sock, argv[rest + 1], &e);
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
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = output_main,
};
