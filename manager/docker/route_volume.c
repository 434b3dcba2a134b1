/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes, each operation by a berth program; their disk use; logins. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/docker/imageflow.h"
#include "manager/docker/words.h"
#include "manager/engine/accept.h"
#include "manager/engine/create.h"
#include "manager/engine/image.h"
#include "manager/engine/name.h"
#include "manager/engine/objects.h"
#include "manager/engine/usage.h"
#include "manager/keeper/wire.h"
#include "rootfs/store/catalog.h"

/* ---- volumes --------------------------------------------------------------------------------- */

static json_t *load_volumes(struct http_request *rq, struct err *e)
{
	return spawn_json(rq, call_of("volume ls", NULL), 0, e);
}

static json_t *wanted_volumes(struct http_request *rq, const json_t *filters, struct err *e)
{
	autojson json_t *records = load_volumes(rq, e);

	return records ? engine_volumes(records, filters) : NULL;
}

static int get_volumes(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e);
	json_t *all = filters && engine_accept(ENGINE_VOLUMES, filters, e) == 0 ?
			      wanted_volumes(rq, filters, e) :
			      NULL;

	return all ? http_reply_json(rq, 200, json_pack("{s:o,s:n}", "Volumes", all, "Warnings"), e)
		   : -1;
}

static int no_volume(struct http_request *rq, const char *name, struct err *e)
{
	return e->code == ERR_NOT_FOUND
		       ? docker_fail(rq, 404, e, "get %.100s: no such volume", name)
		       : -1;
}

/* 404 for what cannot be the name of a volume. */
static int map_volume(struct http_request *rq, const char *name, char ret[ENGINE_NAME],
		      struct err *e)
{
	return engine_name_map(name, ret) < 0 ?
		       docker_fail(rq, 404, e, "get %.100s: no such volume", name) :
		       0;
}

static int reply_volume(struct http_request *rq, const char *called, int status, struct err *e)
{
	autojson json_t *records = load_volumes(rq, e);
	char name[ENGINE_NAME];
	const json_t *record;
	size_t i;

	if (!records || map_volume(rq, called, name, e) < 0)
		return -1;

	json_array_foreach(records, i, record) {
		const char *its = json_string_value(json_object_get(record, "name"));

		if (its && !strcmp(its, name))
			return http_reply_json(rq, status, engine_volume(record), e);
	}
	return docker_fail(rq, 404, e, "get %.100s: no such volume", called);
}

static int get_volume(struct http_request *rq, struct err *e)
{
	return reply_volume(rq, http_param(rq, "name"), 200, e);
}

static int make_volume(struct http_request *rq, const char *called, const json_t *labels,
		       int unnamed, struct err *e)
{
	autojson json_t *made = NULL;
	char name[ENGINE_NAME];
	json_t *call;

	if (engine_name_map(called, name) < 0)
		return docker_fail(rq, 400, e,
				   "create %.80s: \"%.80s\" includes invalid characters for a "
				   "volume name, only \"[a-zA-Z0-9][a-zA-Z0-9_.-]\" are allowed",
				   called, called);
	call = call_of("volume create", name, NULL);
	if (unnamed)
		call_text(call, "label", ENGINE_VOLUME_ANONYMOUS "=");
	words_called(call, called, name);
	if (words_labels(call, labels, e) == 0)
		made = spawn_json(rq, call, 1, e);
	else
		json_decref(call);
	return made || e->code == ERR_EXISTS ? 0 : -1;
}

int docker_make_volumes(struct http_request *rq, const json_t *volumes, struct err *e)
{
	const char *name;
	json_t *called;

	json_object_foreach((json_t *)(size_t)volumes, name, called)
		if (make_volume(rq, json_string_value(called), NULL, 0, e) < 0)
			return -1;
	return 0;
}

int docker_make_anonymous(struct http_request *rq, const json_t *volumes, struct err *e)
{
	const char *target;
	json_t *name;

	json_object_foreach((json_t *)(size_t)volumes, target, name)
		if (make_volume(rq, json_string_value(name), NULL, 1, e) < 0)
			return -1;
	return 0;
}

void docker_remove_volumes(struct http_request *rq, const json_t *names)
{
	struct err ignored;
	const json_t *one;
	size_t i;

	/* each alone: one that another container has stays */
	json_array_foreach((json_t *)(size_t)names, i, one)
		spawn_berth(rq, call_of("volume rm", json_string_value(one), NULL), 1, -1, NULL, &ignored);
}

static int post_volume(struct http_request *rq, struct err *e)
{
	const char *name = "", *driver = "local";
	char fresh[ENGINE_ID];
	json_t *labels;

	if (engine_str(http_json(rq), "Name", &name, e) < 0 ||
	    engine_str(http_json(rq), "Driver", &driver, e) < 0 ||
	    engine_obj(http_json(rq), "Labels", &labels, e) < 0)
		return -1;
	if (driver[0] && strcmp(driver, "local"))
		return docker_fail(rq, 400, e,
				   "error looking up volume plugin %.60s: plugin not found",
				   driver);
	if (!name[0] && engine_new_id(fresh) < 0)
		return err_sys(e, "choose a name");
	return make_volume(rq, name[0] ? name : fresh, labels, !name[0], e) < 0 ? -1 :
							   reply_volume(rq, name[0] ? name : fresh,
									201, e);
}

static int delete_volume(struct http_request *rq, struct err *e)
{
	const char *called = http_param(rq, "name");
	char name[ENGINE_NAME];
	struct err why;

	if (map_volume(rq, called, name, e) < 0)
		return -1;
	if (spawn_berth(rq, call_of("volume rm", name, NULL), 1, -1, NULL, e) == 0 ||
	    (e->code == ERR_NOT_FOUND && docker_query_flag(rq, "force")))
		return http_reply_empty(rq, 204, e);
	why = *e;
	if (e->code == ERR_BUSY)
		return docker_fail(rq, 409, e, "remove %.255s: volume is in use - %.200s", called,
				   why.msg);
	return no_volume(rq, called, e);
}

static int post_prune_volumes(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e), *all = NULL;
	json_t *gone = json_array(), *v;
	json_int_t freed = 0;
	struct err ignored;
	size_t i;

	if (filters && engine_volumes_prunable(filters, e) == 0)
		all = wanted_volumes(rq, filters, e);
	json_array_foreach(all, i, v) {
		const char *called = json_string_value(json_object_get(v, "Name"));
		char name[ENGINE_NAME];

		if (engine_name_map(called, name) >= 0 &&
		    spawn_berth(rq, call_of("volume rm", name, NULL), 1, -1, NULL, &ignored) == 0) {
			json_array_append_new(gone, json_string(called));
			freed += engine_volume_bytes(v);
		}
	}
	if (!all) {
		json_decref(gone);
		return -1;
	}
	return http_reply_json(
		rq, 200, json_pack("{s:o,s:I}", "VolumesDeleted", gone, "SpaceReclaimed", freed),
		e);
}

/* ---- the rest ----------------------------------------------------------------------------------
 */

/* The types of the query, or all: objects of the others are left out, as dockerd does. */
static int drop_unasked(struct http_request *rq, json_t *doc, struct err *e)
{
	static const char *const types[][2] = { { "container", "Containers" },
						{ "image", "Images" },
						{ "volume", "Volumes" },
						{ "build-cache", "BuildCache" } };
	unsigned asked = 0;
	const char *type;
	size_t i, k;

	for (i = 0; (type = http_query_each(rq, "type", i)); i++) {
		for (k = 0; k < ARRAY_LEN(types) && strcmp(types[k][0], type); k++)
			;
		if (k == ARRAY_LEN(types))
			return docker_fail(rq, 400, e, "unknown object type: %.60s", type);
		asked |= 1u << k;
	}
	for (k = 0; asked && k < ARRAY_LEN(types); k++)
		if (!(asked & 1u << k))
			json_object_set_new(doc, types[k][1], json_null());
	if (asked && !(asked & 2u))
		json_object_set_new(doc, "LayersSize", json_integer(0));
	return 0;
}

static int get_df(struct http_request *rq, struct err *e)
{
	autojson json_t *none = json_object();
	autoclose int store = docker_store(rq, e);
	json_t *volumes = store < 0 ? NULL : wanted_volumes(rq, none, e), *doc = NULL;
	struct box b;

	if (!volumes)
		return -1;
	if (box_open(&b, rq, e) == 0)
		doc = engine_usage(&b.registry, store, volumes, e);
	else
		json_decref(volumes);
	box_close(&b);
	if (doc && drop_unasked(rq, doc, e) < 0) {
		json_decref(doc);
		doc = NULL;
	}
	return doc ? http_reply_json(rq, 200, doc, e) : -1;
}

/*
 * The password stays in memory: it is in no argument, no environment, no file of ours and no
 * audit line.
 */
/* Docker's own registry: "", "index.docker.io", "https://index.docker.io/v1/". */
static int is_hub(const char *server)
{
	static const char scheme[] = "https://", hub[] = "index.docker.io";

	if (!strncmp(server, scheme, sizeof(scheme) - 1))
		server += sizeof(scheme) - 1;
	return !server[0] || (!strncmp(server, hub, sizeof(hub) - 1) &&
			      (!server[sizeof(hub) - 1] || server[sizeof(hub) - 1] == '/'));
}

static int post_auth(struct http_request *rq, struct err *e)
{
	const char *user = "", *password = "", *server = "";
	autoclose int fd = -1;
	json_t *call;

	if (engine_str(http_json(rq), "username", &user, e) < 0 ||
	    engine_str(http_json(rq), "password", &password, e) < 0 ||
	    engine_str(http_json(rq), "serveraddress", &server, e) < 0)
		return -1;
	if (!user[0] || !password[0])
		return docker_fail(rq, 400, e, "a user name and a password are wanted");
	fd = wire_data(password, strlen(password), e);
	if (fd < 0)
		return -1;
	call = call_of("login", is_hub(server) ? "docker.io" : server, NULL);
	call_flag(call, "dry-run");
	call_flag(call, "password-stdin");
	call_text(call, "username", user);
	if (spawn_berth(rq, call, 0, fd, NULL, e) < 0) {
		http_error_status(rq, e->code == ERR_DENIED ? 401 : 500);
		return -1;
	}
	return http_reply_json(
		rq, 200, json_pack("{s:s,s:s}", "Status", "Login Succeeded", "IdentityToken", ""),
		e);
}

const struct http_route docker_volume_routes[] = {
	{ "GET", "/volumes", get_volumes, "list volumes", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/volumes/create", post_volume, "make a volume", HTTP_JSON, HTTP_OPTIONAL },
	{ "POST", "/volumes/prune", post_prune_volumes, "remove unused volumes",
	  HTTP_JSON, HTTP_OPTIONAL },
	{ "GET", "/volumes/{name}", get_volume, "look at a volume", HTTP_NONE, HTTP_QUIET },
	{ "DELETE", "/volumes/{name}", delete_volume, "remove a volume", HTTP_JSON, HTTP_OPTIONAL },
	{ "GET", "/system/df", get_df, "what of the disk is used", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/auth", post_auth, "try a user name and password at a registry", HTTP_JSON },
	{ NULL },
};
