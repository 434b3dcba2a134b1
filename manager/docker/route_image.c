/* SPDX-License-Identifier: Apache-2.0 */
/* Images: look-ups read the store here; changes are made by the berth program. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/docker/imageflow.h"
#include "manager/engine/create.h"
#include "manager/engine/image.h"
#include "manager/engine/view.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/image.h"

#define OUTPUT_MAX (16u << 20)
#define REF_MAX 400

int docker_store(struct http_request *rq, struct err *e)
{
	char path[sizeof(((struct config *)0)->state_dir) + 16];
	struct config c;

	api_config(api_of(rq), &c);
	snprintf(path, sizeof(path), "%s/store", c.state_dir);
	return store_open(path, e);
}

int docker_no_image(struct http_request *rq, const char *name, struct err *e)
{
	char room[REF_MAX];

	if (e->code != ERR_NOT_FOUND)
		return -1;
	return docker_fail(rq, 404, e, "No such image: %.300s",
			   engine_image_tagged(name, room, sizeof(room)));
}

/* ---- look --------------------------------------------------------------------------------- */

static int get_list(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e);
	autoclose int store = filters ? docker_store(rq, e) : -1;
	autojson json_t *list = store < 0 ? NULL : catalog_list(store, 0, e);
	json_t *out = list ? engine_image_list(list, filters, e) : NULL;

	return out ? http_reply_json(rq, 200, out, e) : -1;
}

static int get_one(struct http_request *rq, struct err *e)
{
	const char *name = http_param(rq, "name");
	autoclose int store = docker_store(rq, e);
	autojson json_t *record = store < 0 ? NULL : catalog_inspect(store, name, e), *list = NULL;

	if (!record)
		return store < 0 ? -1 : docker_no_image(rq, name, e);
	list = catalog_list(store, 0, e);
	return list ? http_reply_json(rq, 200, engine_image_inspect(record, list), e) : -1;
}

static int get_history(struct http_request *rq, struct err *e)
{
	const char *name = http_param(rq, "name");
	const char *argv[] = { "berth", "image", "history", "--json", "--", name, NULL };
	autoclose int store = docker_store(rq, e);
	autojson json_t *record = store < 0 ? NULL : catalog_inspect(store, name, e), *steps = NULL;
	const char *id = json_string_value(json_object_get(record, "digest"));

	if (!record)
		return store < 0 ? -1 : docker_no_image(rq, name, e);
	steps = spawn_json(rq, argv, 0, e);
	return steps ? http_reply_json(rq, 200, engine_image_history(steps, id ? id : ""), e) : -1;
}

static int get_search(struct http_request *rq, struct err *e)
{
	return http_reply_json(rq, 200, json_array(), e);
}

/* ---- change ---------------------------------------------------------------------------------- */

static int post_tag(struct http_request *rq, struct err *e)
{
	const char *repo = http_query(rq, "repo"), *name = http_param(rq, "name");
	char ref[REF_MAX];
	const char *argv[] = { "berth", "image", "tag", "--json", "--", name, ref, NULL };

	if (!repo || !repo[0] ||
	    engine_image_ref(repo, http_query(rq, "tag"), ref, sizeof(ref)) < 0)
		return docker_fail(rq, 400, e, "invalid reference format");
	if (spawn_berth(rq, argv, 1, -1, NULL, e) < 0)
		return docker_no_image(rq, name, e);
	return http_reply_empty(rq, 201, e);
}

/* The names that were removed, and with the last of them the image. */
static json_t *removed_of(const json_t *said, const char *digest, int store)
{
	json_t *all = json_array(), *one;
	struct image im = { 0 };
	struct err ignored;
	size_t i;

	json_array_foreach(json_object_get(said, "removed"), i, one)
		json_array_append_new(all, json_pack("{s:O}", "Untagged", one));
	if (digest && image_load(store, digest, &im, &ignored) < 0)
		json_array_append_new(all, json_pack("{s:s}", "Deleted", digest));
	image_release(&im);
	return all;
}

static int delete_one(struct http_request *rq, struct err *e)
{
	const char *name = http_param(rq, "name"),
		   *force = docker_query_flag(rq, "force") ? "--force" : "--";
	const char *argv[] = { "berth",
			       "image",
			       "rm",
			       "--json",
			       force,
			       force[2] ? "--" : name,
			       force[2] ? name : NULL,
			       NULL };
	autoclose int store = docker_store(rq, e);
	autojson json_t *record = store < 0 ? NULL : image_record(store, name, e), *said = NULL;
	const char *digest = json_string_value(json_object_get(record, "digest"));

	if (!record)
		return store < 0 ? -1 : docker_no_image(rq, name, e);
	said = spawn_json(rq, argv, 1, e);
	if (!said && e->code == ERR_BUSY)
		return docker_fail(rq, 409, e,
				   "conflict: unable to remove repository reference \"%.200s\" "
				   "(must force) - a "
				   "container is using its referenced image",
				   name);
	return said ? http_reply_json(rq, 200, removed_of(said, digest, store), e) : -1;
}

static int post_prune(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e), *said = NULL;
	const char *dangling =
		json_string_value(json_array_get(json_object_get(filters, "dangling"), 0));
	int all = dangling && (!strcmp(dangling, "false") || !strcmp(dangling, "0"));
	const char *argv[] = { "berth", "image", "prune", "--json", all ? "--all" : NULL, NULL };
	json_t *gone = json_array(), *one;
	size_t i;

	if (filters && engine_image_prunable(filters, e) < 0) {
		json_decref(gone);
		return -1;
	}
	said = filters ? spawn_json(rq, argv, 1, e) : NULL;
	json_array_foreach(json_object_get(said, "removed"), i, one)
		json_array_append_new(gone, json_pack("{s:O}", "Untagged", one));
	if (!said) {
		json_decref(gone);
		return -1;
	}
	return http_reply_json(rq, 200,
			       json_pack("{s:o,s:I}", "ImagesDeleted", gone, "SpaceReclaimed",
					 json_integer_value(json_object_get(
						 json_object_get(said, "freed"), "bytes"))),
			       e);
}

/* ---- archives ----------------------------------------------------------------------------------
 */

static int check_there(struct http_request *rq, const char *name, struct err *e)
{
	autoclose int store = docker_store(rq, e);
	struct image im = { 0 };
	int r;

	if (store < 0)
		return -1;
	r = image_load(store, name, &im, e);
	image_release(&im);
	return r < 0 ? docker_no_image(rq, name, e) : 0;
}

static int post_push(struct http_request *rq, struct err *e)
{
	const char *tag = http_query(rq, "tag");
	char ref[REF_MAX];

	if (engine_image_ref(http_param(rq, "name"), tag, ref, sizeof(ref)) < 0)
		return docker_fail(rq, 400, e, "invalid reference format");
	return check_there(rq, ref, e) < 0 ? -1 : imageflow_push(rq, e);
}

static int get_save_one(struct http_request *rq, struct err *e)
{
	const char *name = http_param(rq, "name");
	const char *argv[] = { "berth", "image", "save", "--quiet", "--json", "--", name, NULL };

	return check_there(rq, name, e) < 0 ? -1 : spawn_reply(rq, argv, "application/x-tar", e);
}

static int get_save(struct http_request *rq, struct err *e)
{
	const char *argv[HTTP_QUERY_MAX + 7] = {
		"berth", "image", "save", "--quiet", "--json", "--"
	};
	const char *name;
	size_t i;

	for (i = 0; (name = http_query_each(rq, "names", i)); i++) {
		if (check_there(rq, name, e) < 0)
			return -1;
		argv[6 + i] = name;
	}
	return i ? spawn_reply(rq, argv, "application/x-tar", e)
		 : docker_fail(rq, 400, e, "no image names given to save");
}

static int begin_load(struct http_request *rq, struct err *e)
{
	static const char *const argv[] = { "berth", "image", "load", "--json", "--quiet", NULL };

	return imageflow_begin(rq, argv, e);
}

static int post_load(struct http_request *rq, struct err *e)
{
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);
	autojson json_t *said = imageflow_end(rq, e);
	const json_t *one;
	size_t i, n;

	if (!said)
		return -1;
	json_array_foreach(json_object_get(said, "images"), i, one) {
		const char *name = json_string_value(json_object_get(one, "name"));

		if (imageflow_line(&out,
				   json_pack("{s:o}", "stream",
					     json_sprintf("Loaded image: %s\n", name ? name : "")),
				   e) < 0)
			return -1;
	}
	n = out.len;
	return http_reply_data(rq, 200, "application/json", take_ptr(&out.data), n, e);
}

/* ---- commit
 * -------------------------------------------------------------------------------------- */

static int add_changes(struct http_request *rq, const char **argv, size_t *n, char room[][1024],
		       struct err *e)
{
	const char *change;
	size_t i;

	for (i = 0; (change = http_query_each(rq, "changes", i)); i++) {
		if (i == 8 ||
		    !(argv[(*n)++] = engine_image_change(change, room[i], sizeof(room[i]))))
			return docker_fail(rq, 400, e, "change %.100s is not known here", change);
	}
	return 0;
}

#define CONFIG_MAX 100 /* words */

/* What the body says of the image's configuration, as docker-py and dockerode send it. */
static json_t *config_words(const json_t *config, struct err *e)
{
	static const char *const lists[][2] = { { "Entrypoint", "entrypoint" }, { "Cmd", "cmd" } },
			  *const texts[][2] = { { "User", "user" }, { "WorkingDir", "workdir" } };
	json_t *words = json_array(), *list, *v;
	const char *key, *text;
	size_t i;

	for (i = 0; i < ARRAY_LEN(lists); i++) {
		autofree char *json = NULL;

		if (engine_arr(config, lists[i][0], &list, e) < 0)
			goto wrong;
		json = json_array_size(list) ? json_dumps(list, JSON_COMPACT) : NULL;
		if (json)
			json_array_append_new(words, json_sprintf("--%s=%s", lists[i][1], json));
	}
	for (i = 0; i < ARRAY_LEN(texts); i++) {
		text = "";
		if (engine_str(config, texts[i][0], &text, e) < 0)
			goto wrong;
		if (text[0])
			json_array_append_new(words, json_sprintf("--%s=%s", texts[i][1], text));
	}
	if (engine_arr(config, "Env", &list, e) < 0)
		goto wrong;
	for (i = 0; i < json_array_size(list); i++) {
		text = engine_item(list, i, "Env", e);
		if (!text)
			goto wrong;
		json_array_append_new(words, json_sprintf("--env=%s", text));
	}
	if (engine_obj(config, "Labels", &list, e) < 0)
		goto wrong;
	json_object_foreach (list, key, v) {
		text = json_string_value(v);
		json_array_append_new(words, json_sprintf("--label=%s=%s", key, text ? text : ""));
	}
	if (json_array_size(words) <= CONFIG_MAX)
		return words;
	err_set(e, ERR_INVALID, "more than %d words of configuration", CONFIG_MAX);
wrong:
	json_decref(words);
	return NULL;
}

static int commit(struct http_request *rq, const char *id, char *digest, size_t max, struct err *e)
{
	const char *repo = http_query(rq, "repo"), *author = http_query(rq, "author"),
		   *comment = http_query(rq, "comment");
	const char *argv[32 + CONFIG_MAX] = { "berth", "commit", "--json", "--quiet" }, *made;
	char room[8][1024], ref[REF_MAX] = "";
	autojson json_t *said = NULL, *config = config_words(http_json(rq), e);
	const json_t *word;
	size_t n = 4, i;

	if (!config)
		return -1;

	if (!repo || !repo[0] ||
	    engine_image_ref(repo, http_query(rq, "tag"), ref, sizeof(ref)) < 0)
		return docker_fail(rq, 400, e,
				   "an image without a name is not made here: repo is missing");
	if (author && author[0])
		argv[n++] = "--author", argv[n++] = author;
	if (comment && comment[0])
		argv[n++] = "--message", argv[n++] = comment;
	if (http_query(rq, "pause") && !docker_query_flag(rq, "pause"))
		argv[n++] = "--no-pause";
	json_array_foreach (config, i, word)
		argv[n++] = json_string_value(word);
	/* these win */
	if (add_changes(rq, argv, &n, room, e) < 0)
		return -1;
	argv[n++] = "--";
	argv[n++] = id;
	argv[n++] = ref;
	said = spawn_json(rq, argv, 0, e);
	made = json_string_value(json_object_get(said, "digest"));
	if (!made)
		return said ? err_set(e, ERR_INTERNAL, "berth commit named no digest") : -1;
	snprintf(digest, max, "%s", made);
	return 0;
}

static int post_commit(struct http_request *rq, struct err *e)
{
	char digest[200];
	struct box b;
	int r = docker_find_named(&b, rq, http_query(rq, "container"), e);

	if (r == 0)
		r = commit(rq, b.id, digest, sizeof(digest), e);
	box_close(&b);
	return r < 0 ? -1 : http_reply_json(rq, 201, json_pack("{s:s}", "Id", digest), e);
}

const struct http_route docker_image_routes[] = {
	{ "GET", "/images/json", get_list, "list images", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/images/search", get_search, "find images elsewhere: none", HTTP_NONE,
	  HTTP_QUIET },
	{ "GET", "/images/get", get_save, "images as an archive", HTTP_NONE },
	{ "GET", "/images/{name...}/get", get_save_one, "an image as an archive", HTTP_NONE },
	{ "GET", "/images/{name...}/json", get_one, "look at an image", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/images/{name...}/history", get_history, "how an image was made", HTTP_NONE,
	  HTTP_QUIET },
	{ "POST", "/images/create", imageflow_create, "pull an image, or make one of the body",
	  HTTP_RAW, .begin = imageflow_create_begin, .feed = imageflow_feed },
	{ "POST", "/images/load", post_load, "read the images of the body", HTTP_RAW,
	  .begin = begin_load, .feed = imageflow_feed },
	{ "POST", "/images/prune", post_prune, "remove what no image needs", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ "POST", "/images/{name...}/tag", post_tag, "give an image a further name", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ "POST", "/images/{name...}/push", post_push, "send an image to a registry", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ "DELETE", "/images/{name...}", delete_one, "remove an image", HTTP_JSON, HTTP_OPTIONAL },
	{ "POST", "/commit", post_commit, "make an image of a container", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ NULL },
};
