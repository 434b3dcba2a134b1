/* SPDX-License-Identifier: Apache-2.0 */
/* GET /containers/json, and what it shares with inspect: ports, networks, mounts. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "manager/engine/id.h"
#include "manager/engine/objects.h"
#include "manager/engine/view.h"

#define COMMAND_MAX 8192

json_t *engine_ports(const struct engine_view *v)
{
	const json_t *exposed = engine_asked(v, "ExposedPorts"),
		     *chosen = json_object_get(v->asked, "ports");
	json_t *all = json_object(), *unused;
	const char *what;

	if (!v->runs)
		return all;
	json_object_foreach((json_t *)(size_t)exposed, what, unused)
		json_object_set_new(all, what, json_null());
	if (chosen)
		json_object_update(all, (json_t *)(size_t)chosen);
	return all;
}

/* Its names there: what it was asked for, and the short id, by which compose knows it again. */
static json_t *aliases_of(const struct engine_view *v, const char *network, const json_t *said)
{
	json_t *list;

	if (!strcmp(network, "bridge") || !strcmp(network, "host") || !strcmp(network, "none"))
		return json_null();
	list = json_is_array(said) ? json_deep_copy(said) : json_array();
	json_array_append_new(list, json_string(v->id));
	return list;
}

static json_t *copy_or_null(const json_t *v)
{
	return v ? json_deep_copy(v) : json_null();
}

/* The network card of an address has it in its hardware address (runtime/net/link.c, link_mac()). */
static json_t *mac_of(const char *address)
{
	unsigned char b[4];

	return inet_pton(AF_INET, address, b) == 1 ? json_sprintf("02:62:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3]) :
						     json_string("");
}

/* The first address of the subnet and the length of its prefix, where it is known. */
static json_t *gateway_of(const char *subnet, const json_t *own, int *ret_bits)
{
	const char *slash = strchr(subnet, '/');
	char text[INET_ADDRSTRLEN + 1];
	struct in_addr a;

	*ret_bits = slash ? atoi(slash + 1) : 0;
	if (own)
		return json_incref((json_t *)(size_t)own);
	snprintf(text, sizeof(text), "%.*s", slash ? (int)(slash - subnet) : 0, subnet);
	if (inet_pton(AF_INET, text, &a) != 1)
		return json_string("");
	a.s_addr |= htonl(1);
	return json_string(inet_ntop(AF_INET, &a, text, sizeof(text)) ? text : "");
}

/* As the client asked for them: when the container was made, or when it joined (row). */
static json_t *ipam_config(const json_t *asked, const json_t *row)
{
	const json_t *said = json_object_get(asked, "IPAMConfig"), *text;
	json_t *ipam;
	size_t i;

	if (!json_array_size(json_object_get(row, "addresses")))
		return json_is_object(said) ? json_deep_copy(said) : json_null();
	ipam = json_object();
	json_array_foreach (json_object_get(row, "addresses"), i, text)
		json_object_set(ipam, strchr(json_string_value(text), ':') ? "IPv6Address" : "IPv4Address", (json_t *)(size_t)text);
	return ipam;
}

/* What an endpoint is made of; each may be NULL. */
struct endpoint_of {
	const json_t *asked;	/* of EndpointsConfig */
	const json_t *row;	/* of the record, where it joined */
	const json_t *address, *pool, *gateway;
};

static json_t *endpoint(const struct engine_view *v, const char *network, const struct endpoint_of *of)
{
	const json_t *asked = of->asked, *said = json_object_get(of->row ? of->row : asked, of->row ? "aliases" : "Aliases");
	const char *own = json_is_string(of->address) ? json_string_value(of->address) : "";
	const char *subnet = json_is_string(of->pool) ? json_string_value(of->pool) : "";
	char id[ENGINE_ID], end[ENGINE_ID], seed[200];
	int bits = 0;
	json_t *gateway = own[0] ? gateway_of(subnet, of->gateway, &bits) : json_string("");

	engine_network_id(network, id);
	snprintf(seed, sizeof(seed), "endpoint %.64s %.100s", v->id, network);
	engine_digits(seed, end);
	return json_pack("{s:o,s:o,s:o,s:o,s:s,s:s,s:o,s:o,s:s,s:i,s:s,s:s,s:i}", "IPAMConfig", ipam_config(asked, of->row), "Links",
			 copy_or_null(json_object_get(asked, "Links")), "DriverOpts",
			 copy_or_null(json_object_get(asked, "DriverOpts")), "Aliases", aliases_of(v, network, said),
			 "NetworkID", id, "EndpointID", own[0] ? end : "", "Gateway", gateway, "MacAddress", mac_of(own),
			 "IPAddress", own, "IPPrefixLen", bits, "IPv6Gateway", "", "GlobalIPv6Address", "",
			 "GlobalIPv6PrefixLen", 0);
}

/* Of a network joined later, where it runs. */
static const json_t *said_on(const struct engine_view *v, const char *network, const char *key)
{
	const json_t *row;
	size_t i;

	json_array_foreach(json_object_get(v->network, "networks"), i, row) {
		const char *name = json_string_value(json_object_get(row, "network"));

		if (name && !strcmp(name, network))
			return json_object_get(row, key);
	}
	return NULL;
}

json_t *engine_networks(const struct engine_view *v)
{
	const json_t *config = engine_asked(v, "NetworkingConfig"), *row, *place;
	const json_t *ends = json_object_get(config, "EndpointsConfig");
	const char *mode = engine_network_mode(v), *called = engine_network_called(v, mode);
	struct endpoint_of of = { .asked = json_object_get(ends, called) };
	json_t *all = json_object();
	size_t i;

	/* a container in another's network has no endpoint of its own */
	if (json_object_get(json_object_get(v->record, "network"), "container"))
		return all;
	place = json_object_get(json_object_get(v->network, "policy"), "bridge");
	of.address = json_object_get(v->network, "address");
	of.pool = json_object_get(place, "pool"), of.gateway = json_object_get(place, "gateway");
	json_object_set_new(all, called, endpoint(v, mode, &of));
	json_array_foreach(json_object_get(v->record, "networks"), i, row) {
		const char *name = json_string_value(json_object_get(row, "network"));

		if (!name)
			continue;
		called = engine_network_called(v, name);
		of = (struct endpoint_of){ json_object_get(ends, called), row, said_on(v, name, "address"), said_on(v, name, "pool"),
					   said_on(v, name, "gateway") };
		json_object_set_new(all, called, endpoint(v, name, &of));
	}
	return all;
}

static int has_word(const char *words, const char *word)
{
	const size_t n = strlen(word);

	for (; *words; words += strcspn(words, ","), words += *words == ',')
		if (!strncmp(words, word, n) && (!words[n] || words[n] == ','))
			return 1;
	return 0;
}

/* Consumes source.  A volume has a name and a driver; a bind is private, whatever was asked. */
static json_t *mount_point(const char *type, json_t *source, const char *target, size_t n, const char *mode, int writable)
{
	const int is_volume = !strcmp(type, "volume");
	json_t *m = json_pack("{s:s,s:O,s:s%,s:s,s:b,s:s}", "Type", type, "Source", source, "Destination", target, n,
			      "Mode", mode, "RW", writable, "Propagation", strcmp(type, "bind") ? "" : "rprivate");

	if (is_volume) {
		json_object_set(m, "Name", source);
		json_object_set_new(m, "Driver", json_string("local"));
	}
	json_decref(source);
	return m;
}

/* "SOURCE:TARGET[:WORDS]" */
static json_t *mount_of(const char *text)
{
	const char *target = strchr(text, ':'), *words = target ? strchr(target + 1, ':') : NULL;

	if (!target)
		return NULL;
	target++;
	return mount_point(text[0] == '/' ? "bind" : "volume", json_stringn(text, (size_t)(target - 1 - text)), target,
			   words ? (size_t)(words - target) : strlen(target), words ? words + 1 : "",
			   !words || !(has_word(words + 1, "ro") || has_word(words + 1, "readonly")));
}

/* Whether one of the mounts that were asked for makes target read-only. */
static int is_read_only(const json_t *mounts, const char *target)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)mounts, i, one) {
		const char *t = json_string_value(json_object_get(one, "Target"));
		const size_t n = strlen(target);

		if (t && !strncmp(t, target, n) && !t[n + strspn(t + n, "/")] &&
		    json_is_true(json_object_get(one, "ReadOnly")))
			return 1;
	}
	return 0;
}

json_t *engine_mounts(const struct engine_view *v)
{
	const json_t *binds = engine_asked_host(v, "Binds"),
		     *mounts = engine_asked_host(v, "Mounts"), *one;
	json_t *all = json_array(), *m, *name;
	const char *target;
	size_t i;

	json_object_foreach(json_object_get(v->asked, ENGINE_FILE_VOLUMES), target, name)
		json_array_append_new(all, mount_point("volume", json_incref(name), target, strlen(target), "",
						       !is_read_only(mounts, target)));
	json_array_foreach((json_t *)(size_t)binds, i, one) {
		m = json_is_string(one) ? mount_of(json_string_value(one)) : NULL;
		if (m)
			json_array_append_new(all, m);
	}
	json_array_foreach((json_t *)(size_t)mounts, i, one) {
		const char *source = json_string_value(json_object_get(one, "Source")),
			   *type = json_string_value(json_object_get(one, "Type"));

		/* without a name: above */
		if ((!source || !source[0]) && type && !strcmp(type, "volume"))
			continue;
		target = json_string_value(json_object_get(one, "Target"));
		if (type && target)
			json_array_append_new(all, mount_point(type, json_string(source ? source : ""), target, strlen(target), "",
							       !json_is_true(json_object_get(one, "ReadOnly"))));
	}
	json_array_foreach(json_object_get(v->asked, ENGINE_FILE_SHARED), i, one)
		json_array_append(all, (json_t *)(size_t)one);
	return all;
}

/* "sh -c 'sleep 1'", as docker ps shows it. */
static json_t *command_of(const struct engine_view *v)
{
	const json_t *argv = json_object_get(v->record, "command"), *one;
	autobuf struct buf b = BUF_INIT(COMMAND_MAX);
	struct err ignored;
	json_t *text;
	size_t i;

	json_array_foreach((json_t *)(size_t)argv, i, one) {
		const char *s = json_string_value(one);
		int plain = s && s[0] && !strpbrk(s, " \t\n'\"\\$&|;<>()");

		if (!s || buf_addf(&b, &ignored, plain ? "%s%s" : "%s'%s'", i ? " " : "", s) < 0)
			break;
	}
	text = json_string(b.data ? b.data : "");
	return text ? text : json_string("");
}

static json_t *port_list(const struct engine_view *v)
{
	json_t *all = json_array(), *ports = engine_ports(v), *bindings, *one;
	const char *what;
	size_t i;

	json_object_foreach(ports, what, bindings) {
		const char *slash = strchr(what, '/');
		const char *type = slash ? slash + 1 : "tcp";
		int inside = atoi(what);

		if (!json_array_size(bindings))
			json_array_append_new(
				all, json_pack("{s:i,s:s}", "PrivatePort", inside, "Type", type));
		json_array_foreach(bindings, i, one) {
			const char *port = json_string_value(json_object_get(one, "HostPort"));

			json_array_append_new(all, json_pack("{s:O*,s:i,s:i,s:s}", "IP",
							     json_object_get(one, "HostIp"),
							     "PrivatePort", inside, "PublicPort",
							     port ? atoi(port) : 0, "Type", type));
		}
	}
	json_decref(ports);
	return all;
}

json_t *engine_summary(const struct engine_view *v, int64_t now)
{
	const json_t *digest = json_object_get(v->image, "digest");
	const char *created = json_string_value(json_object_get(v->record, "created"));
	char id[ENGINE_ID], status[120];
	json_t *nets = engine_networks(v);

	engine_id(v->id, id);
	engine_status(v, now, status, sizeof(status));
	return json_pack("{s:s,s:[o],s:s,s:o,s:o,s:I,s:o,s:o,s:s,s:s,s:{s:o},s:{s:o},s:o}", "Id",
			 id, "Names", json_sprintf("/%s", engine_name(v)), "Image",
			 engine_image_name(v), "ImageID",
			 json_is_string(digest) ? json_deep_copy(digest) : json_string(""),
			 "Command", command_of(v), "Created", (json_int_t)engine_time(created),
			 "Ports", port_list(v), "Labels", engine_labels(v->record), "State",
			 engine_state_name(engine_state(v)), "Status", status, "HostConfig",
			 "NetworkMode", engine_network_mode_json(v), "NetworkSettings",
			 "Networks", nets,
			 "Mounts", engine_mounts(v));
}
