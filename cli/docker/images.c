/* SPDX-License-Identifier: Apache-2.0 */
/* docker images, pull, history and what else is said of images. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/host.h"
#include "manager/engine/image.h"
#include "manager/ops/call.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/image.h"

#define SHORT_ID 12
#define REF_MAX 400

int door_store(struct sandbox_ref *s, struct err *e)
{
	char path[sizeof(s->config.state_dir) + 16];

	if (s->registry.run_fd < 0 && sandbox_ref_registry(s, e) < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/store", s->config.state_dir);
	return store_open(path, e);
}

json_t *door_image_document(struct sandbox_ref *s, const char *name, struct err *e)
{
	autoclose int store = door_store(s, e);
	autojson json_t *record = store < 0 ? NULL : catalog_inspect(store, name, e), *list = NULL;
	char room[REF_MAX];

	if (!record && store >= 0 && (e->code == ERR_NOT_FOUND || e->code == ERR_INVALID))
		err_set(e, ERR_NOT_FOUND, "No such image: %.300s",
			engine_image_tagged(name, room, sizeof(room)));
	if (!record)
		return NULL;
	list = catalog_list(store, 0, e);
	return list ? engine_image_inspect(record, list) : NULL;
}

/* ---- the list ------------------------------------------------------------------------------- */

static const char *short_id(const char *id, int whole)
{
	const char *colon = strchr(id, ':');

	return whole || !colon ? id : colon + 1;
}

json_t *door_image_row(const json_t *image, const char *name, int whole)
{
	const char *id = door_text(image, "Id"), *colon = strrchr(name, ':');
	const time_t made = (time_t)json_integer_value(json_object_get(image, "Created"));
	const int n = colon && !strchr(colon, '/') ? (int)(colon - name) : (int)strlen(name);
	char ago[60], created[60], size[40];
	struct tm tm;

	engine_duration((int64_t)(time(NULL) - made), ago, sizeof(ago));
	localtime_r(&made, &tm);
	strftime(created, sizeof(created), "%Y-%m-%d %H:%M:%S %z %Z", &tm);
	door_size(json_number_value(json_object_get(image, "Size")), 1, size, sizeof(size));
	return json_pack("{s:s,s:s,s:o,s:s,s:o,s:s,s:s#,s:s,s:s,s:s,s:s,s:s}", "Containers", "N/A",
			 "CreatedAt", created, "CreatedSince", json_sprintf("%s ago", ago),
			 "Digest", id, "ID",
			 whole ? json_string(id) : json_sprintf("%.*s", SHORT_ID, short_id(id, 0)),
			 "SharedSize", "N/A", "Repository", name, n, "Size", size, "Tag",
			 name[n] ? name + n + 1 : "<none>", "UniqueSize", "N/A", "VirtualSize",
			 size, "Platform", "linux");
}

static const struct door_column columns[] = {
	{ "Repository", "REPOSITORY" },
	{ "Tag", "TAG" },
	{ "ID", "IMAGE ID" },
	{ "CreatedSince", "CREATED" },
	{ "Size", "SIZE" },
	{ "Digest", "DIGEST" },
	{ "CreatedAt", "CREATED AT" },
	{ "Containers", "CONTAINERS" },
	{ "SharedSize", "SHARED SIZE" },
	{ "UniqueSize", "UNIQUE SIZE" },
	{ "VirtualSize", "VIRTUAL SIZE" },
	{ NULL, NULL },
};
static const struct door_column with_digests[] = {
	{ "Repository", "REPOSITORY" },
	{ "Tag", "TAG" },
	{ "Digest", "DIGEST" },
	{ "ID", "IMAGE ID" },
	{ "CreatedSince", "CREATED" },
	{ "Size", "SIZE" },
	{ NULL, NULL },
};

/* A name given is a filter for it: with its tag, or any of a repository. */
static int image_ref_matches(const char *name, const char *want)
{
	const size_t n = strlen(want);

	return !strcmp(name, want) || (!strncmp(name, want, n) && name[n] == ':');
}

static int print_image_rows(const struct door_args *a, const json_t *list, struct err *e)
{
	const int whole = door_on(a, "no-trunc"), digests = door_on(a, "digests");
	autojson json_t *rows = json_array();
	const json_t *image, *name;
	size_t i, k;

	json_array_foreach ((json_t *)(size_t)list, i, image) {
		int told = 0;

		json_array_foreach (json_object_get(image, "RepoTags"), k, name) {
			const char *text = json_string_value(name);

			if (a->count && !image_ref_matches(text, a->words[0]))
				continue;
			if (door_on(a, "quiet") && !told++)
				printf("%.*s\n", whole ? 80 : SHORT_ID,
				       short_id(door_text(image, "Id"), whole));
			json_array_append_new(rows, door_image_row(image, text, whole));
		}
		if (json_array_size(json_object_get(image, "RepoTags")) || a->count)
			continue;
		if (door_on(a, "quiet"))
			printf("%.*s\n", whole ? 80 : SHORT_ID, short_id(door_text(image, "Id"), whole));
		json_array_append_new(rows, door_image_row(image, "<none>:<none>", whole));
	}
	if (door_on(a, "quiet"))
		return 0;
	return door_rows(door_value(a, "format"), rows, digests ? with_digests : columns,
			 digests ? 6 : 5, e);
}

static int list_docker_images(const struct door_args *a, struct err *e)
{
	autojson json_t *filters = door_filters(a, e), *all = NULL, *images = NULL;
	struct sandbox_ref s;
	autoclose int store = -1;
	int r = -1;

	sandbox_ref_init(&s);
	if (filters && (store = door_store(&s, e)) >= 0)
		all = catalog_list(store, 0, e);
	if (all)
		images = engine_image_list(all, filters, e);
	if (images)
		r = print_image_rows(a, images, e);
	sandbox_ref_close(&s);
	return r;
}

static int images_main(const struct command *self, int argc, char **argv)
{
	return door_do(self, argc, argv, 0, 1, list_docker_images);
}

static const struct opt images_options[] = {
	{ "all", 'a', OPT_FLAG, NULL, "Show all images (default hides intermediate images)",
	  DOOR_IGNORED },
	{ "digests", 0, OPT_FLAG, NULL, "Show digests", DOOR_TAKEN },
	{ "filter", 'f', OPT_LIST, "filter", "Filter output based on conditions provided",
	  DOOR_TAKEN },
	{ "format", 0, OPT_VALUE, "string", "table, json, or a Go template", DOOR_TAKEN },
	{ "no-trunc", 0, OPT_FLAG, NULL, "Don't truncate output", DOOR_TAKEN },
	{ "quiet", 'q', OPT_FLAG, NULL, "Only show image IDs", DOOR_TAKEN },
	{ "tree", 0, OPT_FLAG, NULL, "List multi-platform images as a tree", DOOR_REFUSED,
	  COMPLETE_NONE, "an image here is of one platform" },
};

const struct command door_images = {
	.name = "images",
	.args = "[OPTIONS] [REPOSITORY[:TAG]]",
	.summary = "List images",
	.opts = images_options,
	.opt_count = ARRAY_LEN(images_options),
	.complete = COMPLETE_IMAGE,
	.run = images_main,
};

/* ---- pull ------------------------------------------------------------------------------------ */

/* Its own progress stands on stderr; what is left of stdout is docker's last lines. */
int door_fetch(const char *image, const char *platform, int quiet, struct err *e)
{
	char room[REF_MAX];
	const char *name = engine_image_tagged(image, room, sizeof(room));
	autojson json_t *said = NULL;
	json_t *call;

	if (image[0] == '/' || image[0] == '.' || !image[0])
		return err_set(e, ERR_INVALID, "invalid reference format: %.200s", image);
	if (!quiet)
		door_say(0, "%s: Pulling", name);
	call = call_of("pull", name, NULL);
	call_flag(call, "quiet");
	call_text(call, "platform", platform && platform[0] ? platform : NULL);
	said = door_ask(call, e);
	if (!said)
		return -1;
	if (!quiet)
		door_say(0, "Digest: %s\nStatus: Downloaded newer image for %s",
			 door_text(said, "digest"), name);
	return 0;
}

static int pull_main(const struct command *self, int argc, char **argv)
{
	char room[REF_MAX];
	struct door_args a;
	struct err e;
	int status = 0;

	if (!door_parse(&a, self, argc, argv, 1, 1))
		status = a.status;
	else if (door_fetch(a.words[0], door_value(&a, "platform"), door_on(&a, "quiet"), &e) < 0)
		status = door_error(&e);
	else
		printf("%s\n", engine_image_tagged(a.words[0], room, sizeof(room)));
	door_release(&a);
	return status;
}

static const struct opt pull_options[] = {
	{ "all-tags", 'a', OPT_FLAG, NULL, "Download all tagged images in the repository",
	  DOOR_REFUSED, COMPLETE_NONE, "name each tag" },
	{ "disable-content-trust", 0, OPT_FLAG, NULL, "Skip image verification", DOOR_IGNORED },
	{ "platform", 0, OPT_VALUE, "string", "Set platform if server is multi-platform capable",
	  DOOR_TAKEN },
	{ "quiet", 'q', OPT_FLAG, NULL, "Suppress verbose output", DOOR_TAKEN },
};

const struct command door_pull = {
	.name = "pull",
	.args = "[OPTIONS] NAME[:TAG|@DIGEST]",
	.summary = "Download an image from a registry",
	.opts = pull_options,
	.opt_count = ARRAY_LEN(pull_options),
	.complete = COMPLETE_IMAGE,
	.run = pull_main,
};

/* ---- history --------------------------------------------------------------------------------- */

static json_t *step_of(const json_t *step, const struct door_args *a)
{
	const time_t made = (time_t)json_integer_value(json_object_get(step, "Created"));
	const double size = json_number_value(json_object_get(step, "Size"));
	const char *by = door_text(step, "CreatedBy"), *id = door_text(step, "Id");
	const int whole = door_on(a, "no-trunc");
	char ago[60], when[60], bytes[40];
	struct tm tm;

	engine_duration((int64_t)(time(NULL) - made), ago, sizeof(ago));
	gmtime_r(&made, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	snprintf(bytes, sizeof(bytes), "%.0f", size);
	if (!json_is_false(json_object_get(a->o, "human")))
		door_size(size, 1, bytes, sizeof(bytes));
	return json_pack(
		"{s:o,s:o,s:s,s:o,s:s,s:s}", "ID",
		whole ? json_string(id) : json_sprintf("%.*s", SHORT_ID, short_id(id, 0)),
		"CreatedSince", json_sprintf("%s ago", ago), "CreatedAt", when, "CreatedBy",
		whole || strlen(by) <= 45 ? json_string(by) : json_sprintf("%.44s\xe2\x80\xa6", by),
		"Size", bytes, "Comment", door_text(step, "Comment"));
}

static int history(const struct door_args *a, struct err *e)
{
	static const struct door_column heads[] = {
		{ "ID", "IMAGE" },  { "CreatedSince", "CREATED" }, { "CreatedBy", "CREATED BY" },
		{ "Size", "SIZE" }, { "Comment", "COMMENT" },      { "CreatedAt", "CREATED AT" },
		{ NULL, NULL },
	};
	autojson json_t *doc = NULL, *said = NULL, *steps = NULL, *rows = json_array();
	struct sandbox_ref s;
	const json_t *step;
	size_t i;

	sandbox_ref_init(&s);
	doc = door_image_document(&s, a->words[0], e);
	sandbox_ref_close(&s);
	said = doc ? door_ask(call_of("image history", a->words[0], NULL), e) : NULL;
	if (!said)
		return -1;
	steps = engine_image_history(said, door_text(doc, "Id"));
	json_array_foreach (steps, i, step) {
		json_t *row = step_of(step, a);

		if (door_on(a, "quiet"))
			printf("%s\n", door_text(row, "ID"));
		json_array_append_new(rows, row);
	}
	return door_on(a, "quiet") ? 0 : door_rows(door_value(a, "format"), rows, heads, 5, e);
}

static int history_main(const struct command *self, int argc, char **argv)
{
	return door_do(self, argc, argv, 1, 1, history);
}

static const struct opt history_options[] = {
	{ "format", 0, OPT_VALUE, "string", "table, json, or a Go template", DOOR_TAKEN },
	{ "human", 'H', OPT_FLAG, NULL, "Print sizes in human readable format (default true)",
	  DOOR_TAKEN },
	{ "no-trunc", 0, OPT_FLAG, NULL, "Don't truncate output", DOOR_TAKEN },
	{ "platform", 0, OPT_VALUE, "string", "Show history for the given platform", DOOR_IGNORED },
	{ "quiet", 'q', OPT_FLAG, NULL, "Only show image IDs", DOOR_TAKEN },
};

const struct command door_history = {
	.name = "history",
	.args = "[OPTIONS] IMAGE",
	.summary = "Show the history of an image",
	.opts = history_options,
	.opt_count = ARRAY_LEN(history_options),
	.complete = COMPLETE_IMAGE,
	.run = history_main,
};
