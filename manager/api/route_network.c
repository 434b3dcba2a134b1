/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes on networks: the berth network commands.  They are the administrator's, as every option
 * of a sandbox's network is (tenantopts.h): a tenant neither sees nor joins one.
 */
#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/service/args.h"
#include "manager/host/nets.h"

/* berth network VERB --json with the options of the body, then the operands. */
static json_t *ask(struct http_request *rq, const char *verb, const char *const *options,
		   const char *const *operands, struct err *e)
{
	const char *const words[] = { "berth", "network", verb, "--json", NULL };
	const char *const end[] = { "--", NULL };
	const json_t *body = options ? http_json(rq) : NULL;
	struct args a = { .n = 0 };
	json_t *j = NULL, *v, *one;
	int r = args_words(&a, words, e);
	size_t i;

	for (; r == 0 && options && *options; options++) {
		v = json_object_get(body, *options);
		if (!json_is_array(v)) {
			r = v ? args_option(&a, *options, v, e) : 0;
			continue;
		}
		json_array_foreach(v, i, one)
			if (r == 0)
				r = args_option(&a, *options, one, e);
	}
	if (r == 0 && args_words(&a, end, e) == 0 && args_words(&a, operands, e) == 0)
		j = spawn_json(rq, (const char *const *)a.v, 1, e);
	args_release(&a);
	return j;
}

#define NETWORK_RULES \
	"allow-host", "deny-host", "allow-net", "deny-net", "network-bytes", "network-connections"

static int get_networks(struct http_request *rq, struct err *e)
{
	const char *const argv[] = { "berth", "network", "ls", "--json",
				     http_query_bool(rq, "named") ? "--named" : NULL, NULL };
	json_t *list = spawn_json(rq, argv, 0, e);

	return list ? http_reply_json(rq, 0, json_pack("{s:o}", "networks", list), e) : -1;
}

static int post_network(struct http_request *rq, struct err *e)
{
	static const char *const options[] = { "internal", "subnet", "label", NETWORK_RULES,
						 "dns", NULL };
	const char *const operands[] = { json_string_value(json_object_get(http_json(rq), "name")),
					 NULL };
	json_t *j = ask(rq, "create", options, operands, e);

	return j ? http_reply_json(rq, 201, j, e) : -1;
}

/* The command takes a sandbox, too; this is about networks. */
static int exists(struct http_request *rq, struct err *e)
{
	autojson json_t *known = NULL;
	struct config c;

	if (config_load(&c, e) < 0)
		return -1;
	known = nets_load(&c, http_param(rq, "name"), e);
	return known ? 0 : -1;
}

static int get_network(struct http_request *rq, struct err *e)
{
	const char *const operands[] = { http_param(rq, "name"), NULL };
	json_t *j = exists(rq, e) < 0 ? NULL : ask(rq, "inspect", NULL, operands, e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int patch_network(struct http_request *rq, struct err *e)
{
	static const char *const options[] = { NETWORK_RULES, NULL };
	const char *const operands[] = { http_param(rq, "name"), NULL };
	json_t *j = ask(rq, "update", options, operands, e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int delete_network(struct http_request *rq, struct err *e)
{
	const char *const operands[] = { http_param(rq, "name"), NULL };
	autojson json_t *j = ask(rq, "rm", NULL, operands, e);

	return j ? http_reply_json(rq, 0, json_pack("{s:b}", "removed", 1), e) : -1;
}

static int change(struct http_request *rq, const char *verb, struct err *e)
{
	static const char *const options[] = { "alias", NULL };
	const char *const operands[] = { http_param(rq, "name"),
					 json_string_value(json_object_get(http_json(rq),
									   "sandbox")), NULL };
	json_t *j = ask(rq, verb, options, operands, e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int post_connect(struct http_request *rq, struct err *e)
{
	return change(rq, "connect", e);
}

static int post_disconnect(struct http_request *rq, struct err *e)
{
	return change(rq, "disconnect", e);
}

#define NETWORK "/v1/networks/{name}"

const struct http_route network_routes[] = {
	{ "GET", "/v1/networks", get_networks,
	  "the networks of sandboxes, or with named those that have a name",
	  .query = "named:boolean", .flags = HTTP_ADMIN, .response = "NetworkList" },
	{ "POST", "/v1/networks", post_network, "make a network, whose members see each other",
	  HTTP_JSON, .flags = HTTP_ADMIN, .request = "NetworkCreate", .response = "Document",
	  .status = 201 },
	{ "GET", NETWORK, get_network, "a network and its members", .flags = HTTP_ADMIN,
	  .response = "Document" },
	{ "PATCH", NETWORK, patch_network, "change the rules that its members share", HTTP_JSON,
	  .flags = HTTP_ADMIN, .request = "NetworkUpdate", .response = "Document" },
	{ "DELETE", NETWORK, delete_network, "remove a network that has no members",
	  .flags = HTTP_ADMIN, .response = "ImageRemoved" },
	{ "POST", NETWORK "/connect", post_connect, "put a sandbox on one more network",
	  HTTP_JSON, .flags = HTTP_ADMIN, .request = "NetworkConnect", .response = "Document" },
	{ "POST", NETWORK "/disconnect", post_disconnect,
	  "take a sandbox off a network that it joined", HTTP_JSON, .flags = HTTP_ADMIN,
	  .request = "NetworkDisconnect", .response = "Document" },
	{ NULL },
};
