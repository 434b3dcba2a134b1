/* SPDX-License-Identifier: Apache-2.0 */
/* Networks with a name, and the three that are always there (manager/engine/networks.h). */
#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/accept.h"
#include "manager/engine/create.h"
#include "manager/engine/networks.h"

static int get_network(struct http_request *rq, struct err *e)
{
	struct config c;
	const struct engine_berth b = docker_berth(rq, &c);
	json_t *doc = engine_network_look(&b, http_param(rq, "name"), e);

	return doc ? http_reply_json(rq, 200, doc, e) : -1;
}

static int get_networks(struct http_request *rq, struct err *e)
{
	autojson json_t *filters = engine_filters(http_query(rq, "filters"), e);
	struct config c;
	const struct engine_berth b = docker_berth(rq, &c);
	json_t *all = filters && engine_accept(ENGINE_NETWORKS, filters, e) == 0 ? engine_network_list(&b, filters, e) : NULL;

	return all ? http_reply_json(rq, 200, all, e) : -1;
}

static int post_network(struct http_request *rq, struct err *e)
{
	struct config c;
	const struct engine_berth b = docker_berth(rq, &c);
	char id[ENGINE_ID];

	if (engine_network_create(&b, http_json(rq), id, e) < 0)
		return -1;
	return http_reply_json(rq, 201, json_pack("{s:s,s:s}", "Id", id, "Warning", ""), e);
}

static int delete_network(struct http_request *rq, struct err *e)
{
	struct config c;
	const struct engine_berth b = docker_berth(rq, &c);

	return engine_network_remove(&b, http_param(rq, "name"), e) < 0 ? -1 : http_reply_empty(rq, 204, e);
}

static int move(struct http_request *rq, int connects, struct err *e)
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
			engine_load_alias(&b.registry, b.id, b.kept, alias);
		m.id = b.id, m.alias = alias, m.endpoint = endpoint;
		r = engine_network_move(&asker, name, connects, &m, e);
	}
	box_close(&b);
	return r < 0 ? -1 : http_reply_empty(rq, 200, e);
}

static int post_connect(struct http_request *rq, struct err *e)
{
	return move(rq, 1, e);
}

static int post_disconnect(struct http_request *rq, struct err *e)
{
	return move(rq, 0, e);
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
