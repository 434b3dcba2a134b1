/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/stats.h"

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
static int add_list(struct table *t, const char *list, struct err *e)
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
static int read_args(struct table *t, const char *args, struct err *e)
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
				if (add_list(t, list, e) < 0)
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
	return add_list(t, usage ? "user,pid,rss,tname,stat,start_time,time,command" :
			   full  ? "uid,pid,ppid,c,stime,tname,time,cmd" :
				   "pid,tname,time,ucmd", e);
}

static json_int_t value_of(const json_t *p, const char *key)
{
	return json_integer_value(json_object_get(p, key));
}

static json_t *number(json_int_t v)
{
	return json_sprintf("%" JSON_INTEGER_FORMAT, v);
}

/* As the sandbox sees its users: its root is the host's user that its init is. */
static json_t *user_of(const json_t *p, json_int_t root)
{
	const json_int_t uid = value_of(p, "host_uid") - root;

	return uid ? number(uid) : json_string("root");
}

static json_t *time_of(json_int_t seconds)
{
	return json_sprintf("%02d:%02d:%02d", (int)(seconds / 3600), (int)(seconds / 60 % 60), (int)(seconds % 60));
}

static json_t *cell(const json_t *p, enum column column, json_int_t root)
{
	const char *command = json_string_value(json_object_get(p, "command")), *slash, *state;

	command = command ? command : "";
	switch (column) {
	case C_UID:
	case C_USER:
		return user_of(p, root);
	case C_PID:
		return number(value_of(p, "host_pid"));
	case C_PPID:
		return number(value_of(p, "host_ppid"));
	case C_RSS:
		return number(value_of(p, "memory_bytes") / 1024);
	case C_THREADS:
		return number(value_of(p, "threads"));
	case C_TIME:
		return time_of(value_of(p, "cpu_ms") / 1000);
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
		if (value_of(p, "pid") == 1)
			return p;
	return NULL;
}

json_t *engine_top(const json_t *processes, const char *ps_args, struct err *e)
{
	struct table t = { .titles = json_array() };
	const json_t *init = init_of(processes), *p;
	json_t *rows, *row;
	size_t i, k, pids = 0;

	if (read_args(&t, ps_args && ps_args[0] ? ps_args : "-ef", e) < 0) {
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
			json_array_append_new(row, cell(p, t.columns[k], value_of(init, "host_uid")));
		json_array_append_new(rows, row);
	}
	return json_pack("{s:o,s:o}", "Titles", t.titles, "Processes", rows);
}
