/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/objects.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/netaddr.h"
#include "manager/engine/accept.h"
#include "manager/engine/name.h"
#include "manager/engine/view.h"

static const char *text_of(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

json_t *engine_volume(const json_t *record)
{
	return json_pack("{s:s,s:s,s:s,s:s,s:o,s:s,s:{},s:{s:I,s:I}}", "Name",
			 engine_called(record, NULL), "Driver", "local", "Mountpoint", "",
			 "CreatedAt", text_of(record, "created"), "Labels", engine_labels(record),
			 "Scope", "local", "Options", "UsageData", "Size",
			 json_integer_value(json_object_get(record, "disk_bytes")), "RefCount",
			 (json_int_t)json_array_size(json_object_get(record, "used_by")));
}

json_int_t engine_volume_bytes(const json_t *doc)
{
	return json_integer_value(json_object_get(json_object_get(doc, "UsageData"), "Size"));
}

void engine_network_id(const char *name, char ret[ENGINE_ID])
{
	char digits[ENGINE_ID];
	const size_t n = strlen(name), again = n > 32 ? 0 : n;

	engine_digits(name, digits);
	/* the last ones are the first ones again: clients keep ids, and these were always so */
	memcpy(ret, digits, ENGINE_ID - 1 - again);
	memcpy(ret + ENGINE_ID - 1 - again, digits, again);
	ret[ENGINE_ID - 1] = '\0';
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
	const char *own = text_of(record, six ? "gateway6" : "gateway");
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

static json_t *config_of(const json_t *record)
{
	const char *four = text_of(record, "subnet"), *six = text_of(record, "subnet6");
	json_t *all = json_array();

	if (four[0])
		add_config(all, record, four, 0);
	if (six[0] && has_ipv6(record))
		add_config(all, record, six, 1);
	return all;
}

static json_t *members_of(const json_t *record)
{
	json_t *all = json_object();
	const json_t *m;
	size_t i;

	json_array_foreach (json_object_get(record, "members"), i, m) {
		char id[ENGINE_ID];

		engine_id(text_of(m, "id"), id);
		json_object_set_new(all, id,
				    json_pack("{s:s,s:s,s:s,s:s,s:s}", "Name", text_of(m, "name"),
					      "EndpointID", "", "MacAddress", "", "IPv4Address",
					      text_of(m, "address"), "IPv6Address",
					      text_of(m, "address6")));
	}
	return all;
}

static json_t *make(const char *name, const char *called, const char *driver, const char *created,
		    int internal, int ipv6, json_t *config, json_t *members, json_t *labels)
{
	char id[ENGINE_ID];

	engine_network_id(name, id);
	return json_pack(
		"{s:s,s:s,s:s,s:s,s:s,s:b,s:{s:s,s:n,s:o},s:b,s:b,s:b,s:{s:s},s:b,s:o,s:{},s:o}",
		"Name", called, "Id", id, "Created", created, "Scope", "local", "Driver", driver,
		"EnableIPv6", ipv6, "IPAM", "Driver", "default", "Options", "Config", config,
		"Internal", internal, "Attachable", 0, "Ingress", 0, "ConfigFrom", "Network", "",
		"ConfigOnly", 0, "Containers", members, "Options", "Labels", labels);
}

json_t *engine_network(const json_t *record)
{
	return make(text_of(record, "name"), engine_called(record, NULL), "bridge",
		    text_of(record, "created"), json_is_true(json_object_get(record, "internal")), has_ipv6(record),
		    config_of(record), members_of(record), engine_labels(record));
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
	return make(name, name, !strcmp(name, "none") ? "null" : name, ENGINE_NEVER, 0, 0,
		    json_array(), json_object(), json_object());
}

/* Nobody has it: a volume without users, a network of ours without members. */
static int is_dangling(const json_t *doc)
{
	const json_t *usage = json_object_get(doc, "UsageData");

	if (usage)
		return !json_integer_value(json_object_get(usage, "RefCount"));
	return strcmp(text_of(doc, "Created"), ENGINE_NEVER) != 0 &&
	       !json_object_size(json_object_get(doc, "Containers"));
}

static int value_matches(const json_t *doc, const char *key, const char *want)
{
	if (!strcmp(key, "name"))
		return engine_filters_named(text_of(doc, "Name"), want);
	if (!strcmp(key, "id"))
		return !strncmp(text_of(doc, "Id"), want, strlen(want));
	if (!strcmp(key, "driver"))
		return !strcmp(text_of(doc, "Driver"), want);
	if (!strcmp(key, "scope"))
		return !strcmp(want, "local");
	if (!strcmp(key, "type"))
		return !strcmp(want, "custom") ==
		       (strcmp(text_of(doc, "Created"), ENGINE_NEVER) != 0);
	return (!strcmp(want, "true") || !strcmp(want, "1")) == is_dangling(doc);
}

/* Of a network or a volume. */
static const char *created_of(const json_t *doc)
{
	return text_of(doc, json_object_get(doc, "CreatedAt") ? "CreatedAt" : "Created");
}

int engine_object_matches(const json_t *filters, const json_t *doc)
{
	static const char *const common[] = { "label", "label!", "until" };
	const json_t *one;
	const char *key;
	json_t *list;
	size_t i;

	if (!engine_filters_prune(filters, json_object_get(doc, "Labels"), created_of(doc)))
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
