/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes and networks, each a berth program's work; what all of it takes of the disk; logins. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/docker/imageflow.h"
#include "manager/engine/create.h"
#include "manager/engine/image.h"
#include "manager/engine/objects.h"
#include "manager/host/nets.h"
#include "manager/keeper/wire.h"
#include "rootfs/store/catalog.h"

#define WORDS_MAX 160

/* berth NOUN VERB --json OPTIONS -- NAME */
struct words {
	const char *v[WORDS_MAX];
	char *owned[WORDS_MAX];
	size_t n, owned_n;
};

static void words_release(struct words *w)
{
	while (w->owned_n)
		free(w->owned[--w->owned_n]);
}

static void words_begin(struct words *w, const char *noun, const char *verb)
{
	*w = (struct words){ .v = { "berth", noun, verb, "--json" }, .n = 4 };
}

static int add_labels(struct words *w, const json_t *labels, struct err *e)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(size_t)labels, key, v) {
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "invalid JSON: label %.80s is not a string",
				       key);
		if (w->n + 3 > WORDS_MAX)
			return err_set(e, ERR_LIMIT, "too many labels");
		if (asprintf(&w->owned[w->owned_n], "--label=%s=%s", key, json_string_value(v)) < 0)
			return err_nomem(e);
		w->v[w->n++] = w->owned[w->owned_n++];
	}
	return 0;
}

static json_t *words_run(struct words *w, struct http_request *rq, const char *name, struct err *e)
{
	w->v[w->n++] = "--";
	w->v[w->n++] = name;
	return spawn_json(rq, w->v, 1, e);
}

/* ---- volumes --------------------------------------------------------------------------------- */

static json_t *load_volumes(struct http_request *rq, struct err *e)
{
	static const char *const argv[] = { "berth", "volume", "ls", "--json", NULL };

	return spawn_json(rq, argv, 0, e);
}

static json_t *wanted_volumes(struct http_request *rq, const json_t *filters, struct err *e)
{
	autojson json_t *records = load_volumes(rq, e);
	json_t *all = json_array();
	const json_t *record;
	int keep = 0;
	size_t i;

	json_array_foreach(records, i, record) {
		autojson json_t *doc = engine_volume(record);

		keep = engine_object_matches(filters, doc, e);
		if (keep < 0)
			break;
		if (keep)
			json_array_append(all, doc);
	}
	if (records && keep >= 0)
		return all;
	json_decref(all);
	return NULL;
}

static int get_volumes(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e);
	json_t *all = filters ? wanted_volumes(rq, filters, e) : NULL;

	return all ? http_reply_json(rq, 200, json_pack("{s:o,s:n}", "Volumes", all, "Warnings"), e)
		   : -1;
}

static int no_volume(struct http_request *rq, const char *name, struct err *e)
{
	return e->code == ERR_NOT_FOUND
		       ? docker_fail(rq, 404, e, "get %.100s: no such volume", name)
		       : -1;
}

static int reply_volume(struct http_request *rq, const char *name, int status, struct err *e)
{
	autojson json_t *records = load_volumes(rq, e);
	const json_t *record;
	size_t i;

	json_array_foreach(records, i, record) {
		const char *its = json_string_value(json_object_get(record, "name"));

		if (its && !strcmp(its, name))
			return http_reply_json(rq, status, engine_volume(record), e);
	}
	return records ? docker_fail(rq, 404, e, "get %.100s: no such volume", name) : -1;
}

static int get_volume(struct http_request *rq, struct err *e)
{
	return reply_volume(rq, http_param(rq, "name"), 200, e);
}

static int make_volume(struct http_request *rq, const char *name, const json_t *labels,
		       struct err *e)
{
	autojson json_t *made = NULL;
	struct words w;

	words_begin(&w, "volume", "create");
	if (add_labels(&w, labels, e) == 0)
		made = words_run(&w, rq, name, e);
	words_release(&w);
	return made || e->code == ERR_EXISTS ? 0 : -1;
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
	if (!name[0])
		name = fresh;
	return make_volume(rq, name, labels, e) < 0 ? -1 : reply_volume(rq, name, 201, e);
}

static int delete_volume(struct http_request *rq, struct err *e)
{
	const char *name = http_param(rq, "name");
	const char *argv[] = { "berth", "volume", "rm", "--json", "--", name, NULL };
	struct err why;

	if (spawn_berth(rq, argv, 1, -1, NULL, e) == 0)
		return http_reply_empty(rq, 204, e);
	why = *e;
	if (e->code == ERR_BUSY)
		return docker_fail(rq, 409, e, "remove %.60s: volume is in use - %.300s", name,
				   why.msg);
	return no_volume(rq, name, e);
}

static int post_prune_volumes(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e), *all = NULL;
	json_t *gone = json_array(), *v;
	struct err ignored;
	size_t i;

	if (filters) {
		json_object_set_new(filters, "dangling", json_pack("[s]", "true"));
		all = wanted_volumes(rq, filters, e);
	}
	json_array_foreach(all, i, v) {
		const char *name = json_string_value(json_object_get(v, "Name"));
		const char *argv[] = { "berth", "volume", "rm", "--json", "--", name, NULL };

		if (spawn_berth(rq, argv, 1, -1, NULL, &ignored) == 0)
			json_array_append_new(gone, json_string(name));
	}
	if (!all) {
		json_decref(gone);
		return -1;
	}
	return http_reply_json(
		rq, 200, json_pack("{s:o,s:i}", "VolumesDeleted", gone, "SpaceReclaimed", 0), e);
}

/* ---- networks -------------------------------------------------------------------------------- */

static const char *const builtin[] = { "bridge", "host", "none" };

struct naming {
	const char *want; /* a name, an id, or the start of one */
	char name[65];
	json_t *names; /* of all; or NULL */
};

static int take_name(void *ctx, const char *name)
{
	struct naming *n = ctx;
	char id[ENGINE_ID];

	if (n->names)
		return json_array_append_new(n->names, json_string(name));
	engine_network_id(name, id);
	if (strcmp(name, n->want) &&
	    (strlen(n->want) < 12 || strncmp(id, n->want, strlen(n->want))))
		return 0;
	snprintf(n->name, sizeof(n->name), "%s", name);
	return 1;
}

/* The name of what the path calls a network: 404 when there is none. */
static int find_network(struct http_request *rq, char ret[65], int *ret_builtin, struct err *e)
{
	struct naming n = { .want = http_param(rq, "name") };
	struct config c;
	size_t i;

	*ret_builtin = 1;
	for (i = 0; i < ARRAY_LEN(builtin) && !n.name[0]; i++)
		take_name(&n, builtin[i]);
	if (!n.name[0]) {
		*ret_builtin = 0;
		api_config(api_of(rq), &c);
		if (nets_each(&c, take_name, &n, e) < 0)
			return -1;
	}
	memcpy(ret, n.name, sizeof(n.name));
	return n.name[0] ? 0 : docker_fail(rq, 404, e, "network %.100s not found", n.want);
}

static json_t *load_network(struct http_request *rq, const char *name, struct err *e)
{
	const char *argv[] = { "berth", "network", "inspect", "--json", "--", name, NULL };
	autojson json_t *record = spawn_json(rq, argv, 0, e);

	return record ? engine_network(record) : NULL;
}

static int get_network(struct http_request *rq, struct err *e)
{
	char name[65];
	json_t *doc;
	int always;

	if (find_network(rq, name, &always, e) < 0)
		return -1;
	doc = always ? engine_network_builtin(name) : load_network(rq, name, e);
	return doc ? http_reply_json(rq, 200, doc, e) : -1;
}

/* Consumes doc. */
static int add_wanted(json_t *all, const json_t *filters, json_t *doc, struct err *e)
{
	int r = doc ? engine_object_matches(filters, doc, e) : -1;

	if (r > 0)
		json_array_append(all, doc);
	json_decref(doc);
	return r;
}

static int get_networks(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e),
			*all = json_array();
	struct naming n = { .names = json_array() };
	autojson json_t *names = n.names;
	struct config c;
	json_t *name;
	size_t i;

	api_config(api_of(rq), &c);
	if (!filters || nets_each(&c, take_name, &n, e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(builtin); i++)
		if (add_wanted(all, filters, engine_network_builtin(builtin[i]), e) < 0)
			return -1;
	json_array_foreach(names, i, name) {
		struct err why;
		json_t *doc = load_network(rq, json_string_value(name), &why);

		/* it went just now */
		if (!doc && why.code == ERR_NOT_FOUND)
			continue;
		if (!doc)
			*e = why;
		if (add_wanted(all, filters, doc, e) < 0)
			return -1;
	}
	return http_reply_json(rq, 200, json_incref(all), e);
}

static int add_subnets(struct words *w, const json_t *body, struct err *e)
{
	json_t *ipam, *list, *one;
	size_t i;

	if (engine_obj(body, "IPAM", &ipam, e) < 0 || engine_arr(ipam, "Config", &list, e) < 0)
		return -1;
	json_array_foreach(list, i, one) {
		const char *subnet = "";

		if (engine_str(one, "Subnet", &subnet, e) < 0)
			return -1;
		if (subnet[0] && i < 2 &&
		    asprintf(&w->owned[w->owned_n], "--subnet=%s", subnet) >= 0)
			w->v[w->n++] = w->owned[w->owned_n++];
	}
	return 0;
}

static int make_network(struct http_request *rq, const char *name, struct err *e)
{
	const json_t *body = http_json(rq);
	autojson json_t *made = NULL;
	int internal = 0;
	struct words w;
	json_t *labels;

	words_begin(&w, "network", "create");
	if (engine_flag(body, "Internal", &internal, e) == 0 &&
	    engine_obj(body, "Labels", &labels, e) == 0 && add_subnets(&w, body, e) == 0 &&
	    add_labels(&w, labels, e) == 0) {
		if (internal)
			w.v[w.n++] = "--internal";
		made = words_run(&w, rq, name, e);
	}
	words_release(&w);
	if (!made && e->code == ERR_EXISTS)
		return docker_fail(rq, 409, e, "network with name %.64s already exists", name);
	return made ? 0 : -1;
}

static int post_network(struct http_request *rq, struct err *e)
{
	const char *name = "", *driver = "bridge";
	char id[ENGINE_ID];

	if (engine_str(http_json(rq), "Name", &name, e) < 0 ||
	    engine_str(http_json(rq), "Driver", &driver, e) < 0)
		return -1;
	if (driver[0] && strcmp(driver, "bridge"))
		return docker_fail(
			rq, 404, e,
			"could not find plugin %.60s in v1 plugin registry: plugin not found",
			driver);
	if (make_network(rq, name, e) < 0)
		return -1;
	engine_network_id(name, id);
	return http_reply_json(rq, 201, json_pack("{s:s,s:s}", "Id", id, "Warning", ""), e);
}

static int delete_network(struct http_request *rq, struct err *e)
{
	char name[65];
	const char *argv[] = { "berth", "network", "rm", "--json", "--", name, NULL };
	int always;

	if (find_network(rq, name, &always, e) < 0)
		return -1;
	if (always)
		return docker_fail(rq, 403, e, "%s is a pre-defined network and cannot be removed",
				   name);
	if (spawn_berth(rq, argv, 1, -1, NULL, e) == 0)
		return http_reply_empty(rq, 204, e);
	return e->code == ERR_BUSY
		       ? docker_fail(
				 rq, 403, e,
				 "error while removing network: network %s has active endpoints",
				 name)
		       : -1;
}

/* A container on one more network, or off it. */
static int move(struct http_request *rq, const char *verb, struct err *e)
{
	const json_t *body = http_json(rq), *alias;
	const char *box = "";
	char name[65];
	json_t *end, *aliases;
	struct words w;
	struct box b;
	size_t i;
	int always, r;

	if (engine_str(body, "Container", &box, e) < 0 ||
	    engine_obj(body, "EndpointConfig", &end, e) < 0 ||
	    engine_arr(end, "Aliases", &aliases, e) < 0 || find_network(rq, name, &always, e) < 0)
		return -1;
	if (always)
		return docker_fail(rq, 403, e,
				   "a container cannot join or leave %s once it is made", name);
	words_begin(&w, "network", verb);
	json_array_foreach(aliases, i, alias) {
		if (!engine_item(aliases, i, "Aliases", e))
			return -1;
		if (i < 16 && !strcmp(verb, "connect")) {
			w.v[w.n++] = "--alias";
			w.v[w.n++] = json_string_value(alias);
		}
	}
	w.v[w.n++] = "--";
	w.v[w.n++] = name;
	r = docker_find_named(&b, rq, box, e);
	w.v[w.n++] = b.id;
	if (r == 0)
		r = spawn_berth(rq, w.v, 1, -1, NULL, e);
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 200, e);
}

static int post_connect(struct http_request *rq, struct err *e)
{
	return move(rq, "connect", e);
}

static int post_disconnect(struct http_request *rq, struct err *e)
{
	return move(rq, "disconnect", e);
}

static int post_prune_networks(struct http_request *rq, struct err *e)
{
	static const char *const argv[] = { "berth", "network", "prune", "--json", NULL };
	autojson json_t *said = spawn_json(rq, argv, 1, e);
	json_t *gone = json_object_get(said, "removed");

	if (!said)
		return -1;
	return http_reply_json(rq, 200,
			       json_pack("{s:o}", "NetworksDeleted",
					 json_is_array(gone) ? json_incref(gone) : json_array()),
			       e);
}

/* ---- the rest ----------------------------------------------------------------------------------
 */

static int get_df(struct http_request *rq, struct err *e)
{
	static const char *const argv[] = { "berth", "system", "df", "--json", NULL };
	autojson json_t *none = json_object(), *said = spawn_json(rq, argv, 0, e);
	autoclose int store = said ? docker_store(rq, e) : -1;
	autojson json_t *list = store < 0 ? NULL : catalog_list(store, 0, e);
	json_t *volumes = list ? wanted_volumes(rq, none, e) : NULL;
	const json_t *layers = json_object_get(json_object_get(said, "layers"), "bytes");

	if (!volumes)
		return -1;
	return http_reply_json(rq, 200,
			       json_pack("{s:I,s:o,s:[],s:o,s:[]}", "LayersSize",
					 json_integer_value(layers), "Images",
					 engine_image_list(list, none, e), "Containers", "Volumes",
					 volumes, "BuildCache"),
			       e);
}

/* The password goes through memory: it is in no argument, no environment, no file of ours and no
 * audit line. */
static int post_auth(struct http_request *rq, struct err *e)
{
	const char *user = "", *password = "", *server = "";
	const char *argv[] = { "berth", "login", "--json", "--password-stdin", "--username", NULL,
			       "--",	NULL,	 NULL };
	autoclose int fd = -1;

	if (engine_str(http_json(rq), "username", &user, e) < 0 ||
	    engine_str(http_json(rq), "password", &password, e) < 0 ||
	    engine_str(http_json(rq), "serveraddress", &server, e) < 0)
		return -1;
	if (!user[0] || !password[0])
		return docker_fail(rq, 400, e, "a user name and a password are wanted");
	argv[5] = user;
	argv[7] = !server[0] || strstr(server, "index.docker.io") ? "docker.io" : server;
	fd = wire_data(password, strlen(password), e);
	if (fd < 0)
		return -1;
	if (spawn_berth(rq, argv, 0, fd, NULL, e) < 0) {
		http_error_status(rq, e->code == ERR_DENIED ? 401 : 500);
		return -1;
	}
	return http_reply_json(
		rq, 200, json_pack("{s:s,s:s}", "Status", "Login Succeeded", "IdentityToken", ""),
		e);
}

const struct http_route docker_object_routes[] = {
	{ "GET", "/volumes", get_volumes, "list volumes", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/volumes/create", post_volume, "make a volume", HTTP_JSON, HTTP_OPTIONAL },
	{ "POST", "/volumes/prune", post_prune_volumes, "remove volumes that nobody uses",
	  HTTP_JSON, HTTP_OPTIONAL },
	{ "GET", "/volumes/{name}", get_volume, "look at a volume", HTTP_NONE, HTTP_QUIET },
	{ "DELETE", "/volumes/{name}", delete_volume, "remove a volume", HTTP_JSON, HTTP_OPTIONAL },
	{ "GET", "/networks", get_networks, "list networks", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/networks/create", post_network, "make a network", HTTP_JSON },
	{ "POST", "/networks/prune", post_prune_networks, "remove networks without members",
	  HTTP_JSON, HTTP_OPTIONAL },
	{ "POST", "/networks/{name}/connect", post_connect, "put a container on a network",
	  HTTP_JSON },
	{ "POST", "/networks/{name}/disconnect", post_disconnect, "take a container off a network",
	  HTTP_JSON },
	{ "GET", "/networks/{name}", get_network, "look at a network", HTTP_NONE, HTTP_QUIET },
	{ "DELETE", "/networks/{name}", delete_network, "remove a network", HTTP_JSON,
	  HTTP_OPTIONAL },
	{ "GET", "/system/df", get_df, "what of the disk is used", HTTP_NONE, HTTP_QUIET },
	{ "POST", "/auth", post_auth, "keep a user name and password for a registry", HTTP_JSON },
	{ NULL },
};
