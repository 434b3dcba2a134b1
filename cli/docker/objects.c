/* SPDX-License-Identifier: Apache-2.0 */
/* docker volume, and what docker network shares with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/accept.h"
#include "manager/engine/volumes.h"

/* ---- shared with networks ---- */

json_t *door_labels_text(const json_t *labels)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	struct err ignored;
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)(size_t)labels, key, v)
		buf_addf(&b, &ignored, "%s%s=%s", b.len ? "," : "", key, json_string_value(v));
	return json_string(b.data ? b.data : "");
}

int door_told_gone(const char *head, const json_t *names)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)names, i, one)
		printf("%s%s%s\n", i ? "" : head, i ? "" : "\n", json_string_value(one));
	return json_array_size(names) && printf("\n") < 0 ? -1 : 0;
}

/* ---- volumes --------------------------------------------------------------------------------- */

json_t *door_volume_document(struct sandbox_ref *s, const char *name, struct err *e)
{
	const struct engine_berth b = door_berth(NULL);

	(void)s;
	return engine_volume_find(&b, name, e);
}

static int list_volumes(const struct door_args *a, struct err *e)
{
	static const struct door_column heads[] = {
		{ "Driver", "DRIVER" },         { "Name", "VOLUME NAME" }, { "Scope", "SCOPE" },
		{ "Mountpoint", "MOUNTPOINT" }, { "Labels", "LABELS" },    { NULL, NULL },
	};
	autojson json_t *filters = door_filters(a, e), *all = NULL, *rows = json_array();
	const struct engine_berth b = door_berth(NULL);
	const json_t *v;
	size_t i;

	all = filters && engine_accept(ENGINE_VOLUMES, filters, e) == 0 ? engine_volume_list(&b, filters, e) : NULL;
	if (!all)
		return -1;
	json_array_foreach (all, i, v) {
		const json_t *labels = json_object_get(v, "Labels");

		if (door_on(a, "quiet"))
			printf("%s\n", door_text(v, "Name"));
		json_array_append_new(
			rows, json_pack("{s:s,s:o,s:s,s:s,s:s,s:O}", "Driver",
					door_text(v, "Driver"), "Labels", door_labels_text(labels),
					"Mountpoint", door_text(v, "Mountpoint"), "Name",
					door_text(v, "Name"), "Scope", "local", "Label", labels));
	}
	return door_on(a, "quiet") ? 0 : door_rows(door_value(a, "format"), rows, heads, 2, e);
}

static int make_volume(const struct door_args *a, struct err *e)
{
	const char *called = a->count ? a->words[0] : door_value(a, "name");
	const struct engine_berth b = door_berth(NULL);
	autojson json_t *body = json_pack("{s:s*,s:s*,s:o,s:o}", "Name", called, "Driver", door_value(a, "driver"),
					  "Labels", door_map(door_list(a, "label")), "DriverOpts",
					  door_map(door_list(a, "opt")));
	autojson json_t *doc = body ? engine_volume_create(&b, body, e) : NULL;

	if (!body)
		return err_nomem(e);
	return doc ? printf("%s\n", door_text(doc, "Name")) < 0 : -1;
}

int door_prune_volumes(json_t *filters, double *freed, struct err *e)
{
	const struct engine_berth b = door_berth(NULL);
	autojson json_t *said = engine_volume_prune(&b, filters, e);

	*freed += json_number_value(json_object_get(said, "SpaceReclaimed"));
	return said ? door_told_gone("Deleted Volumes:", json_object_get(said, "VolumesDeleted")) : -1;
}

/* ---- the verbs ---------------------------------------------------------------------------- */

static const struct door_row verbs[] = {
	{ "volume ls", 0, 0, list_volumes },
	{ "volume create", 0, 1, make_volume },
};

static int verb_main(const struct command *self, int argc, char **argv)
{
	return door_dispatch(verbs, self, argc, argv);
}

static int rm_main(const struct command *self, int argc, char **argv)
{
	const struct engine_berth b = door_berth(NULL);
	struct door_args a;
	int i, status = 0;

	if (!door_parse(&a, self, argc, argv, 1, -1))
		status = a.status;
	for (i = 0; i < a.count; i++) {
		struct err e;

		if (engine_volume_remove(&b, a.words[i], door_on(&a, "force"), &e) < 0)
			status = door_error(&e);
		else
			printf("%s\n", a.words[i]);
	}
	door_release(&a);
	return status;
}

static const struct opt ls_options[] = {
	{ "filter", 'f', OPT_LIST, "filter", "Provide filter values (e.g. \"label=<key>\")",
	  DOOR_TAKEN },
	{ "format", 0, OPT_VALUE, "string", "table, json, or a Go template", DOOR_TAKEN },
	{ "no-trunc", 0, OPT_FLAG, NULL, "Do not truncate the output", DOOR_TAKEN },
	{ "quiet", 'q', OPT_FLAG, NULL, "Only display IDs or names", DOOR_TAKEN },
};
static const struct opt rm_options[] = {
	{ "force", 'f', OPT_FLAG, NULL, "One that does not exist is no error", DOOR_TAKEN },
};
static const struct opt volume_options[] = {
	{ "driver", 'd', OPT_VALUE, "string", "Specify volume driver name: local", DOOR_TAKEN },
	{ "label", 0, OPT_LIST, "list", "Set metadata for a volume", DOOR_TAKEN },
	{ "name", 0, OPT_VALUE, "string", "Specify volume name", DOOR_TAKEN },
	{ "opt", 'o', OPT_LIST, "map", "Set driver specific options: size=SIZE", DOOR_TAKEN },
};

#define VERB(sym, verb, words, text, table, what, main)                                            \
	const struct command door_##sym = {                                                        \
		.name = verb,                                                                      \
		.args = words,                                                                     \
		.summary = text,                                                                   \
		.opts = table,                                                                     \
		.opt_count = ARRAY_LEN(table),                                                     \
		.complete = what,                                                                  \
		.run = main,                                                                       \
	}

VERB(volume_ls, "volume ls", "[OPTIONS]", "List volumes", ls_options, COMPLETE_NONE, verb_main);
VERB(volume_create, "volume create", "[OPTIONS] [VOLUME]", "Create a volume", volume_options,
	COMPLETE_NONE, verb_main);
VERB(volume_rm, "volume rm", "[OPTIONS] VOLUME [VOLUME...]", "Remove one or more volumes",
	rm_options, COMPLETE_VOLUME, rm_main);
