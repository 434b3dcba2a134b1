/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth top: what uses the host now: the processes of one sandbox, or all sandboxes that run.
 *
 * Both are read from cgroups, so that nothing in a sandbox can hide, and a berth run and a zygote
 * are there as well; keepers are asked only for the bytes of networks.  Names and arguments are
 * hostile text.
 */
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "cli/live/sandbox_status.h"
#include "cli/live/select.h"
#include "cli/look/table.h"
#include "manager/host/record.h"
#include "manager/keeper/pings.h"
#include "runtime/kernel/cgroup.h"

#define EVERY_MS 1000
#define SAMPLE_MS 250	/* between the two looks of a share of the CPUs, when it is shown once */

/* ---- the processes of one ---- */

static void print_process_table(const json_t *list)
{
	const json_t *p;
	size_t i;

	printf("%6s  %8s  %-6s  %1s  %9s  %10s  %s\n", "PID", "HOST PID", "OF", "S", "CPU(ms)", "MEMORY(K)", "COMMAND");
	json_array_foreach(list, i, p)
		printf("%6lld  %8lld  %-6s  %1s  %9lld  %10lld  %.80s\n", (long long)json_integer_value(json_object_get(p, "pid")),
		       (long long)json_integer_value(json_object_get(p, "host_pid")),
		       json_string_value(json_object_get(p, "of")), json_string_value(json_object_get(p, "state")),
		       (long long)json_integer_value(json_object_get(p, "cpu_ms")),
		       (long long)json_integer_value(json_object_get(p, "memory_bytes")) / 1024,
		       json_string_value(json_object_get(p, "command")));
}

static int show_processes(const char *ref, int json, struct err *e)
{
	autojson json_t *list = NULL;
	struct sandbox_ref s;

	sandbox_ref_init(&s);
	if (sandbox_ref_connect(&s, ref, 0, e) == 0)
		list = processes_list(&s, SIZE_MAX, NULL, e);
	sandbox_ref_close(&s);
	if (!list)
		return -1;
	if (json)
		return command_print_json(list, JSON_COMPACT, e);
	print_process_table(list);
	return 0;
}

/* ---- what all sandboxes use ---- */

/* The orders, each with its key: "most first". */
static const struct top_order {
	const char *word;
	char key;
	const char *member;
} top_orders[] = {
	{ "cpu", 'c', "cpu_percent" }, { "memory", 'm', "memory_bytes" }, { "pids", 'p', "pids" }, { "network", 'n', "network_bytes" },
};

#define TOP_ORDERS "cpu memory pids network"

struct top {
	struct sandbox_ref at;
	json_t *rows;		/* of this look: an array of objects, as --json prints them */
	json_t *last;		/* id -> {"cpu_us", "at_us"} of the look before */
	const struct top_order *order;
	int json;
};

/* What the row has of a record whose keeper has answered to "stats". */
static void note_top_network(json_t *record, const json_t *answer)
{
	const json_t *network = json_object_get(answer, "network");
	const json_int_t in = json_integer_value(json_object_get(network, "bytes_in")), out = json_integer_value(json_object_get(network, "bytes_out"));

	if (json_object_get(network, "bytes_in"))
		json_object_update_new(record, json_pack("{s:I,s:I,s:I}", "bytes_in", in, "bytes_out", out, "network_bytes", in + out));
}

/* The share of one CPU since the last look, and the present for the next one. */
static double top_cpu_share(struct top *t, json_t *seen, const char *id, uint64_t cpu_us)
{
	const uint64_t now = clock_us();
	const json_t *before = json_object_get(t->last, id);
	const uint64_t passed = now - (uint64_t)json_integer_value(json_object_get(before, "at_us"));
	const uint64_t used = cpu_us - (uint64_t)json_integer_value(json_object_get(before, "cpu_us"));

	json_object_set_new(seen, id, json_pack("{s:I,s:I}", "cpu_us", (json_int_t)cpu_us, "at_us", (json_int_t)now));
	return before && passed ? 100.0 * (double)used / (double)passed : 0;
}

static json_t *top_row(struct top *t, json_t *seen, const json_t *record)
{
	const char *id = record_id(record);
	struct cgroup_usage u;
	struct cgroup c;
	struct err gone;
	json_t *row;

	if (!id[0] || cgroup_open(&c, t->at.config.cgroup_parent, id, &gone) < 0)
		return NULL;
	row = cgroup_usage_now(&c, &u, &gone) < 0 ? NULL :
		json_pack("{s:s,s:s,s:s,s:s,s:f,s:I,s:I,s:I,s:I,s:I}", "id", id, "name", record_name(record), "image", record_image(record),
			  "status", "running", "cpu_percent", top_cpu_share(t, seen, id, u.cpu_us), "cpu_ms", (json_int_t)(u.cpu_us / 1000),
			  "memory_bytes", (json_int_t)u.memory_bytes, "pids", (json_int_t)u.pids, "read_bytes", (json_int_t)u.read_bytes,
			  "write_bytes", (json_int_t)u.write_bytes);
	cgroup_release(&c);
	return row;
}

/* Whether its keeper counts the bytes of a network of its own. */
static int top_has_network(const json_t *record)
{
	const char *mode = json_string_value(json_object_get(record_network(record), "mode"));

	return mode && (!strcmp(mode, "bridge") || !strcmp(mode, "egress"));
}

/* One look at all that run; what ends meanwhile is left out. */
static int look_at_sandboxes(struct top *t, struct err *e)
{
	const struct filter any = { 0 };
	autojson json_t *records = NULL, *seen = json_object(), *networked = json_array();
	json_t *record, *row;
	size_t i;

	if (!seen || !networked || select_records(&t->at.registry, &any, SELECT_RUNS, &records, e) < 0)
		return seen && networked ? -1 : err_nomem(e);
	json_decref(t->rows);
	t->rows = json_array();
	json_array_foreach (records, i, record) {
		row = top_row(t, seen, record);
		if (!row)
			continue;
		json_array_append_new(t->rows, row);
		if (top_has_network(record))
			json_array_append(networked, row);
	}
	pings_stats(&t->at.registry, networked, note_top_network);
	json_decref(t->last);
	t->last = json_incref(seen);
	return 0;
}

static double top_value(const json_t *row, const struct top_order *o)
{
	return json_number_value(json_object_get(row, o->member));
}

static int top_goes_before(const json_t *a, const json_t *b, const struct top_order *o)
{
	const double x = top_value(a, o), y = top_value(b, o);
	const int names = strcmp(record_name(a), record_name(b));

	return x != y ? x > y : names ? names < 0 : strcmp(record_id(a), record_id(b)) < 0;
}

static const struct top_order *compared_by;	/* for qsort(3), which hands nothing on */

static int compare_top_rows(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;

	return top_goes_before(x, y, compared_by) ? -1 : top_goes_before(y, x, compared_by);
}

/* The rows in the order that is chosen: a new array; NULL without memory. */
static json_t *sorted_rows(const struct top *t)
{
	const size_t n = json_array_size(t->rows);
	autofree json_t **list = calloc(n + 1, sizeof(json_t *));
	json_t *sorted = json_array();
	size_t i;

	for (i = 0; list && i < n; i++)
		list[i] = json_array_get(t->rows, i);
	compared_by = t->order;
	if (list)
		qsort(list, n, sizeof(json_t *), compare_top_rows);
	for (i = 0; list && i < n; i++)
		json_array_append(sorted, list[i]);
	if (list)
		return sorted;
	json_decref(sorted);
	return NULL;
}

/* ---- shown ---- */

/* What a narrow terminal leaves out, the highest first. */
static const struct table_column top_columns[] = {
	{ "SANDBOX", 0, 0 }, { "CPU%", 0, 1 }, { "CPU(ms)", 5, 1 }, { "MEMORY", 0, 1 }, { "PIDS", 0, 1 }, { "NET IN", 1, 1 },
	{ "NET OUT", 2, 1 }, { "READ", 3, 1 }, { "WRITTEN", 4, 1 }, { "IMAGE", 6, 0 },
};

static const char *top_size(const json_t *row, const char *member, char out[16])
{
	static const char units[] = "BKMGT";
	double v = (double)json_integer_value(json_object_get(row, member));
	int i = 0;

	for (; v >= 1024 && units[i + 1]; i++)
		v /= 1024;
	if (json_object_get(row, member))
		snprintf(out, 16, i ? "%.1f%c" : "%.0f%c", v, units[i]);
	else
		snprintf(out, 16, "-");
	return out;
}

static int add_top_row(struct table *t, const json_t *row, size_t name_max, struct err *e)
{
	char name[TABLE_CELL_MAX], share[16], cpu[24], memory[16], pids[24], in[16], out[16], read[16], written[16];

	snprintf(name, sizeof(name), "%.*s", (int)name_max, record_name(row)[0] ? record_name(row) : record_id(row));
	snprintf(share, sizeof(share), "%.1f", json_real_value(json_object_get(row, "cpu_percent")));
	snprintf(cpu, sizeof(cpu), "%lld", (long long)json_integer_value(json_object_get(row, "cpu_ms")));
	snprintf(pids, sizeof(pids), "%lld", (long long)json_integer_value(json_object_get(row, "pids")));
	return table_add(t, (const char *const[]){ name, share, cpu, top_size(row, "memory_bytes", memory), pids, top_size(row, "bytes_in", in),
						   top_size(row, "bytes_out", out), top_size(row, "read_bytes", read),
						   top_size(row, "write_bytes", written), record_image(row) }, e);
}

static int print_top_table(struct top *t, size_t width, size_t rows, const char *end, struct err *e)
{
	struct table table = { .columns = top_columns, .column_count = ARRAY_LEN(top_columns) };
	autojson json_t *sorted = sorted_rows(t);
	const json_t *row;
	int result = sorted ? 0 : err_nomem(e);
	size_t i;

	json_array_foreach (sorted, i, row)
		if (result == 0)
			result = add_top_row(&table, row, width ? width / 2 : TABLE_CELL_MAX - 1, e);
	if (result == 0)
		table_print(&table, width, rows, end);
	table_free(&table);
	return result;
}

static int top_once(struct top *t, struct err *e)
{
	if (look_at_sandboxes(t, e) < 0)
		return -1;
	(void)poll(NULL, 0, SAMPLE_MS);
	if (look_at_sandboxes(t, e) < 0)
		return -1;
	if (t->json) {
		autojson json_t *sorted = sorted_rows(t);
		json_t *row;
		size_t i;

		json_array_foreach (sorted, i, row)
			json_object_del(row, "status");	/* for pings.h; a keeper may know better */
		return command_print_json(sorted, JSON_COMPACT, e);
	}
	return print_top_table(t, table_terminal_width(), SIZE_MAX, "\n", e) < 0 ? -1 : fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

/* ---- live, on a terminal ---- */

#define SCREEN_BEGIN "\033[?1049h\033[?25l"	/* the other screen, without a cursor */
#define SCREEN_END "\033[?25h\033[?1049l"
#define TO_TOP "\033[H"
#define END_OF_LINE "\033[K\n"
#define END_OF_SCREEN "\033[J"

static int draw_top(struct top *t, struct err *e)
{
	struct winsize w = { .ws_row = 24, .ws_col = 80 };
	char head[160];

	(void)!ioctl(STDOUT_FILENO, TIOCGWINSZ, &w);
	snprintf(head, sizeof(head), "%zu run, by %s; c m p n sorts, q ends", json_array_size(t->rows), t->order->word);
	printf(TO_TOP "%.*s" END_OF_LINE, (int)w.ws_col, head);
	if (print_top_table(t, w.ws_col ? w.ws_col : 80, w.ws_row > 4 ? w.ws_row - 3u : 1, END_OF_LINE, e) < 0)
		return -1;
	fputs(END_OF_SCREEN, stdout);
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

/* 0: go on; 1: end. */
static int take_top_keys(struct top *t)
{
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys)), i;
	size_t j;

	if (n <= 0)
		return 1;
	for (i = 0; i < n; i++) {
		if (keys[i] == 'q' || keys[i] == '\003' || keys[i] == '\004')
			return 1;
		for (j = 0; j < ARRAY_LEN(top_orders); j++)
			if (keys[i] == top_orders[j].key)
				t->order = &top_orders[j];
	}
	return 0;
}

/* Until the next look is due; -1: an end by a signal, whose number is in *ret_signal. */
static int serve_top_keys(struct top *t, int signals, int *ret_signal, struct err *e)
{
	const uint64_t until = clock_ms() + EVERY_MS;
	struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = signals, .events = POLLIN } };
	struct signalfd_siginfo info;
	uint64_t now;

	while ((now = clock_ms()) < until) {
		if (poll(p, 2, (int)(until - now)) <= 0)
			continue;
		if (p[1].revents && read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info) && info.ssi_signo != SIGWINCH) {
			*ret_signal = (int)info.ssi_signo;
			return 1;
		}
		if (p[0].revents && take_top_keys(t))
			return 1;
		if (draw_top(t, e) < 0)
			return -1;
	}
	return 0;
}

static int top_rounds(struct top *t, int signals, int *ret_signal, struct err *e)
{
	int r;

	do {
		r = look_at_sandboxes(t, e) < 0 || draw_top(t, e) < 0 ? -1 : serve_top_keys(t, signals, ret_signal, e);
	} while (r == 0);
	return r < 0 ? -1 : 0;
}

/* The terminal is given back as it was, however it ends; a signal ends berth then. */
static int top_live(struct top *t, struct err *e)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH };
	struct termios before, keys;
	autoclose int signals = -1;
	sigset_t set, old;
	int result, ended_by = 0;
	size_t i;

	sigemptyset(&set);
	for (i = 0; i < ARRAY_LEN(ends); i++)
		sigaddset(&set, ends[i]);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	if (signals < 0 || sigprocmask(SIG_BLOCK, &set, &old) < 0 || tcgetattr(STDIN_FILENO, &before) < 0)
		return err_sys(e, "prepare the terminal");
	keys = before;
	keys.c_lflag &= (tcflag_t)~(ICANON | ECHO | ISIG);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &keys) < 0)
		return err_sys(e, "read the terminal key by key");
	fputs(SCREEN_BEGIN, stdout);
	result = top_rounds(t, signals, &ended_by, e);
	fputs(SCREEN_END, stdout);
	(void)!fflush(stdout);
	(void)!tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (ended_by)
		raise(ended_by);
	return result;
}

static int top_of_all(struct top *t, struct err *e)
{
	int result;

	sandbox_ref_init(&t->at);
	result = sandbox_ref_registry(&t->at, e);
	if (result == 0)
		result = !t->json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) ? top_live(t, e) : top_once(t, e);
	json_decref(t->rows);
	json_decref(t->last);
	sandbox_ref_close(&t->at);
	return result;
}

/* ---- the command ---- */

enum { TOP_JSON = 1, TOP_SORT };

static const struct opt top_options[] = {
	{ "sort", 0, OPT_VALUE, "WORD", "all sandboxes: which has most comes first", TOP_SORT, COMPLETE_WORDS, TOP_ORDERS, "cpu" },
	{ "json", 0, OPT_FLAG, NULL, "print a JSON array, errors as JSON too", TOP_JSON },
};

struct top_choice {
	struct top top;
	int sorts;
};

static int set_top_option(void *ctx, int id, const char *value, struct err *e)
{
	struct top_choice *o = ctx;
	size_t i;

	if (id == TOP_JSON) {
		o->top.json = 1;
		return 0;
	}
	o->sorts = 1;
	for (i = 0; i < ARRAY_LEN(top_orders); i++)
		if (!strcmp(value, top_orders[i].word)) {
			o->top.order = &top_orders[i];
			return 0;
		}
	return err_set(e, ERR_USAGE, "'%.40s' is no order; hint: cpu, memory, pids or network", value);
}

static int top_main(const struct command *self, int argc, char **argv)
{
	struct top_choice o = { .top = { .order = &top_orders[0] } };
	struct err e = { 0 };
	int rest, help = 0, r;

	r = command_options(self, argc, argv, set_top_option, &o, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 1 < argc)
		r = err_set(&e, ERR_USAGE, "one sandbox, or none for all, is wanted; hint: berth top ID");
	else if (r == 0 && rest + 1 == argc && o.sorts)
		r = err_set(&e, ERR_USAGE, "option --sort is for all sandboxes; hint: berth top %.80s", argv[rest]);
	if (r == 0)
		r = rest == argc ? top_of_all(&o.top, &e) : show_processes(argv[rest], o.top.json, &e);
	return r < 0 ? command_fail(self, &e, o.top.json) : 0;
}

const struct command cmd_top = {
	.name = "top",
	.args = "[SANDBOX]",
	.summary = "show what all sandboxes use, live, or the processes of one",
	.detail = "Without a name, on a terminal: a row for each sandbox that runs, each second; c, m, p and n sort them by\n"
		  "CPU, memory, processes and network, q ends. Into a pipe, and with --json: once.",
	.opts = top_options,
	.opt_count = ARRAY_LEN(top_options),
	.complete = COMPLETE_SANDBOX,
	.run = top_main,
	.print = print_process_table,
};
