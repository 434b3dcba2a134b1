/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/networks.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/accept.h"
#include "manager/engine/address.h"
#include "manager/engine/calllabels.h"
#include "manager/engine/create.h"
#include "manager/engine/objects.h"
#include "manager/host/nets.h"
#include "manager/ops/call.h"

#define ID_START 12	/* what the start of an id has at least */
#define SUBNETS_MAX 2	/* one of IPv4, one of IPv6 */

static const char *const builtin[] = { "bridge", "host", "none" };

static json_t *record_of(const struct engine_berth *b, const char *name, struct err *e)
{
	autojson json_t *record = engine_look(b, call_of("network inspect", name, NULL), e);

	return record ? engine_network(record) : NULL;
}

/* ---- looking them up ------------------------------------------------------------------------- */

enum naming_rank { NAMED_NOT, NAMED_BY_START, NAMED_BY_NAME, NAMED_BY_ID };

struct naming {
	const char *want;		/* an id, a name, or the start of an id, the first of them first */
	const char *mapped;		/* the name in berth of what want names */
	enum naming_rank rank;		/* how name was found */
	char name[ENGINE_NAME];
};

static int is_tenants(const char *name)
{
	return strchr(name, '@') != NULL;
}

static int take_wanted(void *ctx, const char *name)
{
	struct naming *n = ctx;
	enum naming_rank rank = NAMED_NOT;
	char id[ENGINE_ID];

	if (is_tenants(name))
		return 0;
	engine_network_id(name, id);
	if (!strcmp(id, n->want))
		rank = NAMED_BY_ID;
	else if (!strcmp(name, n->mapped))
		rank = NAMED_BY_NAME;
	else if (strlen(n->want) >= ID_START && !strncmp(id, n->want, strlen(n->want)))
		rank = NAMED_BY_START;
	if (rank > n->rank) {
		n->rank = rank;
		snprintf(n->name, sizeof(n->name), "%s", name);
	}
	return n->rank == NAMED_BY_ID;
}

int engine_network_find(const struct engine_berth *b, const char *want, char ret[ENGINE_NAME], struct err *e)
{
	char mapped[ENGINE_NAME];
	struct naming n = { .want = want, .mapped = engine_name_network(want, mapped) < 0 ? want : mapped };
	int always;
	size_t i;

	for (i = 0; i < ARRAY_LEN(builtin) && !n.name[0]; i++)
		take_wanted(&n, builtin[i]);
	always = n.name[0] != '\0';
	if (!always && nets_each(b->config, take_wanted, &n, e) < 0)
		return -1;
	if (!n.name[0])
		return err_set(e, ERR_NOT_FOUND, "network %.100s not found", want);
	memcpy(ret, n.name, sizeof(n.name));
	return always;
}

json_t *engine_network_look(const struct engine_berth *b, const char *want, struct err *e)
{
	char name[ENGINE_NAME];
	const int always = engine_network_find(b, want, name, e);

	if (always < 0)
		return NULL;
	return always ? engine_network_builtin(name) : record_of(b, name, e);
}

static int take_any(void *names, const char *name)
{
	return is_tenants(name) ? 0 : json_array_append_new(names, json_string(name));
}

/* Consumes doc. */
static int add_wanted(json_t *all, const json_t *filters, json_t *doc, struct err *e)
{
	const int r = engine_object_matches(filters, doc) ? json_array_append(all, doc) : 0;

	json_decref(doc);
	return r < 0 ? err_nomem(e) : 0;
}

static int add_networks(const struct engine_berth *b, const json_t *filters, json_t *all, struct err *e)
{
	autojson json_t *names = json_array();
	const json_t *name;
	size_t i;

	if (nets_each(b->config, take_any, names, e) < 0)
		return -1;
	json_array_foreach (names, i, name) {
		json_t *doc = record_of(b, json_string_value(name), e);

		if (!doc && e->code == ERR_NOT_FOUND)
			continue; /* it went just now */
		if (!doc || add_wanted(all, filters, doc, e) < 0)
			return -1;
	}
	return 0;
}

json_t *engine_network_list(const struct engine_berth *b, const json_t *filters, struct err *e)
{
	autojson json_t *all = json_array();
	size_t i;

	for (i = 0; i < ARRAY_LEN(builtin); i++)
		if (add_wanted(all, filters, engine_network_builtin(builtin[i]), e) < 0)
			return NULL;
	return add_networks(b, filters, all, e) < 0 ? NULL : json_incref(all);
}

/* ---- making one ------------------------------------------------------------------------------ */

static int add_subnets(json_t *call, const json_t *body, struct err *e)
{
	const char *driver = "";
	json_t *ipam, *list, *one;
	int ipv6 = 0;
	size_t i;

	if (engine_obj(body, "IPAM", &ipam, e) < 0 || engine_arr(ipam, "Config", &list, e) < 0 ||
	    engine_str(ipam, "Driver", &driver, e) < 0 || engine_flag(body, "EnableIPv6", &ipv6, e) < 0)
		return -1;
	if (driver[0] && strcmp(driver, "default") != 0)
		return err_set(e, ERR_INVALID, "invalid ipam driver: %.60s", driver);
	json_array_foreach (list, i, one) {
		const char *subnet = "";

		if (engine_str(one, "Subnet", &subnet, e) < 0 || engine_address_pool(one, call, e) < 0)
			return -1;
		if (i == SUBNETS_MAX)
			return err_set(e, ERR_UNSUPPORTED, "a network has one subnet of IPv4 and one of IPv6");
		ipv6 |= strchr(subnet, ':') != NULL;
	}
	if (!ipv6)
		call_flag(call, "no-ipv6");
	return 0;
}

/* Kinds of networks that only a swarm has, or that are no networks themselves. */
static int refuse_kinds(const json_t *body, struct err *e)
{
	const char *from = "";
	int ingress = 0, config_only = 0;
	json_t *config;

	if (engine_flag(body, "Ingress", &ingress, e) < 0 || engine_flag(body, "ConfigOnly", &config_only, e) < 0 ||
	    engine_obj(body, "ConfigFrom", &config, e) < 0 || engine_str(config, "Network", &from, e) < 0)
		return -1;
	if (ingress)
		return err_set(e, ERR_UNSUPPORTED, "an ingress network needs a swarm, and there is none");
	if (config_only || from[0])
		return err_set(e, ERR_UNSUPPORTED, "a network has no configuration apart from itself; hint: "
						   "give the options to each network");
	return 0;
}

static int make(const struct engine_berth *b, const json_t *body, const char *called, const char *name, struct err *e)
{
	json_t *labels, *call = call_of("network create", name, NULL);
	autojson json_t *made = NULL;
	int internal = 0;

	if (engine_flag(body, "Internal", &internal, e) == 0 && engine_obj(body, "Labels", &labels, e) == 0 &&
	    add_subnets(call, body, e) == 0 && engine_call_labels(call, labels, e) == 0) {
		engine_call_named(call, called, name);
		call_set(call, "internal", json_boolean(internal));
		made = engine_do(b, call, e);
	} else {
		json_decref(call);
	}
	if (!made && e->code == ERR_EXISTS)
		return err_set(e, ERR_EXISTS, "network with name %.255s already exists", called);
	return made ? 0 : -1;
}

int engine_network_create(const struct engine_berth *b, const json_t *body, char ret_id[ENGINE_ID], struct err *e)
{
	const char *called = "", *driver = "bridge";
	char name[ENGINE_NAME];
	size_t i;

	if (engine_str(body, "Name", &called, e) < 0 || engine_str(body, "Driver", &driver, e) < 0)
		return -1;
	if (driver[0] && strcmp(driver, "bridge") != 0)
		return err_set(e, ERR_NOT_FOUND, "could not find plugin %.60s in v1 plugin registry: plugin not found",
			       driver);
	if (engine_name_network(called, name) < 0)
		return err_set(e, ERR_INVALID, "invalid network name: %.80s", called);
	for (i = 0; i < ARRAY_LEN(builtin); i++)
		if (!strcmp(name, builtin[i]))
			return err_set(e, ERR_DENIED, "operation is not permitted on predefined %s network", name);
	if (refuse_kinds(body, e) < 0 || make(b, body, called, name, e) < 0)
		return -1;
	engine_network_id(name, ret_id);
	return 0;
}

/* ---- removing them --------------------------------------------------------------------------- */

static int drop(const struct engine_berth *b, const char *name, struct err *e)
{
	autojson json_t *said = engine_do(b, call_of("network rm", name, NULL), e);

	return said ? 0 : -1;
}

int engine_network_remove(const struct engine_berth *b, const char *want, struct err *e)
{
	char name[ENGINE_NAME];
	const int always = engine_network_find(b, want, name, e);

	if (always > 0)
		return err_set(e, ERR_DENIED, "%s is a pre-defined network and cannot be removed", name);
	if (always == 0 && drop(b, name, e) == 0)
		return 0;
	if (always == 0 && e->code == ERR_BUSY)
		return err_set(e, ERR_DENIED, "error while removing network: network %.64s has active endpoints", name);
	return e->code == ERR_NOT_FOUND ? err_set(e, ERR_NOT_FOUND, "network %.100s not found", want) : -1;
}

/* One that gets a member meanwhile stays. */
static void prune_one(const struct engine_berth *b, const char *name, const json_t *filters, json_t *gone)
{
	struct err ignored;
	autojson json_t *doc = record_of(b, name, &ignored);

	if (doc && engine_object_matches(filters, doc) && !json_object_size(json_object_get(doc, "Containers")) &&
	    drop(b, name, &ignored) == 0)
		json_array_append(gone, json_object_get(doc, "Name"));
}

json_t *engine_network_prune(const struct engine_berth *b, const json_t *filters, struct err *e)
{
	autojson json_t *gone = json_array(), *names = json_array();
	const json_t *name;
	size_t i;

	/* a filter that is not known would spare nothing */
	if (engine_accept(ENGINE_PRUNE_CONTAINERS, filters, e) < 0 || nets_each(b->config, take_any, names, e) < 0)
		return NULL;
	json_array_foreach (names, i, name)
		prune_one(b, json_string_value(name), filters, gone);
	return json_pack("{s:O}", "NetworksDeleted", gone);
}

/* ---- members --------------------------------------------------------------------------------- */

int engine_network_open(const struct engine_berth *b, const char *want, int connects, const json_t *endpoint,
			char ret[ENGINE_NAME], struct err *e)
{
	const int always = connects && engine_address_endpoint(endpoint, NULL, e) < 0 ? -1 : engine_network_find(b, want, ret, e);

	return always > 0 ? engine_network_moves(connects ? "connect" : "disconnect", ret, e) : always;
}

/* Names that no host can have are of no use to anyone. */
static int add_aliases(json_t *call, const json_t *endpoint, struct err *e)
{
	json_t *aliases;
	char alias[ENGINE_NAME];
	size_t i;

	if (engine_arr(endpoint, "Aliases", &aliases, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(aliases); i++) {
		const char *text = engine_item(aliases, i, "Aliases", e);

		if (!text)
			return -1;
		if (engine_name_alias(text, alias))
			call_text(call, "alias", alias);
	}
	return 0;
}

int engine_network_move(const struct engine_berth *b, const char *name, int connects, const struct engine_move *m,
			struct err *e)
{
	json_t *call = call_of(connects ? "network connect" : "network disconnect", name, NULL);
	autojson json_t *said = NULL;

	autojson json_t *addresses = json_array();
	const int asks = connects ? engine_address_endpoint(m->endpoint, addresses, e) : 0;

	if (asks < 0 || (connects && add_aliases(call, m->endpoint, e) < 0)) {
		json_decref(call);
		return -1;
	}
	call_set(call, "ip", asks ? json_incref(addresses) : NULL);
	if (connects && m->alias[0])
		call_text(call, "alias", m->alias);
	call_operand(call, m->id);
	said = engine_do(b, call, e);
	if (!said)
		engine_network_said(connects ? "connect" : "disconnect", m->container, m->network, e);
	return said ? 0 : -1;
}
