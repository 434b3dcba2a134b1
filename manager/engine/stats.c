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
			 "read", "value", stats_number(said, "read_bytes"), "major", 0, "minor", 0, "op",
			 "write", "value", stats_number(said, "write_bytes"));
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

/* ---- events ---- */

/*
 * The journal of events as Docker's stream of them.
 *
 * Docker's events carry the name, image and labels of their container, a journal's entry only
 * its id. So we remember what earlier entries said, which is no more than the journal, and that
 * is bounded.
 */

int engine_events_init(struct engine_events *x, const json_t *filters, struct err *e)
{
	*x = (struct engine_events){ .known = json_object(), .filters = filters };
	return x->known ? 0 : err_nomem(e);
}

void engine_events_release(struct engine_events *x)
{
	json_decref(x->known);
	x->known = NULL;
}

static const char *known_event_text(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

static json_t *remember_event_box(struct engine_events *x, const char *id, const json_t *entry)
{
	static const char *const keys[] = { "name", "image", "labels" };
	json_t *known = json_object_get(x->known, id);
	size_t i;

	if (!known) {
		known = json_object();
		json_object_set_new(x->known, id, known);
	}
	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (json_object_get(entry, keys[i]))
			json_object_set(known, keys[i], json_object_get(entry, keys[i]));
	return known;
}

/* "" for what Docker has no event of. */
static const char *action_of(const json_t *entry, json_t *known, char *room, size_t n)
{
	static const char *const same[][2] = {
		{ "create", "create" },	 { "start", "start" },	 { "stop", "die" },
		{ "die", "die" },	 { "rm", "destroy" },	 { "pause", "pause" },
		{ "resume", "unpause" }, { "rename", "rename" }, { "update", "update" },
		{ "oom", "oom" },
	};
	const char *event = known_event_text(entry, "event");
	size_t i;

	/* the main command is the first; its end is told with the sandbox's */
	if ((!strcmp(event, "exit") || !strcmp(event, "oom") || !strcmp(event, "timeout")) &&
	    !strcmp(known_event_text(entry, "command"), "c1"))
		json_object_set(known, "exit", json_object_get(entry, "exit_status"));
	if (!strcmp(event, "health")) {
		snprintf(room, n, "health_status: %.20s", known_event_text(entry, "status"));
		return room;
	}
	for (i = 0; i < ARRAY_LEN(same); i++)
		if (!strcmp(same[i][0], event))
			return same[i][1];
	return "";
}

static int event_filter_has(const json_t *list, const char *text)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, one)
		if (!strcmp(json_string_value(one), text))
			return 1;
	return 0;
}

static int event_filter_has_prefix(const json_t *list, const char *id)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, one)
		if (json_string_length(one) >= 4 &&
		    !strncmp(id, json_string_value(one), json_string_length(one)))
			return 1;
	return 0;
}

static int is_event_wanted(const json_t *f, const char *id, const char *action, const json_t *known)
{
	const json_t *types = json_object_get(f, "type"), *events = json_object_get(f, "event");
	const json_t *boxes = json_object_get(f, "container"),
		     *images = json_object_get(f, "image");
	char word[40];

	snprintf(word, sizeof(word), "%.*s", (int)strcspn(action, ":"), action);
	return !json_array_size(json_object_get(f, "network")) && !json_array_size(json_object_get(f, "volume")) &&
	       (!json_array_size(types) || event_filter_has(types, "container")) &&
	       (!json_array_size(events) || event_filter_has(events, action) || event_filter_has(events, word)) &&
	       (!json_array_size(images) || event_filter_has(images, known_event_text(known, "image"))) &&
	       (!json_array_size(boxes) || event_filter_has(boxes, engine_called(known, NULL)) ||
		event_filter_has_prefix(boxes, id)) &&
	       engine_filters_labels(f, "label", json_object_get(known, "labels"));
}

/* An exec's end, which is no end of the container's. */
static int is_exec_end(const json_t *entry)
{
	return !strcmp(known_event_text(entry, "event"), "exit") && known_event_text(entry, "command")[0] &&
		strcmp(known_event_text(entry, "command"), "c1") != 0;
}

/* Of an exec that no client of Docker's socket made: berth's own id of it, as Docker's are spelled. */
static void add_exec(const struct engine_events *x, const json_t *entry, const char *box, json_t *event_attributes)
{
	char id[ENGINE_ID], seed[200];

	if (!x->exec_of || !x->exec_of(x->ctx, box, known_event_text(entry, "command"), id)) {
		snprintf(seed, sizeof(seed), "exec %.64s %.64s", box, known_event_text(entry, "command"));
		engine_digits(seed, id);
	}
	json_object_set_new(event_attributes, "execID", json_string(id));
	json_object_set_new(event_attributes, "exitCode",
			    json_sprintf("%d", (int)json_integer_value(json_object_get(entry, "exit_status"))));
}

/* One without a name is called by its id, as in the list. */
static json_t *event_attributes(const json_t *known, const char *box, const char *action)
{
	const char *name = engine_called(known, NULL);
	const json_t *code = json_object_get(known, "exit");
	json_t *a = engine_labels(known);

	json_object_set_new(a, "image", json_string(known_event_text(known, "image")));
	json_object_set_new(a, "name", json_string(name[0] ? name : box));
	if (!strcmp(action, "die"))
		json_object_set_new(a, "exitCode",
				    json_sprintf("%d", code ? (int)json_integer_value(code) : 0));
	return a;
}

/* ---- events of networks and volumes ---- */

static const struct object_event {
	const char *event, *type, *action;
} object_events[] = {
	{ "network-create", "network", "create" }, { "network-rm", "network", "destroy" },
	{ "connect", "network", "connect" },	   { "disconnect", "network", "disconnect" },
	{ "volume-create", "volume", "create" },   { "volume-rm", "volume", "destroy" },
};

static const struct object_event *object_event_of(const json_t *entry)
{
	const char *event = known_event_text(entry, "event");
	size_t i;

	for (i = 0; i < ARRAY_LEN(object_events); i++)
		if (!strcmp(object_events[i].event, event))
			return &object_events[i];
	return NULL;
}

/* What the creation said of it, until it is gone; "TYPE NAME" is no sandbox's id. */
static json_t *remember_event_object(struct engine_events *x, const struct object_event *o, const json_t *entry, char key[200])
{
	const char *box = known_event_text(entry, "id");

	snprintf(key, 200, "%s %.100s", o->type, known_event_text(entry, box[0] ? "network" : "name"));
	return box[0] ? json_object_get(x->known, key) : remember_event_box(x, key, entry);
}

static int is_object_wanted(const json_t *f, const struct object_event *o, const char *called, const char *id, const json_t *known)
{
	static const char *const kinds[] = { "container", "image", "network", "volume" };
	const json_t *types = json_object_get(f, "type"), *events = json_object_get(f, "event");
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		const json_t *list = json_object_get(f, kinds[i]);

		if (json_array_size(list) && (strcmp(kinds[i], o->type) || (!event_filter_has(list, called) && !event_filter_has_prefix(list, id))))
			return 0;
	}
	return (!json_array_size(types) || event_filter_has(types, o->type)) &&
	       (!json_array_size(events) || event_filter_has(events, o->action)) &&
	       engine_filters_labels(f, "label", json_object_get(known, "labels"));
}

/* A tenant's network or volume is not Docker's. */
static json_t *take_object_event(struct engine_events *x, const struct object_event *o, const json_t *entry, int64_t ns)
{
	const char *sandbox = known_event_text(entry, "id"), *name = known_event_text(entry, sandbox[0] ? "network" : "name"), *called;
	char key[200], id[ENGINE_NAME_MAX + 1], box[ENGINE_ID] = "";
	json_t *known = remember_event_object(x, o, entry, key), *event = NULL, *attributes;
	const int is_network = !strcmp(o->type, "network");

	called = known ? engine_called(known, NULL) : name;
	if (is_network)
		engine_network_id(name, id);
	else
		snprintf(id, sizeof(id), "%s", called);
	if (sandbox[0])
		engine_id(sandbox, box);
	if (name[0] && !strchr(name, '@') &&
	    is_object_wanted(x->filters, o, called, id, known)) {
		attributes = is_network ? json_pack("{s:s,s:s}", "name", called, "type", "bridge") : json_pack("{s:s}", "driver", "local");
		if (box[0])
			json_object_set_new(attributes, "container", json_string(box));
		event = json_pack("{s:s,s:s,s:{s:s,s:o},s:s,s:I,s:I}", "Type", o->type, "Action", o->action, "Actor", "ID", id,
				  "Attributes", attributes, "scope", "local", "time", (json_int_t)(ns / 1000000000), "timeNano", (json_int_t)ns);
	}
	if (!strcmp(o->action, "destroy"))
		json_object_del(x->known, key);
	return event;
}

json_t *engine_events_take(struct engine_events *x, const json_t *entry)
{
	const char *box = known_event_text(entry, "id"), *time = known_event_text(entry, "time"), *action;
	char id[ENGINE_ID], room[40];
	int64_t seconds = engine_time(time);
	const char *dot = strchr(time, '.');
	const struct object_event *object = object_event_of(entry);
	json_t *known, *event = NULL;

	if (object)
		return take_object_event(x, object, entry, seconds * 1000000000 + (dot ? strtol(dot + 1, NULL, 10) * 1000000 : 0));
	if (!box[0])
		return NULL;
	known = remember_event_box(x, box, entry);
	action = is_exec_end(entry) ? "exec_die" : action_of(entry, known, room, sizeof(room));
	engine_id(box, id);
	if (action[0] && is_event_wanted(x->filters, id, action, known))
		event = json_pack("{s:s,s:s,s:s,s:s,s:s,s:{s:s,s:o},s:s,s:I,s:I}", "status", action,
				  "id", id, "from", known_event_text(known, "image"), "Type", "container",
				  "Action", action, "Actor", "ID", id, "Attributes",
				  event_attributes(known, box, action), "scope", "local", "time",
				  (json_int_t)seconds, "timeNano",
				  (json_int_t)(seconds * 1000000000 +
					       (dot ? strtol(dot + 1, NULL, 10) * 1000000 : 0)));
	if (event && is_exec_end(entry))
		add_exec(x, entry, box, json_object_get(json_object_get(event, "Actor"), "Attributes"));
	if (!strcmp(known_event_text(entry, "event"), "rm"))
		json_object_del(x->known, box);
	return event;
}
