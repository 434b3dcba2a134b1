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
#include "manager/engine/commit.h"
#include "manager/engine/image.h"
#include "manager/engine/imageprune.h"
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
	autoclose int store = docker_store(rq, e);
	autojson json_t *record = store < 0 ? NULL : catalog_inspect(store, name, e), *steps = NULL;
	const char *id = json_string_value(json_object_get(record, "digest"));

	if (!record)
		return store < 0 ? -1 : docker_no_image(rq, name, e);
	steps = spawn_json(rq, call_of("image history", name, NULL), 0, e);
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

	if (!repo || !repo[0] ||
	    engine_image_ref(repo, http_query(rq, "tag"), ref, sizeof(ref)) < 0)
		return docker_fail(rq, 400, e, "invalid reference format");
	if (!strcmp(repo, "sha256") || !strcmp(repo, "sha384") || !strcmp(repo, "sha512"))
		return docker_fail(rq, 400, e, "refusing to create an ambiguous tag using digest algorithm as name");
	if (spawn_berth(rq, call_of("image tag", name, ref, NULL), 1, -1, NULL, e) < 0)
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
		if (!engine_image_is_unnamed(json_string_value(one)))
			json_array_append_new(all, json_pack("{s:O}", "Untagged", one));
	if (digest && image_load(store, digest, &im, &ignored) < 0)
		json_array_append_new(all, json_pack("{s:s}", "Deleted", digest));
	image_release(&im);
	return all;
}

/* Its last name takes the image away, also one that was committed or built before it had that name. */
static void drop_unnamed(struct http_request *rq, int store, const char *digest)
{
	struct err ignored;
	autojson json_t *list = digest ? catalog_list(store, 0, &ignored) : NULL, *said = NULL;

	if (list && engine_image_is_dangling(list, digest))
		said = spawn_json(rq, call_of("image rm", digest, NULL), 1, &ignored);
}

static int delete_one(struct http_request *rq, struct err *e)
{
	const char *name = http_param(rq, "name");
	json_t *call;
	autoclose int store = docker_store(rq, e);
	autojson json_t *record = store < 0 ? NULL : image_record(store, name, e), *said = NULL;
	const char *digest = json_string_value(json_object_get(record, "digest"));

	if (!record)
		return store < 0 ? -1 : docker_no_image(rq, name, e);
	call = call_of("image rm", name, NULL);
	call_set(call, "force", json_boolean(docker_query_flag(rq, "force")));
	said = spawn_json(rq, call, 1, e);
	if (said)
		drop_unnamed(rq, store, digest);
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
	autoclose int store = filters ? docker_store(rq, e) : -1;
	const struct engine_berth b = docker_berth(rq, NULL);
	json_t *gone, *one;
	size_t i;

	said = store < 0 ? NULL : engine_image_prune(store, filters, &b, e);
	if (!said)
		return -1;
	gone = json_array();
	json_array_foreach(json_object_get(said, "removed"), i, one)
		if (!engine_image_is_unnamed(json_string_value(one)))
			json_array_append_new(gone, json_pack("{s:O}", "Untagged", one));
	json_array_foreach(json_object_get(said, "deleted"), i, one)
		json_array_append_new(gone, json_pack("{s:O}", "Deleted", one));
	return http_reply_json(rq, 200,
			       json_pack("{s:o,s:O}", "ImagesDeleted", gone, "SpaceReclaimed",
					 json_object_get(said, "bytes")),
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
	json_t *call;

	if (check_there(rq, name, e) < 0)
		return -1;
	call = call_of("image save", name, NULL);
	call_flag(call, "quiet");
	return spawn_reply(rq, call, "application/x-tar", e);
}

static int get_save(struct http_request *rq, struct err *e)
{
	autojson json_t *names = json_array();
	const char *name;
	json_t *call;
	size_t i;

	for (i = 0; (name = http_query_each(rq, "names", i)); i++) {
		if (check_there(rq, name, e) < 0)
			return -1;
		json_array_append_new(names, json_string(name));
	}
	if (!i)
		return docker_fail(rq, 400, e, "no image names given to save");
	call = call_of("image save", NULL);
	call_flag(call, "quiet");
	call_operands(call, names);
	return spawn_reply(rq, call, "application/x-tar", e);
}

static int begin_load(struct http_request *rq, struct err *e)
{
	return imageflow_begin(rq, call_of("image load", NULL), e);
}

static int post_load(struct http_request *rq, struct err *e)
{
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);
	autojson json_t *said = imageflow_end(rq, e), *error = NULL;
	const json_t *one;
	size_t i, n;

	/* dockerd has sent its status by then, so that clients look for the error in the stream */
	if (!said && e->code != ERR_NET && !(error = docker_error_json(e)))
		return err_nomem(e);
	if (!said && (!error || imageflow_line(&out, json_pack("{s:O,s:O}", "errorDetail", error, "error",
							      json_object_get(error, "message")), e) < 0))
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

static json_t *changes_of(struct http_request *rq, struct err *e)
{
	autojson json_t *list = json_array();
	const char *change;
	size_t i;

	for (i = 0; (change = http_query_each(rq, "changes", i)); i++)
		if (change[0] && engine_image_change(list, change, e) < 0)
			return NULL;
	return json_incref(list);
}

/* What the image inherits, and the changes of the request. */
static json_t *words_of(struct http_request *rq, struct box *b, struct err *e)
{
	autojson json_t *changes = changes_of(rq, e);
	struct engine_loaded d;
	json_t *words;

	if (!changes || docker_load(&d, b, 0, e) < 0)
		return NULL;
	words = engine_commit_words(&d.v, http_json(rq), changes, e);
	engine_loaded_release(&d);
	return words;
}

static json_t *commit_it(struct http_request *rq, struct box *b, const char *ref, struct err *e)
{
	const char *author = http_query(rq, "author"), *comment = http_query(rq, "comment");
	autojson json_t *words = words_of(rq, b, e);
	json_t *call;

	if (!words)
		return NULL;
	call = call_of("commit", NULL);
	call_flag(call, "quiet");
	call_text(call, "author", author && author[0] ? author : NULL);
	call_text(call, "message", comment && comment[0] ? comment : NULL);
	call_set(call, "no-pause", json_boolean(http_query(rq, "pause") && !docker_query_flag(rq, "pause")));
	call_words(call, words);
	call_operand(call, b->id);
	call_operand(call, ref);
	return spawn_json(rq, call, 0, e);
}

static int commit(struct http_request *rq, struct box *b, char *digest, size_t max, struct err *e)
{
	const char *repo = http_query(rq, "repo"), *made;
	autojson json_t *said = NULL;
	char ref[REF_MAX] = "";

	if (!repo || !repo[0]) {
		if (engine_image_new_name(ref, sizeof(ref), e) < 0)
			return -1;
	} else if (engine_image_ref(repo, http_query(rq, "tag"), ref, sizeof(ref)) < 0) {
		return docker_fail(rq, 400, e, "invalid reference format");
	}
	said = commit_it(rq, b, ref, e);
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
		r = commit(rq, &b, digest, sizeof(digest), e);
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
	{ "GET", "/distribution/{name...}/json", imageflow_look, "ask a registry for an image",
	  HTTP_NONE, HTTP_QUIET },
	{ "POST", "/commit", post_commit, "make an image of a container", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ NULL },
};
