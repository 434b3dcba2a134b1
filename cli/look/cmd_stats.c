/* SPDX-License-Identifier: Apache-2.0 */
/* berth stats: a sandbox's use of resources, once or every second. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/keeper/request.h"

#define EVERY_MS 1000

enum { OPT_NO_STREAM = 1, OPT_JSON };

static const struct opt options[] = {
	{ "no-stream", 0, OPT_FLAG, NULL, "once, instead of every second", OPT_NO_STREAM },
	{ "json", 0, OPT_FLAG, NULL, "print JSON objects, one a line, errors too", OPT_JSON },
};

struct stats {
	int once, json, rows;
	uint64_t cpu_ms, at_ms;	/* of the last line */
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct stats *s = ctx;

	(void)value;
	(void)e;
	*(id == OPT_JSON ? &s->json : &s->once) = 1;
	return 0;
}

static uint64_t get(const json_t *j, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(j, key));
}

static const char *size(uint64_t bytes, char out[16])
{
	static const char units[] = "BKMGT";
	double v = (double)bytes;
	int i = 0;

	for (; v >= 1024 && units[i + 1]; i++)
		v /= 1024;
	snprintf(out, 16, i ? "%.1f%c" : "%.0f%c", v, units[i]);
	return out;
}

static void print_row(struct stats *s, const json_t *j)
{
	const json_t *net = json_object_get(j, "network");
	char memory[16], limit[16] = "-", peak[16], in[16], out[16], pids[32] = "-", received[16] = "-", sent[16] = "-";
	uint64_t cpu = get(j, "cpu_ms"), at = get(j, "uptime_ms");
	double share = at > s->at_ms ? 100.0 * (double)(cpu - s->cpu_ms) / (double)(at - s->at_ms) : 0;

	if (json_object_get(j, "memory_limit_bytes"))
		size(get(j, "memory_limit_bytes"), limit);
	if (json_object_get(j, "pids_limit"))
		snprintf(pids, sizeof(pids), "%llu", (unsigned long long)get(j, "pids_limit"));
	if (json_object_get(net, "bytes_in")) {
		size(get(net, "bytes_in"), received);
		size(get(net, "bytes_out"), sent);
	}
	if (s->rows++ % 20 == 0)
		printf("%7s  %10s  %8s / %-8s  %8s  %5s / %-5s  %8s  %8s  %8s  %8s  %s\n", "CPU%", "CPU(ms)", "MEMORY", "LIMIT", "PEAK",
		       "PIDS", "LIMIT", "READ", "WRITTEN", "NET IN", "NET OUT", "BUSY");
	printf("%7.1f  %10llu  %8s / %-8s  %8s  %5llu / %-5s  %8s  %8s  %8s  %8s  %.60s\n", share, (unsigned long long)cpu,
	       size(get(j, "memory_bytes"), memory), limit, size(get(j, "peak_memory_bytes"), peak),
	       (unsigned long long)get(j, "pids"), pids, size(get(j, "read_bytes"), in), size(get(j, "write_bytes"), out),
	       received, sent,
	       json_object_get(j, "busy") ? json_string_value(json_object_get(j, "busy")) : "idle");
	s->cpu_ms = cpu;
	s->at_ms = at;
}

static void print_once(const json_t *j)
{
	struct stats s = { 0 };

	print_row(&s, j);
}

static int one(struct stats *s, int sock, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_stats);
	autojson json_t *answer = keeper_call(sock, rq, NULL, 0, NULL, e);

	if (!answer)
		return -1;
	json_object_del(answer, "v");
	if (s->json)
		return command_print_json(answer, JSON_COMPACT, e);
	print_row(s, answer);
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static int show(struct stats *s, const char *ref, struct err *e)
{
	struct sandbox_ref sandbox;
	int r, shown = 0;

	sandbox_ref_init(&sandbox);
	r = sandbox_ref_connect(&sandbox, ref, 0, e);
	while (r == 0 && (r = one(s, sandbox.sock, e)) == 0 && !s->once) {
		struct pollfd p = { .fd = sandbox.sock, .events = POLLIN };

		shown = 1;
		/* the keeper says nothing unasked: readable is its end */
		if (poll(&p, 1, EVERY_MS) > 0)
			break;
	}
	sandbox_ref_close(&sandbox);
	return r < 0 && shown && e->code == ERR_NOT_FOUND ? 0 : r;
}

static int stats_main(const struct command *self, int argc, char **argv)
{
	struct stats s = { 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	r = command_options(self, argc, argv, set_option, &s, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth stats ID");
	if (r == 0)
		r = show(&s, argv[rest], &e);
	return r < 0 ? command_fail(self, &e, s.json) : 0;
}

const struct command cmd_stats = {
	.name = "stats",
	.args = "SANDBOX",
	.summary = "show what a sandbox uses, every second",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = stats_main,
	.print = print_once,
};
