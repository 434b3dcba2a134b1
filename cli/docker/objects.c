/* SPDX-License-Identifier: Apache-2.0 */
/* docker volume, and what docker network shares with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/accept.h"
#include "manager/engine/name.h"
#include "manager/engine/objects.h"

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

/* Labels as words of berth, after those that are there. */
size_t door_label_words(const struct door_args *a, const char **argv, size_t n)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)door_list(a, "label"), i, one)
		if (n + 6 < DOOR_WORDS_MAX) {
			argv[n++] = "--label";
			argv[n++] = json_string_value(one);
		}
	return n;
}

char *door_called_word(const char *called)
{
	char *word = NULL;

	return asprintf(&word, "--label=" ENGINE_NAME_LABEL "=%s", called) < 0 ? NULL : word;
}

/* One that is not there is no failure with --force. */
int door_remove_object(const char *noun, const char *called, int force, struct err *e)
{
	char mapped[ENGINE_NAME];
	const char *name = engine_name_map(called, mapped) < 0 ? called : mapped;
	const char *argv[] = { "berth", noun, "rm", "--json", "--", name, NULL };
	autojson json_t *said = door_call(argv, e);
	struct err why = *e;

	if (said || (force && e->code == ERR_NOT_FOUND))
		return 0;
	if (e->code == ERR_BUSY && !strcmp(noun, "volume"))
		return err_set(e, ERR_BUSY, "remove %.255s: volume is in use - %.200s", called,
			       why.msg);
	if (e->code == ERR_BUSY)
		return err_set(e, ERR_BUSY,
			       "error while removing network: network %.64s has "
			       "active endpoints",
			       called);
	if (e->code == ERR_NOT_FOUND)
		return err_set(e, ERR_NOT_FOUND,
			       !strcmp(noun, "volume") ? "get %.100s: no such volume" :
							 "network %.100s not found",
			       called);
	return -1;
}

/* ---- volumes --------------------------------------------------------------------------------- */

json_t *door_volumes(const json_t *filters, struct err *e)
{
	static const char *const argv[] = { "berth", "volume", "ls", "--json", NULL };
	autojson json_t *records = door_call(argv, e);

	return records ? engine_volumes(records, filters) : NULL;
}

json_t *door_volume_document(struct sandbox_ref *s, const char *name, struct err *e)
{
	autojson json_t *none = json_object(), *all = door_volumes(none, e);
	const json_t *one;
	size_t i;

	(void)s;
	json_array_foreach (all, i, one)
		if (!strcmp(door_text(one, "Name"), name))
			return json_deep_copy(one);
	if (all)
		err_set(e, ERR_NOT_FOUND, "get %.100s: no such volume", name);
	return NULL;
}

static int list_volumes(const struct door_args *a, struct err *e)
{
	static const struct door_column heads[] = {
		{ "Driver", "DRIVER" },         { "Name", "VOLUME NAME" }, { "Scope", "SCOPE" },
		{ "Mountpoint", "MOUNTPOINT" }, { "Labels", "LABELS" },    { NULL, NULL },
	};
	autojson json_t *filters = door_filters(a, e), *all = NULL, *rows = json_array();
	const json_t *v;
	size_t i;

	all = filters && engine_accept(ENGINE_VOLUMES, filters, e) == 0 ? door_volumes(filters, e) :
									  NULL;
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

int door_make_volumes(const json_t *volumes, struct err *e)
{
	const char *name;
	json_t *called;

	json_object_foreach ((json_t *)(size_t)volumes, name, called) {
		autofree char *label = door_called_word(json_string_value(called));
		const char *argv[] = { "berth", "volume", "create", "--json", label, "--",
				       name,	NULL };
		autojson json_t *made = label ? door_call(argv, e) : NULL;

		if (!label)
			return err_nomem(e);
		if (!made && e->code != ERR_EXISTS)
			return -1;
	}
	return 0;
}

int door_make_anonymous(const json_t *volumes, struct err *e)
{
	const char *target;
	json_t *name;

	json_object_foreach ((json_t *)(size_t)volumes, target, name) {
		const char *argv[] = { "berth", "volume", "create", "--json",
				       "--label=" ENGINE_VOLUME_ANONYMOUS "=", "--",
				       json_string_value(name), NULL };
		autojson json_t *made = door_call(argv, e);

		if (!made)
			return -1;
	}
	return 0;
}

static int make_volume(const struct door_args *a, struct err *e)
{
	const char *argv[DOOR_WORDS_MAX + 4] = { "berth", "volume", "create", "--json" },
					  *driver = door_value(a, "driver");
	autojson json_t *made = NULL;
	autofree char *label = NULL;
	char fresh[ENGINE_ID], name[ENGINE_NAME];
	const char *called = a->count ? a->words[0] : door_value(a, "name");
	size_t n = door_label_words(a, argv, 4);

	if (driver && driver[0] && strcmp(driver, "local"))
		return err_set(e, ERR_INVALID,
			       "error looking up volume plugin %.60s: plugin not "
			       "found",
			       driver);
	if (!called && engine_new_id(fresh) < 0)
		return err_sys(e, "choose a name");
	if (!called)
		argv[n++] = "--label=" ENGINE_VOLUME_ANONYMOUS "=";
	called = called ? called : fresh;
	if (engine_name_map(called, name) < 0)
		return err_set(e, ERR_INVALID,
			       "create %.80s: \"%.80s\" includes invalid characters for a local "
			       "volume name, only \"[a-zA-Z0-9][a-zA-Z0-9_.-]\" are allowed",
			       called, called);
	if (strcmp(called, name) && !(argv[n++] = label = door_called_word(called)))
		return err_nomem(e);
	argv[n++] = "--";
	argv[n++] = name;
	made = door_call(argv, e);
	if (!made && e->code != ERR_EXISTS)
		return -1;
	return printf("%s\n", called) < 0;
}

int door_prune_volumes(const json_t *filters, double *freed, struct err *e)
{
	autojson json_t *wanted = json_deep_copy(filters), *all = NULL;
	const json_t *v;
	size_t i;
	int told = 0;

	if (engine_volumes_prunable(wanted, e) == 0)
		all = door_volumes(wanted, e);
	if (!all)
		return -1;
	json_array_foreach (all, i, v) {
		struct err ignored;

		if (door_remove_object("volume", door_text(v, "Name"), 0, &ignored) < 0)
			continue;
		printf("%s%s\n", told++ ? "" : "Deleted Volumes:\n", door_text(v, "Name"));
		*freed += (double)engine_volume_bytes(v);
	}
	return told && printf("\n") < 0 ? -1 : 0;
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
	struct door_args a;
	int i, status = 0;

	if (!door_parse(&a, self, argc, argv, 1, -1))
		status = a.status;
	for (i = 0; i < a.count; i++) {
		struct err e;

		if (door_remove_object("volume", a.words[i], door_on(&a, "force"), &e) < 0)
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
	{ "opt", 'o', OPT_LIST, "map", "Set driver specific options", DOOR_REFUSED, COMPLETE_NONE,
	  "berth volume create --size bounds one" },
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
