/* SPDX-License-Identifier: Apache-2.0 */
/* Images: those that come from a registry or a body, and the routes on those that are here. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/create.h"
#include "manager/engine/image.h"
#include "manager/engine/load.h"
#include "manager/engine/login.h"
#include "manager/engine/view.h"
#include "manager/keeper/wire.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/image.h"

/* ---- images that come and go, as a stream of progress ---- */

#define OUTPUT_MAX (16u << 20)
#define LINE_MAX_BYTES 65536
#define BEAT_MS 5000 /* a client that hears nothing thinks the engine is dead */
#define FIRST_MS 2000 /* for a registry to refuse, which is then the status of the reply */
#define REF_MAX 400

/* ---- a body ------------------------------------------------------------------------------- */

struct import {
	struct called program;
	int in; /* our end of its stdin */
	int fed; /* the body is not empty */
};

static void image_import_free(void *data)
{
	struct import *i = data;

	fd_close(&i->in);
	call_abort(&i->program);
	free(i);
}

int imageflow_begin(struct http_request *rq, json_t *call, struct err *e)
{
	struct import *i = calloc(1, sizeof(*i));
	int p[2], r;

	if (!i) {
		json_decref(call);
		return err_nomem(e);
	}
	call_flag(call, "quiet");
	i->in = -1;
	i->program = (struct called)CALLED_NONE;
	http_set_data(rq, i, image_import_free);
	if (pipe2(p, O_CLOEXEC) < 0) {
		json_decref(call);
		return err_sys(e, "make a pipe");
	}
	i->in = p[1];
	r = spawn_start(rq, call, p[0], &i->program, e);
	close(p[0]);
	if (r == 0 && fcntl(i->in, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up a pipe");
	return r;
}

int imageflow_feed(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	struct import *i = http_data(rq);

	if (!i)
		return 0;
	i->fed |= n > 0;
	/* a program that has ended early says why at the end */
	return box_upload(rq, &i->in, data, n, e);
}

json_t *imageflow_end(struct http_request *rq, struct err *e)
{
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);
	struct import *i = http_data(rq);

	fd_close(&i->in);
	if (spawn_finish(rq, &i->program, 1, &out, e) < 0)
		return NULL;
	return json_parse(out.data ? out.data : "", out.len, OUTPUT_MAX, "berth's answer", e);
}

int imageflow_line(struct buf *out, json_t *j, struct err *e)
{
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	return text ? buf_addf(out, e, "%s\r\n", text) : err_nomem(e);
}

/* ---- a registry ------------------------------------------------------------------------------ */

struct pull {
	struct called program;
	char name[REF_MAX];
	struct buf out;
	size_t sent;
	int pushes, looks; /* looks: only asks the registry */
	int said; /* 0: nothing; 1: that it begins; 2: how it ended */
	json_t *got; /* the program's answer, once it has ended */
};

static void pull_free(void *ctx)
{
	struct pull *p = ctx;

	call_abort(&p->program);
	buf_release(&p->out);
	json_decref(p->got);
	free(p);
}

static int say_image_status(struct pull *p, const char *text, struct err *e)
{
	return imageflow_line(&p->out, json_pack("{s:s}", "status", text), e);
}

static int say_done(struct pull *p, const json_t *said, struct err *e)
{
	const char *digest = json_string_value(json_object_get(said, "digest")),
		   *tag = strrchr(p->name, ':');
	const json_int_t size = json_integer_value(json_object_get(said, "size"));
	char text[REF_MAX + 80];

	if (p->pushes) {
		tag = tag && !strchr(tag, '/') ? tag + 1 : "latest";
		snprintf(text, sizeof(text), "%s: digest: %s size: %lld", tag, digest ? digest : "",
			 (long long)size);
		return say_image_status(p, text, e) < 0
			       ? -1
			       : imageflow_line(&p->out,
						json_pack("{s:{},s:{s:s,s:s,s:I}}",
							  "progressDetail", "aux", "Tag", tag,
							  "Digest", digest ? digest : "", "Size",
							  size),
						e);
	}
	snprintf(text, sizeof(text), "Digest: %s", digest ? digest : "");
	if (digest && say_image_status(p, text, e) < 0)
		return -1;
	snprintf(text, sizeof(text), "Status: Downloaded newer image for %s", p->name);
	return say_image_status(p, text, e);
}

static int finish_image_flow(struct pull *p, struct http_request *rq, struct err *e)
{
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);

	if (spawn_finish(rq, &p->program, 0, &out, e) < 0)
		return -1;
	p->got = json_parse(out.data ? out.data : "", out.len, OUTPUT_MAX, "berth's answer", e);
	return p->got ? 0 : -1;
}

static int say_end(struct pull *p, struct http_request *rq, struct err *e)
{
	autojson json_t *error = NULL;

	if (p->got || finish_image_flow(p, rq, e) == 0)
		return say_done(p, p->got, e);
	error = docker_error_json(e);
	return imageflow_line(&p->out,
			      json_pack("{s:O,s:O}", "errorDetail", error, "error",
					json_object_get(error, "message")),
			      e);
}

/*
 * A pull that fails at once is an error of the request, as Docker has it: clients look at the
 * status, and not all of them at the lines.
 */
static int look_first(struct pull *p, struct http_request *rq, struct err *e)
{
	struct pollfd wait = { .fd = p->program.out, .events = POLLIN };
	int r = http_poll(rq, &wait, 1, FIRST_MS, e);

	return r > 0 ? finish_image_flow(p, rq, e) : r;
}

/* Sends a line from time to time until the program writes, which it does at its end. */
static int go_on_with_image_flow(struct pull *p, struct http_request *rq, struct err *e)
{
	struct pollfd wait = { .fd = p->program.out, .events = POLLIN };
	int r = p->got ? 1 : http_poll(rq, &wait, 1, BEAT_MS, e);

	if (r < 0)
		return -1;
	if (r == 0)
		return say_image_status(p, p->pushes ? "Pushing" : "Downloading", e);
	p->said = 2;
	return say_end(p, rq, e);
}

static ssize_t pull_read(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct pull *p = ctx;
	char text[REF_MAX + 40];
	struct err e;
	size_t n;

	while (p->sent == p->out.len) {
		p->sent = p->out.len = 0;
		if (p->pushes)
			snprintf(text, sizeof(text), "The push refers to repository [%.*s]", engine_image_repo(p->name), p->name);
		else
			snprintf(text, sizeof(text), "Pulling %s", p->name);
		if (p->said == 2)
			return 0;
		if ((p->said == 0 ? say_image_status(p, text, &e) : go_on_with_image_flow(p, rq, &e)) < 0)
			return -1;
		p->said += p->said == 0;
	}
	n = p->out.len - p->sent < max ? p->out.len - p->sent : max;
	memcpy(buf, p->out.data + p->sent, n);
	p->sent += n;
	return (ssize_t)n;
}

/* With the login of the request, if any; its password goes through a pipe. */
static int start_image_program(struct http_request *rq, struct pull *p, const char *platform, struct err *e)
{
	struct engine_login login;
	autoclose int password = -1;
	json_t *call;
	int r = engine_login_read(http_header(rq, "X-Registry-Auth"), &login, e);

	if (r < 0)
		http_error_status(rq, 400);
	if (r == 0 && login.user[0]) {
		password = wire_data(login.password, strlen(login.password), e);
		r = password < 0 ? -1 : 0;
	}
	if (r == 0) {
		call = call_of(p->pushes ? "push" : "pull", p->name, NULL);
		call_flag(call, "quiet");
		call_text(call, "username", login.user[0] ? login.user : NULL);
		call_set(call, "password-stdin", json_boolean(login.user[0]));
		call_text(call, "platform", platform && platform[0] ? platform : NULL);
		call_set(call, "dry-run", json_boolean(p->looks));
		r = spawn_start(rq, call, password, &p->program, e);
	}
	engine_login_forget(&login);
	return r;
}

static int stream_image_flow(struct http_request *rq, const char *image, int pushes, struct err *e)
{
	struct pull *p = calloc(1, sizeof(*p));
	struct http_stream st = { pull_read, pull_free, p };
	char name[REF_MAX], room[REF_MAX + 8], platform[ENGINE_PLATFORM];
	int r;

	if (!p)
		return err_nomem(e);
	p->program = (struct called)CALLED_NONE;
	p->out = BUF_INIT(LINE_MAX_BYTES);
	p->pushes = pushes;
	if (engine_image_ref(image, http_query(rq, "tag"), name, sizeof(name)) < 0) {
		r = docker_fail(rq, 400, e, "invalid reference format");
	} else {
		snprintf(p->name, sizeof(p->name), "%s",
			 engine_image_tagged(name, room, sizeof(room)));
		r = pushes ? 0 : engine_platform(http_query(rq, "platform"), platform, e);
		if (r == 0)
			r = start_image_program(rq, p, pushes ? NULL : platform, e);
		if (r == 0 && !pushes)
			r = look_first(p, rq, e);
	}
	if (r < 0) {
		pull_free(p);
		return -1;
	}
	return http_reply_stream(rq, 200, "application/json", &st, e);
}

int imageflow_push(struct http_request *rq, struct err *e)
{
	return stream_image_flow(rq, http_param(rq, "name"), 1, e);
}

static json_t *distribution(const json_t *seen)
{
	return json_pack("{s:{s:O,s:O,s:O},s:O}", "Descriptor", "mediaType",
			 json_object_get(seen, "media_type"), "digest",
			 json_object_get(seen, "digest"), "size", json_object_get(seen, "size"),
			 "Platforms", json_object_get(seen, "platforms"));
}

int imageflow_look(struct http_request *rq, struct err *e)
{
	struct pull p = { .program = CALLED_NONE, .looks = 1 };
	char name[REF_MAX], room[REF_MAX + 8];
	json_t *answer = NULL;
	int r;

	if (engine_image_ref(http_param(rq, "name"), NULL, name, sizeof(name)) < 0)
		return docker_fail(rq, 400, e, "invalid reference format");
	snprintf(p.name, sizeof(p.name), "%s", engine_image_tagged(name, room, sizeof(room)));
	r = start_image_program(rq, &p, NULL, e);
	if (r == 0)
		r = finish_image_flow(&p, rq, e);
	if (r == 0 && !(answer = distribution(p.got)))
		r = err_nomem(e);
	call_abort(&p.program);
	json_decref(p.got);
	return r < 0 ? -1 : http_reply_json(rq, 200, answer, e);
}

/* ---- either ------------------------------------------------------------------------------------
 */

/* The instructions of a text, a line each; a backslash at the end of a line goes on with the next. */
static int add_changes(json_t *list, const char *text, struct err *e)
{
	autobuf struct buf line = BUF_INIT(strlen(text) + 2);
	size_t n;

	for (; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		if (n && text[n] && text[n + 1] && text[n - 1] == '\\') {
			if (buf_add(&line, text, n - 1, e) < 0)
				return -1;
			continue;
		}
		if (buf_add(&line, text, n, e) < 0)
			return -1;
		if (line.len && json_array_append_new(list, json_stringn(line.data, line.len)) < 0)
			return err_set(e, ERR_INVALID, "a change is not UTF-8");
		line.len = 0;
	}
	return 0;
}

/* What the parameters "changes" say, or NULL with e. */
static json_t *query_changes(struct http_request *rq, struct err *e)
{
	autojson json_t *list = json_array();
	const char *text;
	size_t i;

	for (i = 0; list && (text = http_query_each(rq, "changes", i)); i++)
		if (add_changes(list, text, e) < 0)
			return NULL;
	if (!list)
		err_nomem(e);
	return json_incref(list);
}

int imageflow_create_begin(struct http_request *rq, struct err *e)
{
	const char *src = http_query(rq, "fromSrc");
	autojson json_t *changes = NULL;
	json_t *call;

	if (!src || !src[0])
		return 0;
	changes = query_changes(rq, e);
	if (!changes)
		return -1;
	call = engine_import_call(&(struct engine_import){ .source = src,
							   .repo = http_query(rq, "repo"),
							   .tag = http_query(rq, "tag"),
							   .message = http_query(rq, "message"),
							   .platform = http_query(rq, "platform"),
							   .changes = changes },
				  e);
	return call ? imageflow_begin(rq, call, e) : -1;
}

int imageflow_create(struct http_request *rq, struct err *e)
{
	autobuf struct buf out = BUF_INIT(LINE_MAX_BYTES);
	const char *image = http_query(rq, "fromImage");
	static const char empty_tar[1024];
	autojson json_t *said = NULL;
	const char *digest;
	size_t n;

	if (!http_data(rq))
		return image && image[0]
			       ? stream_image_flow(rq, image, 0, e)
			       : docker_fail(rq, 400, e, "neither fromImage nor fromSrc is given");
	/* to Docker, nothing at all is an archive of nothing */
	if (!((struct import *)http_data(rq))->fed && imageflow_feed(rq, empty_tar, sizeof(empty_tar), e) < 0)
		return -1;
	said = imageflow_end(rq, e);
	if (!said)
		return -1;
	digest = json_string_value(json_object_get(
		json_array_get(json_object_get(said, "images"), 0), "digest"));
	if (imageflow_line(&out, json_pack("{s:s}", "status", digest ? digest : ""), e) < 0)
		return -1;
	n = out.len;
	return http_reply_data(rq, 200, "application/json", take_ptr(&out.data), n, e);
}

/* ---- look-ups, names, commit, archives ---- */

/* Images: look-ups read the store here; changes are made by the berth program. */

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

static int get_docker_images(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e);
	autoclose int store = filters ? docker_store(rq, e) : -1;
	autojson json_t *list = store < 0 ? NULL : catalog_list(store, 0, e);
	json_t *out = list ? engine_image_list(list, filters, e) : NULL;

	return out ? http_reply_json(rq, 200, out, e) : -1;
}

static int get_docker_image(struct http_request *rq, struct err *e)
{
	const char *name = http_param(rq, "name");
	autoclose int store = docker_store(rq, e);
	autojson json_t *record = store < 0 ? NULL : catalog_inspect(store, name, e), *list = NULL;

	/* clients ask so whether a name of any kind is that of an image */
	if (!record && store >= 0 && e->code == ERR_INVALID)
		return docker_fail(rq, 404, e, "No such image: %.300s", name);
	if (!record)
		return store < 0 ? -1 : docker_no_image(rq, name, e);
	list = catalog_list(store, 0, e);
	return list ? http_reply_json(rq, 200, engine_image_inspect(record, list), e) : -1;
}

static int get_docker_image_history(struct http_request *rq, struct err *e)
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

static int post_image_tag(struct http_request *rq, struct err *e)
{
	const char *repo = http_query(rq, "repo"), *name = http_param(rq, "name");
	const struct engine_berth asker = docker_berth(rq, NULL);
	autoclose int store = -1;
	char ref[REF_MAX];

	if (!repo || !repo[0] ||
	    engine_image_ref(repo, http_query(rq, "tag"), ref, sizeof(ref)) < 0)
		return docker_fail(rq, 400, e, "invalid reference format");
	if (!strcmp(repo, "sha256") || !strcmp(repo, "sha384") || !strcmp(repo, "sha512"))
		return docker_fail(rq, 400, e, "refusing to create an ambiguous tag using digest algorithm as name");
	store = docker_store(rq, e);
	if (store < 0)
		return -1;
	if (engine_image_tag(&asker, store, name, ref, e) < 0)
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

static json_t *containers_of(struct http_request *rq, struct err *e)
{
	autojson json_t *none = json_object();
	json_t *all = NULL;
	struct box b;

	if (box_open(&b, rq, e) == 0)
		all = engine_load_list(&b.registry, none, 1, 0, e);
	box_close(&b);
	return all;
}

static int delete_docker_image(struct http_request *rq, struct err *e)
{
	const char *name = http_param(rq, "name");
	json_t *call;
	autoclose int store = docker_store(rq, e);
	autojson json_t *record = store < 0 ? NULL : image_record(store, name, e), *said = NULL, *containers = NULL;
	const char *digest = json_string_value(json_object_get(record, "digest"));

	if (name[strspn(name, " ")] == '\0')
		return docker_fail(rq, 400, e, "image name cannot be blank");
	if (!record)
		return store < 0 ? -1 : docker_no_image(rq, name, e);
	containers = containers_of(rq, e);
	if (!containers || engine_image_removable(store, containers, name, digest ? digest : "", docker_query_flag(rq, "force"), e) < 0)
		return e->code == ERR_BUSY ? docker_fail(rq, 409, e, "%s", e->msg) : -1;
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

static int post_image_prune(struct http_request *rq, struct err *e)
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

static int check_image_is_there(struct http_request *rq, const char *name, struct err *e)
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

static int post_image_push(struct http_request *rq, struct err *e)
{
	const char *tag = http_query(rq, "tag");
	char ref[REF_MAX];

	if (engine_image_ref(http_param(rq, "name"), tag, ref, sizeof(ref)) < 0)
		return docker_fail(rq, 400, e, "invalid reference format");
	if (check_image_is_there(rq, ref, e) == 0)
		return imageflow_push(rq, e);
	return e->code == ERR_NOT_FOUND ?
		       docker_fail(rq, 404, e, "An image does not exist locally with the tag: %.300s", http_param(rq, "name")) : -1;
}

/* The names of the store that a client means by each of its own. */
static int save_names(struct http_request *rq, const json_t *asked, struct err *e)
{
	autojson json_t *names = json_array();
	autoclose int store = docker_store(rq, e);
	const json_t *one;
	json_t *call;
	size_t i;

	if (store < 0)
		return -1;
	json_array_foreach ((json_t *)(size_t)asked, i, one)
		if (engine_save_names(store, json_string_value(one), names, e) < 0)
			return -1;
	json_array_foreach (names, i, one)
		if (check_image_is_there(rq, json_string_value(one), e) < 0)
			return -1;
	call = call_of("image save", NULL);
	call_flag(call, "quiet");
	call_operands(call, names);
	return spawn_reply(rq, call, "application/x-tar", e);
}

static int get_save_one(struct http_request *rq, struct err *e)
{
	autojson json_t *asked = json_pack("[s]", http_param(rq, "name"));

	return asked ? save_names(rq, asked, e) : err_nomem(e);
}

static int get_image_archive(struct http_request *rq, struct err *e)
{
	autojson json_t *names = json_array();
	const char *name;
	size_t i;

	for (i = 0; (name = http_query_each(rq, "names", i)); i++)
		json_array_append_new(names, json_string(name));
	return i ? save_names(rq, names, e) : docker_fail(rq, 400, e, "no image names given to save");
}

static int begin_image_load(struct http_request *rq, struct err *e)
{
	json_t *call = engine_load_call(e);

	return call ? imageflow_begin(rq, call, e) : -1;
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
		autojson json_t *line = engine_load_line(one);

		if (imageflow_line(&out, json_pack("{s:o}", "stream", json_sprintf("%s\n", json_string_value(line))), e) < 0)
			return -1;
	}
	n = out.len;
	return http_reply_data(rq, 200, "application/json", take_ptr(&out.data), n, e);
}

/* ---- commit
 * -------------------------------------------------------------------------------------- */

static json_t *commit_query_changes(struct http_request *rq, struct err *e)
{
	autojson json_t *list = json_array(), *said = query_changes(rq, e);
	const json_t *change;
	size_t i;

	json_array_foreach (said, i, change)
		if (engine_image_change(list, json_string_value(change), e) < 0)
			return NULL;
	return said ? json_incref(list) : NULL;
}

/* What the image inherits, and the changes of the request. */
static json_t *commit_query_words(struct http_request *rq, struct box *b, struct err *e)
{
	autojson json_t *changes = commit_query_changes(rq, e);
	struct engine_loaded d;
	json_t *words;

	if (!changes || docker_load(&d, b, 0, e) < 0)
		return NULL;
	words = engine_commit_words(&d.v, http_json(rq), changes, e);
	engine_loaded_release(&d);
	return words;
}

static json_t *commit_box_by_berth(struct http_request *rq, struct box *b, const char *ref, struct err *e)
{
	const char *author = http_query(rq, "author"), *comment = http_query(rq, "comment");
	autojson json_t *words = commit_query_words(rq, b, e);
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

static int commit_box(struct http_request *rq, struct box *b, char *digest, size_t max, struct err *e)
{
	const char *repo = http_query(rq, "repo"), *made;
	const struct engine_berth asker = docker_berth(rq, NULL);
	autojson json_t *said = NULL;
	autoclose int store = -1;
	char ref[REF_MAX] = "";

	if (!repo || !repo[0]) {
		if (engine_image_new_name(ref, sizeof(ref), e) < 0)
			return -1;
	} else if (engine_image_ref(repo, http_query(rq, "tag"), ref, sizeof(ref)) < 0) {
		return docker_fail(rq, 400, e, "invalid reference format");
	} else if ((store = docker_store(rq, e)) < 0 || engine_image_keep(&asker, store, ref, NULL, e) < 0) {
		return -1;
	}
	said = commit_box_by_berth(rq, b, ref, e);
	made = json_string_value(json_object_get(said, "digest"));
	if (!made)
		return said ? err_set(e, ERR_INTERNAL, "berth commit named no digest") : -1;
	snprintf(digest, max, "%s", made);
	events_add(&b->registry, "commit", b->id, NULL);
	return 0;
}

static int post_box_commit(struct http_request *rq, struct err *e)
{
	char digest[200];
	struct box b;
	int r = docker_find_named(&b, rq, http_query(rq, "container"), e);

	if (r == 0)
		r = commit_box(rq, &b, digest, sizeof(digest), e);
	box_close(&b);
	return r < 0 ? -1 : http_reply_json(rq, 201, json_pack("{s:s}", "Id", digest), e);
}

const struct http_route docker_image_routes[] = {
	{ "GET", "/images/json", get_docker_images, "list images", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/images/search", get_search, "find images elsewhere: none", HTTP_NONE,
	  HTTP_QUIET },
	{ "GET", "/images/get", get_image_archive, "images as an archive", HTTP_NONE },
	{ "GET", "/images/{name...}/get", get_save_one, "an image as an archive", HTTP_NONE },
	{ "GET", "/images/{name...}/json", get_docker_image, "look at an image", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/images/{name...}/history", get_docker_image_history, "how an image was made", HTTP_NONE,
	  HTTP_QUIET },
	{ "POST", "/images/create", imageflow_create, "pull an image, or make one of the body",
	  HTTP_RAW, .begin = imageflow_create_begin, .feed = imageflow_feed },
	{ "POST", "/images/load", post_load, "read the images of the body", HTTP_RAW,
	  .begin = begin_image_load, .feed = imageflow_feed },
	{ "POST", "/images/prune", post_image_prune, "remove what no image needs", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ "POST", "/images/{name...}/tag", post_image_tag, "give an image a further name", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ "POST", "/images/{name...}/push", post_image_push, "send an image to a registry", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ "DELETE", "/images/{name...}", delete_docker_image, "remove an image", HTTP_JSON, HTTP_OPTIONAL },
	{ "GET", "/distribution/{name...}/json", imageflow_look, "ask a registry for an image",
	  HTTP_NONE, HTTP_QUIET },
	{ "POST", "/commit", post_box_commit, "make an image of a container", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ NULL },
};
