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
	autojson json_t *record = spawn_json(rq, call_of("network inspect", name, NULL), 0, e);

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

static int add_subnets(json_t *call, const json_t *body, struct err *e)
{
	autojson json_t *subnets = json_array();
	json_t *ipam, *list, *one;
	size_t i;

	if (engine_obj(body, "IPAM", &ipam, e) < 0 || engine_arr(ipam, "Config", &list, e) < 0)
		return -1;
	json_array_foreach(list, i, one) {
		const char *subnet = "";

		if (engine_str(one, "Subnet", &subnet, e) < 0 || engine_address_pool(one, e) < 0)
			return -1;
		if (subnet[0] && i < 2)
			json_array_append_new(subnets, json_string(subnet));
	}
	call_set(call, "subnet", json_array_size(subnets) ? json_incref(subnets) : NULL);
	return 0;
}

static int make_network(struct http_request *rq, const char *called, const char *name,
			struct err *e)
{
	const json_t *body = http_json(rq);
	autojson json_t *made = NULL;
	int internal = 0;
	json_t *labels, *call = call_of("network create", name, NULL);

	if (engine_flag(body, "Internal", &internal, e) == 0 &&
	    engine_obj(body, "Labels", &labels, e) == 0 && add_subnets(call, body, e) == 0 &&
	    words_labels(call, labels, e) == 0) {
		words_called(call, called, name);
		call_set(call, "internal", json_boolean(internal));
		made = spawn_json(rq, call, 1, e);
	} else {
		json_decref(call);
	}
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
	int always;

	if (find_network(rq, name, &always, e) < 0)
		return -1;
	if (always)
		return docker_fail(rq, 403, e, "%s is a pre-defined network and cannot be removed",
				   name);
	if (spawn_berth(rq, call_of("network rm", name, NULL), 1, -1, NULL, e) == 0)
		return http_reply_empty(rq, 204, e);
	return e->code == ERR_BUSY
		       ? docker_fail(
				 rq, 403, e,
				 "error while removing network: network %s has active endpoints",
				 name)
		       : -1;
}

/* Names that no host can have are of no use to anyone. */
static int add_aliases(json_t *call, const json_t *aliases, struct err *e)
{
	char alias[ENGINE_NAME];
	size_t i;

	for (i = 0; i < json_array_size(aliases); i++) {
		const char *text = engine_item(aliases, i, "Aliases", e);

		if (!text)
			return -1;
		if (engine_name_alias(text, alias))
			call_text(call, "alias", alias);
	}
	return 0;
}

/* A container on one more network, or off it: the command "network connect" or "network disconnect". */
static int move(struct http_request *rq, const char *command, struct err *e)
{
	const char *verb = strchr(command, ' ') + 1, *box = "";
	const int connects = !strcmp(verb, "connect");
	const json_t *body = http_json(rq);
	char name[65], its[ENGINE_NAME];
	json_t *end, *aliases, *call;
	struct box b;
	int always, r;

	if (engine_str(body, "Container", &box, e) < 0 ||
	    engine_obj(body, "EndpointConfig", &end, e) < 0 ||
	    engine_arr(end, "Aliases", &aliases, e) < 0 || engine_address_endpoint(end, e) < 0 ||
	    find_network(rq, name, &always, e) < 0)
		return -1;
	if (always && engine_network_moves(verb, name, e) < 0)
		return -1;
	call = call_of(command, name, NULL);
	r = connects ? add_aliases(call, aliases, e) : 0;
	if (r == 0)
		r = docker_find_named(&b, rq, box, e);
	else
		box_clear(&b);
	if (r == 0 && connects && engine_load_alias(&b.registry, b.id, b.kept, its))
		call_text(call, "alias", its);
	call_operand(call, b.id);
	if (r < 0)
		json_decref(call);
	else if ((r = spawn_berth(rq, call, 1, -1, NULL, e)) < 0)
		engine_network_said(verb, box, http_param(rq, "name"), e);
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 200, e);
}

static int post_connect(struct http_request *rq, struct err *e)
{
	return move(rq, "network connect", e);
}

static int post_disconnect(struct http_request *rq, struct err *e)
{
	return move(rq, "network disconnect", e);
}

/* Those that filters want and nobody is on: one that gets a member meanwhile is not removed. */
static void prune_one(struct http_request *rq, const char *name, const json_t *filters,
		      json_t *gone)
{
	struct err why;
	autojson json_t *doc = load_network(rq, name, &why);

	if (doc && engine_object_matches(filters, doc) &&
	    !json_object_size(json_object_get(doc, "Containers")) &&
	    spawn_berth(rq, call_of("network rm", name, NULL), 1, -1, NULL, &why) == 0)
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
