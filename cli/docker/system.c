/* SPDX-License-Identifier: Apache-2.0 */
/* docker version, info and system df. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/image.h"
#include "manager/engine/objects.h"
#include "manager/engine/system.h"
#include "rootfs/store/catalog.h"

/* ---- version --------------------------------------------------------------------------------- */

static json_t *version_document(void)
{
	json_t *server = engine_version(), *client;

	json_object_set_new(server, "Experimental", json_false());
	client = json_pack("{s:{s:s},s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s}", "Platform", "Name",
			   "berth-docker " BERTH_VERSION, "Version", ENGINE_SAID_VERSION,
			   "ApiVersion", ENGINE_API, "DefaultAPIVersion", ENGINE_API, "GitCommit",
			   "berth", "GoVersion", "none", "Os", "linux", "Arch",
			   door_text(server, "Arch"), "Context", "default");
	return json_pack("{s:o,s:o}", "Client", client, "Server", server);
}

static void print_version_part(const json_t *doc)
{
	const json_t *server = json_object_get(doc, "Server");

	printf("Client: berth-docker %s\n Version:           %s\n API version:       %s\n"
	       " OS/Arch:           linux/%s\n Context:           default\n\n"
	       "Server: berth %s\n Engine:\n  Version:          %s\n"
	       "  API version:      %s (minimum version %s)\n  OS/Arch:          linux/%s\n",
	       BERTH_VERSION, ENGINE_SAID_VERSION, ENGINE_API, door_text(server, "Arch"),
	       BERTH_VERSION, ENGINE_SAID_VERSION, ENGINE_API, ENGINE_API_MIN,
	       door_text(server, "Arch"));
}

int door_document(const char *format, json_t *doc, struct err *e)
{
	autojson json_t *list = NULL;

	if (!strcmp(format, "json"))
		return command_print_json(doc, JSON_COMPACT, e);
	list = json_pack("[O]", doc);
	return door_documents(format, list, e);
}

static int docker_version(const struct door_args *a, struct err *e)
{
	autojson json_t *doc = version_document();

	if (door_value(a, "format") && door_value(a, "format")[0])
		return door_document(door_value(a, "format"), doc, e);
	print_version_part(doc);
	return 0;
}

/* ---- info ------------------------------------------------------------------------------------ */

static json_t *load_info(struct err *e)
{
	struct sandbox_ref s;
	json_t *doc = NULL;
	autojson json_t *list = NULL;
	autoclose int store = -1;

	sandbox_ref_init(&s);
	if (sandbox_ref_registry(&s, e) == 0)
		doc = engine_info(&s.registry, e);
	if (doc && (store = door_store(&s, e)) >= 0 && (list = catalog_list(store, 0, e)))
		json_object_set_new(doc, "Images", json_integer((json_int_t)json_array_size(list)));
	sandbox_ref_close(&s);
	if (doc)
		json_object_set_new(doc, "ClientInfo",
				    json_pack("{s:s,s:s,s:[],s:n}", "Version", ENGINE_SAID_VERSION,
					      "Context", "default", "Plugins", "Warnings"));
	return doc;
}

static void print_info_row(const json_t *doc, const char *key, const char *head)
{
	const json_t *v = json_object_get(doc, key);

	if (json_is_string(v))
		printf(" %s: %s\n", head, json_string_value(v));
	else if (json_is_integer(v))
		printf(" %s: %lld\n", head, (long long)json_integer_value(v));
}

static void print_info(const json_t *doc)
{
	static const char *const rows[][2] = {
		{ "Containers", "Containers" },
		{ "ContainersRunning", " Running" },
		{ "ContainersPaused", " Paused" },
		{ "ContainersStopped", " Stopped" },
		{ "Images", "Images" },
		{ "ServerVersion", "Server Version" },
		{ "Driver", "Storage Driver" },
		{ "LoggingDriver", "Logging Driver" },
		{ "CgroupDriver", "Cgroup Driver" },
		{ "CgroupVersion", "Cgroup Version" },
		{ "DefaultRuntime", "Default Runtime" },
		{ "KernelVersion", "Kernel Version" },
		{ "OperatingSystem", "Operating System" },
		{ "OSType", "OSType" },
		{ "Architecture", "Architecture" },
		{ "NCPU", "CPUs" },
		{ "Name", "Name" },
		{ "ID", "ID" },
		{ "DockerRootDir", "Docker Root Dir" },
	};
	char room[40];
	size_t i;

	printf("Client: berth-docker %s\n Context:    default\n\nServer:\n", BERTH_VERSION);
	for (i = 0; i < ARRAY_LEN(rows); i++)
		print_info_row(doc, rows[i][0], rows[i][1]);
	printf(" Total Memory: %s\n", door_size(json_number_value(json_object_get(doc, "MemTotal")),
						0, room, sizeof(room)));
}

static int show_docker_info(const struct door_args *a, struct err *e)
{
	autojson json_t *doc = load_info(e);

	if (!doc)
		return -1;
	if (door_value(a, "format") && door_value(a, "format")[0])
		return door_document(door_value(a, "format"), doc, e);
	print_info(doc);
	return 0;
}

/* ---- the verbs ------------------------------------------------------------------------------- */

static const struct door_row verbs[] = {
	{ "version", 0, 0, docker_version },
	{ "info", 0, 0, show_docker_info },
};

static int docker_system_main(const struct command *self, int argc, char **argv)
{
	return door_dispatch(verbs, self, argc, argv);
}

static const struct opt format_option[] = {
	{ "format", 'f', OPT_VALUE, "string", "json, or a Go template", DOOR_TAKEN },
};

#define VERB(sym, verb, text, table)                                                               \
	const struct command door_##sym = {                                                        \
		.name = verb,                                                                      \
		.args = "[OPTIONS]",                                                               \
		.summary = text,                                                                   \
		.opts = table,                                                                     \
		.opt_count = ARRAY_LEN(table),                                                     \
		.run = docker_system_main,                                                                  \
	}

const struct command door_version = {
	.name = "version",
	.args = "[OPTIONS]",
	.summary = "Show the Docker version information",
	.opts = format_option,
	.opt_count = ARRAY_LEN(format_option),
	.run = docker_system_main,
	.flags = COMMAND_ANY_USER,
};
VERB(info, "info", "Display system-wide information", format_option);

/* ---- system df ---- */

/* docker system df. */

static double df_number(const json_t *obj, const char *key)
{
	return json_number_value(json_object_get(obj, key));
}

static json_t *df_size_text(double bytes)
{
	char room[40];

	return json_string(door_size(bytes, 1, room, sizeof(room)));
}

/* ---- one row a type -------------------------------------------------------------------------- */

struct sums {
	size_t active;
	double bytes, used; /* used: of what is active */
};

static json_t *row(const char *type, const json_t *objects, const struct sums *s)
{
	const double rest = s->bytes - s->used;
	char size[40], room[40];
	json_t *reclaimable;

	door_size(s->bytes, 1, size, sizeof(size));
	door_size(rest, 1, room, sizeof(room));
	reclaimable = s->bytes > 0 ? json_sprintf("%s (%d%%)", room, (int)(rest * 100 / s->bytes)) :
				     json_string(room);
	return json_pack("{s:s,s:o,s:o,s:s,s:o}", "Type", type, "TotalCount",
			 json_sprintf("%d", (int)json_array_size(objects)), "Active",
			 json_sprintf("%d", (int)s->active), "Size", size, "Reclaimable",
			 reclaimable);
}

static json_t *images_row(const json_t *doc)
{
	const json_t *list = json_object_get(doc, "Images"), *one;
	struct sums s = { .bytes = df_number(doc, "LayersSize") };
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one) {
		if (df_number(one, "Containers") <= 0)
			continue;
		s.active++;
		s.used += df_number(one, "Size") - df_number(one, "SharedSize");
	}
	return row("Images", list, &s);
}

static json_t *containers_row(const json_t *doc)
{
	const json_t *list = json_object_get(doc, "Containers"), *one;
	struct sums s = { 0 };
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one) {
		const char *state = door_text(one, "State");
		const int active = strcmp(state, "exited") && strcmp(state, "created");

		s.active += (size_t)active;
		s.bytes += df_number(one, "SizeRw");
		s.used += active ? df_number(one, "SizeRw") : 0;
	}
	return row("Containers", list, &s);
}

static json_t *volumes_row(const json_t *doc)
{
	const json_t *list = json_object_get(doc, "Volumes"), *one;
	struct sums s = { 0 };
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one) {
		const int active = df_number(json_object_get(one, "UsageData"), "RefCount") > 0;

		s.active += (size_t)active;
		s.bytes += (double)engine_volume_bytes(one);
		s.used += active ? (double)engine_volume_bytes(one) : 0;
	}
	return row("Local Volumes", list, &s);
}

static int print_short(const char *format, const json_t *doc, struct err *e)
{
	static const struct door_column heads[] = {
		{ "Type", "TYPE" }, { "TotalCount", "TOTAL" },        { "Active", "ACTIVE" },
		{ "Size", "SIZE" }, { "Reclaimable", "RECLAIMABLE" }, { NULL, NULL },
	};
	const json_t *caches = json_object_get(doc, "BuildCache");
	const struct sums builds = { .bytes = df_number(json_array_get(caches, 0), "Size") };
	autojson json_t *rows = json_pack("[o,o,o,o]", images_row(doc), containers_row(doc),
					  volumes_row(doc), row("Build Cache", caches, &builds));

	return door_rows(format, rows, heads, 5, e);
}

/* ---- -v: one row an object ------------------------------------------------------------------ */

static json_t *image_rows(const json_t *doc)
{
	json_t *rows = json_array(), *one, *name;
	size_t i, k;

	json_array_foreach (json_object_get(doc, "Images"), i, one) {
		const double shared = df_number(one, "SharedSize");

		json_array_foreach (json_object_get(one, "RepoTags"), k, name) {
			json_t *r = door_image_row(one, json_string_value(name), 0);

			json_object_set_new(r, "SharedSize", df_size_text(shared));
			json_object_set_new(r, "UniqueSize",
					    df_size_text(df_number(one, "Size") - shared));
			json_object_set_new(r, "Containers",
					    json_sprintf("%d", (int)df_number(one, "Containers")));
			json_array_append_new(rows, r);
		}
	}
	return rows;
}

static json_t *container_rows(const json_t *doc)
{
	json_t *rows = json_array(), *one;
	size_t i;

	json_array_foreach (json_object_get(doc, "Containers"), i, one) {
		json_t *r = door_container_row(one, 0);

		json_object_set_new(r, "Size", df_size_text(df_number(one, "SizeRw")));
		json_array_append_new(rows, r);
	}
	return rows;
}

static json_t *volume_rows(const json_t *doc)
{
	json_t *rows = json_array(), *one;
	size_t i;

	json_array_foreach (json_object_get(doc, "Volumes"), i, one) {
		const json_t *links = json_object_get(json_object_get(one, "UsageData"),
						      "RefCount");

		json_array_append_new(
			rows, json_pack("{s:s,s:o,s:o}", "Name", door_text(one, "Name"), "Links",
					json_sprintf("%d", (int)json_integer_value(links)), "Size",
					df_size_text((double)engine_volume_bytes(one))));
	}
	return rows;
}

static int print_tables(const json_t *all, struct err *e)
{
	static const struct door_column images[] = {
		{ "Repository", "REPOSITORY" },
		{ "Tag", "TAG" },
		{ "ID", "IMAGE ID" },
		{ "CreatedSince", "CREATED" },
		{ "Size", "SIZE" },
		{ "SharedSize", "SHARED SIZE" },
		{ "UniqueSize", "UNIQUE SIZE" },
		{ "Containers", "CONTAINERS" },
		{ NULL, NULL },
	};
	static const struct door_column containers[] = {
		{ "ID", "CONTAINER ID" },
		{ "Image", "IMAGE" },
		{ "Command", "COMMAND" },
		{ "LocalVolumes", "LOCAL VOLUMES" },
		{ "Size", "SIZE" },
		{ "RunningFor", "CREATED" },
		{ "Status", "STATUS" },
		{ "Names", "NAMES" },
		{ NULL, NULL },
	};
	static const struct door_column volumes[] = {
		{ "Name", "VOLUME NAME" }, { "Links", "LINKS" }, { "Size", "SIZE" }, { NULL, NULL }
	};
	static const struct {
		const char *head, *key;
		const struct door_column *columns;
		size_t n;
	} tables[] = { { "Images space usage:", "Images", images, 8 },
		       { "Containers space usage:", "Containers", containers, 8 },
		       { "Local Volumes space usage:", "Volumes", volumes, 3 } };
	size_t i;

	for (i = 0; i < ARRAY_LEN(tables); i++) {
		printf("%s\n\n", tables[i].head);
		if (door_rows(NULL, json_object_get(all, tables[i].key), tables[i].columns,
			      tables[i].n, e) < 0)
			return -1;
		printf("\n");
	}
	return printf("Build cache usage: %s\n\n", json_string_value(json_object_get(all, "BuildUsage"))) < 0;
}

static int print_df_verbose(const char *format, const json_t *doc, struct err *e)
{
	char room[40];
	autojson json_t *all =
		json_pack("{s:o,s:o,s:o,s:O?,s:s}", "Images", image_rows(doc), "Containers",
			  container_rows(doc), "Volumes", volume_rows(doc), "BuildCache", json_object_get(doc, "BuildCache"), "BuildUsage",
			  door_size(df_number(json_array_get(json_object_get(doc, "BuildCache"), 0), "Size"), 1, room, sizeof(room)));

	return format && format[0] && strcmp(format, "table") ? door_document(format, all, e) :
								print_tables(all, e);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int docker_system_df(const struct door_args *a, struct err *e)
{
	autojson json_t *none = json_object(), *doc = NULL;
	const struct engine_berth asker = door_berth(NULL);
	json_t *volumes = engine_volume_list(&asker, none, e);
	const char *format = door_value(a, "format");
	autoclose int store = -1;
	struct sandbox_ref s;

	if (!volumes)
		return -1;
	sandbox_ref_init(&s);
	store = door_store(&s, e);
	if (store < 0)
		json_decref(volumes);
	else
		doc = engine_usage(&s.registry, store, volumes, e);
	sandbox_ref_close(&s);
	if (!doc)
		return -1;
	return door_on(a, "verbose") ? print_df_verbose(format, doc, e) : print_short(format, doc, e);
}

static int df_main(const struct command *self, int argc, char **argv)
{
	return door_do(self, argc, argv, 0, 0, docker_system_df);
}

static const struct opt options[] = {
	{ "format", 0, OPT_VALUE, "string", "table, json, or a Go template", DOOR_TAKEN },
	{ "verbose", 'v', OPT_FLAG, NULL, "Show detailed information on space usage", DOOR_TAKEN },
};

const struct command door_system_df = {
	.name = "system df",
	.args = "[OPTIONS]",
	.summary = "Show docker disk usage",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.run = df_main,
};
