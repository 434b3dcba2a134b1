/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes, networks (manager/engine/objects.h), the use of the disk, logins. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/create.h"
#include "manager/engine/filters.h"
#include "manager/engine/image.h"
#include "manager/engine/login.h"
#include "manager/engine/objects.h"
#include "manager/engine/system.h"
#include "manager/keeper/wire.h"
#include "rootfs/store/catalog.h"

/* ---- volumes, the use of the disk, logins ---- */

/* ---- volumes --------------------------------------------------------------------------------- */

static int get_docker_volumes(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e);
	const struct engine_berth b = docker_berth(rq, NULL);
	json_t *all = filters && engine_accept(ENGINE_VOLUMES, filters, e) == 0 ? engine_volume_list(&b, filters, e) : NULL;

	return all ? http_reply_json(rq, 200, json_pack("{s:o,s:n}", "Volumes", all, "Warnings"), e) : -1;
}

static int get_docker_volume(struct http_request *rq, struct err *e)
{
	const struct engine_berth b = docker_berth(rq, NULL);
	json_t *doc = engine_volume_find(&b, http_param(rq, "name"), e);

	return doc ? http_reply_json(rq, 200, doc, e) : -1;
}

static int post_volume_create(struct http_request *rq, struct err *e)
{
	const struct engine_berth b = docker_berth(rq, NULL);
	json_t *doc = engine_volume_create(&b, http_json(rq), e);

	return doc ? http_reply_json(rq, 201, doc, e) : -1;
}

static int delete_docker_volume(struct http_request *rq, struct err *e)
{
	const struct engine_berth b = docker_berth(rq, NULL);

	return engine_volume_remove(&b, http_param(rq, "name"), docker_query_flag(rq, "force"), e) < 0 ?
		       -1 :
		       http_reply_empty(rq, 204, e);
}

static int post_prune_volumes(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e);
	const struct engine_berth b = docker_berth(rq, NULL);
	json_t *said;

	/* anonymous volumes alone are pruned since API 1.42 */
	if (filters && docker_api_minor(rq) < 42 && !json_object_get(filters, "all"))
		json_object_set_new(filters, "all", json_pack("[s]", "true"));
	said = filters ? engine_volume_prune(&b, filters, e) : NULL;

	return said ? http_reply_json(rq, 200, said, e) : -1;
}

/* ---- the rest -------------------------------------------------------------------------------- */

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

static int get_disk_usage(struct http_request *rq, struct err *e)
{
	autojson json_t *none = json_object();
	autoclose int store = docker_store(rq, e);
	const struct engine_berth asker = docker_berth(rq, NULL);
	json_t *volumes = store < 0 ? NULL : engine_volume_list(&asker, none, e), *doc = NULL;
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
	call = call_of("login", engine_login_server(server), NULL);
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
	{ "GET", "/volumes", get_docker_volumes, "list volumes", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/volumes/create", post_volume_create, "make a volume", HTTP_JSON, HTTP_OPTIONAL },
	{ "POST", "/volumes/prune", post_prune_volumes, "remove unused volumes",
	  HTTP_JSON, HTTP_OPTIONAL },
	{ "GET", "/volumes/{name}", get_docker_volume, "look at a volume", HTTP_NONE, HTTP_QUIET },
	{ "DELETE", "/volumes/{name}", delete_docker_volume, "remove a volume", HTTP_JSON, HTTP_OPTIONAL },
	{ "GET", "/system/df", get_disk_usage, "what of the disk is used", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/auth", post_auth, "try a user name and password at a registry", HTTP_JSON },
	{ NULL },
};

/* ---- networks ---- */

/* Networks with a name, and the three that are always there (manager/engine/objects.h). */

static int get_docker_network(struct http_request *rq, struct err *e)
{
	struct config c;
	const struct engine_berth b = docker_berth(rq, &c);
	json_t *doc = engine_network_look(&b, http_param(rq, "name"), e);

	return doc ? http_reply_json(rq, 200, doc, e) : -1;
}

static int get_docker_networks(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e);
	struct config c;
	const struct engine_berth b = docker_berth(rq, &c);
	json_t *all = filters && engine_accept(ENGINE_NETWORKS, filters, e) == 0 ? engine_network_list(&b, filters, e) : NULL;

	return all ? http_reply_json(rq, 200, all, e) : -1;
}

static int post_network_create(struct http_request *rq, struct err *e)
{
	struct config c;
	const struct engine_berth b = docker_berth(rq, &c);
	autobuf struct buf warning = BUF_INIT(ENGINE_WARNING_MAX);
	char id[ENGINE_ID];

	if (engine_network_create(&b, http_json(rq), id, &warning, e) < 0)
		return -1;
	return http_reply_json(rq, 201, json_pack("{s:s,s:s}", "Id", id, "Warning", warning.len ? warning.data : ""), e);
}

static int delete_docker_network(struct http_request *rq, struct err *e)
{
	struct config c;
	const struct engine_berth b = docker_berth(rq, &c);

	return engine_network_remove(&b, http_param(rq, "name"), e) < 0 ? -1 : http_reply_empty(rq, 204, e);
}

static int move_box_on_network(struct http_request *rq, int connects, struct err *e)
{
	struct engine_move m = { .network = http_param(rq, "name"), .container = "" };
	char name[ENGINE_NAME], alias[ENGINE_NAME] = "";
	json_t *endpoint;
	struct config c;
	const struct engine_berth asker = docker_berth(rq, &c);
	struct box b;
	int r;

	if (engine_str(http_json(rq), "Container", &m.container, e) < 0 ||
	    engine_obj(http_json(rq), "EndpointConfig", &endpoint, e) < 0 ||
	    engine_network_open(&asker, m.network, connects, endpoint, name, e) < 0)
		return -1;
	r = docker_find_named(&b, rq, m.container, e);
	if (r == 0) {
		if (connects)
			r = engine_load_joiner(&b.registry, b.id, b.kept, alias, e);
		m.id = b.id, m.alias = alias, m.endpoint = endpoint, m.stopped = b.kept;
		r = r < 0 ? -1 : engine_network_move(&asker, name, connects, &m, e);
	}
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 200, e);
}

static int post_network_connect(struct http_request *rq, struct err *e)
{
	return move_box_on_network(rq, 1, e);
}

static int post_network_disconnect(struct http_request *rq, struct err *e)
{
	return move_box_on_network(rq, 0, e);
}

static int post_prune_networks(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e);
	struct config c;
	const struct engine_berth b = docker_berth(rq, &c);
	json_t *said = filters ? engine_network_prune(&b, filters, e) : NULL;

	return said ? http_reply_json(rq, 200, said, e) : -1;
}

const struct http_route docker_network_routes[] = {
	{ "GET", "/networks", get_docker_networks, "list networks", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/networks/create", post_network_create, "make a network", HTTP_JSON },
	{ "POST", "/networks/prune", post_prune_networks, "remove networks without members",
	  HTTP_JSON, HTTP_OPTIONAL },
	{ "POST", "/networks/{name}/connect", post_network_connect, "put a container on a network",
	  HTTP_JSON },
	{ "POST", "/networks/{name}/disconnect", post_network_disconnect, "take a container off a network",
	  HTTP_JSON },
	{ "GET", "/networks/{name}", get_docker_network, "look at a network", HTTP_NONE, HTTP_QUIET },
	{ "DELETE", "/networks/{name}", delete_docker_network, "remove a network", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ NULL },
};
