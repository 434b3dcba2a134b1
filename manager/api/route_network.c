/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes on networks: the berth network commands.  A tenant has names of its own, and sees no
 * others; where its networks lead says [tenant] network_hosts.  Rules and addresses are the
 * administrator's.
 */
/* Upholds S19 of SECURITY.md. */
#include <string.h>

#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/host/labels.h"
#include "manager/host/nets.h"

/* The command of berth network, with these members of the body as its options. */
static json_t *call_with(struct http_request *rq, const char *command, const char *const *options)
{
	json_t *call = call_of(command, NULL);

	for (; options && *options; options++)
		call_set(call, *options, json_incref(json_object_get(http_json(rq), *options)));
	spawn_tenant(rq, call);
	return call;
}

static json_t *ask_network_command(struct http_request *rq, const char *command, const char *const *options,
		   const char *name, struct err *e)
{
	json_t *call = call_with(rq, command, options);

	call_operand(call, name);
	return spawn_json(rq, call, 1, e);
}

#define NETWORK_RULES \
	"allow-host", "deny-host", "allow-net", "deny-net", "network-bytes", "network-connections"

static int get_networks_route(struct http_request *rq, struct err *e)
{
	json_t *call = call_of("network ls", NULL), *list;

	call_set(call, "named", json_boolean(!http_who(rq)->admin || http_query_bool(rq, "named")));
	spawn_tenant(rq, call);
	list = spawn_json(rq, call, 0, e);
	return list ? http_reply_json(rq, 0, json_pack("{s:o}", "networks", list), e) : -1;
}

/* Options that open a network or choose its addresses need an admin token. */
static int check_new_network(struct http_request *rq, const char *const *options, struct err *e)
{
	for (; !http_who(rq)->admin && *options; options++)
		if (json_object_get(http_json(rq), *options) && strcmp(*options, "internal") &&
		    strcmp(*options, "label"))
			return err_set(e, ERR_DENIED, "%s of a network needs an admin token",
				       *options);
	return 0;
}

static int post_network_route(struct http_request *rq, struct err *e)
{
	static const char *const options[] = { "internal", "subnet", "label", NETWORK_RULES,
						 "dns", "network-rate", NULL };
	const char *name = json_string_value(json_object_get(http_json(rq), "name"));
	json_t *j;

	if (check_new_network(rq, options, e) < 0 || labels_refuse_own_list(json_object_get(http_json(rq), "label"), e) < 0)
		return -1;
	j = ask_network_command(rq, "network create", options, name, e);
	return j ? http_reply_json(rq, 201, j, e) : -1;
}

/* The command takes a sandbox, too; this is about networks. */
static int check_network_known(struct http_request *rq, struct err *e)
{
	const struct http_who *who = http_who(rq);
	autojson json_t *known = NULL;
	char key[NETS_NAME_MAX + 1];
	struct config c;

	if (config_load(&c, e) < 0)
		return -1;
	if (nets_key(http_param(rq, "name"), who->admin ? "" : who->name, key, e) < 0)
		return -1;
	known = nets_load(&c, key, e);
	return known ? 0 : -1;
}

static int get_network_route(struct http_request *rq, struct err *e)
{
	json_t *j = check_network_known(rq, e) < 0 ? NULL : ask_network_command(rq, "network inspect", NULL, http_param(rq, "name"), e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int patch_network(struct http_request *rq, struct err *e)
{
	static const char *const options[] = { NETWORK_RULES, NULL };
	json_t *j = ask_network_command(rq, "network update", options, http_param(rq, "name"), e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int delete_network_route(struct http_request *rq, struct err *e)
{
	autojson json_t *j = ask_network_command(rq, "network rm", NULL, http_param(rq, "name"), e);

	return j ? http_reply_json(rq, 0, json_pack("{s:b}", "removed", 1), e) : -1;
}

static int change_network_members(struct http_request *rq, const char *command, struct err *e)
{
	static const char *const options[] = { "alias", NULL };
	json_t *call = call_with(rq, command, options), *j;

	call_operand(call, http_param(rq, "name"));
	call_operand(call, json_string_value(json_object_get(http_json(rq), "sandbox")));
	j = spawn_json(rq, call, 1, e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int post_network_connect_route(struct http_request *rq, struct err *e)
{
	return change_network_members(rq, "network connect", e);
}

static int post_network_disconnect_route(struct http_request *rq, struct err *e)
{
	return change_network_members(rq, "network disconnect", e);
}

#define NETWORK "/v1/networks/{name}"

const struct http_route network_routes[] = {
	{ "GET", "/v1/networks", get_networks_route,
	  "the networks of sandboxes, or with named those that have a name",
	  .query = "named:boolean", .response = "NetworkList" },
	{ "POST", "/v1/networks", post_network_route, "make a network, whose members see each other",
	  HTTP_JSON, .request = "NetworkCreate", .response = "Document",
	  .status = 201 },
	{ "GET", NETWORK, get_network_route, "a network and its members", .response = "Document" },
	{ "PATCH", NETWORK, patch_network, "change the rules that its members share", HTTP_JSON,
	  .flags = HTTP_ADMIN, .request = "NetworkUpdate", .response = "Document" },
	{ "DELETE", NETWORK, delete_network_route, "remove a network that has no members",
	  .response = "ImageRemoved" },
	{ "POST", NETWORK "/connect", post_network_connect_route, "put a sandbox on one more network",
	  HTTP_JSON, .request = "NetworkConnect", .response = "Document" },
	{ "POST", NETWORK "/disconnect", post_network_disconnect_route,
	  "take a sandbox off a network that it joined", HTTP_JSON,
	  .request = "NetworkDisconnect", .response = "Document" },
	{ NULL },
};
