/* SPDX-License-Identifier: Apache-2.0 */
/* docker version and info. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/image.h"
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

static void print_version(const json_t *doc)
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

static int version(const struct door_args *a, struct err *e)
{
	autojson json_t *doc = version_document();

	if (door_value(a, "format") && door_value(a, "format")[0])
		return door_document(door_value(a, "format"), doc, e);
	print_version(doc);
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

static void print_row(const json_t *doc, const char *key, const char *head)
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
		print_row(doc, rows[i][0], rows[i][1]);
	printf(" Total Memory: %s\n", door_size(json_number_value(json_object_get(doc, "MemTotal")),
						0, room, sizeof(room)));
}

static int info(const struct door_args *a, struct err *e)
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
	{ "version", 0, 0, version },
	{ "info", 0, 0, info },
};

static int verb_main(const struct command *self, int argc, char **argv)
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
		.run = verb_main,                                                                  \
	}

const struct command door_version = {
	.name = "version",
	.args = "[OPTIONS]",
	.summary = "Show the Docker version information",
	.opts = format_option,
	.opt_count = ARRAY_LEN(format_option),
	.run = verb_main,
	.flags = COMMAND_ANY_USER,
};
VERB(info, "info", "Display system-wide information", format_option);
