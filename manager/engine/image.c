/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/image.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/mem.h"
#include "manager/engine/accept.h"
#include "manager/engine/id.h"
#include "manager/engine/view.h"
#include "rootfs/store/change.h"

#define CHANGES_MAX 64

static const char *text_of(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

/* The repository of a name, which ends at the colon of its tag: that of a port has a slash behind
 * it. */
static int repo_length(const char *name)
{
	const char *colon = strrchr(name, ':');

	return colon && !strchr(colon, '/') ? (int)(colon - name) : (int)strlen(name);
}

int engine_image_ref(const char *repo, const char *tag, char *ret, size_t n)
{
	const char *sep = !tag || !tag[0] ? "" : strchr(tag, ':') ? "@" : ":";

	return snprintf(ret, n, "%s%s%s", repo, sep, sep[0] ? tag : "") < (int)n ? 0 : -1;
}

const char *engine_image_tagged(const char *name, char *room, size_t n)
{
	if (strchr(name, '@') || name[repo_length(name)])
		return name;
	snprintf(room, n, "%s:latest", name);
	return room;
}

static json_t *digest_name(const char *name, const char *digest)
{
	return json_sprintf("%.*s@%s", repo_length(name), name, digest);
}

/* ---- the list ----------------------------------------------------------------------------- */

static json_int_t created_of(const json_t *item)
{
	int64_t t = engine_time(text_of(item, "created"));

	return t ? (json_int_t)t : json_integer_value(json_object_get(item, "imported"));
}

static json_t *find_id(const json_t *all, const char *id)
{
	json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)all, i, one)
		if (!strcmp(text_of(one, "Id"), id))
			return one;
	return NULL;
}

static json_t *add_new(json_t *all, const json_t *item)
{
	const json_t *size = json_object_get(item, "size"),
		     *labels = json_object_get(item, "labels");
	json_t *one = json_pack("{s:s,s:s,s:[],s:[],s:I,s:I,s:I,s:o,s:i,s:i}", "Id",
				text_of(item, "digest"), "ParentId", "", "RepoTags", "RepoDigests",
				"Created", created_of(item), "Size", json_integer_value(size),
				"VirtualSize", json_integer_value(size), "Labels",
				json_is_object(labels) ? json_deep_copy(labels) : json_object(),
				"Containers", -1, "SharedSize", -1);

	json_array_append_new(all, one);
	return one;
}

/* Docker's "reference": a pattern for the name, with its tag or without. */
static int refers(const json_t *list, const char *name)
{
	char repo[300];
	const json_t *one;
	size_t i;

	snprintf(repo, sizeof(repo), "%.*s", repo_length(name), name);
	json_array_foreach((json_t *)(size_t)list, i, one) {
		const char *want = json_string_value(one);

		if (!fnmatch(want, name, FNM_PATHNAME) || !fnmatch(want, repo, FNM_PATHNAME))
			return 1;
	}
	return 0;
}

/* The seconds when an image of the list was made, by its name or the start of its id. */
static int find_created(const json_t *list, const char *name, json_int_t *ret, struct err *e)
{
	char room[300];
	const char *whole = engine_image_tagged(name, room, sizeof(room));
	const json_t *item;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, item) {
		const char *digest = text_of(item, "digest"), *colon = strchr(digest, ':');
		const size_t n = strlen(name);

		if (!strcmp(text_of(item, "name"), whole) ||
		    (n >= 4 && (!strncmp(digest, name, n) ||
				(colon && !strncmp(colon + 1, name, n))))) {
			*ret = created_of(item);
			return 0;
		}
	}
	return err_set(e, ERR_NOT_FOUND, "No such image: %.200s", whole);
}

/* The images that before and since name, as the seconds when they were made. */
static int resolve(const json_t *list, json_t *filters, struct err *e)
{
	static const char *const keys[] = { "before", "since" };
	json_int_t when;
	size_t k, i;

	for (k = 0; k < ARRAY_LEN(keys); k++) {
		json_t *values = json_object_get(filters, keys[k]), *one;

		json_array_foreach(values, i, one) {
			if (find_created(list, json_string_value(one), &when, e) < 0)
				return -1;
			json_array_set_new(values, i, json_integer(when));
		}
	}
	return 0;
}

int engine_image_kept_by(const json_t *filters, const json_t *item)
{
	const time_t made = (time_t)created_of(item);
	char text[40];
	struct tm tm;

	gmtime_r(&made, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return !engine_filters_prune(filters, json_object_get(item, "labels"), text);
}

/* filters: of resolve(). */
static int is_wanted(const json_t *filters, const json_t *item)
{
	const json_t *names = json_object_get(filters, "reference"), *one;
	const json_int_t made = created_of(item);
	size_t i;

	json_array_foreach(json_object_get(filters, "before"), i, one)
		if (made >= json_integer_value(one))
			return 0;
	json_array_foreach(json_object_get(filters, "since"), i, one)
		if (made <= json_integer_value(one))
			return 0;
	return !engine_image_kept_by(filters, item) &&
	       (!json_array_size(names) || refers(names, text_of(item, "name")));
}

int engine_image_is_dangling(const json_t *list, const char *digest)
{
	const json_t *item;
	int unnamed = 0;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, item) {
		if (strcmp(text_of(item, "digest"), digest))
			continue;
		if (!engine_image_is_unnamed(text_of(item, "name")))
			return 0;
		unnamed = 1;
	}
	return unnamed;
}

json_t *engine_image_list(const json_t *list, const json_t *filters, struct err *e)
{
	autojson json_t *wanted = json_deep_copy(filters);
	const int choice = engine_accepted_bool(filters, "dangling", -1);
	json_t *all, *one;
	const json_t *item;
	size_t i;

	if (engine_accept(ENGINE_IMAGES, filters, e) < 0 || resolve(list, wanted, e) < 0)
		return NULL;
	all = json_array();
	json_array_foreach((json_t *)(size_t)list, i, item) {
		const char *name = text_of(item, "name"), *digest = text_of(item, "digest");

		if (!is_wanted(wanted, item) || (choice >= 0 && choice != engine_image_is_dangling(list, digest)))
			continue;
		one = find_id(all, digest);
		if (!one)
			one = add_new(all, item);
		if (engine_image_is_unnamed(name))
			continue;
		json_array_append_new(json_object_get(one, "RepoTags"), json_string(name));
		json_array_append_new(json_object_get(one, "RepoDigests"),
				      digest_name(name, digest));
	}
	return all;
}

/* ---- one --------------------------------------------------------------------------------- */

static void add_names(json_t *doc, const json_t *list, const char *digest)
{
	json_t *tags = json_array(), *digests = json_array();
	const json_t *item;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, item) {
		const char *name = text_of(item, "name");

		if (strcmp(text_of(item, "digest"), digest) || engine_image_is_unnamed(name))
			continue;
		json_array_append_new(tags, json_string(name));
		json_array_append_new(digests, digest_name(name, digest));
	}
	json_object_set_new(doc, "RepoTags", tags);
	json_object_set_new(doc, "RepoDigests", digests);
}

static json_t *created_text(const json_t *record)
{
	const char *created = text_of(record, "created");

	return json_string(created[0] ? created : ENGINE_NEVER);
}

/* Of docker commit -m: the comment of the last step. */
static const char *last_comment(const json_t *whole)
{
	const json_t *history = json_object_get(whole, "history");

	return text_of(json_array_get(history, json_array_size(history) - 1), "comment");
}

/* With every member that Docker's has: templates of clients name those that an image leaves out. */
static json_t *whole_config(const json_t *config)
{
	json_t *c = json_is_object(config) ? json_deep_copy(config) : json_object();
	autojson json_t *unsaid = json_pack(
		"{s:s,s:s,s:s,s:b,s:b,s:b,s:b,s:b,s:b,s:n,s:n,s:s,s:n,s:s,s:n,s:n,s:n}", "Hostname",
		"", "Domainname", "", "User", "", "AttachStdin", 0, "AttachStdout", 0,
		"AttachStderr", 0, "Tty", 0, "OpenStdin", 0, "StdinOnce", 0, "Env", "Cmd", "Image",
		"", "Volumes", "WorkingDir", "", "Entrypoint", "OnBuild", "Labels");

	json_object_update_missing(c, unsaid);
	return c;
}

json_t *engine_image_inspect(const json_t *record, const json_t *list)
{
	const json_t *whole = json_object_get(record, "image_config"),
		     *config = json_object_get(whole, "config");
	const json_t *size = json_object_get(record, "size");
	const char *arch = text_of(whole, "architecture"),
		   *platform = strchr(text_of(record, "platform"), '/');
	json_t *diffs = json_object_get(json_object_get(whole, "rootfs"), "diff_ids");
	json_t *doc =
		json_pack("{s:s,s:s,s:s,s:o,s:s,s:s,s:s,s:s,s:I,s:I,s:O?,s:{s:s,s:O?},s:{s:s,s:n}}",
			  "Id", text_of(record, "digest"), "Parent", text_of(record, "parent"), "Comment",
			  last_comment(whole), "Created",
			  created_text(record), "DockerVersion", "", "Author",
			  text_of(whole, "author"), "Architecture",
			  arch[0]    ? arch
			  : platform ? platform + 1
				     : "amd64",
			  "Os", "linux", "Size", json_integer_value(size), "VirtualSize",
			  json_integer_value(size), "Config", config, "RootFS", "Type", "layers",
			  "Layers", diffs, "GraphDriver", "Name", "overlay2", "Data");

	json_object_set_new(doc, "Config", whole_config(config));
	add_names(doc, list, text_of(record, "digest"));
	return doc;
}

json_t *engine_image_history(const json_t *steps, const char *id)
{
	json_t *all = json_array();
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)steps, i, one) {
		const json_t *size = json_object_get(one, "size");

		json_array_append_new(
			all,
			json_pack("{s:s,s:I,s:s,s:n,s:I,s:s}", "Id", i ? "<missing>" : id,
				  "Created", (json_int_t)engine_time(text_of(one, "created")),
				  "CreatedBy", text_of(one, "created_by"), "Tags", "Size",
				  json_integer_value(size), "Comment", text_of(one, "comment")));
	}
	return all;
}

int engine_image_change(json_t *words, const char *change, struct err *e)
{
	autojson json_t *trial = json_object();

	if (json_array_size(words) == CHANGES_MAX)
		return err_set(e, ERR_INVALID, "more than %d changes", CHANGES_MAX);
	if (change_apply(trial, change, e) < 0)
		return -1;
	return json_array_append_new(words, json_sprintf("--change=%s", change)) < 0 ? err_nomem(e) : 0;
}

/* ---- without a name ------------------------------------------------------------------------- */

/* A registry of this name cannot be (RFC 6761), so that no client's image has it. */
#define UNNAMED "docker.invalid/unnamed:"
#define UNNAMED_DIGITS 24

int engine_image_new_name(char *ret, size_t n, struct err *e)
{
	char digits[ENGINE_ID];

	if (engine_new_id(digits) < 0)
		return err_set(e, ERR_INTERNAL, "no random bytes for the name of an image");
	snprintf(ret, n, UNNAMED "%.*s", UNNAMED_DIGITS, digits);
	return 0;
}

int engine_image_is_unnamed(const char *name)
{
	return !strncmp(name, UNNAMED, strlen(UNNAMED));
}

/* ---- files ---------------------------------------------------------------------------------- */

uint32_t engine_go_mode(unsigned mode)
{
	uint32_t m = mode & 0777;

	m |= S_ISDIR(mode) ? 1u << 31 : 0;
	m |= S_ISLNK(mode) ? 1u << 27 : 0;
	m |= S_ISBLK(mode) || S_ISCHR(mode) ? 1u << 26 : 0;
	m |= S_ISFIFO(mode) ? 1u << 25 : 0;
	m |= S_ISSOCK(mode) ? 1u << 24 : 0;
	m |= S_ISCHR(mode) ? 1u << 21 : 0;
	m |= mode & S_ISUID ? 1u << 23 : 0;
	m |= mode & S_ISGID ? 1u << 22 : 0;
	m |= mode & S_ISVTX ? 1u << 20 : 0;
	return m;
}
