/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/image.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/mem.h"
#include "manager/engine/filters.h"
#include "manager/engine/name.h"
#include "manager/engine/view.h"
#include "manager/ops/call.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/change.h"
#include "rootfs/store/image.h"

/* ---- lists and documents ---- */

#define CHANGES_MAX 64

static const char *image_item_text(const json_t *obj, const char *key)
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

int engine_image_repo(const char *name)
{
	const char *at = strchr(name, '@');

	return at ? (int)(at - name) : repo_length(name);
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

/* The part in front of a name that is kept short: "x" is "docker.io/library/x". */
static const char *domain_of(const char *name)
{
	const size_t n = strcspn(name, "/");

	if (!name[n])
		return "docker.io/library/";
	return strcspn(name, ".:") < n || !strncmp(name, "localhost/", 10) ? "" : "docker.io/";
}

/* Puts text among the others, once, in the order of whole names, as dockerd has them. */
static void insert_name(json_t *names, json_t *text)
{
	const char *name = json_string_value(text), *other;
	char whole[2][REF_NAME_MAX + DIGEST_SIZE + 20];
	size_t i, n = json_array_size(names);
	int order = -1;

	snprintf(whole[0], sizeof(whole[0]), "%s%s", name ? domain_of(name) : "", name ? name : "");
	for (i = 0; i < n && order < 0; i++) {
		other = json_string_value(json_array_get(names, i));
		snprintf(whole[1], sizeof(whole[1]), "%s%s", domain_of(other), other);
		order = strcmp(whole[1], whole[0]);
	}
	if (order == 0)
		json_decref(text);
	else
		json_array_insert_new(names, order > 0 ? i - 1 : n, text);
}

/* ---- the list ----------------------------------------------------------------------------- */

static json_int_t image_created(const json_t *item)
{
	int64_t t = engine_time(image_item_text(item, "created"));

	return t ? (json_int_t)t : json_integer_value(json_object_get(item, "imported"));
}

/* The same in nanoseconds: images are made within a second of each other. */
static json_int_t image_created_ns(const json_t *item)
{
	int64_t t = engine_time_ns(image_item_text(item, "created"));

	return t ? (json_int_t)t : json_integer_value(json_object_get(item, "imported")) * 1000000000;
}

static json_t *find_id(const json_t *all, const char *id)
{
	json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)all, i, one)
		if (!strcmp(image_item_text(one, "Id"), id))
			return one;
	return NULL;
}

static json_t *add_new(json_t *all, const json_t *item)
{
	const json_t *size = json_object_get(item, "size"),
		     *labels = json_object_get(item, "labels");
	json_t *one = json_pack("{s:s,s:s,s:[],s:[],s:I,s:I,s:I,s:o,s:i,s:i}", "Id",
				image_item_text(item, "digest"), "ParentId", "", "RepoTags", "RepoDigests",
				"Created", image_created(item), "Size", json_integer_value(size),
				"VirtualSize", json_integer_value(size), "Labels",
				json_is_object(labels) ? json_deep_copy(labels) : json_object(),
				"Containers", -1, "SharedSize", -1);

	json_array_append_new(all, one);
	return one;
}

/* Docker's "reference": a pattern for the name, with its tag or without. */
static int list_item_refers(const json_t *list, const char *name)
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

/* The time when an image of the list was made, by its name or the start of its id. */
static int find_created(const json_t *list, const char *name, json_int_t *ret, struct err *e)
{
	char room[300];
	const char *whole = engine_image_tagged(name, room, sizeof(room));
	const json_t *item;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, item) {
		const char *digest = image_item_text(item, "digest"), *colon = strchr(digest, ':');
		const size_t n = strlen(name);

		if (!strcmp(image_item_text(item, "name"), whole) ||
		    (n >= 4 && (!strncmp(digest, name, n) ||
				(colon && !strncmp(colon + 1, name, n))))) {
			*ret = image_created_ns(item);
			return 0;
		}
	}
	return err_set(e, ERR_NOT_FOUND, "No such image: %.200s", whole);
}

/* The images that before and since name, as the times when they were made. */
static int resolve_image_filters(const json_t *list, json_t *filters, struct err *e)
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
	const time_t made = (time_t)image_created(item);
	char text[40];
	struct tm tm;

	gmtime_r(&made, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return !engine_filters_prune(filters, json_object_get(item, "labels"),
				     engine_time(image_item_text(item, "created")) ? image_item_text(item, "created") : text);
}

/* filters: of resolve_image_filters(). */
static int is_image_wanted(const json_t *filters, const json_t *item)
{
	const json_t *names = json_object_get(filters, "reference"), *one;
	const json_int_t made = image_created_ns(item);
	size_t i;

	json_array_foreach(json_object_get(filters, "before"), i, one)
		if (made >= json_integer_value(one))
			return 0;
	json_array_foreach(json_object_get(filters, "since"), i, one)
		if (made <= json_integer_value(one))
			return 0;
	return !engine_image_kept_by(filters, item) &&
	       (!json_array_size(names) || list_item_refers(names, image_item_text(item, "name")));
}

int engine_image_is_dangling(const json_t *list, const char *digest)
{
	const json_t *item;
	int unnamed = 0;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, item) {
		if (strcmp(image_item_text(item, "digest"), digest))
			continue;
		if (!engine_image_is_unnamed(image_item_text(item, "name")))
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

	if (engine_accept(ENGINE_IMAGES, filters, e) < 0 || resolve_image_filters(list, wanted, e) < 0)
		return NULL;
	all = json_array();
	json_array_foreach((json_t *)(size_t)list, i, item) {
		const char *name = image_item_text(item, "name"), *digest = image_item_text(item, "digest");

		if (!is_image_wanted(wanted, item) || (choice >= 0 && choice != engine_image_is_dangling(list, digest)))
			continue;
		one = find_id(all, digest);
		if (!one)
			one = add_new(all, item);
		if (engine_image_is_unnamed(name))
			continue;
		insert_name(json_object_get(one, "RepoTags"), json_string(name));
		insert_name(json_object_get(one, "RepoDigests"), digest_name(name, digest));
	}
	return all;
}

/* ---- one --------------------------------------------------------------------------------- */

static void add_image_names(json_t *doc, const json_t *list, const char *digest)
{
	json_t *tags = json_array(), *digests = json_array();
	const json_t *item;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, item) {
		const char *name = image_item_text(item, "name");

		if (strcmp(image_item_text(item, "digest"), digest) || engine_image_is_unnamed(name))
			continue;
		insert_name(tags, json_string(name));
		insert_name(digests, digest_name(name, digest));
	}
	json_object_set_new(doc, "RepoTags", tags);
	json_object_set_new(doc, "RepoDigests", digests);
}

static json_t *created_text(const json_t *record)
{
	const char *created = image_item_text(record, "created");

	return json_string(created[0] ? created : ENGINE_NEVER);
}

/* Of docker commit -m: the comment of the last step. */
static const char *last_comment(const json_t *whole)
{
	const json_t *history = json_object_get(whole, "history");

	return image_item_text(json_array_get(history, json_array_size(history) - 1), "comment");
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
	const char *arch = image_item_text(whole, "architecture"),
		   *platform = strchr(image_item_text(record, "platform"), '/');
	json_t *diffs = json_object_get(json_object_get(whole, "rootfs"), "diff_ids");
	json_t *doc =
		json_pack("{s:s,s:s,s:s,s:o,s:s,s:s,s:s,s:s,s:I,s:I,s:O?,s:{s:s,s:O?},s:{s:s,s:n}}",
			  "Id", image_item_text(record, "digest"), "Parent", image_item_text(record, "parent"), "Comment",
			  last_comment(whole), "Created",
			  created_text(record), "DockerVersion", "", "Author",
			  image_item_text(whole, "author"), "Architecture",
			  arch[0]    ? arch
			  : platform ? platform + 1
				     : "amd64",
			  "Os", "linux", "Size", json_integer_value(size), "VirtualSize",
			  json_integer_value(size), "Config", config, "RootFS", "Type", "layers",
			  "Layers", diffs, "GraphDriver", "Name", "overlay2", "Data");

	json_object_set_new(doc, "Config", whole_config(config));
	add_image_names(doc, list, image_item_text(record, "digest"));
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
				  "Created", (json_int_t)engine_time(image_item_text(one, "created")),
				  "CreatedBy", image_item_text(one, "created_by"), "Tags", "Size",
				  json_integer_value(size), "Comment", image_item_text(one, "comment")));
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

#define NAME_ROOM 408 /* of a name with its tag */

/* ---- load ---- */

json_t *engine_load_call(struct err *e)
{
	char name[NAME_ROOM];
	json_t *call;

	if (engine_image_new_name(name, sizeof(name), e) < 0)
		return NULL;
	call = call_of("image load", NULL);
	call_text(call, "unnamed", name);
	call_flag(call, "quiet");
	return call;
}

int engine_save_names(int store_fd, const char *name, json_t *ret, struct err *e)
{
	const size_t n = strlen(name), before = json_array_size(ret);
	autojson json_t *list = NULL;
	const json_t *item;
	size_t i;

	if (!strchr(name, '@') && !name[repo_length(name)]) {
		if (!(list = catalog_list(store_fd, 0, e)))
			return -1;
		json_array_foreach (list, i, item) {
			const char *its = image_item_text(item, "name");

			if (!strncmp(its, name, n) && its[n] == ':' && (size_t)repo_length(its) == n)
				json_array_append_new(ret, json_string(its));
		}
	}
	return json_array_size(ret) == before && json_array_append_new(ret, json_string(name)) < 0 ? err_nomem(e) : 0;
}

json_t *engine_load_line(const json_t *image)
{
	const char *name = image_item_text(image, "name");

	return engine_image_is_unnamed(name) ? json_sprintf("Loaded image ID: %s", image_item_text(image, "digest")) :
					       json_sprintf("Loaded image: %s", name);
}

/* ---- import ------------------------------------------------------------------------------------ */

/* The image's name: Docker takes a repository and a tag, or neither. */
static int import_name(const struct engine_import *i, char *ret, size_t n, struct err *e)
{
	if (!i->repo || !i->repo[0])
		return engine_image_new_name(ret, n, e);
	return engine_image_ref(i->repo, i->tag, ret, n) < 0 ? err_set(e, ERR_INVALID, "invalid reference format") : 0;
}

json_t *engine_import_call(const struct engine_import *i, struct err *e)
{
	char name[NAME_ROOM], platform[ENGINE_PLATFORM];
	autojson json_t *words = json_array();
	const json_t *change;
	json_t *call;
	size_t k;

	if (strcmp(i->source, "-")) {
		err_set(e, ERR_INVALID, "an import from %.200s is not made here: send the archive as the body", i->source);
		return NULL;
	}
	if (engine_platform_local(i->platform, platform, e) < 0 || import_name(i, name, sizeof(name), e) < 0)
		return NULL;
	json_array_foreach ((json_t *)(size_t)i->changes, k, change)
		if (json_string_length(change) && engine_image_change(words, json_string_value(change), e) < 0)
			return NULL;
	call = call_of("image import", NULL);
	call_text(call, "message", i->message && i->message[0] ? i->message : NULL);
	call_text(call, "platform", platform[0] ? platform : NULL);
	call_words(call, words);
	call_operand(call, "-");
	call_operand(call, name);
	return call;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* The digest of the image that has this name, "" without one; *ret_names: how many names that image has. */
static const char *digest_of_name(const json_t *list, const char *name, size_t *ret_names)
{
	const char *digest = "";
	const json_t *item;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, item)
		if (!strcmp(image_item_text(item, "name"), name))
			digest = image_item_text(item, "digest");
	*ret_names = 0;
	json_array_foreach ((json_t *)(size_t)list, i, item)
		*ret_names += !strcmp(image_item_text(item, "digest"), digest);
	return digest;
}

int engine_image_keep(const struct engine_berth *b, int store_fd, const char *name, const char *digest, struct err *e)
{
	char room[NAME_ROOM], fresh[80];
	autojson json_t *list = catalog_list(store_fd, 0, e), *said = NULL;
	const char *old;
	size_t names;

	if (!list)
		return -1;
	old = digest_of_name(list, engine_image_tagged(name, room, sizeof(room)), &names);
	if (!old[0] || names > 1 || (digest && !strcmp(old, digest)))
		return 0;
	if (engine_image_new_name(fresh, sizeof(fresh), e) < 0)
		return -1;
	said = engine_do(b, call_of("image tag", old, fresh, NULL), e);
	return said ? 0 : -1;
}

int engine_image_tag(const struct engine_berth *b, int store_fd, const char *name, const char *ref, struct err *e)
{
	autojson json_t *record = image_record(store_fd, name, e), *said = NULL;

	if (!record || engine_image_keep(b, store_fd, ref, image_item_text(record, "digest"), e) < 0)
		return -1;
	said = engine_do(b, call_of("image tag", name, ref, NULL), e);
	return said ? 0 : -1;
}

/* Docker's conflict of an image that goes by its id, where containers have it: one that runs is never overruled. */
static int check_users(const json_t *containers, const char *digest, int force, const char *id, struct err *e)
{
	const json_t *one, *stopped = NULL;
	size_t i;

	json_array_foreach ((json_t *)(size_t)containers, i, one) {
		const char *state = image_item_text(one, "State");

		if (strcmp(image_item_text(one, "ImageID"), digest))
			continue;
		if (!strcmp(state, "running") || !strcmp(state, "paused") || !strcmp(state, "restarting"))
			return err_set(e, ERR_BUSY, "conflict: unable to delete %.12s (cannot be forced) - image is being used by running "
				       "container %.12s", id, image_item_text(one, "Id"));
		stopped = one;
	}
	return !stopped || force ? 0 :
	       err_set(e, ERR_BUSY, "conflict: unable to delete %.12s (must be forced) - image is being used by stopped container %.12s",
		       id, image_item_text(stopped, "Id"));
}

/* The first container that has the image, "" if none has. */
static const char *user_of(const json_t *containers, const char *digest)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)containers, i, one)
		if (!strcmp(image_item_text(one, "ImageID"), digest))
			return image_item_text(one, "Id");
	return "";
}

int engine_image_removable(int store_fd, const json_t *containers, const char *name, const char *digest, int force, struct err *e)
{
	autojson json_t *list = catalog_list(store_fd, 0, e), *repos = json_object();
	const char *id = strncmp(digest, "sha256:", 7) ? digest : digest + 7, *user = user_of(containers, digest);
	char room[NAME_ROOM];
	const json_t *item;
	size_t i, names;

	if (!list)
		return -1;
	if (digest_of_name(list, engine_image_tagged(name, room, sizeof(room)), &names)[0] || strchr(name, '@'))
		/* one of its names alone goes, and what has the image may go on */
		return force || names > 1 || !user[0] ? 0 :
		       err_set(e, ERR_BUSY, "conflict: unable to remove repository reference \"%.200s\" (must force) - container %.12s is "
			       "using its referenced image %.12s", name, user, id);
	json_array_foreach (list, i, item) {
		const char *its = image_item_text(item, "name");

		if (!strcmp(image_item_text(item, "digest"), digest) && !engine_image_is_unnamed(its))
			json_object_setn_new(repos, its, (size_t)repo_length(its), json_true());
	}
	if (check_users(containers, digest, 1, id, e) < 0)
		return -1;
	if (!force && json_object_size(repos) > 1)
		return err_set(e, ERR_BUSY, "conflict: unable to delete %.12s (must be forced) - image is referenced in multiple repositories",
			       id);
	return check_users(containers, digest, force, id, e);
}

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

/* ---- platforms ---- */

/* The names that stand alone for a system or a machine. */
static const char *const systems[] = { "linux", "windows", "darwin", "freebsd", "macos", "solaris", "netbsd", "openbsd" };
static const char *const machines[] = { "amd64", "arm64", "arm", "386", "ppc64le", "s390x", "riscv64", "mips64le", "mips64", "loong64" };
static const char *const others[][2] = { { "x86_64", "amd64" }, { "x86-64", "amd64" }, { "aarch64", "arm64" }, { "i386", "386" } };

static int is_one(const char *word, const char *const *list, size_t n)
{
	while (n--)
		if (!strcmp(word, list[n]))
			return 1;
	return 0;
}

static const char *machine_of(const char *word)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(others); i++)
		if (!strcmp(word, others[i][0]))
			return others[i][1];
	return word;
}

static int is_component(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!isalnum((unsigned char)p[i]) && p[i] != '_' && p[i] != '-' && p[i] != '.')
			return 0;
	return n > 0;
}

static int check_components(const char *text, int *ret_count, struct err *e)
{
	const char *p = text;

	for (*ret_count = 1;; p++, ++*ret_count) {
		const size_t n = strcspn(p, "/");

		if (!is_component(p, n))
			return err_set(e, ERR_INVALID,
				       "\"%.*s\" is an invalid component of \"%.60s\": platform specifier component must match "
				       "\"^[A-Za-z0-9_.-]+$\": invalid argument", (int)(n < 60 ? n : 60), p, text);
		p += n;
		if (!*p)
			return 0;
	}
}

int engine_platform(const char *text, char ret[ENGINE_PLATFORM], struct err *e)
{
	char word[ENGINE_PLATFORM - 40], *slash;
	struct utsname u = { 0 };
	int count;
	size_t i;

	ret[0] = '\0';
	if (!text || !text[0])
		return 0;
	if (check_components(text, &count, e) < 0)
		return -1;
	if (count > 3 || strlen(text) >= sizeof(word))
		return err_set(e, ERR_INVALID, "\"%.60s\": cannot parse platform specifier: invalid argument", text);
	for (i = 0; text[i]; i++)
		word[i] = (char)tolower((unsigned char)text[i]);
	word[i] = '\0';
	slash = strchr(word, '/');
	if (slash) {
		char *variant = strchr(slash + 1, '/');

		*slash++ = '\0';
		if (variant)
			*variant++ = '\0';
		snprintf(ret, ENGINE_PLATFORM, "%s/%s%s%s", word, machine_of(slash), variant ? "/" : "", variant ? variant : "");
		return 0;
	}
	uname(&u);
	if (is_one(word, systems, ARRAY_LEN(systems)))
		snprintf(ret, ENGINE_PLATFORM, "%s/%.20s", word, machine_of(u.machine));
	else if (is_one(machine_of(word), machines, ARRAY_LEN(machines)))
		snprintf(ret, ENGINE_PLATFORM, "linux/%s", machine_of(word));
	else
		return err_set(e, ERR_INVALID, "\"%.60s\": unknown operating system or architecture: invalid argument", text);
	return 0;
}

int engine_platform_local(const char *text, char ret[ENGINE_PLATFORM], struct err *e)
{
	if (engine_platform(text, ret, e) < 0)
		return -1;
	return ret[0] && strncmp(ret, "linux/", 6) ? err_set(e, ERR_INVALID, "operating system is not supported") : 0;
}

/* ---- prune ---- */

struct pruner {
	const json_t *filters;
	int dangling; /* only images without a name */
	json_int_t *bytes;
	const struct engine_berth *berth;
};

static const json_t *find_prunable_name(const json_t *list, const char *name)
{
	const json_t *item;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, item) {
		const char *its = json_string_value(json_object_get(item, "name"));

		if (its && !strcmp(its, name))
			return item;
	}
	return NULL;
}

static json_int_t freed_bytes(const json_t *said)
{
	return json_integer_value(json_object_get(json_object_get(said, "freed"), "bytes"));
}

/* The images whose last name is among the removed, by their digests. */
static json_t *deleted_of(int store_fd, const json_t *before, const json_t *removed)
{
	struct err ignored;
	autojson json_t *after = catalog_list(store_fd, 0, &ignored), *there = json_object();
	json_t *all = json_array();
	const json_t *one;
	size_t i;

	json_array_foreach (after, i, one)
		json_object_set_new(there, json_string_value(json_object_get(one, "digest")), json_true());
	json_array_foreach ((json_t *)(size_t)removed, i, one) {
		json_t *digest = json_object_get(find_prunable_name(before, json_string_value(one)), "digest");

		if (digest && !json_object_get(there, json_string_value(digest))) {
			json_array_append(all, digest);
			json_object_set_new(there, json_string_value(digest), json_true());
		}
	}
	return all;
}

/* One that a container took into use meanwhile stays, and one that is gone is no failure. */
static int remove_image_name(const struct pruner *p, const char *name, json_t *removed, struct err *e)
{
	struct err why;
	autojson json_t *said = engine_do(p->berth, call_of("image rm", name, NULL), &why);

	if (said) {
		*p->bytes += freed_bytes(said);
		return json_array_append_new(removed, json_string(name)) < 0 ? err_nomem(e) : 0;
	}
	if (why.code == ERR_BUSY || why.code == ERR_NOT_FOUND)
		return 0;
	*e = why;
	return -1;
}

/* Of the names that nothing uses, those that the filters do not spare. */
static int remove_unused(const struct pruner *p, const json_t *list, json_t *removed,
			 struct err *e)
{
	autojson json_t *unused = NULL;
	json_t *look = call_of("image prune", NULL);
	const json_t *one;
	size_t i;

	call_flag(look, "all");
	call_flag(look, "dry-run");
	unused = engine_look(p->berth, look, e);
	if (!unused)
		return -1;
	json_array_foreach (json_object_get(unused, "would_remove"), i, one) {
		const json_t *item = find_prunable_name(list, json_string_value(one));

		if (item && (!p->dangling || engine_image_is_unnamed(json_string_value(one))) &&
		    !engine_image_kept_by(p->filters, item) &&
		    remove_image_name(p, json_string_value(one), removed, e) < 0)
			return -1;
	}
	return 0;
}

json_t *engine_image_prune(int store_fd, const json_t *filters, const struct engine_berth *b,
			   struct err *e)
{
	json_int_t bytes = 0;
	const struct pruner p = { filters, engine_accepted_bool(filters, "dangling", 1), &bytes, b };
	autojson json_t *list = NULL, *removed = json_array(), *said = NULL;

	if (engine_accept(ENGINE_PRUNE_IMAGES, filters, e) < 0)
		return NULL;
	if (!(list = catalog_list(store_fd, 0, e)) || remove_unused(&p, list, removed, e) < 0)
		return NULL;
	said = engine_do(b, call_of("image prune", NULL), e);
	return said ? json_pack("{s:O,s:o,s:I}", "removed", removed, "deleted", deleted_of(store_fd, list, removed),
				"bytes", bytes + freed_bytes(said)) :
		      NULL;
}

/* ---- commit ---- */

/* The request's, where it says something; else the container's. */
static const json_t *commit_config_member(const struct engine_view *v, const json_t *config, const char *key)
{
	const json_t *own = json_object_get(config, key);

	return json_array_size(own) || json_object_size(own) || json_string_length(own) ?
		       own :
		       engine_asked(v, key);
}

static int add_commit_word(json_t *words, json_t *word, struct err *e)
{
	return !word || json_array_append_new(words, word) < 0 ? err_nomem(e) : 0;
}

/* Of an option that is given once: whether changes have it. */
static int is_changed(const json_t *changes, const char *option)
{
	const size_t n = strlen(option);
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)changes, i, one)
		if (!strncmp(json_string_value(one), option, n))
			return 1;
	return 0;
}

static int add_lists(json_t *words, const json_t *env, const json_t *labels, struct err *e)
{
	const json_t *one;
	const char *key;
	json_t *value;
	size_t i;

	json_array_foreach ((json_t *)(size_t)env, i, one) {
		const char *text = json_string_value(one);

		if (text && text[0] != '=' && strchr(text, '=') &&
		    add_commit_word(words, json_sprintf("--env=%s", text), e) < 0)
			return -1;
	}
	json_object_foreach ((json_t *)(size_t)labels, key, value)
		if (json_is_string(value) && strcmp(key, ENGINE_NAME_LABEL) &&
		    add_commit_word(words, json_sprintf("--label=%s=%s", key, json_string_value(value)), e) < 0)
			return -1;
	return 0;
}

/* A program with its arguments, or none. */
static int add_argv(json_t *words, const char *option, const json_t *argv, struct err *e)
{
	autofree char *text = json_array_size(argv) ? json_dumps(argv, JSON_COMPACT) : NULL;

	return add_commit_word(words, json_sprintf("%s%s", option, text ? text : ""), e);
}

static int add_single(json_t *words, const struct engine_view *v, const json_t *config,
		      const json_t *changes, struct err *e)
{
	static const struct {
		const char *key, *option;
	} texts[] = {{"WorkingDir", "--workdir="}, {"User", "--user="}};
	const json_t *entry = commit_config_member(v, config, "Entrypoint"), *cmd = commit_config_member(v, config, "Cmd");
	size_t i;

	for (i = 0; i < ARRAY_LEN(texts); i++) {
		const char *text = json_string_value(commit_config_member(v, config, texts[i].key));

		if (text && text[0] && !is_changed(changes, texts[i].option) &&
		    add_commit_word(words, json_sprintf("%s%s", texts[i].option, text), e) < 0)
			return -1;
	}
	if (entry && !is_changed(changes, "--entrypoint=") &&
	    add_argv(words, "--entrypoint=", entry, e) < 0)
		return -1;
	/* a program of the container's own took the image's arguments away */
	return (entry || json_array_size(cmd)) && !is_changed(changes, "--cmd=") ?
		       add_argv(words, "--cmd=", cmd, e) :
		       0;
}

json_t *engine_commit_words(const struct engine_view *v, const json_t *config,
			    const json_t *changes, struct err *e)
{
	autojson json_t *words = json_array();

	/* variable by variable and label by label, the later ones count */
	if (!words || add_lists(words, engine_asked(v, "Env"), engine_asked(v, "Labels"), e) < 0 ||
	    add_lists(words, json_object_get(config, "Env"), json_object_get(config, "Labels"), e) <
		    0 ||
	    add_single(words, v, config, changes, e) < 0)
		return NULL;
	if (json_array_extend(words, (json_t *)(size_t)changes) < 0) {
		err_nomem(e);
		return NULL;
	}
	return json_incref(words);
}
