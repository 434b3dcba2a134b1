/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/stats.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/name.h"
#include "manager/engine/objects.h"
#include "manager/engine/view.h"

/* ---- stats ---- */

#define NS_OF_MS 1000000

static json_int_t stats_number(const json_t *said, const char *key)
{
	return json_integer_value(json_object_get(said, key));
}

static json_t *stats_time(const struct timespec *t)
{
	char text[40];
	struct tm tm;

	gmtime_r(&t->tv_sec, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	return json_sprintf("%s.%09ldZ", text, t->tv_nsec);
}

static json_t *cpu_of(const struct engine_sample *s)
{
	const json_int_t used = s && s->said ? stats_number(s->said, "cpu_ms") * NS_OF_MS : 0;

	if (!s || !s->said)
		return json_pack("{s:{s:i,s:i,s:i},s:{s:i,s:i,s:i}}", "cpu_usage", "total_usage", 0,
				 "usage_in_kernelmode", 0, "usage_in_usermode", 0,
				 "throttling_data", "periods", 0, "throttled_periods", 0,
				 "throttled_time", 0);
	return json_pack("{s:{s:I,s:i,s:I},s:I,s:i,s:{s:i,s:i,s:i}}", "cpu_usage", "total_usage",
			 used, "usage_in_kernelmode", 0, "usage_in_usermode", used,
			 "system_cpu_usage", (json_int_t)s->host_cpu_ns, "online_cpus",
			 (int)s->cpus, "throttling_data", "periods", 0, "throttled_periods", 0,
			 "throttled_time", 0);
}

static json_t *io_of(const json_t *said)
{
	if (!said)
		return json_null();
	return json_pack("[{s:i,s:i,s:s,s:I},{s:i,s:i,s:s,s:I}]", "major", 0, "minor", 0, "op",
			 "Read", "value", stats_number(said, "read_bytes"), "major", 0, "minor", 0, "op",
			 "Write", "value", stats_number(said, "write_bytes"));
}

static json_t *stats_networks(const json_t *said)
{
	const json_t *net = json_object_get(said, "network");

	if (!json_object_get(net, "bytes_in"))
		return NULL;
	return json_pack("{s:{s:I,s:i,s:i,s:i,s:I,s:i,s:i,s:i}}", "eth0", "rx_bytes",
			 stats_number(net, "bytes_in"), "rx_packets", 0, "rx_errors", 0, "rx_dropped", 0,
			 "tx_bytes", stats_number(net, "bytes_out"), "tx_packets", 0, "tx_errors", 0,
			 "tx_dropped", 0);
}

/* An older keeper does not tell. */
static json_t *stats_of_memory(const json_t *said)
{
	json_t *all = json_object_get(said, "memory_stat");

	return json_is_object(all) ? json_incref(all) : json_object();
}

json_int_t engine_stats_memory(const json_t *doc)
{
	static const char *const caches[] = { "total_inactive_file", "inactive_file" };
	const json_t *memory = json_object_get(doc, "memory_stats"), *all = json_object_get(memory, "stats");
	const json_int_t usage = stats_number(memory, "usage");
	size_t i;

	for (i = 0; i < ARRAY_LEN(caches); i++)
		if (json_object_get(all, caches[i]))
			return usage > stats_number(all, caches[i]) ? usage - stats_number(all, caches[i]) : usage;
	return usage;
}

json_t *engine_stats(const char *id, const char *name, const struct engine_sample *before,
		     const struct engine_sample *now)
{
	static const struct timespec never;
	const json_t *said = now->said;
	const json_int_t limit = stats_number(said, "memory_limit_bytes");
	char whole[ENGINE_ID];
	json_t *doc, *networks;

	engine_id(id, whole);
	doc = json_pack("{s:o,s:o,s:s,s:o,s:i,s:{},s:o,s:o}", "read", stats_time(&now->at),
			"preread", stats_time(before ? &before->at : &never), "id", whole, "name",
			json_sprintf("/%s", name), "num_procs", 0, "storage_stats", "cpu_stats",
			cpu_of(now), "precpu_stats", cpu_of(before));
	json_object_set_new(doc, "blkio_stats",
			    json_pack("{s:o}", "io_service_bytes_recursive", io_of(said)));
	if (!said) {
		json_object_set_new(doc, "pids_stats", json_object());
		json_object_set_new(doc, "memory_stats", json_object());
		return doc;
	}
	json_object_set_new(doc, "pids_stats",
			    json_pack("{s:I,s:I}", "current", stats_number(said, "pids"), "limit",
				      stats_number(said, "pids_limit")));
	json_object_set_new(doc, "memory_stats",
			    json_pack("{s:I,s:I,s:o,s:I}", "usage", stats_number(said, "memory_bytes"),
				      "max_usage", stats_number(said, "peak_memory_bytes"), "stats",
				      stats_of_memory(said), "limit",
				      limit ? limit : (json_int_t)now->host_memory));
	networks = stats_networks(said);
	if (networks)
		json_object_set_new(doc, "networks", networks);
	return doc;
}

json_t *engine_changes(const json_t *diff)
{
	json_t *all = json_array();
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(diff, "changes"), i, one) {
		const char *what = json_string_value(json_object_get(one, "change"));
		const json_t *path = json_object_get(one, "path");

		if (what && json_is_string(path))
			json_array_append_new(all, json_pack("{s:O,s:i}", "Path", path, "Kind",
							     !strcmp(what, "added")	? 1
							     : !strcmp(what, "deleted") ? 2
											: 0));
	}
	return all;
}

/* ---- top ---- */

#define COLUMNS_MAX 24

enum column {
	C_UID, C_USER, C_PID, C_PPID, C_USE, C_START, C_TTY, C_TIME, C_COMMAND, C_NAME, C_STATE, C_RSS, C_THREADS,
};

/* What ps(1) takes behind -o, and how it heads the column. */
static const struct {
	const char *word, *title;
	enum column column;
} words[] = {
	{ "uid", "UID", C_UID },	 { "user", "USER", C_USER },	  { "euser", "EUSER", C_USER },
	{ "pid", "PID", C_PID },	 { "ppid", "PPID", C_PPID },	  { "c", "C", C_USE },
	{ "stime", "STIME", C_START },	 { "start_time", "START", C_START }, { "tty", "TT", C_TTY },
	{ "tname", "TTY", C_TTY },	 { "time", "TIME", C_TIME },	  { "cputime", "TIME", C_TIME },
	{ "cmd", "CMD", C_COMMAND },	 { "args", "COMMAND", C_COMMAND }, { "command", "COMMAND", C_COMMAND },
	{ "comm", "COMMAND", C_NAME },	 { "ucmd", "CMD", C_NAME },	  { "stat", "STAT", C_STATE },
	{ "state", "S", C_STATE },	 { "s", "S", C_STATE },		  { "rss", "RSS", C_RSS },
	{ "rssize", "RSS", C_RSS },	 { "nlwp", "NLWP", C_THREADS },	  { "thcount", "THCNT", C_THREADS },
};

struct table {
	enum column columns[COLUMNS_MAX];
	json_t *titles;
	size_t n;
};

static int add_column(struct table *t, const char *title, enum column column, struct err *e)
{
	if (t->n == COLUMNS_MAX)
		return err_set(e, ERR_INVALID, "more than %d columns", COLUMNS_MAX);
	t->columns[t->n++] = column;
	return json_array_append_new(t->titles, json_string(title)) < 0 ? err_nomem(e) : 0;
}

/* "pid,comm=NAME": a title of the client's own ends the list. */
static int add_top_columns(struct table *t, const char *list, struct err *e)
{
	while (*list) {
		const size_t n = strcspn(list, ",= ");
		const char *own = list[n] == '=' ? list + n + 1 : NULL;
		size_t i;

		for (i = 0; i < ARRAY_LEN(words); i++)
			if (strlen(words[i].word) == n && !strncmp(words[i].word, list, n))
				break;
		if (i == ARRAY_LEN(words))
			return err_set(e, ERR_INVALID, "the column %.*s of ps is not known here", (int)(n < 40 ? n : 40), list);
		if (add_column(t, own ? own : words[i].title, words[i].column, e) < 0)
			return -1;
		list += own ? strlen(list) : n + (list[n] != '\0');
	}
	return 0;
}

/* The options of ps(1) that choose columns; those that choose processes mean all of the container's. */
static int read_ps_args(struct table *t, const char *args, struct err *e)
{
	int full = 0, usage = 0;

	while (*(args += strspn(args, " "))) {
		for (args += *args == '-'; *args && *args != ' '; args++) {
			if (*args == 'o') {
				autofree char *list = NULL;

				args += 1 + strspn(args + 1, " ");
				list = strndup(args, strcspn(args, " "));
				if (!list)
					return err_nomem(e);
				if (add_top_columns(t, list, e) < 0)
					return -1;
				args += strlen(list) - 1;
			} else if (*args == 'u') {
				usage = 1;
			} else if (*args == 'f') {
				full = 1;
			} else if (!strchr("eaxAw", *args)) {
				return err_set(e, ERR_INVALID, "the option %c of ps is not known here: e, f, a, u, x, w and o are", *args);
			}
		}
	}
	if (t->n)
		return 0;
	return add_top_columns(t, usage ? "user,pid,rss,tname,stat,start_time,time,command" :
			   full  ? "uid,pid,ppid,c,stime,tname,time,cmd" :
				   "pid,tname,time,ucmd", e);
}

static json_int_t process_number(const json_t *p, const char *key)
{
	return json_integer_value(json_object_get(p, key));
}

static json_t *top_number(json_int_t v)
{
	return json_sprintf("%" JSON_INTEGER_FORMAT, v);
}

/* As the sandbox sees its users: its root is the host's user that its init is. */
static json_t *top_user(const json_t *p, json_int_t root)
{
	const json_int_t uid = process_number(p, "host_uid") - root;

	return uid ? top_number(uid) : json_string("root");
}

static json_t *top_cpu_time(json_int_t seconds)
{
	return json_sprintf("%02d:%02d:%02d", (int)(seconds / 3600), (int)(seconds / 60 % 60), (int)(seconds % 60));
}

static json_t *top_cell(const json_t *p, enum column column, json_int_t root)
{
	const char *command = json_string_value(json_object_get(p, "command")), *slash, *state;

	command = command ? command : "";
	switch (column) {
	case C_UID:
	case C_USER:
		return top_user(p, root);
	case C_PID:
		return top_number(process_number(p, "host_pid"));
	case C_PPID:
		return top_number(process_number(p, "host_ppid"));
	case C_RSS:
		return top_number(process_number(p, "memory_bytes") / 1024);
	case C_THREADS:
		return top_number(process_number(p, "threads"));
	case C_TIME:
		return top_cpu_time(process_number(p, "cpu_ms") / 1000);
	case C_STATE:
		state = json_string_value(json_object_get(p, "state"));
		return json_string(state ? state : "?");
	case C_NAME:
		slash = memrchr(command, '/', strcspn(command, " "));
		command = slash ? slash + 1 : command;
		return json_stringn(command, strcspn(command, " "));
	case C_COMMAND:
		return json_string(command);
	case C_USE:
		return json_string("0");
	default:
		return json_string(column == C_TTY ? "?" : "-");
	}
}

/* Process 1 of the sandbox, which is berth's and not the container's. */
static const json_t *init_of(const json_t *processes)
{
	const json_t *p;
	size_t i;

	json_array_foreach ((json_t *)(size_t)processes, i, p)
		if (process_number(p, "pid") == 1)
			return p;
	return NULL;
}

json_t *engine_top(const json_t *processes, const char *ps_args, struct err *e)
{
	struct table t = { .titles = json_array() };
	const json_t *init = init_of(processes), *p;
	json_t *rows, *row;
	size_t i, k, pids = 0;

	if (read_ps_args(&t, ps_args && ps_args[0] ? ps_args : "-ef", e) < 0) {
		json_decref(t.titles);
		return NULL;
	}
	for (k = 0; k < t.n; k++)
		pids += t.columns[k] == C_PID;
	if (!pids) {
		json_decref(t.titles);
		err_set(e, ERR_INVALID, "Couldn't find PID field in ps output");
		return NULL;
	}
	rows = json_array();
	json_array_foreach ((json_t *)(size_t)processes, i, p) {
		if (p == init)
			continue;
		row = json_array();
		for (k = 0; k < t.n; k++)
			json_array_append_new(row, top_cell(p, t.columns[k], process_number(init, "host_uid")));
		json_array_append_new(rows, row);
	}
	return json_pack("{s:o,s:o}", "Titles", t.titles, "Processes", rows);
}
