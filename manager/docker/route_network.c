/* SPDX-License-Identifier: Apache-2.0 */
/* Networks with a name, and the three that are always there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/docker/words.h"
#include "manager/engine/accept.h"
#include "manager/engine/address.h"
#include "manager/engine/create.h"
#include "manager/engine/objects.h"
#include "manager/host/nets.h"

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

	if (strchr(name, '@'))	/* a tenant's */
		return 0;
	if (n->names)
		return json_array_append_new(n->names, json_string(name));
	engine_network_id(name, id);
	if (strcmp(name, n->want) &&
	    (strlen(n->want) < 12 || strncmp(id, n->want, strlen(n->want))))
		return 0;
	snprintf(n->name, sizeof(n->name), "%s", name);
	return 1;
}

/* The name of the network in the path: 404 without one. */
static int find_network(struct http_request *rq, char ret[65], int *ret_builtin, struct err *e)
{
	const char *want = http_param(rq, "name");
	char mapped[ENGINE_NAME];
	struct naming n = { .want = engine_name_map(want, mapped) < 0 ? want : mapped };
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
	return n.name[0] ? 0 : docker_fail(rq, 404, e, "network %.100s not found", want);
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

/* Consumes doc; -1 without one. */
static int add_wanted(json_t *all, const json_t *filters, json_t *doc)
{
	int r = !doc ? -1 : engine_object_matches(filters, doc) ? json_array_append(all, doc) : 0;

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
	if (!filters || engine_accept(ENGINE_NETWORKS, filters, e) < 0 ||
	    nets_each(&c, take_name, &n, e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(builtin); i++)
		if (add_wanted(all, filters, engine_network_builtin(builtin[i])) < 0)
			return err_nomem(e);
	json_array_foreach(names, i, name) {
		struct err why;
		json_t *doc = load_network(rq, json_string_value(name), &why);

		/* it went just now */
		if (!doc && why.code == ERR_NOT_FOUND)
			continue;
		if (!doc)
			*e = why;
		if (add_wanted(all, filters, doc) < 0)
			return doc ? err_nomem(e) : -1;
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

		if (engine_str(one, "Subnet", &subnet, e) < 0 || engine_address_pool(one, e) < 0)
			return -1;
		if (subnet[0] && i < 2 &&
		    asprintf(&w->owned[w->owned_n], "--subnet=%s", subnet) >= 0)
			w->v[w->n++] = w->owned[w->owned_n++];
	}
	return 0;
}

static int make_network(struct http_request *rq, const char *called, const char *name,
			struct err *e)
{
	const json_t *body = http_json(rq);
	autojson json_t *made = NULL;
	int internal = 0;
	struct words w;
	json_t *labels;

	words_begin(&w, "network", "create");
	if (engine_flag(body, "Internal", &internal, e) == 0 &&
	    engine_obj(body, "Labels", &labels, e) == 0 && add_subnets(&w, body, e) == 0 &&
	    words_called(&w, called, name, e) == 0 &&
	    words_labels(&w, labels, e) == 0) {
		if (internal)
			w.v[w.n++] = "--internal";
		made = words_run(&w, rq, name, e);
	}
	words_release(&w);
	if (!made && e->code == ERR_EXISTS)
		return docker_fail(rq, 409, e, "network with name %.255s already exists", called);
	return made ? 0 : -1;
}

static int post_network(struct http_request *rq, struct err *e)
{
	const char *called = "", *driver = "bridge";
	char id[ENGINE_ID], name[ENGINE_NAME];

	if (engine_str(http_json(rq), "Name", &called, e) < 0 ||
	    engine_str(http_json(rq), "Driver", &driver, e) < 0)
		return -1;
	if (driver[0] && strcmp(driver, "bridge"))
		return docker_fail(
			rq, 404, e,
			"could not find plugin %.60s in v1 plugin registry: plugin not found",
			driver);
	if (engine_name_map(called, name) < 0)
		return docker_fail(rq, 400, e, "invalid network name: %.80s", called);
	if (make_network(rq, called, name, e) < 0)
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
	const json_t *body = http_json(rq);
	const char *box = "";
	char name[65], small[15][ENGINE_NAME], its[ENGINE_NAME];
	json_t *end, *aliases;
	struct words w;
	struct box b;
	size_t i;
	int always, r;

	if (engine_str(body, "Container", &box, e) < 0 ||
	    engine_obj(body, "EndpointConfig", &end, e) < 0 ||
	    engine_arr(end, "Aliases", &aliases, e) < 0 || engine_address_endpoint(end, e) < 0 ||
	    find_network(rq, name, &always, e) < 0)
		return -1;
	if (always && engine_network_moves(verb, name, e) < 0)
		return -1;
	words_begin(&w, "network", verb);
	for (i = 0; i < json_array_size(aliases); i++) {
		const char *alias = engine_item(aliases, i, "Aliases", e);

		if (!alias)
			return -1;
		/* one that no host can have is of no use to anyone */
		if (i < ARRAY_LEN(small) && !strcmp(verb, "connect") &&
		    engine_name_alias(alias, small[i])) {
			w.v[w.n++] = "--alias";
			w.v[w.n++] = small[i];
		}
	}
	r = docker_find_named(&b, rq, box, e);
	if (r == 0 && !strcmp(verb, "connect") &&
	    engine_load_alias(&b.registry, b.id, b.kept, its)) {
		w.v[w.n++] = "--alias";
		w.v[w.n++] = its;
	}
	w.v[w.n++] = "--";
	w.v[w.n++] = name;
	w.v[w.n++] = b.id;
	if (r == 0 && (r = spawn_berth(rq, w.v, 1, -1, NULL, e)) < 0)
		engine_network_said(verb, box, http_param(rq, "name"), e);
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

/* Those that filters want and nobody is on: one that gets a member meanwhile is not removed. */
static void prune_one(struct http_request *rq, const char *name, const json_t *filters,
		      json_t *gone)
{
	const char *argv[] = { "berth", "network", "rm", "--json", "--", name, NULL };
	struct err why;
	autojson json_t *doc = load_network(rq, name, &why);

	if (doc && engine_object_matches(filters, doc) &&
	    !json_object_size(json_object_get(doc, "Containers")) &&
	    spawn_berth(rq, argv, 1, -1, NULL, &why) == 0)
		json_array_append(gone, json_object_get(doc, "Name"));
}

static int post_prune_networks(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e);
	autojson json_t *gone = json_array();
	struct naming n = { .names = json_array() };
	autojson json_t *names = n.names;
	const json_t *name;
	struct config c;
	size_t i;

	api_config(api_of(rq), &c);
	/* a filter that is not known would spare nothing */
	if (!filters || engine_accept(ENGINE_PRUNE_CONTAINERS, filters, e) < 0 ||
	    nets_each(&c, take_name, &n, e) < 0)
		return -1;
	json_array_foreach(names, i, name)
		prune_one(rq, json_string_value(name), filters, gone);
	return http_reply_json(rq, 200, json_pack("{s:O}", "NetworksDeleted", gone), e);
}

const struct http_route docker_network_routes[] = {
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
	{ NULL },
};
