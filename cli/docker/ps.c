/* SPDX-License-Identifier: Apache-2.0 */
/* Containers by what docker calls them, and the list of them. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/docker/verbs.h"
#include "manager/engine/containers.h"
#include "manager/engine/system.h"
#include "manager/keeper/keeper.h"

/* ---- containers by name ---- */

int door_find(struct sandbox_ref *s, const char *name, struct err *e)
{
	if (s->registry.run_fd < 0 && sandbox_ref_registry(s, e) < 0)
		return -1;
	return engine_container_find(&s->registry, name, s->id, &s->kept, e);
}

int door_connect(struct sandbox_ref *s, const char *name, struct err *e)
{
	if (door_find(s, name, e) < 0)
		return -1;
	if (s->kept)
		return engine_not_running(s->id, e);
	s->sock = keeper_connect(&s->registry, s->id, e);
	if (s->sock < 0)
		return e->code == ERR_NOT_FOUND ? engine_not_running(s->id, e) : -1;
	return 0;
}

static json_t *ask_keeper_of(void *ctx, json_t *rq, struct err *e)
{
	struct sandbox_ref *s = ctx;

	if (s->sock < 0)
		s->sock = keeper_connect(&s->registry, s->id, e);
	return s->sock < 0 ? NULL : keeper_call(s->sock, rq, NULL, 0, NULL, e);
}

int door_container(struct engine_container *ret, struct sandbox_ref *s, const char *name, struct err *e)
{
	if (door_find(s, name, e) < 0)
		return -1;
	*ret = (struct engine_container){ .berth = door_berth(NULL),
					  .keeper = { ask_keeper_of, s },
					  .registry = &s->registry,
					  .id = s->id,
					  .kept = s->kept,
					  .called = name + (*name == '/') };
	return 0;
}

int door_load(struct engine_loaded *l, struct sandbox_ref *s, int live, struct err *e)
{
	const struct engine_asker asker = { ask_keeper_of, s };

	return engine_load(l, &s->registry, s->id, s->kept, live ? &asker : NULL, e);
}

int door_is_paused(struct sandbox_ref *s)
{
	struct engine_loaded l;
	struct err ignored;
	int paused;

	if (s->kept || door_load(&l, s, 1, &ignored) < 0)
		return 0;
	paused = engine_state(&l.v) == ENGINE_PAUSED;
	engine_loaded_release(&l);
	fd_close(&s->sock);
	return paused;
}

int door_each(const struct door_args *a, door_fn *fn, void *ctx)
{
	int i, status = 0;

	for (i = 0; i < a->count; i++) {
		struct engine_container c;
		struct sandbox_ref s;
		struct err e;

		sandbox_ref_init(&s);
		if (door_container(&c, &s, a->words[i], &e) < 0 || fn(ctx, &c, &e) < 0) {
			engine_container_explain(&s.registry, s.id, a->words[i], &e);
			status = door_error(&e);
		} else {
			printf("%s\n", a->words[i]);
		}
		sandbox_ref_close(&s);
	}
	return status;
}

int door_do(const struct command *self, int argc, char **argv, int least, int most, door_work *work)
{
	struct door_args a;
	int status = 0;
	struct err e;

	if (!door_parse(&a, self, argc, argv, least, most))
		status = a.status;
	else if (work(&a, &e) < 0)
		status = door_error(&e);
	door_release(&a);
	return status;
}

int door_dispatch(const struct door_row *row, const struct command *self, int argc, char **argv)
{
	while (strcmp(row->verb, self->name))
		row++;
	return door_do(self, argc, argv, row->least, row->most, row->work);
}

/* ---- ps ---- */

/* docker ps, and what lists share: filters, sizes. */

#define SHORT_ID 12
#define COMMAND_SHOWN 20

/* ---- shared --------------------------------------------------------------------------------- */

/* Docker's client takes a name with blanks around it, and in large letters. */
static void trim_filter_key(char *key)
{
	size_t first = strspn(key, " \t"), n = strlen(key), i;

	while (n > first && strchr(" \t", key[n - 1]))
		n--;
	memmove(key, key + first, n - first);
	key[n - first] = '\0';
	for (i = 0; key[i]; i++)
		key[i] = (char)tolower((unsigned char)key[i]);
}

json_t *door_filters(const struct door_args *a, struct err *e)
{
	json_t *all = json_object(), *list;
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)door_list(a, "filter"), i, one) {
		const char *text = json_string_value(one), *eq = strchr(text, '=');
		autofree char *key = eq ? strndup(text, (size_t)(eq - text)) : NULL;

		if (!key) {
			json_decref(all);
			err_set(e, ERR_INVALID,
				"invalid argument \"%.80s\" for \"-f, --filter\" "
				"flag: bad format of filter (expected name=value)",
				text);
			return NULL;
		}
		trim_filter_key(key);
		list = json_object_get(all, key);
		if (!list) {
			list = json_array();
			json_object_set_new(all, key, list);
		}
		json_array_append_new(list, json_string(eq + 1));
	}
	return all;
}

/* Four digits, as units.HumanSize of docker/go-units. */
const char *door_size(double bytes, int of_1000, char *room, size_t n)
{
	static const char *const thousands[] = { "B", "kB", "MB", "GB", "TB", "PB" },
				 *const binary[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	const double base = of_1000 ? 1000 : 1024;
	size_t i = 0;

	for (; bytes >= base && i + 1 < ARRAY_LEN(binary); i++)
		bytes /= base;
	snprintf(room, n, "%.4g%s", bytes, (of_1000 ? thousands : binary)[i]);
	return room;
}

int door_sure(const struct door_args *a, const char *what)
{
	char line[16];

	if (door_on(a, "force"))
		return 1;
	printf("WARNING! %s\nAre you sure you want to continue? [y/N] ", what);
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
}

/* ---- one row --------------------------------------------------------------------------------- */

static json_t *ps_command(const json_t *c, int whole)
{
	const char *text = door_text(c, "Command");
	int n = (int)strlen(text);

	if (whole || n <= COMMAND_SHOWN)
		return json_sprintf("\"%s\"", text);
	for (n = COMMAND_SHOWN - 1; n && ((unsigned char)text[n] & 0xc0) == 0x80; n--)
		;
	return json_sprintf("\"%.*s\xe2\x80\xa6\"", n, text);
}

/* "127.0.0.1:8080->80/tcp, 443/tcp" */
static json_t *ps_ports(const json_t *c)
{
	autobuf struct buf b = BUF_INIT(65536);
	struct err ignored;
	const json_t *p;
	size_t i;

	json_array_foreach (json_object_get(c, "Ports"), i, p) {
		const int inside = (int)json_integer_value(json_object_get(p, "PrivatePort")),
			  outside = (int)json_integer_value(json_object_get(p, "PublicPort"));
		const char *ip = door_text(p, "IP"), *sep = i ? ", " : "";

		if (outside)
			buf_addf(&b, &ignored, strchr(ip, ':') ? "%s[%s]:%d->" : "%s%s:%d->", sep,
				 ip, outside);
		buf_addf(&b, &ignored, "%s%d/%s", outside ? "" : sep, inside, door_text(p, "Type"));
	}
	return json_string(b.data ? b.data : "");
}

static json_t *mounts_of(const json_t *c, int *ret_volumes)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	struct err ignored;
	const json_t *m;
	size_t i;

	json_array_foreach (json_object_get(c, "Mounts"), i, m) {
		const char *name = door_text(m, "Name");

		*ret_volumes += !strcmp(door_text(m, "Type"), "volume");
		buf_addf(&b, &ignored, "%s%s", b.len ? "," : "",
			 name[0] ? name : door_text(m, "Source"));
	}
	return json_string(b.data ? b.data : "");
}

/* Without their slash. */
static json_t *ps_name(const json_t *c)
{
	const char *name = json_string_value(json_array_get(json_object_get(c, "Names"), 0));

	return json_string(name ? name + (*name == '/') : "");
}

static json_t *ps_networks(const json_t *c)
{
	const json_t *nets = json_object_get(json_object_get(c, "NetworkSettings"), "Networks");
	const char *name = json_is_object(nets) ?
				   json_object_iter_key(json_object_iter((json_t *)(size_t)nets)) :
				   NULL;

	return json_string(name ? name : "");
}

/* "12.3kB (virtual 80MB)", or "" where no size was asked for. */
static json_t *ps_size(const json_t *c)
{
	const double own = json_number_value(json_object_get(c, "SizeRw")),
		     whole = json_number_value(json_object_get(c, "SizeRootFs"));
	char a[40], b[40];

	if (!json_object_get(c, "SizeRw"))
		return json_string("0B");
	door_size(own, 1, a, sizeof(a));
	door_size(whole, 1, b, sizeof(b));
	return json_sprintf("%s (virtual %s)", a, b);
}

json_t *door_container_row(const json_t *c, int whole)
{
	const json_t *labels = json_object_get(c, "Labels");
	const time_t made = (time_t)json_integer_value(json_object_get(c, "Created"));
	char ago[60], created[60];
	int volumes = 0;
	json_t *row, *mounts = mounts_of(c, &volumes);
	struct tm tm;

	engine_duration((int64_t)(time(NULL) - made), ago, sizeof(ago));
	localtime_r(&made, &tm);
	strftime(created, sizeof(created), "%Y-%m-%d %H:%M:%S %z %Z", &tm);
	row = json_pack("{s:o,s:s,s:o,s:s,s:o,s:o,s:s,s:s}", "Command", ps_command(c, whole),
			"CreatedAt", created, "ID",
			whole ? json_string(door_text(c, "Id")) :
				json_sprintf("%.*s", SHORT_ID, door_text(c, "Id")),
			"Image", door_text(c, "Image"), "Labels", door_labels_text(labels),
			"LocalVolumes", json_sprintf("%d", volumes), "State", door_text(c, "State"),
			"Status", door_text(c, "Status"));
	json_object_set_new(row, "Mounts", mounts);
	json_object_set_new(row, "Names", ps_name(c));
	json_object_set_new(row, "Networks", ps_networks(c));
	json_object_set_new(row, "Ports", ps_ports(c));
	json_object_set_new(row, "Size", ps_size(c));
	json_object_set_new(row, "RunningFor", json_sprintf("%s ago", ago));
	json_object_set(row, "Label", (json_t *)(size_t)labels);
	return row;
}

static const struct door_column columns[] = {
	{ "ID", "CONTAINER ID" },
	{ "Image", "IMAGE" },
	{ "Command", "COMMAND" },
	{ "RunningFor", "CREATED" },
	{ "Status", "STATUS" },
	{ "Ports", "PORTS" },
	{ "Names", "NAMES" },
	{ "Size", "SIZE" },
	{ "CreatedAt", "CREATED AT" },
	{ "State", "STATE" },
	{ "Labels", "LABELS" },
	{ "Mounts", "MOUNTS" },
	{ "Networks", "NETWORKS" },
	{ "LocalVolumes", "LOCAL VOLUMES" },
	{ NULL, NULL },
};

#define SHOWN 7

/* ---- the list -------------------------------------------------------------------------------- */

static int print_container_rows(const struct door_args *a, const json_t *list, struct err *e)
{
	const int whole = door_on(a, "no-trunc");
	autojson json_t *rows = json_array();
	const json_t *c;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, c) {
		if (door_on(a, "quiet"))
			printf("%.*s\n", whole ? 64 : SHORT_ID, door_text(c, "Id"));
		else
			json_array_append_new(rows, door_container_row(c, whole));
	}
	if (door_on(a, "quiet"))
		return 0;
	return door_rows(door_value(a, "format"), rows, columns, SHOWN + (size_t)door_on(a, "size"),
			 e);
}

static int list_docker_containers(const struct door_args *a, struct err *e)
{
	autojson json_t *filters = door_filters(a, e), *all = NULL;
	const char *last = door_value(a, "last"), *format = door_value(a, "format");
	struct sandbox_ref s;
	uint64_t limit = 0;
	int r = -1;

	if (!filters ||
	    (last && strcmp(last, "-1") && num_u64(last, "last", 0, 1 << 30, &limit, e) < 0))
		return -1;
	limit = door_on(a, "latest") ? 1 : limit;
	sandbox_ref_init(&s);
	if (sandbox_ref_registry(&s, e) == 0)
		all = engine_load_list(&s.registry, filters, door_on(a, "all"), (long)limit, e);
	/* as docker's client looks for it, too */
	if (all && (door_on(a, "size") || (format && strstr(format, ".Size"))) &&
	    engine_sizes(&s.config, &s.registry, all, e) < 0) {
		json_decref(all);
		all = NULL;
	}
	if (all)
		r = print_container_rows(a, all, e);
	sandbox_ref_close(&s);
	return r;
}

static int docker_ps_main(const struct command *self, int argc, char **argv)
{
	return door_do(self, argc, argv, 0, 0, list_docker_containers);
}

static const struct opt options[] = {
	{ "all", 'a', OPT_FLAG, NULL, "Show all containers (default shows just running)",
	  DOOR_TAKEN },
	{ "filter", 'f', OPT_LIST, "filter", "Filter output based on conditions provided",
	  DOOR_TAKEN },
	{ "format", 0, OPT_VALUE, "string",
	  "table, json, or a Go template of what berth-docker(1) "
	  "lists",
	  DOOR_TAKEN },
	{ "last", 'n', OPT_VALUE, "int", "Show n last created containers (includes all states)",
	  DOOR_TAKEN },
	{ "latest", 'l', OPT_FLAG, NULL, "Show the latest created container (includes all states)",
	  DOOR_TAKEN },
	{ "no-trunc", 0, OPT_FLAG, NULL, "Don't truncate output", DOOR_TAKEN },
	{ "quiet", 'q', OPT_FLAG, NULL, "Only display container IDs", DOOR_TAKEN },
	{ "size", 's', OPT_FLAG, NULL, "Display total file sizes", DOOR_TAKEN },
};

const struct command door_ps = {
	.name = "ps",
	.args = "[OPTIONS]",
	.summary = "List containers",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.run = docker_ps_main,
};
