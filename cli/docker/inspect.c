/* SPDX-License-Identifier: Apache-2.0 */
/* docker inspect, and that of images, volumes and networks. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/system.h"

typedef json_t *document_fn(struct sandbox_ref *s, const char *name, struct err *e);

static const struct {
	const char *type;
	document_fn *load;
} kinds[] = {
	{ "container", door_container_document },
	{ "image", door_image_document },
	{ "network", door_network_document },
	{ "volume", door_volume_document },
};

json_t *door_container_document(struct sandbox_ref *s, const char *name, struct err *e)
{
	struct engine_loaded l;
	json_t *doc;

	if (door_find(s, name, e) < 0 || door_load(&l, s, 1, e) < 0)
		return NULL;
	doc = engine_inspect(&l.v);
	engine_loaded_release(&l);
	fd_close(&s->sock);
	return doc;
}

/* An object of the kind type, or of any. */
static json_t *find_by_kind(struct sandbox_ref *s, const char *type, const char *name, struct err *e)
{
	json_t *doc = NULL;
	struct err why;
	size_t i;

	err_set(e, ERR_NOT_FOUND, "Error: No such object: %.200s", name);
	for (i = 0; i < ARRAY_LEN(kinds) && !doc; i++) {
		if (type[0] && strcmp(type, kinds[i].type))
			continue;
		doc = kinds[i].load(s, name, &why);
		if (!doc && (type[0] || why.code != ERR_NOT_FOUND)) {
			*e = why;
			return NULL;
		}
	}
	return doc;
}

static int is_inspect_type(const char *type)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++)
		if (!strcmp(type, kinds[i].type))
			return 1;
	return !type[0];
}

/* What docker's structures have and its JSON leaves out, so that a template can ask for it. */
static void add_absent(json_t *doc)
{
	static const char *const absent[][2] = {
		{ "Config", "ExposedPorts" }, { "Config", "Healthcheck" },
		{ "Config", "Shell" },	      { "Config", "StopSignal" },
		{ "Config", "StopTimeout" },  { "Config", "Volumes" },
		{ "HostConfig", "Init" },     { "HostConfig", "Mounts" },
		{ "HostConfig", "Runtime" },  { "HostConfig", "StorageOpt" },
		{ "HostConfig", "Sysctls" },  { "HostConfig", "Tmpfs" },
		{ "State", "Health" },
	};
	json_t *mount;
	size_t i;

	json_array_foreach (json_object_get(doc, "Mounts"), i, mount)
		if (!json_object_get(mount, "Name"))
			json_object_set_new(mount, "Name", json_string(""));
	for (i = 0; i < ARRAY_LEN(absent); i++) {
		json_t *part = json_object_get(doc, absent[i][0]);

		if (json_is_object(part) && !json_object_get(part, absent[i][1]))
			json_object_set_new(part, absent[i][1], json_null());
	}
}

/* Of a container; consumes doc on failure. */
static int add_size(struct sandbox_ref *s, json_t *doc, struct err *e)
{
	autojson json_t *list = json_pack("[O]", doc);
	int r = !json_object_get(doc, "HostConfig") ?
			0 :
			engine_sizes(&s->config, &s->registry, list, e);

	if (r < 0)
		json_decref(doc);
	return r;
}

/* The document of a name, as the options want it: a new reference, or NULL with e. */
static json_t *inspect_document(const struct door_args *a, struct sandbox_ref *s, const char *type,
			const char *name, struct err *e)
{
	json_t *doc = s->registry.run_fd < 0 && sandbox_ref_registry(s, e) < 0 ?
			      NULL :
			      find_by_kind(s, type, name, e);

	return doc && door_on(a, "size") && add_size(s, doc, e) < 0 ? NULL : doc;
}

/* A template that is wrong for all is told once. */
static void note_inspect_error(json_t *errors, const struct err *e)
{
	const size_t n = json_array_size(errors);

	if (!n || strcmp(json_string_value(json_array_get(errors, n - 1)), e->msg))
		json_array_append_new(errors, json_string(e->msg));
}

static int tell_all(const json_t *errors)
{
	const json_t *one;
	struct err e;
	int status = 0;
	size_t i;

	json_array_foreach ((json_t *)(size_t)errors, i, one) {
		err_set(&e, ERR_INTERNAL, "%s", json_string_value(one));
		status = door_error(&e);
	}
	return status;
}

/* What was found is shown, and then what was not. */
static int inspect_all(const struct door_args *a, const char *type)
{
	const char *format = door_value(a, "format");
	const int templated = format && format[0] && strcmp(format, "json");
	autojson json_t *all = json_array(), *wrong = json_array();
	struct sandbox_ref s;
	int i, shown = 0;
	struct err e;

	sandbox_ref_init(&s);
	for (i = 0; i < a->count; i++) {
		json_t *doc = inspect_document(a, &s, type, a->words[i], &e);

		if (doc && templated) {
			autojson json_t *one = json_pack("[o]", doc);

			add_absent(doc);
			if (door_documents(format, one, &e) == 0) {
				shown++;
				continue;
			}
		} else if (doc) {
			json_array_append_new(all, doc);
			continue;
		}
		note_inspect_error(wrong, &e);
	}
	sandbox_ref_close(&s);
	if (templated ? !shown : format && format[0] && !json_array_size(all))
		printf("\n");
	else if (!templated && door_documents(format, all, &e) < 0)
		note_inspect_error(wrong, &e);
	return tell_all(wrong);
}

static int docker_inspect_main(const struct command *self, int argc, char **argv)
{
	struct door_args a;
	const char *type;
	char kind[20];
	int status;

	if (!door_parse(&a, self, argc, argv, 1, -1)) {
		status = a.status;
	} else {
		/* "image inspect", else --type */
		snprintf(kind, sizeof(kind), "%.*s", (int)strcspn(self->name, " "), self->name);
		type = strchr(self->name, ' ') ? kind : door_value(&a, "type");
		type = type ? type : "";
		status = is_inspect_type(type) ?
				 inspect_all(&a, type) :
				 door_say(1, "\"%.40s\" is not a valid value for --type", type);
	}
	door_release(&a);
	return status;
}

static const struct opt options[] = {
	{ "format", 'f', OPT_VALUE, "string", "json, or a Go template", DOOR_TAKEN },
	{ "size", 's', OPT_FLAG, NULL, "Display total file sizes", DOOR_TAKEN },
	{ "type", 0, OPT_VALUE, "string",
	  "Only inspect objects of the given type: container, "
	  "image, network, volume",
	  DOOR_TAKEN },
};
static const struct opt container_options[] = {
	{ "format", 'f', OPT_VALUE, "string", "json, or a Go template", DOOR_TAKEN },
	{ "size", 's', OPT_FLAG, NULL, "Display total file sizes", DOOR_TAKEN },
};
static const struct opt one_options[] = {
	{ "format", 'f', OPT_VALUE, "string", "json, or a Go template", DOOR_TAKEN },
	{ "platform", 0, OPT_VALUE, "string", "Inspect a platform of the image", DOOR_IGNORED },
	{ "verbose", 'v', OPT_FLAG, NULL, "Verbose output for diagnostics", DOOR_IGNORED },
};

#define INSPECT(sym, verb, words, text, table, what)                                               \
	const struct command door_##sym = {                                                        \
		.name = verb,                                                                      \
		.args = words,                                                                     \
		.summary = text,                                                                   \
		.opts = table,                                                                     \
		.opt_count = ARRAY_LEN(table),                                                     \
		.complete = what,                                                                  \
		.run = docker_inspect_main,                                                               \
	}

INSPECT(inspect, "inspect", "[OPTIONS] NAME|ID [NAME|ID...]",
	"Return low-level information on Docker objects", options, COMPLETE_SANDBOX);
INSPECT(container_inspect, "container inspect", "[OPTIONS] CONTAINER [CONTAINER...]",
	"Display detailed information on one or more containers", container_options, COMPLETE_SANDBOX);
INSPECT(image_inspect, "image inspect", "[OPTIONS] IMAGE [IMAGE...]",
	"Display detailed information on one or more images", one_options, COMPLETE_IMAGE);
INSPECT(network_inspect, "network inspect", "[OPTIONS] NETWORK [NETWORK...]",
	"Display detailed information on one or more networks", one_options, COMPLETE_NONE);
INSPECT(volume_inspect, "volume inspect", "[OPTIONS] VOLUME [VOLUME...]",
	"Display detailed information on one or more volumes", one_options, COMPLETE_VOLUME);
