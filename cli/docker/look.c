/* SPDX-License-Identifier: Apache-2.0 */
/* docker stats, top, port, diff and update. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/host.h"
#include "manager/engine/stats.h"

#define EVERY_MS 1000

static double number_at(const json_t *doc, const char *a, const char *b, const char *c)
{
	const json_t *j = json_object_get(doc, a);

	j = b ? json_object_get(j, b) : j;
	return json_number_value(c ? json_object_get(j, c) : j);
}

/* ---- stats ---------------------------------------------------------------------------------- */

struct watched {
	struct sandbox_ref s;
	struct engine_container container;
	struct engine_watch watch;
};

/* Docker's document of the time since the look before; NULL: this is the first. */
static json_t *look_at_watched(struct watched *w)
{
	const int first = !w->watch.last.cpus;
	json_t *doc;
	struct err ignored;

	engine_watch_look(&w->watch, &w->container, &doc, &ignored);
	if (!first)
		return doc;
	json_decref(doc);
	return NULL;
}

static json_t *pair(double a, double b, int of_1000)
{
	char one[40], two[40];

	return json_sprintf("%s / %s", door_size(a, of_1000, one, sizeof(one)),
			    door_size(b, of_1000, two, sizeof(two)));
}

static double cpu_percent(const json_t *d)
{
	double used = number_at(d, "cpu_stats", "cpu_usage", "total_usage") -
		      number_at(d, "precpu_stats", "cpu_usage", "total_usage");
	double all = number_at(d, "cpu_stats", "system_cpu_usage", NULL) -
		     number_at(d, "precpu_stats", "system_cpu_usage", NULL);

	return all > 0 && used > 0 ?
		       used / all * number_at(d, "cpu_stats", "online_cpus", NULL) * 100 :
		       0;
}

static json_t *stats_row(const json_t *d, const char *id)
{
	double used = (double)engine_stats_memory(d),
	       most = number_at(d, "memory_stats", "limit", NULL), rx = 0, tx = 0;
	json_t *nets = json_object_get(d, "networks"), *one;
	const char *key, *name = door_text(d, "name");

	json_object_foreach (nets, key, one) {
		rx += number_at(one, "rx_bytes", NULL, NULL);
		tx += number_at(one, "tx_bytes", NULL, NULL);
	}
	return json_pack("{s:s,s:o,s:s,s:s,s:o,s:o,s:o,s:o,s:o}", "BlockIO", "0B / 0B", "CPUPerc",
			 json_sprintf("%.2f%%", cpu_percent(d)), "Container", id, "ID", id,
			 "MemPerc", json_sprintf("%.2f%%", most > 0 ? used / most * 100 : 0),
			 "MemUsage", pair(used, most, 0), "Name",
			 json_string(name + (*name == '/')), "NetIO", pair(rx, tx, 1), "PIDs",
			 json_sprintf("%.0f", number_at(d, "pids_stats", "current", NULL)));
}

static const struct door_column stats_heads[] = {
	{ "ID", "CONTAINER ID" },     { "Name", "NAME" },
	{ "CPUPerc", "CPU %" },       { "MemUsage", "MEM USAGE / LIMIT" },
	{ "MemPerc", "MEM %" },       { "NetIO", "NET I/O" },
	{ "BlockIO", "BLOCK I/O" },   { "PIDs", "PIDS" },
	{ "Container", "CONTAINER" }, { NULL, NULL },
};

static int show_stats_rounds(const struct door_args *a, struct watched *w, size_t n, struct err *e)
{
	const int once = door_on(a, "no-stream");
	size_t i;
	int r = 0;

	for (i = 0; i < n; i++)
		look_at_watched(&w[i]);
	do {
		autojson json_t *rows = json_array();

		poll(NULL, 0, EVERY_MS);
		for (i = 0; i < n; i++) {
			autojson json_t *doc = look_at_watched(&w[i]);

			json_array_append_new(rows, stats_row(doc, w[i].s.id));
		}
		if (!once && isatty(STDOUT_FILENO))
			printf("\033[2J\033[H");
		r = door_rows(door_value(a, "format"), rows, stats_heads, 8, e);
	} while (!once && r == 0);
	return r;
}

/* The names given, or all that run. */
static json_t *names_to_watch(const struct door_args *a, struct err *e)
{
	autojson json_t *none = json_object(), *all = NULL;
	json_t *names = json_array();
	struct sandbox_ref s;
	const json_t *one;
	size_t i;
	int k;

	for (k = 0; k < a->count; k++)
		json_array_append_new(names, json_string(a->words[k]));
	if (a->count)
		return names;
	sandbox_ref_init(&s);
	if (sandbox_ref_registry(&s, e) == 0)
		all = engine_load_list(&s.registry, none, door_on(a, "all"), 0, e);
	sandbox_ref_close(&s);
	json_array_foreach (all, i, one)
		json_array_append_new(names, json_string(door_text(one, "Id")));
	if (all)
		return names;
	json_decref(names);
	return NULL;
}

static int open_watched(struct watched *w, const char *name, struct err *e)
{
	struct engine_loaded l;

	if (door_container(&w->container, &w->s, name, e) < 0 || door_load(&l, &w->s, 0, e) < 0)
		return -1;
	snprintf(w->watch.name, sizeof(w->watch.name), "%s", engine_name(&l.v));
	engine_loaded_release(&l);
	return 0;
}

static int show_docker_stats(const struct door_args *a, struct err *e)
{
	autojson json_t *names = names_to_watch(a, e);
	const size_t n = json_array_size(names);
	autofree struct watched *w = calloc(n + 1, sizeof(*w));
	size_t i;
	int r = names && w ? 0 : -1;

	for (i = 0; r == 0 && i < n; i++) {
		sandbox_ref_init(&w[i].s);
		r = open_watched(&w[i], json_string_value(json_array_get(names, i)), e);
	}
	if (r == 0)
		r = show_stats_rounds(a, w, n, e);
	while (i-- > 0) {
		engine_watch_release(&w[i].watch);
		sandbox_ref_close(&w[i].s);
	}
	return r;
}

/* ---- top ------------------------------------------------------------------------------------- */

static int show_docker_top(const struct door_args *a, struct err *e)
{
	autojson json_t *doc = NULL, *args = json_string("");
	struct door_column heads[24] = { { NULL, NULL } };
	autojson json_t *rows = json_array();
	struct engine_container c;
	struct sandbox_ref s;
	const json_t *titles, *process, *cell;
	size_t i, k, n;

	for (i = 1; i < (size_t)a->count; i++) {
		json_t *longer = json_sprintf("%s%s%s", json_string_value(args), i > 1 ? " " : "", a->words[i]);

		json_decref(args);
		args = longer;
	}
	sandbox_ref_init(&s);
	if (door_container(&c, &s, a->words[0], e) == 0)
		doc = engine_container_top(&c, json_string_value(args), e);
	sandbox_ref_close(&s);
	if (!doc)
		return -1;
	titles = json_object_get(doc, "Titles");
	n = json_array_size(titles) < ARRAY_LEN(heads) ? json_array_size(titles) :
							 ARRAY_LEN(heads) - 1;
	for (i = 0; i < n; i++)
		heads[i].field = heads[i].head = json_string_value(json_array_get(titles, i));
	json_array_foreach (json_object_get(doc, "Processes"), i, process) {
		json_t *row = json_object();

		json_array_foreach ((json_t *)(size_t)process, k, cell)
			if (k < n)
				json_object_set(row, heads[k].field, (json_t *)(size_t)cell);
		json_array_append_new(rows, row);
	}
	return door_rows(NULL, rows, heads, n, e);
}

/* ---- port ------------------------------------------------------------------------------------ */

static int print_port_bindings(const char *what, const json_t *bindings, int alone)
{
	const json_t *b;
	size_t i;

	json_array_foreach ((json_t *)(size_t)bindings, i, b) {
		const char *ip = door_text(b, "HostIp");

		if (!alone)
			printf("%s -> ", what);
		printf(strchr(ip, ':') ? "[%s]:%s\n" : "%s:%s\n", ip, door_text(b, "HostPort"));
	}
	return (int)json_array_size(bindings);
}

static int port(const struct door_args *a, struct err *e)
{
	const char *want = a->count > 1 ? a->words[1] : NULL, *what;
	autojson json_t *doc = NULL;
	struct sandbox_ref s;
	json_t *ports, *bindings;
	char full[40];
	int told = 0;

	sandbox_ref_init(&s);
	doc = door_container_document(&s, a->words[0], e);
	sandbox_ref_close(&s);
	if (!doc)
		return -1;
	ports = json_object_get(json_object_get(doc, "NetworkSettings"), "Ports");
	snprintf(full, sizeof(full), "%.20s%s", want ? want : "",
		 want && strchr(want, '/') ? "" : "/tcp");
	json_object_foreach (ports, what, bindings)
		if (!want || !strcmp(what, full))
			told += print_port_bindings(what, bindings, want != NULL);
	return told || !want ? 0 :
			       err_set(e, ERR_NOT_FOUND,
				       "Error: No public port '%s' published "
				       "for %.100s",
				       full, a->words[0]);
}

/* ---- diff ------------------------------------------------------------------------------------ */

static int show_docker_diff(const struct door_args *a, struct err *e)
{
	autojson json_t *changes = NULL;
	struct engine_container c;
	struct sandbox_ref s;
	const json_t *one;
	size_t i;

	sandbox_ref_init(&s);
	if (door_container(&c, &s, a->words[0], e) == 0)
		changes = engine_container_changes(&c, e);
	sandbox_ref_close(&s);
	json_array_foreach (changes, i, one) {
		const json_int_t kind = json_integer_value(json_object_get(one, "Kind"));

		printf("%c %s\n", "CAD"[kind >= 0 && kind < 3 ? kind : 0], door_text(one, "Path"));
	}
	return changes ? 0 : -1;
}

/* ---- update ---------------------------------------------------------------------------------- */

static int update_one(void *ctx, const struct engine_container *c, struct err *e)
{
	const struct door_args *a = ctx;
	autojson json_t *host = door_update_body(a, e), *warnings = NULL;
	struct engine_rules rules;
	const json_t *one;
	size_t i;

	if (!host)
		return -1;
	engine_host_rules(c->registry->config, 0, NULL, &rules);
	warnings = engine_container_update(c, &rules, host, e);
	json_array_foreach (warnings, i, one)
		door_say(0, "WARNING: %s", json_string_value(one));
	return warnings ? 0 : -1;
}

static int docker_update_main(const struct command *self, int argc, char **argv)
{
	struct door_args a;
	int status = 0;

	if (!door_parse(&a, self, argc, argv, 1, -1))
		status = a.status;
	else if (!json_object_size(a.o))
		status = door_say(1, "you must provide one or more flags when using this command");
	else
		status = door_each(&a, update_one, &a);
	door_release(&a);
	return status;
}

/* ---- the verbs ------------------------------------------------------------------------------- */

static const struct door_row verbs[] = {
	{ "stats", 0, -1, show_docker_stats },
	{ "top", 1, -1, show_docker_top },
	{ "port", 1, 2, port },
	{ "diff", 1, 1, show_docker_diff },
};

static int docker_look_main(const struct command *self, int argc, char **argv)
{
	return door_dispatch(verbs, self, argc, argv);
}

static const struct opt stats_options[] = {
	{ "all", 'a', OPT_FLAG, NULL, "Show all containers (default shows just running)",
	  DOOR_TAKEN },
	{ "format", 0, OPT_VALUE, "string", "table, json, or a Go template", DOOR_TAKEN },
	{ "no-stream", 0, OPT_FLAG, NULL, "Disable streaming stats and only pull the first result",
	  DOOR_TAKEN },
	{ "no-trunc", 0, OPT_FLAG, NULL, "Do not truncate output", DOOR_IGNORED },
};
#define NO_UPDATE "it is settled when the container is made"
static const struct opt update_options[] = {
	{ "blkio-weight", 0, OPT_VALUE, "uint16", "Block IO (relative weight), 10 to 1000",
	  DOOR_TAKEN },
	{ "cpu-period", 0, OPT_VALUE, "int", "Limit CPU CFS period", DOOR_TAKEN },
	{ "cpu-quota", 0, OPT_VALUE, "int", "Limit CPU CFS quota", DOOR_TAKEN },
	{ "cpu-rt-period", 0, OPT_VALUE, "int", "Limit CPU real-time period in microseconds",
	  DOOR_REFUSED, COMPLETE_NONE, "sandboxes have no such limit" },
	{ "cpu-rt-runtime", 0, OPT_VALUE, "int", "Limit CPU real-time runtime in microseconds",
	  DOOR_REFUSED, COMPLETE_NONE, "sandboxes have no such limit" },
	{ "cpu-shares", 'c', OPT_VALUE, "int", "CPU shares (relative weight)", DOOR_REFUSED,
	  COMPLETE_NONE, NO_UPDATE },
	{ "cpus", 0, OPT_VALUE, "decimal", "Number of CPUs", DOOR_TAKEN },
	{ "cpuset-cpus", 0, OPT_VALUE, "string", "CPUs in which to allow execution (0-3, 0,1)",
	  DOOR_REFUSED, COMPLETE_NONE, NO_UPDATE },
	{ "cpuset-mems", 0, OPT_VALUE, "string", "MEMs in which to allow execution (0-3, 0,1)",
	  DOOR_REFUSED, COMPLETE_NONE, "sandboxes have no such limit" },
	{ "kernel-memory", 0, OPT_VALUE, "bytes", "Kernel memory limit", DOOR_REFUSED,
	  COMPLETE_NONE, "--memory counts the kernel's, too" },
	{ "memory", 'm', OPT_VALUE, "bytes", "Memory limit", DOOR_TAKEN },
	{ "memory-reservation", 0, OPT_VALUE, "bytes", "Memory soft limit", DOOR_IGNORED },
	{ "memory-swap", 0, OPT_VALUE, "bytes", "Swap limit equal to memory plus swap",
	  DOOR_TAKEN },
	{ "pids-limit", 0, OPT_VALUE, "int", "Tune container pids limit (set -1 for unlimited)",
	  DOOR_TAKEN },
	{ "restart", 0, OPT_VALUE, "string", "Restart policy to apply when a container exits",
	  DOOR_TAKEN },
};

#define VERB(sym, verb, words, text, table, count, main, how)                                      \
	const struct command door_##sym = {                                                        \
		.name = verb,                                                                      \
		.args = words,                                                                     \
		.summary = text,                                                                   \
		.opts = table,                                                                     \
		.opt_count = count,                                                                \
		.complete = COMPLETE_SANDBOX,                                                      \
		.run = main,                                                                       \
		.flags = how,                                                                      \
	}

VERB(stats, "stats", "[OPTIONS] [CONTAINER...]",
	"Display a live stream of container(s) resource usage statistics", stats_options,
	ARRAY_LEN(stats_options), docker_look_main, 0);
VERB(top, "top", "CONTAINER [ps OPTIONS]", "Display the running processes of a container", NULL, 0,
	docker_look_main, DOOR_FLAGS_FIRST);
VERB(port, "port", "CONTAINER [PRIVATE_PORT[/PROTO]]",
	"List port mappings or a specific mapping for the container", NULL, 0, docker_look_main, 0);
VERB(diff, "diff", "CONTAINER",
	"Inspect changes to files or directories on a container's filesystem", NULL, 0,
	docker_look_main, 0);
VERB(update, "update", "[OPTIONS] CONTAINER [CONTAINER...]",
	"Update configuration of one or more containers", update_options, ARRAY_LEN(update_options),
	docker_update_main, 0);
