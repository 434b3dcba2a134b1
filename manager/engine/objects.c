/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/objects.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/netaddr.h"
#include "manager/engine/create.h"
#include "manager/engine/filters.h"
#include "manager/engine/name.h"
#include "manager/engine/view.h"
#include "manager/host/labels.h"
#include "manager/host/netmembers.h"
#include "manager/host/nets.h"
#include "manager/host/registry.h"
#include "manager/ops/call.h"

/* ---- documents ---- */

static const char *object_record_text(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

json_t *engine_volume(const json_t *record)
{
	return json_pack("{s:s,s:s,s:s,s:s,s:o,s:s,s:{},s:{s:I,s:I}}", "Name",
			 engine_called(record, NULL), "Driver", "local", "Mountpoint", "",
			 "CreatedAt", object_record_text(record, "created"), "Labels", engine_labels(record),
			 "Scope", "local", "Options", "UsageData", "Size",
			 json_integer_value(json_object_get(record, "disk_bytes")), "RefCount",
			 (json_int_t)json_array_size(json_object_get(record, "used_by")));
}

json_int_t engine_volume_bytes(const json_t *doc)
{
	return json_integer_value(json_object_get(json_object_get(doc, "UsageData"), "Size"));
}

/* Of the addresses set aside, those of one family. */
static json_t *aux_of(const json_t *record, int six)
{
	json_t *all = json_object(), *address;
	const char *name;

	json_object_foreach (json_object_get(record, "aux"), name, address)
		if (!strchr(json_string_value(address), ':') == !six)
			json_object_set(all, name, address);
	return all;
}

/* The bridge has the first address where the network names no other. */
static json_t *gateway_of_subnet(const json_t *record, const char *subnet, int six)
{
	const char *own = object_record_text(record, six ? "gateway6" : "gateway");
	char shown[NETADDR_TEXT] = "";
	struct netcidr c;
	struct netaddr a;
	struct err ignored;

	if (!own[0] && netcidr_parse(subnet, &c, &ignored) == 0 && netcidr_nth(&c, 1, &a) == 0)
		own = netaddr_text(&a, shown);
	return json_string(own);
}

static void add_config(json_t *all, const json_t *record, const char *subnet, int six)
{
	autojson json_t *aux = aux_of(record, six);
	json_t *one = json_pack("{s:s,s:o}", "Subnet", subnet, "Gateway", gateway_of_subnet(record, subnet, six)), *range;
	size_t i;

	json_array_foreach (json_object_get(record, "ranges"), i, range)
		if (!strchr(json_string_value(range), ':') == !six)
			json_object_set(one, "IPRange", range);
	if (json_object_size(aux))
		json_object_set(one, "AuxiliaryAddresses", aux);
	json_array_append_new(all, one);
}

static int has_ipv6(const json_t *record)
{
	return !json_is_false(json_object_get(record, "ipv6"));
}

static json_t *network_ipam_config(const json_t *record)
{
	const char *four = object_record_text(record, "subnet"), *six = object_record_text(record, "subnet6");
	json_t *all = json_array();

	if (four[0])
		add_config(all, record, four, 0);
	if (six[0] && has_ipv6(record))
		add_config(all, record, six, 1);
	return all;
}

/* "10.1.2.3/24": the address with the length of its subnet's prefix; "" without an address. */
static json_t *address_in_subnet(const char *address, const char *subnet)
{
	return json_sprintf("%s%s", address, address[0] ? subnet + strcspn(subnet, "/") : "");
}

static json_t *network_containers(const json_t *record)
{
	json_t *all = json_object();
	const json_t *m;
	size_t i;

	json_array_foreach (json_object_get(record, "members"), i, m) {
		char id[ENGINE_ID], end[ENGINE_ID];

		engine_id(object_record_text(m, "id"), id);
		engine_endpoint_id(object_record_text(m, "id"), object_record_text(record, "name"), end);
		json_object_set_new(all, id,
				    json_pack("{s:s,s:s,s:o,s:o,s:o}", "Name", object_record_text(m, "name"),
					      "EndpointID", end, "MacAddress", object_record_text(m, "mac")[0] ? json_string(object_record_text(m, "mac")) :
						engine_mac(object_record_text(m, "address")), "IPv4Address",
					      address_in_subnet(object_record_text(m, "address"), object_record_text(record, "subnet")),
					      "IPv6Address",
					      address_in_subnet(object_record_text(m, "address6"), object_record_text(record, "subnet6"))));
	}
	return all;
}

static json_t *network_document(const char *name, const char *called, const char *driver, const char *created,
		    int internal, int ipv6, json_t *config, json_t *members, json_t *labels, json_t *options)
{
	char id[ENGINE_ID];

	engine_network_id(name, id);
	return json_pack(
		"{s:s,s:s,s:s,s:s,s:s,s:b,s:{s:s,s:n,s:o},s:b,s:b,s:b,s:{s:s},s:b,s:o,s:o,s:o}",
		"Name", called, "Id", id, "Created", created, "Scope", "local", "Driver", driver,
		"EnableIPv6", ipv6, "IPAM", "Driver", "default", "Options", "Config", config,
		"Internal", internal, "Attachable", 0, "Ingress", 0, "ConfigFrom", "Network", "",
		"ConfigOnly", 0, "Containers", members, "Options", options, "Labels", labels);
}

/* As the client gave them (keep_network_options()). */
static json_t *network_options(const json_t *record)
{
	const char *text = object_record_text(json_object_get(record, "labels"), ENGINE_OPTIONS_LABEL);
	struct err ignored;
	json_t *options = text[0] ? json_parse(text, strlen(text), LABEL_VALUE_MAX, "label", &ignored) : NULL;

	return options ? options : json_object();
}

json_t *engine_network(const json_t *record)
{
	return network_document(object_record_text(record, "name"), engine_called(record, NULL), "bridge",
		    object_record_text(record, "created"), json_is_true(json_object_get(record, "internal")), has_ipv6(record),
		    network_ipam_config(record), network_containers(record), engine_labels(record), network_options(record));
}

int engine_network_moves(const char *verb, const char *network, struct err *e)
{
	if (!strcmp(network, "none"))
		return err_set(e, ERR_DENIED, "container cannot be connected to multiple networks "
					      "with one of the networks in private (none) mode");
	if (!strcmp(network, "host"))
		return err_set(e, ERR_DENIED, "container cannot be disconnected from host network "
					      "or connected to host network");
	return !strcmp(verb, "connect") ?
		       err_set(e, ERR_DENIED, "a container joins bridge when it is made only") :
		       0;
}

void engine_network_said(const char *verb, const char *container, const char *network,
			 struct err *e)
{
	if (!strcmp(verb, "connect") && e->code == ERR_EXISTS)
		err_set(e, ERR_DENIED, "endpoint with name %.255s already exists in network %.255s",
			container, network);
	else if (!strcmp(verb, "disconnect") && e->code == ERR_NOT_FOUND)
		err_set(e, ERR_NOT_FOUND, "container %.255s is not connected to network %.255s",
			container, network);
}

void engine_network_missing(struct err *e)
{
	static const char words[] = "no network named ";
	char name[ENGINE_NAME];

	if (e->code != ERR_NOT_FOUND || strncmp(e->msg, words, sizeof(words) - 1))
		return;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(e->msg + sizeof(words) - 1, " ;"),
		 e->msg + sizeof(words) - 1);
	err_set(e, ERR_NOT_FOUND, "network %s not found", name);
}

json_t *engine_network_builtin(const char *name)
{
	return network_document(name, name, !strcmp(name, "none") ? "null" : name, ENGINE_NEVER, 0, 0,
		    json_array(), json_object(), json_object(), json_object());
}

/* The bridge without a name, with what berth knows of it: its subnet, and its members that run. */
static json_t *bridge_look(const struct engine_berth *b, struct err *e)
{
	autojson json_t *record = json_pack("{s:s,s:s}", "name", NETJOIN_BRIDGE, "subnet", b->config->network_pool), *all = NULL, *living = json_array();
	json_t *doc = engine_network_builtin(NETJOIN_BRIDGE), *one;
	struct registry r = REGISTRY_INIT;
	size_t i;

	if (registry_open(&r, b->config, e) == 0)
		all = netend_members(&r, NETJOIN_BRIDGE, e);
	registry_close(&r);
	json_array_foreach (all, i, one)
		if (json_object_get(one, "address"))
			json_array_append(living, one);
	if (!all || json_object_set(record, "members", living) < 0 ||
	    json_object_set_new(json_object_get(doc, "IPAM"), "Config", network_ipam_config(record)) < 0 ||
	    json_object_set_new(doc, "Containers", network_containers(record)) < 0) {
		json_decref(doc);
		return all ? (err_nomem(e), NULL) : NULL;
	}
	return doc;
}

/* Nobody has it: a volume without users, a network of ours without members. */
static int is_dangling(const json_t *doc)
{
	const json_t *usage = json_object_get(doc, "UsageData");

	if (usage)
		return !json_integer_value(json_object_get(usage, "RefCount"));
	return strcmp(object_record_text(doc, "Created"), ENGINE_NEVER) != 0 &&
	       !json_object_size(json_object_get(doc, "Containers"));
}

static int value_matches(const json_t *doc, const char *key, const char *want)
{
	if (!strcmp(key, "name"))
		return engine_filters_named(object_record_text(doc, "Name"), want);
	if (!strcmp(key, "id"))
		return !strncmp(object_record_text(doc, "Id"), want, strlen(want));
	if (!strcmp(key, "driver"))
		return !strcmp(object_record_text(doc, "Driver"), want);
	if (!strcmp(key, "scope"))
		return !strcmp(want, "local");
	if (!strcmp(key, "type"))
		return !strcmp(want, "custom") ==
		       (strcmp(object_record_text(doc, "Created"), ENGINE_NEVER) != 0);
	return (!strcmp(want, "true") || !strcmp(want, "1")) == is_dangling(doc);
}

/* Of a network or a volume. */
static const char *object_created(const json_t *doc)
{
	return object_record_text(doc, json_object_get(doc, "CreatedAt") ? "CreatedAt" : "Created");
}

int engine_object_matches(const json_t *filters, const json_t *doc)
{
	static const char *const common[] = { "label", "label!", "until" };
	const json_t *one;
	const char *key;
	json_t *list;
	size_t i;

	if (!engine_filters_prune(filters, json_object_get(doc, "Labels"), object_created(doc)))
		return 0;
	json_object_foreach ((json_t *)(size_t)filters, key, list) {
		int found = json_array_size(list) == 0;

		for (i = 0; i < ARRAY_LEN(common); i++)
			found |= !strcmp(key, common[i]);
		json_array_foreach (list, i, one)
			found |= found || value_matches(doc, key, json_string_value(one));
		if (!found)
			return 0;
	}
	return 1;
}

json_t *engine_volumes(const json_t *records, const json_t *filters)
{
	json_t *all = json_array();
	const json_t *record;
	size_t i;

	json_array_foreach ((json_t *)(size_t)records, i, record) {
		autojson json_t *doc = engine_volume(record);

		if (engine_object_matches(filters, doc))
			json_array_append(all, doc);
	}
	return all;
}

int engine_volumes_prunable(json_t *filters, struct err *e)
{
	json_t *labels = json_object_get(filters, "label");

	if (engine_accept(ENGINE_PRUNE_VOLUMES, filters, e) < 0)
		return -1;
	if (!engine_accepted_bool(filters, "all", 0)) {
		if (!labels && json_object_set_new(filters, "label", labels = json_array()) < 0)
			return err_nomem(e);
		json_array_append_new(labels, json_string(ENGINE_VOLUME_ANONYMOUS));
	}
	json_object_del(filters, "all");
	return json_object_set_new(filters, "dangling", json_pack("[s]", "true")) < 0 ?
		       err_nomem(e) :
		       0;
}

/* ---- what their calls share ---- */

int engine_call_labels(json_t *call, const json_t *labels, struct err *e)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(size_t)labels, key, v) {
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "invalid JSON: label %.80s is not a string",
				       key);
		if (labels_refuse_own(key, e) < 0)
			return -1;
		call_set(call, "label", json_sprintf("%s=%s", key, json_string_value(v)));
	}
	return 0;
}

void engine_call_named(json_t *call, const char *called, const char *name)
{
	if (strcmp(called, name))
		call_set(call, "label", json_sprintf(ENGINE_NAME_LABEL "=%s", called));
}

/* ---- networks ---- */

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

static int take_wanted_network(void *ctx, const char *name)
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
		take_wanted_network(&n, builtin[i]);
	always = n.name[0] != '\0';
	if (!always && nets_each(b->config, take_wanted_network, &n, e) < 0)
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
	if (!always)
		return record_of(b, name, e);
	return strcmp(name, NETJOIN_BRIDGE) ? engine_network_builtin(name) : bridge_look(b, e);
}

static int take_any(void *names, const char *name)
{
	return is_tenants(name) ? 0 : json_array_append_new(names, json_string(name));
}

/* Consumes doc. */
static int add_wanted_network(json_t *all, const json_t *filters, json_t *doc, struct err *e)
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
		if (!doc || add_wanted_network(all, filters, doc, e) < 0)
			return -1;
	}
	return 0;
}

json_t *engine_network_list(const struct engine_berth *b, const json_t *filters, struct err *e)
{
	autojson json_t *all = json_array();
	size_t i;

	for (i = 0; i < ARRAY_LEN(builtin); i++)
		if (add_wanted_network(all, filters, engine_network_builtin(builtin[i]), e) < 0)
			return NULL;
	return add_networks(b, filters, all, e) < 0 ? NULL : json_incref(all);
}

/* ---- making one ------------------------------------------------------------------------------ */

static int add_subnets(const struct engine_berth *b, json_t *call, const json_t *body, struct err *e)
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
	if (b->allow & ENGINE_PUBLIC_SUBNETS)
		call_flag(call, "public-subnet");
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

/* What a driver's option asks for, where berth has another: a promise of less is refused, the rest is told. */
static const struct {
	const char *key, *own;	/* own: the value that is berth's own, NULL: none */
	int is_refused;
	const char *why;
} driver_options[] = {
	{ "com.docker.network.bridge.name", NULL, 0, "berth names its bridges itself" },
	{ "com.docker.network.bridge.default_bridge", "false", 0, "the bridge without a name is always there" },
	{ "com.docker.network.bridge.enable_icc", "true", 1, "members of a network reach each other; hint: a network for each container" },
	{ "com.docker.network.bridge.enable_ip_masquerade", "true", 1,
	  "the way out has the host's address; hint: an internal network has no way out" },
	{ "com.docker.network.bridge.host_binding_ipv4", "127.0.0.1", 0,
	  "a port without an address is published on 127.0.0.1; hint: name the address with the port" },
	{ "com.docker.network.bridge.gateway_mode_ipv4", "nat", 1, "members are behind the host's address" },
	{ "com.docker.network.bridge.gateway_mode_ipv6", "nat", 1, "members are behind the host's address" },
	{ "com.docker.network.bridge.inhibit_ipv4", "false", 1, "a bridge always has an address" },
	{ "com.docker.network.driver.mtu", "1500", 0, "the MTU is 1500" },
	{ "com.docker.network.container_iface_prefix", "eth", 0, "the first interface is eth0" },
};

/* Options of nobody are kept and shown, as dockerd does. */
#define DRIVER_OPTIONS "com.docker.network."

static int note_driver_option(const char *key, const char *value, struct buf *warning, struct err *e)
{
	const char *why = "berth does not know it";
	size_t i;

	if (strncmp(key, DRIVER_OPTIONS, strlen(DRIVER_OPTIONS)))
		return 0;
	for (i = 0; i < ARRAY_LEN(driver_options); i++) {
		const char *own = driver_options[i].own;

		if (strcmp(driver_options[i].key, key))
			continue;
		if (own && (!strcasecmp(value, own) || (!strcmp(own, "true") && !strcmp(value, "1")) ||
			    (!strcmp(own, "false") && !strcmp(value, "0"))))
			return 0;
		why = driver_options[i].why;
		if (driver_options[i].is_refused)
			return err_set(e, ERR_UNSUPPORTED, "the network option %s=%.60s cannot be had: %s", key, value, why);
	}
	return buf_addf(warning, e, "%sthe network option %.100s was ignored: %s", warning->len ? "\n" : "", key, why);
}

/* In a label of berth's own, which inspect shows as the options. */
static int keep_network_options(json_t *call, const json_t *body, struct buf *warning, struct err *e)
{
	autofree char *text = NULL;
	json_t *options, *value;
	const char *key;

	if (engine_obj(body, "Options", &options, e) < 0)
		return -1;
	json_object_foreach (options, key, value) {
		if (!json_is_string(value))
			return err_set(e, ERR_INVALID, "invalid JSON: the network option %.80s is not a string", key);
		if (note_driver_option(key, json_string_value(value), warning, e) < 0)
			return -1;
	}
	if (!json_object_size(options))
		return 0;
	text = json_dumps(options, JSON_COMPACT);
	if (!text || strlen(text) > LABEL_VALUE_MAX)
		return text ? err_set(e, ERR_LIMIT, "the options of a network have more than %d bytes", LABEL_VALUE_MAX) : err_nomem(e);
	call_set(call, "label", json_sprintf(ENGINE_OPTIONS_LABEL "=%s", text));
	return 0;
}

static int make_network_by_call(const struct engine_berth *b, const json_t *body, const char *called, const char *name,
				struct buf *warning, struct err *e)
{
	json_t *labels, *call = call_of("network create", name, NULL);
	autojson json_t *made = NULL;
	int internal = 0;

	if (engine_flag(body, "Internal", &internal, e) == 0 && engine_obj(body, "Labels", &labels, e) == 0 &&
	    add_subnets(b, call, body, e) == 0 && engine_call_labels(call, labels, e) == 0 &&
	    keep_network_options(call, body, warning, e) == 0) {
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

int engine_network_create(const struct engine_berth *b, const json_t *body, char ret_id[ENGINE_ID], struct buf *warning, struct err *e)
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
	if (refuse_kinds(body, e) < 0 || make_network_by_call(b, body, called, name, warning, e) < 0)
		return -1;
	engine_network_id(name, ret_id);
	return 0;
}

/* ---- removing them --------------------------------------------------------------------------- */

static int drop_docker_network(const struct engine_berth *b, const char *name, struct err *e)
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
	if (always == 0 && drop_docker_network(b, name, e) == 0)
		return 0;
	if (always == 0 && e->code == ERR_BUSY)
		return err_set(e, ERR_DENIED, "error while removing network: network %.64s has active endpoints", want);
	return e->code == ERR_NOT_FOUND ? err_set(e, ERR_NOT_FOUND, "network %.100s not found", want) : -1;
}

/* One that gets a member meanwhile stays. */
static void prune_one_network(const struct engine_berth *b, const char *name, const json_t *filters, json_t *gone)
{
	struct err ignored;
	autojson json_t *doc = record_of(b, name, &ignored);

	if (doc && engine_object_matches(filters, doc) && !json_object_size(json_object_get(doc, "Containers")) &&
	    drop_docker_network(b, name, &ignored) == 0)
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
		prune_one_network(b, json_string_value(name), filters, gone);
	return json_pack("{s:O}", "NetworksDeleted", gone);
}

/* ---- members --------------------------------------------------------------------------------- */

int engine_network_open(const struct engine_berth *b, const char *want, int connects, const json_t *endpoint,
			char ret[ENGINE_NAME], struct err *e)
{
	const int always = connects && engine_address_endpoint(endpoint, NULL, e) < 0 ? -1 : engine_network_find(b, want, ret, e);

	if (always > 0 && connects && json_array_size(json_object_get(endpoint, "Aliases")))
		return err_set(e, ERR_INVALID, ENGINE_NO_ALIAS);
	return always > 0 ? engine_network_moves(connects ? "connect" : "disconnect", ret, e) : always;
}

/* Names that no host can have are of no use to anyone. */
static int add_endpoint_aliases(json_t *call, const json_t *endpoint, struct err *e)
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

/* A client sends all members, most of them null or empty. */
static int asks_nothing(const json_t *endpoint)
{
	const char *key, *text;
	json_t *v;

	json_object_foreach ((json_t *)(size_t)endpoint, key, v) {
		text = json_string_value(v);
		if (json_array_size(v) || json_object_size(v) || (text && text[0]) || json_integer_value(v))
			return 0;
	}
	return 1;
}

int engine_network_move(const struct engine_berth *b, const char *name, int connects, const struct engine_move *m,
			struct err *e)
{
	json_t *call = call_of(connects ? "network connect" : "network disconnect", name, NULL);
	autojson json_t *said = NULL;

	autojson json_t *addresses = json_array();
	const int asks = connects ? engine_address_endpoint(m->endpoint, addresses, e) : 0;

	json_t *links = NULL;

	if (connects && (engine_arr(m->endpoint, "Links", &links, e) < 0 || json_array_size(links))) {
		json_decref(call);
		return links ? err_set(e, ERR_UNSUPPORTED, "a container gets its links when it is made; hint: an alias of the other "
				       "container on this network, docker network connect --alias") : -1;
	}
	if (asks < 0 || (connects && add_endpoint_aliases(call, m->endpoint, e) < 0)) {
		json_decref(call);
		return -1;
	}
	call_set(call, "ip", json_array_size(addresses) ? json_incref(addresses) : NULL);
	if (connects && m->alias[0])
		call_text(call, "alias", m->alias);
	call_operand(call, m->id);
	said = engine_do(b, call, e);
	if (!said && connects && e->code == ERR_EXISTS && m->stopped && asks_nothing(m->endpoint))
		return 0;
	if (!said)
		engine_network_said(connects ? "connect" : "disconnect", m->container, m->network, e);
	return said ? 0 : -1;
}

/* ---- volumes ---- */

static json_t *records_of(const struct engine_berth *b, struct err *e)
{
	return engine_look(b, call_of("volume ls", NULL), e);
}

json_t *engine_volume_list(const struct engine_berth *b, const json_t *filters, struct err *e)
{
	autojson json_t *records = records_of(b, e);

	return records ? engine_volumes(records, filters) : NULL;
}

static int no_volume(const char *called, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "get %.100s: no such volume", called);
}

json_t *engine_volume_find(const struct engine_berth *b, const char *called, struct err *e)
{
	autojson json_t *records = records_of(b, e);
	char name[ENGINE_NAME];
	const json_t *record;
	size_t i;

	if (!records)
		return NULL;
	if (engine_name_map(called, name) >= 0)
		json_array_foreach (records, i, record) {
			const char *its = json_string_value(json_object_get(record, "name"));

			if (its && !strcmp(its, name))
				return engine_volume(record);
		}
	no_volume(called, e);
	return NULL;
}

/* ---- making them ----------------------------------------------------------------------------- */

/* Docker's own driver mounts what "type", "device" and "o" say: that would be a mount of the host's. */
static int add_driver_options(json_t *call, const char *called, const json_t *options, struct err *e)
{
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(size_t)options, key, value) {
		if (strcmp(key, "size") != 0)
			return err_set(e, ERR_INVALID,
				       "create %.80s: the option \"%.40s\" of a volume cannot be had; "
				       "hint: size bounds one, and a bind mount shows a directory of the host",
				       called, key);
		if (!json_is_string(value))
			return err_set(e, ERR_INVALID, "create %.80s: the size is not a string", called);
		call_set(call, "size", json_incref(value));
	}
	return 0;
}

/* unnamed: nobody chose the name; labels and options may be NULL. */
static int make_volume_by_call(const struct engine_berth *b, const char *called, const json_t *labels, const json_t *options,
		int unnamed, struct err *e)
{
	autojson json_t *made = NULL;
	char name[ENGINE_NAME];
	json_t *call;

	if (engine_name_map(called, name) < 0)
		return err_set(e, ERR_INVALID,
			       "create %.80s: \"%.80s\" includes invalid characters for a local "
			       "volume name, only \"[a-zA-Z0-9][a-zA-Z0-9_.-]\" are allowed. If you "
			       "intended to pass a host directory, use absolute path",
			       called, called);
	call = call_of("volume create", name, NULL);
	if (unnamed)
		call_text(call, "label", ENGINE_VOLUME_ANONYMOUS "=");
	engine_call_named(call, called, name);
	if (engine_call_labels(call, labels, e) == 0 && add_driver_options(call, called, options, e) == 0)
		made = engine_do(b, call, e);
	else
		json_decref(call);
	return made || e->code == ERR_EXISTS ? 0 : -1;
}

json_t *engine_volume_create(const struct engine_berth *b, const json_t *body, struct err *e)
{
	const char *name = "", *driver = "local";
	json_t *labels, *options, *cluster, *made;
	char fresh[ENGINE_ID];

	*e = (struct err){ 0 };
	if (engine_str(body, "Name", &name, e) < 0 || engine_str(body, "Driver", &driver, e) < 0 ||
	    engine_obj(body, "Labels", &labels, e) < 0 || engine_obj(body, "DriverOpts", &options, e) < 0 ||
	    engine_obj(body, "ClusterVolumeSpec", &cluster, e) < 0)
		return NULL;
	if (cluster)
		err_set(e, ERR_UNSUPPORTED, "create %.80s: there are no cluster volumes without a swarm", name);
	else if (driver[0] && strcmp(driver, "local"))
		err_set(e, ERR_NOT_FOUND, "create %.80s: error looking up volume plugin %.60s: plugin \"%.60s\" not found", name, driver,
			driver);
	else if (!name[0] && engine_new_id(fresh) < 0)
		err_sys(e, "choose a name");
	if (e->code || make_volume_by_call(b, name[0] ? name : fresh, labels, options, !name[0], e) < 0)
		return NULL;
	made = engine_volume_find(b, name[0] ? name : fresh, e);
	if (made && !options) /* nobody named any, not even none */
		json_object_set_new(made, "Options", json_null());
	return made;
}

int engine_volumes_make(const struct engine_berth *b, const json_t *volumes, int unnamed, struct err *e)
{
	const char *key;
	json_t *called;

	json_object_foreach ((json_t *)(size_t)volumes, key, called)
		if (make_volume_by_call(b, json_string_value(called), NULL, NULL, unnamed, e) < 0)
			return -1;
	return 0;
}

/* ---- removing them --------------------------------------------------------------------------- */

static int drop_docker_volume(const struct engine_berth *b, const char *name, struct err *e)
{
	autojson json_t *said = engine_do(b, call_of("volume rm", name, NULL), e);

	return said ? 0 : -1;
}

int engine_volume_remove(const struct engine_berth *b, const char *called, int force, struct err *e)
{
	char name[ENGINE_NAME];
	struct err why;

	if (engine_name_map(called, name) < 0)
		no_volume(called, e);
	else if (drop_docker_volume(b, name, e) == 0)
		return 0;
	if (e->code == ERR_NOT_FOUND)
		return force ? 0 : no_volume(called, e);
	why = *e;
	return e->code == ERR_BUSY ? err_set(e, ERR_BUSY, "remove %.255s: volume is in use - %.200s", called, why.msg) : -1;
}

void engine_volumes_drop(const struct engine_berth *b, const json_t *names)
{
	struct err ignored;
	const char *target;
	json_t *one;
	size_t i;

	/* each alone: one that another container has stays */
	json_array_foreach ((json_t *)(size_t)names, i, one)
		drop_docker_volume(b, json_string_value(one), &ignored);
	json_object_foreach ((json_t *)(size_t)names, target, one)
		drop_docker_volume(b, json_string_value(one), &ignored);
}

json_t *engine_build_prune(const struct engine_berth *b, struct err *e)
{
	json_t *call = call_of("gc", NULL);
	autojson json_t *said = NULL;

	call_set(call, "builds", json_true());
	said = engine_do(b, call, e);
	return said ? json_pack("{s:[],s:I}", "CachesDeleted", "SpaceReclaimed", json_integer_value(json_object_get(said, "build_bytes"))) : NULL;
}

json_t *engine_volume_prune(const struct engine_berth *b, json_t *filters, struct err *e)
{
	autojson json_t *all = engine_volumes_prunable(filters, e) < 0 ? NULL : engine_volume_list(b, filters, e);
	autojson json_t *gone = json_array();
	json_int_t freed = 0;
	const json_t *v;
	size_t i;

	if (!all)
		return NULL;
	json_array_foreach (all, i, v) {
		json_t *called = json_object_get(v, "Name");
		struct err ignored;

		/* one that a container took into use meanwhile stays */
		if (engine_volume_remove(b, json_string_value(called), 0, &ignored) < 0)
			continue;
		json_array_append(gone, called);
		freed += engine_volume_bytes(v);
	}
	return json_pack("{s:O,s:I}", "VolumesDeleted", gone, "SpaceReclaimed", freed);
}
