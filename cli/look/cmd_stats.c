/* SPDX-License-Identifier: Apache-2.0 */
/* berth stats: what sandboxes use of resources, once or every second. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "cli/live/select.h"
#include "manager/keeper/protocol.h"

#define EVERY_MS 1000

enum { OPT_NO_STREAM = 1, OPT_JSON };

static const struct opt options[] = {
	{ "no-stream", 0, OPT_FLAG, NULL, "once, instead of every second", OPT_NO_STREAM },
	{ "json", 0, OPT_FLAG, NULL, "print JSON objects, one a line, errors too", OPT_JSON },
};

/* One of the sandboxes that are shown. */
struct shown {
	int sock;			/* to its keeper; -1: it ended */
	char id[65], name[65];
	uint64_t cpu_ms, at_ms;		/* of its last line */
};

struct stats {
	int once, json, named, rows;
	struct sandbox_ref at;		/* the one that is added */
	struct shown *list;
	size_t count, cap;
};

static int set_stats_option(void *ctx, int id, const char *value, struct err *e)
{
	struct stats *s = ctx;

	(void)value;
	(void)e;
	*(id == OPT_JSON ? &s->json : &s->once) = 1;
	return 0;
}

static uint64_t member_of_stats(const json_t *j, const char *key)
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

/* With the name in front where several are shown. */
static void print_stats_head(const struct stats *s)
{
	if (s->named)
		printf("%-16s  ", "SANDBOX");
	printf("%7s  %10s  %8s / %-8s  %8s  %5s / %-5s  %8s  %8s  %8s  %8s  %s\n", "CPU%", "CPU(ms)", "MEMORY", "LIMIT", "PEAK",
	       "PIDS", "LIMIT", "READ", "WRITTEN", "NET IN", "NET OUT", "BUSY");
}

static void print_stats_row(struct stats *s, struct shown *x, const json_t *j)
{
	const json_t *net = json_object_get(j, "network");
	char memory[16], limit[16] = "-", peak[16], in[16], out[16], pids[32] = "-", received[16] = "-", sent[16] = "-";
	uint64_t cpu = member_of_stats(j, "cpu_ms"), at = member_of_stats(j, "uptime_ms");
	double share = at > x->at_ms ? 100.0 * (double)(cpu - x->cpu_ms) / (double)(at - x->at_ms) : 0;

	if (json_object_get(j, "memory_limit_bytes"))
		size(member_of_stats(j, "memory_limit_bytes"), limit);
	if (json_object_get(j, "pids_limit"))
		snprintf(pids, sizeof(pids), "%llu", (unsigned long long)member_of_stats(j, "pids_limit"));
	if (json_object_get(net, "bytes_in")) {
		size(member_of_stats(net, "bytes_in"), received);
		size(member_of_stats(net, "bytes_out"), sent);
	}
	if (s->named)
		printf("%-16.64s  ", x->name);
	printf("%7.1f  %10llu  %8s / %-8s  %8s  %5llu / %-5s  %8s  %8s  %8s  %8s  %.60s\n", share, (unsigned long long)cpu,
	       size(member_of_stats(j, "memory_bytes"), memory), limit, size(member_of_stats(j, "peak_memory_bytes"), peak),
	       (unsigned long long)member_of_stats(j, "pids"), pids, size(member_of_stats(j, "read_bytes"), in), size(member_of_stats(j, "write_bytes"), out),
	       received, sent,
	       json_object_get(j, "busy") ? json_string_value(json_object_get(j, "busy")) : "idle");
	x->cpu_ms = cpu;
	x->at_ms = at;
}

/* One answer, or an array of them with their names. */
static void print_once(const json_t *answer)
{
	struct stats s = { .named = json_is_array(answer) };
	const json_t *one;
	size_t i;

	print_stats_head(&s);
	if (!s.named) {
		print_stats_row(&s, &(struct shown){ 0 }, answer);
		return;
	}
	json_array_foreach (answer, i, one) {
		struct shown x = { 0 };
		const char *name = json_string_value(json_object_get(one, "id"));

		snprintf(x.name, sizeof(x.name), "%s", name ? name : "");
		print_stats_row(&s, &x, one);
	}
}

static int show_stats_of_one(struct stats *s, struct shown *x, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_stats);
	autojson json_t *answer = keeper_call(x->sock, rq, NULL, 0, NULL, e);

	if (!answer)
		return -1;
	json_object_del(answer, "v");
	if (s->json) {
		json_object_set_new(answer, "id", json_string(x->id));
		return command_print_json(answer, JSON_COMPACT, e);
	}
	print_stats_row(s, x, answer);
	return 0;
}

/* A line of each that runs; one that has ended meanwhile is left out from then on. */
static int show_stats_round(struct stats *s, size_t *ret_left, int first, struct err *e)
{
	size_t i;

	*ret_left = 0;
	if (!s->json && s->rows == 0)
		print_stats_head(s);
	s->rows = (s->rows + 1) % (int)(s->count > 20 ? 1 : 20 / s->count);
	for (i = 0; i < s->count; i++) {
		struct shown *x = &s->list[i];

		if (x->sock < 0)
			continue;
		if (show_stats_of_one(s, x, e) == 0)
			++*ret_left;
		else if (first || e->code != ERR_NOT_FOUND)
			return -1;
		else
			fd_close(&x->sock);
	}
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

/* Sleeps; a keeper says nothing unasked: readable is its end. */
static int wait_a_turn(struct stats *s, struct err *e)
{
	const uint64_t until = clock_ms() + EVERY_MS;
	autofree struct pollfd *p = calloc(s->count, sizeof(*p));
	size_t left = 0, i;

	if (!p)
		return err_nomem(e);
	for (i = 0; i < s->count; i++) {
		p[i] = (struct pollfd){ .fd = s->list[i].sock, .events = POLLIN };
		left += p[i].fd >= 0;
	}
	while (left && clock_ms() < until) {
		if (poll(p, s->count, (int)(until - clock_ms())) <= 0)
			continue;
		for (i = 0; i < s->count; i++)
			if (p[i].fd >= 0 && p[i].revents) {
				p[i].fd = -1;
				fd_close(&s->list[i].sock);
				left--;
			}
	}
	return left > 0;
}

static int show_stats(struct stats *s, struct err *e)
{
	size_t left;
	int r, first = 1;

	while ((r = show_stats_round(s, &left, first, e)) == 0 && !s->once && left) {
		first = 0;
		r = wait_a_turn(s, e);
		if (r <= 0)
			break;
	}
	return r < 0 ? -1 : 0;
}

/* ---- which ---- */

static int add_stats_sandbox(struct stats *s, const char *ref, const char *name, struct err *e)
{
	struct shown *more, *x;

	if (s->count == s->cap) {
		more = reallocarray(s->list, s->cap ? 2 * s->cap : 8, sizeof(*more));
		if (!more)
			return err_nomem(e);
		s->list = more;
		s->cap = s->cap ? 2 * s->cap : 8;
	}
	if (sandbox_ref_connect(&s->at, ref, 0, e) < 0)
		return -1;
	x = &s->list[s->count++];
	*x = (struct shown){ .sock = take_fd(&s->at.sock) };
	memcpy(x->id, s->at.id, sizeof(x->id));
	log_clean(x->name, sizeof(x->name), name, 0);
	return 0;
}

/* Without names: those that run now. */
static int add_running(struct stats *s, struct err *e)
{
	const struct filter any = { 0 };
	autojson json_t *records = NULL;
	const json_t *one;
	size_t i;

	if (sandbox_ref_registry(&s->at, e) < 0 || select_records(&s->at.registry, &any, SELECT_RUNS, &records, e) < 0)
		return -1;
	json_array_foreach (records, i, one) {
		const char *id = json_string_value(json_object_get(one, "id")), *name = json_string_value(json_object_get(one, "name"));

		if (!id || keeper_is_run(&s->at.registry, id) || add_stats_sandbox(s, id, name && name[0] ? name : id, e) == 0)
			continue;
		if (e->code == ERR_NOMEM)
			return -1;
		/* ERR_NOT_FOUND: it has ended meanwhile; one that does not answer hides no other */
		if (e->code != ERR_NOT_FOUND)
			log_note("berth stats", "%s", e->msg);
	}
	return 0;
}

static int add_stats_sandboxes(struct stats *s, char **names, int n, struct err *e)
{
	int i;

	s->named = n != 1;
	if (n == 0)
		return add_running(s, e);
	for (i = 0; i < n; i++)
		if (add_stats_sandbox(s, names[i], names[i], e) < 0)
			return -1;
	return 0;
}

static int stats_main(const struct command *self, int argc, char **argv)
{
	struct stats s = { 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&s.at);
	r = command_options(self, argc, argv, set_stats_option, &s, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0)
		r = add_stats_sandboxes(&s, argv + rest, argc - rest, &e);
	if (r == 0 && s.count)
		r = show_stats(&s, &e);
	else if (r == 0 && !s.json)
		print_stats_head(&s);
	while (s.count)
		fd_close(&s.list[--s.count].sock);
	free(s.list);
	sandbox_ref_close(&s.at);
	return r < 0 ? command_fail(self, &e, s.json) : 0;
}

const struct command cmd_stats = {
	.name = "stats",
	.args = "[SANDBOX...]",
	.summary = "show what sandboxes use, every second",
	.detail = "Without names: of those that run now.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = stats_main,
	.print = print_once,
};
