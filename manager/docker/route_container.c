/* SPDX-License-Identifier: Apache-2.0 */
/* Routes that make containers, list them and look at one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/create.h"
#include "manager/engine/id.h"
#include "manager/host/forget.h"
#include "manager/host/list.h"
#include "manager/keeper/pings.h"
#include "manager/service/dlog.h"
#include "rootfs/store/image.h"

#define STORE_SUFFIX "/store"

/* ---- create --------------------------------------------------------------------------- */

/* Docker says which image is missing before anything else, and clients then pull it. */
static int check_image(struct http_request *rq, const struct config *c, const char *image,
		       struct err *e)
{
	char path[sizeof(c->state_dir) + sizeof(STORE_SUFFIX)];
	struct image im = { 0 };
	autoclose int store = -1;
	int r;

	if (!strcmp(image, "host") || !image[0])
		return 0;
	if (image[0] == '/' || image[0] == '.')
		return docker_fail(rq, 400, e, "invalid reference format: %.200s", image);
	snprintf(path, sizeof(path), "%s" STORE_SUFFIX, c->state_dir);
	store = store_open(path, e);
	if (store < 0)
		return -1;
	r = image_load(store, image, &im, e);
	image_release(&im);
	if (r < 0 && e->code == ERR_NOT_FOUND)
		return docker_fail(rq, 404, e, "No such image: %.200s", image);
	return r;
}

/* As docker run -v does; where nothing was before, root's, as everything here. */
static int make_directory(const char *path, struct err *e)
{
	autofree char *copy = strdup(path);
	char *p = copy;

	if (!copy)
		return err_nomem(e);
	while ((p = strchr(p + 1, '/'))) {
		*p = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "make the directory %s of a bind", copy);
		*p = '/';
	}
	return mkdir(copy, 0755) < 0 && errno != EEXIST
		       ? err_sys(e, "make the directory %s of a bind", copy)
		       : 0;
}

static int make_directories(const json_t *list, struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, one)
		if (make_directory(json_string_value(one), e) < 0)
			return -1;
	return 0;
}

static void log_unknown(const struct engine_create *c)
{
	autofree char *text =
		json_array_size(c->unknown) ? json_dumps(c->unknown, JSON_COMPACT) : NULL;

	if (text)
		dlog_note(DLOG_INFO, "docker: a create had members that mean nothing here: %.400s",
			  text);
}

/* berth create with the words of the request: its id in b. */
static int spawn_create(struct http_request *rq, const struct engine_create *c, const char *name,
			struct box *b, struct err *e)
{
	static const char *const fixed[] = { "berth", "create", "--json", "--no-start",
					     "--pull=never" };
	const size_t n = json_array_size(c->words);
	autofree const char **argv = calloc(n + ARRAY_LEN(fixed) + 3, sizeof(*argv));
	autojson json_t *made = NULL;
	const char *id;
	size_t at, i;

	if (!argv)
		return err_nomem(e);
	memcpy(argv, fixed, sizeof(fixed));
	at = ARRAY_LEN(fixed);
	if (name) {
		argv[at++] = "--name";
		argv[at++] = name;
	}
	for (i = 0; i < n; i++)
		argv[at++] = json_string_value(json_array_get(c->words, i));
	made = spawn_json(rq, argv, 1, e);
	id = json_string_value(json_object_get(made, "id"));
	if (!id)
		return made ? err_set(e, ERR_INTERNAL, "berth create gave no id") : -1;
	snprintf(b->id, sizeof(b->id), "%s", id);
	http_audit(rq, "id", b->id);
	return 0;
}

static int name_taken(struct http_request *rq, struct box *b, const char *name, struct err *e)
{
	char id[65] = "", whole[ENGINE_ID] = "";
	struct err ignored;
	int kept;

	if (registry_find(&b->registry, name, id, &kept, &ignored) == 0)
		engine_id(id, whole);
	return docker_fail(rq, 409, e,
			   "Conflict. The container name \"/%.64s\" is already in use by container "
			   "\"%s\". You have to "
			   "remove (or rename) that container to be able to reuse that name.",
			   name, whole);
}

/* What the client said, beside the sandbox: without it the container would not be as it was asked
 * for. */
static int save_asked(struct box *b, const struct engine_create *c, json_t *body, struct err *e)
{
	autojson json_t *asked =
		json_pack("{s:i,s:O,s:O}", "version", 1, "body", body, "ports", c->ports);
	struct err ignored;

	if (asked && registry_save(&b->registry, b->id, ENGINE_FILE_NAME, asked, e) == 0)
		return 0;
	forget_alone(&b->registry, b->id, &ignored);
	return asked ? -1 : err_nomem(e);
}

static int create(struct http_request *rq, struct box *b, struct engine_create *c, struct err *e)
{
	const char *name = http_query(rq, "name"), *image = "";
	json_t *body = http_json(rq);
	struct engine_rules rules;

	docker_rules(b, &rules);
	if (engine_create_init(c, &rules, e) < 0)
		return -1;
	name = name && name[0] ? name + (name[0] == '/') : NULL;
	if ((name && engine_check_name(name, e) < 0) || engine_create_read(c, body, e) < 0 ||
	    engine_str(body, "Image", &image, e) < 0)
		return -1;
	log_unknown(c);
	if (check_image(rq, &b->config, image, e) < 0 || make_directories(c->directories, e) < 0)
		return -1;
	if (spawn_create(rq, c, name, b, e) < 0)
		return name && e->code == ERR_EXISTS ? name_taken(rq, b, name, e) : -1;
	return save_asked(b, c, body, e);
}

static int post_create(struct http_request *rq, struct err *e)
{
	struct engine_create c = { 0 };
	char id[ENGINE_ID];
	struct box b;
	json_t *reply;
	int r = box_open(&b, rq, e);

	if (r == 0)
		r = create(rq, &b, &c, e);
	box_close(&b);
	engine_id(b.id, id);
	reply = r < 0 ? NULL : json_pack("{s:s,s:O}", "Id", id, "Warnings", c.warnings);
	engine_create_release(&c);
	return r < 0 ? -1 : http_reply_json(rq, 201, reply, e);
}

/* ---- look ------------------------------------------------------------------------------ */

static int get_one(struct http_request *rq, struct err *e)
{
	json_t *doc = NULL;
	struct dview d;
	struct box b;
	int r = docker_find(&b, rq, e);

	if (r == 0)
		r = dview_load(&d, &b, 1, e);
	if (r == 0) {
		doc = engine_inspect(&d.v);
		dview_release(&d);
	}
	box_close(&b);
	return r < 0 ? -1 : http_reply_json(rq, 200, doc, e);
}

struct listing {
	struct box *box;
	json_t *records;
	int all;
};

static int add_record(void *ctx, const char *id, int kept, json_t *record)
{
	struct listing *l = ctx;
	json_t *copy = json_deep_copy(record);

	json_object_set_new(copy, "id", json_string(id));
	json_object_set_new(copy, "kept", json_boolean(kept));
	return json_array_append_new(l->records, copy);
}

static void add_ping(json_t *record, const json_t *answer)
{
	json_object_set(record, "ping", (json_t *)(size_t)answer);
}

/* One of the list, with the files beside its record. */
static void open_view(struct dview *d, struct box *b, json_t *record)
{
	const char *id = json_string_value(json_object_get(record, "id"));
	struct err ignored;

	memset(d, 0, sizeof(*d));
	snprintf(b->id, sizeof(b->id), "%s", id ? id : "");
	b->kept = json_is_true(json_object_get(record, "kept"));
	d->record = json_incref(record);
	d->asked = registry_load(&b->registry, b->id, ENGINE_FILE_NAME, &ignored);
	d->image = registry_load(&b->registry, b->id, "image.json", &ignored);
	d->v = (struct engine_view){ .id = b->id,
				     .record = record,
				     .live = record,
				     .asked = d->asked,
				     .image = d->image,
				     .ping = json_object_get(record, "ping"),
				     .runs = !b->kept };
}

static int newer_first(const void *a, const void *b)
{
	const json_t *const *x = a, *const *y = b;
	const char *s = json_string_value(json_object_get(*x, "created")),
		   *t = json_string_value(json_object_get(*y, "created"));

	return strcmp(t ? t : "", s ? s : "");
}

static int add_wanted(struct listing *l, json_t *out, const json_t *filters, long limit,
		      struct err *e)
{
	const size_t n = json_array_size(l->records);
	autofree json_t **sorted = calloc(n + 1, sizeof(*sorted));
	int64_t now = (int64_t)time(NULL);
	size_t i;
	int r = 0;

	if (!sorted)
		return err_nomem(e);
	for (i = 0; i < n; i++)
		sorted[i] = json_array_get(l->records, i);
	qsort(sorted, n, sizeof(*sorted), newer_first);
	for (i = 0; i < n && r >= 0 && (limit <= 0 || json_array_size(out) < (size_t)limit); i++) {
		struct dview d;

		open_view(&d, l->box, sorted[i]);
		r = engine_filters_match(filters, &d.v, e);
		if (r > 0)
			json_array_append_new(out, engine_summary(&d.v, now));
		dview_release(&d);
	}
	return r < 0 ? -1 : 0;
}

static int list(struct http_request *rq, struct box *b, json_t *out, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e),
			*records = json_array();
	struct listing l = { b, records, 0 };
	struct err ignored;
	unsigned cleared;
	long limit;

	if (!filters || docker_query_int(rq, "limit", 0, &limit, e) < 0)
		return -1;
	/* a state that is asked for counts more than "those that run" */
	l.all = docker_query_flag(rq, "all") || limit > 0 ||
		engine_filters_has(filters, "status") || engine_filters_has(filters, "exited");
	registry_gc(&b->registry, &cleared, &ignored);
	if (registry_list(&b->registry, l.all, add_record, &l, e) < 0)
		return -1;
	pings_ask(&b->registry, records, add_ping);
	return add_wanted(&l, out, filters, limit, e);
}

static int get_list(struct http_request *rq, struct err *e)
{
	json_t *out = json_array();
	struct box b;
	int r = box_open(&b, rq, e);

	if (r == 0)
		r = list(rq, &b, out, e);
	box_close(&b);
	if (r < 0) {
		json_decref(out);
		return -1;
	}
	return http_reply_json(rq, 200, out, e);
}

const struct http_route docker_container_routes[] = {
	{ "GET", "/containers/json", get_list, "list containers", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/containers/create", post_create, "make a container", HTTP_JSON },
	{ "GET", "/containers/{id}/json", get_one, "look at a container", HTTP_NONE, HTTP_QUIET },
	{ NULL },
};
