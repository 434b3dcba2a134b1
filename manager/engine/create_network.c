/* SPDX-License-Identifier: Apache-2.0 */
/* NetworkMode, published ports, resolvers, addresses. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/netaddr.h"
#include "base/num.h"
#include "manager/engine/create.h"
#include "manager/engine/name.h"
#include "manager/ops/call.h"

/* ---- mode, ports, resolvers ---- */

#define OF_CONTAINER "container:"
static const char *const resolver_members[] = { "Dns", "DnsSearch", "DnsOptions" };
#define ID_MIN 12 /* digits of a network's id */

/* The network of the first endpoint: compose says it there, too. */
static const char *first_endpoint(const json_t *body)
{
	json_t *ends =
		json_object_get(json_object_get(body, "NetworkingConfig"), "EndpointsConfig");

	return json_is_object(ends) ? json_object_iter_key(json_object_iter(ends)) : NULL;
}

/* The name in berth of a network that a client names, or knows by its id. */
static int map_network_mode(const struct engine_create *c, const char *mode, char ret[ENGINE_NAME],
			struct err *e)
{
	const size_t n = strlen(mode);

	if (n >= ID_MIN && !mode[strspn(mode, "0123456789abcdef")] && c->rules->network &&
	    c->rules->network(c->rules->ctx, mode, ret))
		return 0;
	return engine_name_network(mode, ret) < 0 ?
		       err_set(e, ERR_NOT_FOUND, "network %.100s not found", mode) :
		       0;
}

static int is_bridge(const char *name)
{
	return !strcmp(name, "bridge") || !strcmp(name, "default");
}

/* The network that it is made with: the bridge without a name, if that is one of several. */
static const char *main_network(const json_t *body, const char *mode)
{
	const json_t *ends =
		json_object_get(json_object_get(body, "NetworkingConfig"), "EndpointsConfig");
	const char *first = first_endpoint(body);

	if (!mode[0] || !strcmp(mode, "default"))
		mode = first ? first : "bridge";
	if (!strcmp(mode, "none") || !strcmp(mode, "host"))
		return mode;
	return is_bridge(mode) || json_object_get(ends, "bridge") ? "bridge" : mode;
}

static int add_network_mode(struct engine_create *c, const char *mode, struct err *e)
{
	char name[ENGINE_NAME];

	if (!strcmp(mode, "bridge"))
		return engine_word(c, e, "--network=bridge");
	if (!strcmp(mode, "host") &&
	    engine_rules_need(c->rules, ENGINE_HOST_NETWORK, "the network of the host", e) < 0)
		return -1;
	if (!strcmp(mode, "host"))
		return engine_word(c, e, "--network=host");
	if (map_network_mode(c, mode, name, e) < 0)
		return -1;
	return engine_word(c, e, "--network=%s", name);
}

/* The network of another container; its ports, names and resolvers are those of that container. */
static int join_container(struct engine_create *c, const json_t *body, const json_t *host,
			  const char *name, struct err *e)
{
	static const struct { const char *key, *what; int of_host; } others[] = {
		{ "Hostname", "hostname and the network mode", 0 },
		{ "Links", "container type network can't be used with links. This would result in undefined behavior", 1 },
		{ "Dns", "dns and the network mode", 1 },
		{ "DnsSearch", "dns and the network mode", 1 },
		{ "DnsOptions", "dns and the network mode", 1 },
		{ "ExtraHosts", "custom host-to-IP mapping and the network mode", 1 },
		{ "MacAddress", "mac-address and the network mode", 0 },
		{ "PortBindings", "port publishing and the container type network mode", 1 },
		{ "PublishAllPorts", "port publishing and the container type network mode", 1 },
		{ "ExposedPorts", "port exposing and the container type network mode", 0 },
	};
	char ref[ENGINE_NAME_MAX + 1], word[ENGINE_NAME];
	size_t i;

	for (i = 0; i < ARRAY_LEN(others); i++) {
		const json_t *v = json_object_get(others[i].of_host ? host : body, others[i].key);
		const char *text = json_string_value(v);

		if (json_object_size(v) || json_array_size(v) || (text && text[0]) || json_is_true(v))
			return err_set(e, ERR_INVALID, "conflicting options: %s", others[i].what);
	}
	if (c->called[0] && !strcmp(name + (name[0] == '/'), c->called))
		return err_set(e, ERR_INVALID, "cannot join own network");
	if (engine_ref(name, ref, sizeof(ref)) < 0)
		return err_set(e, ERR_INVALID, "invalid network mode: container:%.64s names no "
					       "container", name);
	if (engine_name_map(ref, word) < 0)
		return err_set(e, ERR_NOT_FOUND, "No such container: %.200s", name);
	return engine_word(c, e, "--network=" OF_CONTAINER "%s", word);
}

#define HOST_PORT_TEXT 24 /* of "65535-65535" */

/* "80", "8000-8010": a port of the host, or several of which one is chosen; "" and "0": any.  max 0: any. */
struct wanted_port {
	uint64_t min, max;
};

static int read_host_port(const char *text, struct wanted_port *ret, struct err *e)
{
	const char *dash = strchr(text, '-');
	char first[12];

	*ret = (struct wanted_port){ 0 };
	snprintf(first, sizeof(first), "%.*s", dash ? (int)(dash - text) : 11, text);
	if (!text[0])
		return 0;
	if (num_u64(first, "HostPort", dash ? 1 : 0, UINT16_MAX, &ret->min, e) < 0 ||
	    (dash && num_u64(dash + 1, "HostPort", ret->min, UINT16_MAX, &ret->max, e) < 0))
		return err_set(e, ERR_INVALID, "invalid port specification: \"%.40s\"", text);
	if (!dash)
		ret->max = ret->min;
	return 0;
}

/* Whether another port of this container has it. */
static int has_chosen(const struct engine_create *c, uint64_t port, int udp)
{
	const char *what;
	json_t *list, *one;
	char text[12];
	size_t i;

	snprintf(text, sizeof(text), "%d", (int)port);
	json_object_foreach (c->ports, what, list)
		json_array_foreach (list, i, one)
			if (!strcmp(json_string_value(json_object_get(one, "HostPort")), text) && (strstr(what, "/udp") != NULL) == udp)
				return 1;
	return 0;
}

/* The text of the host's port: a range stays one, of which the start takes a free port. */
static int choose_host_port(const struct engine_create *c, const char *what, int udp, struct wanted_port w, char ret[HOST_PORT_TEXT], struct err *e)
{
	int found = (int)w.min;

	if (w.min != w.max) {
		snprintf(ret, HOST_PORT_TEXT, "%d-%d", (int)w.min, (int)w.max);
		return 0;
	}
	while (!w.max) {
		found = c->rules->free_port ? c->rules->free_port(udp) : -1;
		if (found <= 0)
			return err_set(e, ERR_LIMIT, "no port of the host is free for %.40s", what);
		if (!has_chosen(c, (uint64_t)found, udp))
			break;
	}
	snprintf(ret, HOST_PORT_TEXT, "%d", found);
	return 0;
}

/* One binding of "80/tcp". */
static int add_published_port(struct engine_create *c, const char *what, const json_t *binding, struct err *e)
{
	const char *slash = strchr(what, '/'), *ip = "", *port = "";
	const int udp = slash && !strcmp(slash, "/udp");
	struct wanted_port wanted;
	char number[8], outside[HOST_PORT_TEXT];
	uint64_t inside;
	json_t *list;

	snprintf(number, sizeof(number), "%.*s", slash ? (int)(slash - what) : 7, what);
	if (engine_str(binding, "HostIp", &ip, e) < 0 ||
	    engine_str(binding, "HostPort", &port, e) < 0)
		return -1;
	if (num_u64(number, "port", 1, UINT16_MAX, &inside, e) < 0)
		return err_set(e, ERR_INVALID, "invalid port specification: \"%.40s\"", what);
	if (read_host_port(port, &wanted, e) < 0)
		return -1;
	if (slash && !udp && strcmp(slash, "/tcp"))
		return err_set(e, ERR_UNSUPPORTED, "port %.40s: only tcp and udp are published",
			       what);
	if (choose_host_port(c, what, udp, wanted, outside, e) < 0)
		return -1;
	/* berth's own choice where nobody names an address: the loopback, not the world */
	if (!ip[0])
		ip = "127.0.0.1";
	list = json_object_get(c->ports, what);
	if (!list) {
		list = json_array();
		json_object_set_new(c->ports, what, list);
	}
	json_array_append_new(list, json_pack("{s:s,s:s}", "HostIp", ip, "HostPort", outside));
	return engine_word(c, e,
			   strchr(ip, ':') && ip[0] != '[' ? "--publish=[%s]:%s:%d%s"
							   : "--publish=%s:%s:%d%s",
			   ip, outside, (int)inside, udp ? "/udp" : "");
}

static int add_published_ports(struct engine_create *c, const json_t *host, struct err *e)
{
	json_t *ports, *v;
	const char *what;
	size_t i;

	if (engine_obj(host, "PortBindings", &ports, e) < 0)
		return -1;
	json_object_foreach(ports, what, v) {
		/* null, as docker-py says it, or one without a port: any */
		if (json_is_null(v) && add_published_port(c, what, NULL, e) < 0)
			return -1;
		for (i = 0; i < json_array_size(v); i++)
			if (add_published_port(c, what, json_array_get(v, i), e) < 0)
				return -1;
	}
	return 0;
}

static int add_exposed(struct engine_create *c, const json_t *body, const json_t *host,
		       struct err *e)
{
	const char *what;
	json_t *ports, *v;
	int all = 0;

	if (engine_flag(host, "PublishAllPorts", &all, e) < 0 ||
	    engine_obj(body, "ExposedPorts", &ports, e) < 0)
		return -1;
	json_object_foreach(ports, what, v)
		if (all && !json_object_get(c->ports, what) && add_published_port(c, what, NULL, e) < 0)
			return -1;
	return 0;
}

/* A list of strings, each the value of an option. */
static int add_each(struct engine_create *c, const json_t *obj, const char *key, const char *option,
		    struct err *e)
{
	json_t *list;
	size_t i;

	if (engine_arr(obj, key, &list, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(list); i++) {
		const char *text = engine_item(list, i, key, e);

		if (!text || engine_word(c, e, "--%s=%s", option, text) < 0)
			return -1;
	}
	return 0;
}

/* Resolvers look for small letters; a name that no host can have is of no use to anyone. */
static int add_alias(struct engine_create *c, const char *text, struct err *e)
{
	char alias[ENGINE_NAME];

	return engine_name_alias(text, alias) ?
		       engine_word(c, e, "--alias=%s", alias) :
		       engine_warn(c, e, "%.80s is no name for a host, and was left out", text);
}

/* "NAME[:ALIAS]", as docker's client gives it; inspect's "/NAME:/OWN/ALIAS" is read as well. */
static int add_link(struct engine_create *c, const char *text, struct err *e)
{
	const char *colon = strchr(text, ':'), *alias = colon ? colon + 1 : text + (*text == '/');
	char name[ENGINE_NAME_MAX + 1], ref[ENGINE_NAME_MAX + 1], target[ENGINE_NAME], word[ENGINE_NAME];

	if (strrchr(alias, '/'))
		alias = strrchr(alias, '/') + 1;
	snprintf(name, sizeof(name), "%.*s", colon ? (int)(colon - text) : ENGINE_NAME_MAX, text);
	/* the resolvers know each member by the start of its id, too */
	if (engine_ref(name, ref, sizeof(ref)) < 0 || engine_name_map(ref, target) < 0 || !engine_name_alias(alias, word))
		return err_set(e, ERR_INVALID, "invalid link %.200s: it is not NAME or NAME:ALIAS with names of containers", text);
	return engine_word(c, e, "--link=%s:%s", target, word);
}

static int add_links_of(struct engine_create *c, const json_t *obj, int alone, int *n, struct err *e)
{
	json_t *list;
	size_t i;

	if (engine_arr(obj, "Links", &list, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(list); i++, ++*n) {
		const char *text = engine_item(list, i, "Links", e);

		if (!text || (!alone && add_link(c, text, e) < 0))
			return -1;
	}
	return 0;
}

/* "DB_ENV_KEY=VALUE" of the target's "KEY=VALUE", but for what an image sets for its own programs. */
static int add_link_variable(struct engine_create *c, const char *prefix, const char *text, struct err *e)
{
	if (!strchr(text, '=') || !strncmp(text, "HOME=", 5) || !strncmp(text, "PATH=", 5))
		return 0;
	return engine_word(c, e, "--env=%s_ENV_%s", prefix, text);
}

/* On the default bridge a link is a name of the target, and the target's environment. */
static int add_bridge_links(struct engine_create *c, struct err *e)
{
	const json_t *link, *one;
	size_t i, k;

	json_array_foreach ((json_t *)(size_t)c->links, i, link) {
		const char *alias = json_string_value(json_object_get(link, "alias"));
		char prefix[ENGINE_NAME_MAX + 1];

		snprintf(prefix, sizeof(prefix), "%s", alias);
		for (k = 0; prefix[k]; k++)
			prefix[k] = prefix[k] == '-' ? '_' : (char)toupper((unsigned char)prefix[k]);
		if (engine_word(c, e, "--env=%s_NAME=%s%s/%s", prefix, c->called[0] ? "/" : "", c->called, alias) < 0)
			return -1;
		json_array_foreach (json_object_get(link, "env"), k, one)
			if (json_is_string(one) && add_link_variable(c, prefix, json_string_value(one), e) < 0)
				return -1;
		if (json_array_append_new(c->linked, json_pack("{s:O,s:s}", "id", json_object_get(link, "id"), "alias", alias)) < 0)
			return err_nomem(e);
	}
	return 0;
}

/* Those of the container, and of each endpoint: one resolver serves all its networks. */
static int add_docker_links(struct engine_create *c, const json_t *body, const json_t *host, const char *mode, struct err *e)
{
	json_t *ends = json_object_get(json_object_get(body, "NetworkingConfig"), "EndpointsConfig"), *end;
	const int alone = !strcmp(mode, "bridge");
	static const char hint[] = "containers there do not reach each other; hint: docker network create NAME, and --network NAME for both";
	int n = 0, of_ends = 0;
	const char *name;

	if (add_links_of(c, host, alone, &n, e) < 0 || (alone && add_bridge_links(c, e) < 0))
		return -1;
	json_object_foreach (ends, name, end)
		if (add_links_of(c, end, alone, &of_ends, e) < 0)
			return -1;
	if (n && alone && engine_warn(c, e, "HostConfig.Links on the default bridge are names and variables only: %s", hint) < 0)
		return -1;
	return of_ends && alone ? engine_warn(c, e, "EndpointsConfig.Links were ignored on the default bridge: %s", hint) : 0;
}

/* Of the endpoint on its one network; a network that Docker has without being asked knows no names. */
static int add_network_aliases(struct engine_create *c, const json_t *body, const char *mode, struct err *e)
{
	json_t *list;
	size_t i;

	const json_t *ends =
		json_object_get(json_object_get(body, "NetworkingConfig"), "EndpointsConfig");

	if (engine_arr(json_object_get(ends, mode), "Aliases", &list, e) < 0)
		return -1;
	if (!strcmp(mode, "bridge") || !strcmp(mode, "host") || !strcmp(mode, "none"))
		return json_array_size(list) ? err_set(e, ERR_INVALID, ENGINE_NO_ALIAS) : 0;
	for (i = 0; i < json_array_size(list); i++) {
		const char *text = engine_item(list, i, "Aliases", e);

		if (!text || add_alias(c, text, e) < 0)
			return -1;
	}
	/* berth makes the container's own name known, which is another then */
	return strcmp(c->called, c->name) ? add_alias(c, c->called, e) : 0;
}

/* Adds the hardware address to a list unless it is there; one that berth gave was copied from an inspect, as are addresses of a run before. */
static int add_mac(json_t *list, const char *text, struct err *e)
{
	const json_t *last = json_array_get(list, json_array_size(list) - 1);
	char own[NETADDR_MAC_TEXT];
	uint8_t mac[6];

	if (!text[0])
		return 0;
	if (netaddr_mac(text, mac) < 0)
		return err_set(e, ERR_INVALID, "invalid MAC address: %.40s", text);
	netaddr_mac_text(mac, own);
	if (netaddr_mac_is_own(mac) || (last && !strcmp(json_string_value(last), own)))
		return 0;
	return json_array_append_new(list, json_string(own)) < 0 ? err_nomem(e) : 0;
}

/* A network that is not the container's own has an address already. */
static int check_mac_mode(struct engine_create *c, const json_t *body, const char *mode, struct err *e)
{
	const char *mac = "";

	if (engine_str(body, "MacAddress", &mac, e) < 0)
		return -1;
	if (mac[0] && (!strcmp(mode, "host") || !strncmp(mode, OF_CONTAINER, strlen(OF_CONTAINER))))
		return err_set(e, ERR_INVALID, "conflicting options: mac-address and the network mode");
	return mac[0] && !strcmp(mode, "none") ? engine_warn(c, e, "MacAddress was ignored: the container has no network") : 0;
}

/* Those of its endpoint; the bridge without a name gives its own. */
static int add_endpoint_addresses(struct engine_create *c, const json_t *body, const char *mode, struct err *e)
{
	const json_t *ends = json_object_get(json_object_get(body, "NetworkingConfig"), "EndpointsConfig");
	const json_t *text;
	autojson json_t *list = json_array();
	/* docker's client calls the bridge without a name "default" */
	const json_t *end = json_object_get(ends, strcmp(mode, "bridge") || json_object_get(ends, mode) ? mode : "default");
	const int asks = engine_address_endpoint(end, list, e);
	const char *mac = "";
	size_t i;

	/* clients before API 1.44 say it of the container */
	if (engine_str(end, "MacAddress", &mac, e) < 0 || (!mac[0] && engine_str(body, "MacAddress", &mac, e) < 0) ||
	    add_mac(list, mac, e) < 0)
		return -1;
	if (asks > 0 && !strcmp(mode, "bridge"))
		return err_set(e, ERR_INVALID, "user specified IP address is supported on user defined networks only");
	json_array_foreach (list, i, text)
		if (engine_word(c, e, "--ip=%s", json_string_value(text)) < 0)
			return -1;
	return asks < 0 ? -1 : 0;
}

#define NETWORKS_MAX 16
#define ALIASES_MAX 16

/* On one network more, under these names. */
static int add_join(struct engine_create *c, const char *network, const json_t *end, struct err *e)
{
	autojson json_t *call = call_of("network connect", NULL), *addresses = json_array();
	const int asks = engine_address_endpoint(end, addresses, e);
	char name[ENGINE_NAME], alias[ENGINE_NAME];
	json_t *list;
	size_t i;

	if (!call)
		return err_nomem(e);
	if (asks < 0)
		return -1;
	call_set(call, "ip", json_array_size(addresses) ? json_incref(addresses) : NULL);
	if (!strcmp(network, "host") || !strcmp(network, "none"))
		return err_set(e, ERR_DENIED, "a container cannot be on %s and on another network",
			       network);
	if (map_network_mode(c, network, name, e) < 0 || engine_arr(end, "Aliases", &list, e) < 0)
		return -1;
	if (json_array_size(list) > ALIASES_MAX)
		return err_set(e, ERR_INVALID, "more than %d aliases on one network", ALIASES_MAX);
	for (i = 0; i < json_array_size(list); i++) {
		const char *text = engine_item(list, i, "Aliases", e);

		if (!text)
			return -1;
		if (engine_name_alias(text, alias))
			call_text(call, "alias", alias);
	}
	if (strcmp(c->called, c->name) && engine_name_alias(c->called, alias))
		call_text(call, "alias", alias);
	call_operand(call, name);
	return json_array_append(c->joins, call) < 0 ? err_nomem(e) : 0;
}

/* Clients of API 1.44 name all networks when they make a container; said: NetworkMode. */
static int add_joins(struct engine_create *c, const json_t *body, const char *mode,
		     const char *said, struct err *e)
{
	json_t *ends = json_object_get(json_object_get(body, "NetworkingConfig"),
				       "EndpointsConfig"),
	       *end;
	const char *name;

	if (json_is_object(ends) && json_object_size(ends) > NETWORKS_MAX)
		return err_set(e, ERR_INVALID, "more than %d networks", NETWORKS_MAX);
	json_object_foreach (ends, name, end)
		if (strcmp(name, mode) && !is_bridge(name) &&
		    add_join(c, name, end, e) < 0)
			return -1;
	if (said[0] && !is_bridge(said) && strcmp(said, mode) && !json_object_get(ends, said) &&
	    add_join(c, said, NULL, e) < 0)
		return -1;
	if (json_array_size(c->joins) && (!strcmp(mode, "host") || !strcmp(mode, "none")))
		return err_set(e, ERR_DENIED, "a container cannot be on %s and on another network",
			       mode);
	return 0;
}

/* Lines of /etc/hosts; without a network the host has no address there. */
static int add_extra_hosts(struct engine_create *c, const json_t *host, int alone, struct err *e)
{
	json_t *list;
	size_t i;

	if (engine_arr(host, "ExtraHosts", &list, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(list); i++) {
		const char *text = engine_item(list, i, "ExtraHosts", e);

		if (!text || (!(alone && strstr(text, ":host-gateway")) &&
			      engine_word(c, e, "--add-host=%s", text) < 0))
			return -1;
	}
	return 0;
}

/* The resolver of the host, or none, is not changed for one container. */
static int warn_of_resolver(struct engine_create *c, const json_t *host, const char *mode, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(resolver_members); i++) {
		json_t *list;

		if (engine_arr(host, resolver_members[i], &list, e) < 0 ||
		    (json_array_size(list) &&
		     engine_warn(c, e, "HostConfig.%s was ignored: it needs a network of the container's own, not %s",
				 resolver_members[i], mode) < 0))
			return -1;
	}
	return 0;
}

int engine_create_network(struct engine_create *c, const json_t *body, const json_t *host,
			  struct err *e)
{
	/* NetworkID and the addresses of a run before are there in what a client copied from inspect */
	static const char *const of_endpoint[] = { "Aliases", "Links", "IPAMConfig", "NetworkID", "EndpointID", "Gateway", "IPAddress",
						   "IPPrefixLen", "IPv6Gateway", "GlobalIPv6Address", "GlobalIPv6PrefixLen",
						   "DNSNames", "MacAddress", NULL };
	const char *said = "", *mode, *network;
	json_t *config, *ends, *end;

	if (engine_str(host, "NetworkMode", &said, e) < 0 ||
	    engine_obj(body, "NetworkingConfig", &config, e) < 0 ||
	    engine_obj(config, "EndpointsConfig", &ends, e) < 0)
		return -1;
	json_object_foreach(ends, network, end)
		if (engine_address_endpoint(end, NULL, e) < 0 || engine_note_unknown(c, end, of_endpoint, "EndpointsConfig.", e) < 0)
			return -1;
	if (check_mac_mode(c, body, said, e) < 0)
		return -1;
	if (!strncmp(said, OF_CONTAINER, strlen(OF_CONTAINER)))
		return join_container(c, body, host, said + strlen(OF_CONTAINER), e);
	if (!strcmp(said, "host") && json_string_length(json_object_get(body, "MacAddress")))
		return err_set(e, ERR_INVALID, "conflicting options: mac-address and the network mode");
	mode = main_network(body, said);
	if (add_network_mode(c, mode, e) < 0)
		return -1;
	if (add_extra_hosts(c, host, !strcmp(mode, "none"), e) < 0 || add_network_aliases(c, body, mode, e) < 0)
		return -1;
	/* Docker ignores these silently where there is no network of its own */
	if (!strcmp(mode, "none") || !strcmp(mode, "host"))
		return warn_of_resolver(c, host, mode, e) < 0 ? -1 : add_joins(c, body, mode, said, e);
	return add_published_ports(c, host, e) < 0 || add_exposed(c, body, host, e) < 0 ||
			       add_each(c, host, "Dns", "dns", e) < 0 || add_each(c, host, "DnsSearch", "dns-search", e) < 0 ||
			       add_each(c, host, "DnsOptions", "dns-option", e) < 0 ||
			       add_docker_links(c, body, host, mode, e) < 0 ||
			       add_endpoint_addresses(c, body, mode, e) < 0 ||
			       add_joins(c, body, mode, said, e) < 0 ||
			       (c->rules->unrouted && engine_warn(c, e, "IPv4 forwarding is disabled. Networking will not work, but for ports "
							 "of the host's loopback and between containers of one network; hint: "
							 "sysctl net.ipv4.ip_forward=1") < 0)
		       ? -1
		       : 0;
}

/* ---- addresses that a client chooses ---- */

int engine_address_endpoint(const json_t *end, json_t *ret_list, struct err *e)
{
	const char *four = "", *six = "", *mac = "";
	json_t *ipam, *local;

	if (engine_obj(end, "IPAMConfig", &ipam, e) < 0 ||
	    engine_str(ipam, "IPv4Address", &four, e) < 0 ||
	    engine_str(ipam, "IPv6Address", &six, e) < 0 ||
	    engine_arr(ipam, "LinkLocalIPs", &local, e) < 0 || engine_str(end, "MacAddress", &mac, e) < 0)
		return -1;
	if (json_array_size(local))
		return err_set(e, ERR_UNSUPPORTED, "link-local addresses of a container are not taken: berth chooses them");
	if (ret_list && four[0])
		json_array_append_new(ret_list, json_string(four));
	if (ret_list && six[0])
		json_array_append_new(ret_list, json_string(six));
	return ret_list && add_mac(ret_list, mac, e) < 0 ? -1 : four[0] || six[0];
}

/* One more value of an option that is a list. */
static void add_pool_value(json_t *call, const char *option, json_t *value)
{
	json_t *options = json_object_get(call, "options"), *list = json_object_get(options, option);

	if (!list)
		json_object_set_new(options, option, list = json_array());
	json_array_append_new(list, value);
}

int engine_address_pool(const json_t *pool, json_t *call, struct err *e)
{
	static const char *const rows[][2] = { { "Subnet", "subnet" }, { "IPRange", "ip-range" }, { "Gateway", "gateway" } };
	json_t *further, *address;
	const char *name;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		const char *text = "";

		if (engine_str(pool, rows[i][0], &text, e) < 0)
			return -1;
		if (text[0])
			add_pool_value(call, rows[i][1], json_string(text));
	}
	if (engine_obj(pool, "AuxiliaryAddresses", &further, e) < 0)
		return -1;
	json_object_foreach (further, name, address) {
		if (!json_is_string(address))
			return err_set(e, ERR_INVALID, "invalid JSON: AuxiliaryAddresses.%.60s is not a string", name);
		add_pool_value(call, "aux-address", json_sprintf("%s=%s", name, json_string_value(address)));
	}
	return 0;
}
