/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/view.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/netaddr.h"
#include "manager/engine/create.h"
#include "manager/engine/name.h"
#include "manager/host/labels.h"
#include "manager/host/record.h"
#include "manager/ops/params.h"

/* ---- facts of a view ---- */

#define MINUTE 60
#define HOUR (60 * MINUTE)

static const char *view_text(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

enum engine_state engine_state(const struct engine_view *v)
{
	const char *said = view_text(v->ping, "state");

	if (v->runs)
		return strcmp(said, "paused") ? ENGINE_RUNNING : ENGINE_PAUSED;
	if (v->restarting)
		return ENGINE_RESTARTING;
	return strcmp(view_text(v->record, "status"), "created") ? ENGINE_EXITED : ENGINE_CREATED;
}

const char *engine_state_name(enum engine_state s)
{
	static const char *const names[] = { "created", "running", "paused", "restarting",
					     "exited" };

	return names[s];
}

json_t *engine_labels(const json_t *record)
{
	const json_t *labels = json_object_get(record, "labels");
	json_t *copy = json_is_object(labels) ? json_deep_copy(labels) : json_object();

	json_object_del(copy, ENGINE_NAME_LABEL);
	json_object_del(copy, ENGINE_OPTIONS_LABEL);
	json_object_del(copy, LABEL_FACE);
	json_object_del(copy, LABEL_REQUEST);
	return copy;
}

const char *engine_called(const json_t *record, const char *word)
{
	const char *name = view_text(record, "name"), *shown = engine_name_shown(word, name);

	return shown != name ? shown :
			       engine_name_shown(view_text(json_object_get(record, "labels"),
							 ENGINE_NAME_LABEL),
						 name);
}

const char *engine_name(const struct engine_view *v)
{
	const char *name = engine_called(v->record, view_text(v->asked, ENGINE_FILE_CALLED));

	return name[0] ? name : v->id;
}

/* The exit code of a shell for a start that failed. */
static int start_code(const char *why)
{
	return strstr(why, "not found") ? 127 : strstr(why, "permission denied") ? 126 : 128;
}

int engine_exit_code(const struct engine_view *v)
{
	const json_t *verdict = json_object_get(v->record, "verdict");
	const char *why = view_text(v->record, "start_error");

	if (v->runs || engine_state(v) == ENGINE_CREATED)
		return why[0] && !v->runs ? start_code(why) : 0;
	if (verdict)
		return (int)json_integer_value(json_object_get(verdict, "exit_status"));
	if (why[0])
		return start_code(why);
	/* its keeper was killed, and everything in the sandbox with it */
	return strcmp(view_text(v->record, "status"), "stopped") ||
			       json_object_get(v->record, "service")
		       ? 137
		       : 0;
}

const char *engine_started(const struct engine_view *v)
{
	const char *started = view_text(v->record, "started");

	return started[0] || !v->runs ? started : view_text(v->record, "created");
}

int engine_is_internal(const json_t *record, int runs)
{
	return runs && !view_text(record, "started")[0] &&
	       json_object_get(json_object_get(record, "labels"), LABEL_ZYGOTE);
}

int64_t engine_time(const char *text)
{
	struct tm tm = { 0 };

	return text && strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) ? (int64_t)timegm(&tm) : 0;
}

int64_t engine_time_ns(const char *text)
{
	const char *dot = text ? strchr(text, '.') : NULL;
	int64_t ns = 0, unit = 100000000;

	while (dot && *++dot >= '0' && *dot <= '9' && unit) {
		ns += (*dot - '0') * unit;
		unit /= 10;
	}
	return engine_time(text) * 1000000000 + ns;
}

/* units.HumanDuration of docker/go-units: its words are what people grep for. */
void engine_duration(int64_t s, char *ret, size_t n)
{
	int64_t hours = (s + HOUR / 2) / HOUR;

	if (s < 1)
		snprintf(ret, n, "Less than a second");
	else if (s < MINUTE)
		snprintf(ret, n, "%" PRId64 " second%s", s, s == 1 ? "" : "s");
	else if (s < 2 * MINUTE)
		snprintf(ret, n, "About a minute");
	else if (s < HOUR)
		snprintf(ret, n, "%" PRId64 " minutes", s / MINUTE);
	else if (hours == 1)
		snprintf(ret, n, "About an hour");
	else if (hours < 48)
		snprintf(ret, n, "%" PRId64 " hours", hours);
	else if (hours < 24 * 7 * 2)
		snprintf(ret, n, "%" PRId64 " days", hours / 24);
	else if (hours < 24 * 30 * 2)
		snprintf(ret, n, "%" PRId64 " weeks", hours / 24 / 7);
	else if (hours < 24 * 365 * 2)
		snprintf(ret, n, "%" PRId64 " months", hours / 24 / 30);
	else
		snprintf(ret, n, "%" PRId64 " years", hours / 24 / 365);
}

const char *engine_health(const struct engine_view *v)
{
	const char *s = json_string_value(json_object_get(v->ping, "health"));

	return s ? s
		 : json_string_value(json_object_get(json_object_get(v->ping, "health"), "status"));
}

void engine_status(const struct engine_view *v, int64_t now, char *ret, size_t n)
{
	const enum engine_state s = engine_state(v);
	int64_t since = v->runs ? engine_time(engine_started(v)) :
				  engine_time(view_text(v->record, "finished"));
	const char *health = engine_health(v);
	char ago[40];

	/* its keeper was killed: the time is unknown */
	if (s == ENGINE_EXITED && !since) {
		snprintf(ret, n, "Exited (%d)", engine_exit_code(v));
		return;
	}
	engine_duration(since ? now - since : 0, ago, sizeof(ago));
	if (s == ENGINE_CREATED)
		snprintf(ret, n, "Created");
	else if (s == ENGINE_RESTARTING)
		snprintf(ret, n, "Restarting (%d) %s ago", engine_exit_code(v), ago);
	else if (s == ENGINE_EXITED)
		snprintf(ret, n, "Exited (%d) %s ago", engine_exit_code(v), ago);
	else if (s == ENGINE_PAUSED)
		snprintf(ret, n, "Up %s (Paused)", ago);
	else if (health)
		snprintf(ret, n, !strcmp(health, "starting") ? "Up %s (health: %s)" : "Up %s (%s)",
			 ago, health);
	else
		snprintf(ret, n, "Up %s", ago);
}

const json_t *engine_asked(const struct engine_view *v, const char *key)
{
	const json_t *j = json_object_get(json_object_get(v->asked, "body"), key);

	return json_is_null(j) ? NULL : j;
}

const json_t *engine_asked_host(const struct engine_view *v, const char *key)
{
	const json_t *j = json_object_get(engine_asked(v, "HostConfig"), key);

	return json_is_null(j) ? NULL : j;
}

const char *engine_image_name(const struct engine_view *v)
{
	const char *asked = json_string_value(engine_asked(v, "Image"));

	return asked ? asked : view_text(v->record, "image");
}

static int is_called(const char *called, const char *name)
{
	char mapped[ENGINE_NAME];

	return engine_name_network(called, mapped) > 0 && !strcmp(mapped, name);
}

const char *engine_network_called(const struct engine_view *v, const char *name)
{
	const char *mode = json_string_value(engine_asked_host(v, "NetworkMode")), *key;
	const json_t *ends =
		json_object_get(engine_asked(v, "NetworkingConfig"), "EndpointsConfig");
	json_t *unused;

	if (mode && is_called(mode, name))
		return mode;
	json_object_foreach ((json_t *)(size_t)ends, key, unused)
		if (is_called(key, name))
			return key;
	return name;
}

const char *engine_network_mode(const struct engine_view *v)
{
	const json_t *net = json_object_get(v->record, "network");
	const char *name = view_text(net, "network"), *mode = view_text(net, "mode");

	return name[0] ? name : mode[0] ? mode : "none";
}

json_t *engine_network_mode_json(const struct engine_view *v)
{
	const char *of = view_text(json_object_get(v->record, "network"), "container");
	char id[ENGINE_ID];

	if (!of[0])
		return json_string(engine_network_called(v, engine_network_mode(v)));
	engine_id(of, id);
	return json_sprintf("container:%s", id);
}

int engine_hides_log(const struct engine_view *v)
{
	return !strcmp(view_text(engine_asked_host(v, "LogConfig"), "Type"), "none");
}

int engine_is_tty(const struct engine_view *v)
{
	return json_is_true(json_object_get(v->record, "tty"));
}

void engine_frame(unsigned char head[8], int stream, uint32_t n)
{
	memset(head, 0, 8);
	head[0] = (unsigned char)stream;
	head[4] = (unsigned char)(n >> 24);
	head[5] = (unsigned char)(n >> 16);
	head[6] = (unsigned char)(n >> 8);
	head[7] = (unsigned char)n;
}

/* ---- the item of a list ---- */

/* GET /containers/json, and what it shares with inspect: ports, networks, mounts. */

#define COMMAND_MAX 8192

/* The ports that its run has: of the keeper's answer, or of a list's record. */
static const json_t *live_ports(const struct engine_view *v)
{
	const json_t *ports = json_object_get(v->network, "ports");

	return ports ? ports : json_object_get(record_network(v->live ? v->live : v->record), "ports");
}

/* Puts the port that the start chose in the place of a range: the nth of those with a range that lead to what. */
static void set_chosen_port(const struct engine_view *v, const char *what, json_t *binding, size_t nth)
{
	const char *slash = strchr(what, '/'), *protocol, *address, *ip = json_string_value(json_object_get(binding, "HostIp"));
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)live_ports(v), i, one) {
		protocol = json_string_value(json_object_get(one, "protocol"));
		address = json_string_value(json_object_get(one, "address"));
		if (json_integer_value(json_object_get(one, "port")) != atoi(what) || !protocol || strcmp(protocol, slash ? slash + 1 : "tcp") ||
		    !address || !ip || strcmp(address, ip) || nth--)
			continue;
		json_object_set_new(binding, "HostPort", json_sprintf("%d", (int)json_integer_value(json_object_get(one, "host_port"))));
		return;
	}
}

static void set_chosen_ports(const struct engine_view *v, json_t *all)
{
	json_t *list, *one;
	const char *what, *port;
	size_t i;

	json_object_foreach (all, what, list)
		json_array_foreach (list, i, one) {
			port = json_string_value(json_object_get(one, "HostPort"));
			if (port && strchr(port, '-'))
				set_chosen_port(v, what, one, i);
		}
}

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
	json_object_foreach ((json_t *)(size_t)chosen, what, unused)
		json_object_set_new(all, what, json_deep_copy(unused));
	set_chosen_ports(v, all);
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
json_t *engine_mac(const char *address)
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
	uint8_t mac[6];
	json_t *ipam;
	size_t i;

	if (!json_array_size(json_object_get(row, "addresses")))
		return json_is_object(said) ? json_deep_copy(said) : json_null();
	ipam = json_object();
	json_array_foreach (json_object_get(row, "addresses"), i, text)
		if (netaddr_mac(json_string_value(text), mac) < 0)
			json_object_set(ipam, strchr(json_string_value(text), ':') ? "IPv6Address" : "IPv4Address", (json_t *)(size_t)text);
	return ipam;
}

void engine_endpoint_id(const char *id, const char *network, char ret[ENGINE_ID])
{
	char seed[200];

	snprintf(seed, sizeof(seed), "endpoint %.64s %.100s", id, network);
	engine_digits(seed, ret);
}

/* The hardware address that was asked for; NULL for none. */
static const json_t *asked_mac(const json_t *asked, const json_t *row)
{
	const json_t *text, *said = json_object_get(asked, "MacAddress");
	uint8_t mac[6];
	size_t i;

	json_array_foreach (json_object_get(row, "addresses"), i, text)
		if (netaddr_mac(json_string_value(text), mac) == 0)
			return text;
	return json_is_string(said) ? said : NULL;
}

/* What an endpoint is made of; each may be NULL. */
struct endpoint_of {
	const json_t *asked;	/* of EndpointsConfig */
	const json_t *row;	/* of the record, where it joined */
	const json_t *address, *pool, *gateway, *mac;
};

static json_t *endpoint(const struct engine_view *v, const char *network, const struct endpoint_of *of)
{
	const json_t *asked = of->asked, *said = json_object_get(of->row ? of->row : asked, of->row ? "aliases" : "Aliases");
	const char *own = json_is_string(of->address) ? json_string_value(of->address) : "";
	const char *subnet = json_is_string(of->pool) ? json_string_value(of->pool) : "";
	/* before a start there is no other than the one that was asked for */
	const json_t *mac = own[0] ? of->mac : asked_mac(asked, of->row);
	char id[ENGINE_ID], end[ENGINE_ID];
	int bits = 0;
	json_t *gateway = own[0] ? gateway_of(subnet, of->gateway, &bits) : json_string("");

	engine_network_id(network, id);
	engine_endpoint_id(v->id, network, end);
	return json_pack("{s:o,s:o,s:o,s:o,s:s,s:s,s:o,s:o,s:s,s:i,s:s,s:s,s:i}", "IPAMConfig", ipam_config(asked, of->row), "Links",
			 copy_or_null(json_object_get(asked, "Links")), "DriverOpts",
			 copy_or_null(json_object_get(asked, "DriverOpts")), "Aliases", aliases_of(v, network, said),
			 "NetworkID", id, "EndpointID", own[0] ? end : "", "Gateway", gateway, "MacAddress",
			 json_is_string(mac) ? json_incref((json_t *)(size_t)mac) : engine_mac(own),
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
	of.address = json_object_get(v->network, "address"), of.mac = json_object_get(v->network, "mac");
	of.pool = json_object_get(place, "pool"), of.gateway = json_object_get(place, "gateway");
	json_object_set_new(all, called, endpoint(v, mode, &of));
	json_array_foreach(json_object_get(v->record, "networks"), i, row) {
		const char *name = json_string_value(json_object_get(row, "network"));

		if (!name)
			continue;
		called = engine_network_called(v, name);
		of = (struct endpoint_of){ json_object_get(ends, called), row, said_on(v, name, "address"), said_on(v, name, "pool"),
					   said_on(v, name, "gateway"), said_on(v, name, "mac") };
		json_object_set_new(all, called, endpoint(v, name, &of));
	}
	return all;
}

static int has_mount_word(const char *words, const char *word)
{
	const size_t n = strlen(word);

	for (; *words; words += strcspn(words, ","), words += *words == ',')
		if (!strncmp(words, word, n) && (!words[n] || words[n] == ','))
			return 1;
	return 0;
}

/*
 * Consumes source.  A volume has a name and a driver; a bind is private, whatever was asked.  mode "": as Docker shows a
 * volume that somebody asked for by name or as a mount, with the label that other containers share.
 */
static json_t *mount_point(const char *type, json_t *source, const char *target, size_t n, const char *mode, int writable)
{
	const int is_volume = !strcmp(type, "volume");
	/* in dockerd's order, which clients print */
	return json_pack("{s:s,s:O*,s:o,s:s%,s:s*,s:s,s:b,s:s}", "Type", type, "Name", is_volume ? source : NULL, "Source", source,
			 "Destination", target, n, "Driver", is_volume ? "local" : NULL, "Mode", is_volume && !mode[0] ? "z" : mode,
			 "RW", writable, "Propagation", strcmp(type, "bind") ? "" : "rprivate");
}

/* "SOURCE:TARGET[:WORDS]" */
static json_t *mount_of_bind(const char *text)
{
	const char *target = strchr(text, ':'), *words = target ? strchr(target + 1, ':') : NULL;

	if (!target)
		return NULL;
	target++;
	return mount_point(text[0] == '/' ? "bind" : "volume", json_stringn(text, (size_t)(target - 1 - text)), target,
			   words ? (size_t)(words - target) : strlen(target), words ? words + 1 : "",
			   !words || !(has_mount_word(words + 1, "ro") || has_mount_word(words + 1, "readonly")));
}

/* The mount that was asked for at target, or NULL. */
static const json_t *mount_at(const json_t *mounts, const char *target)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)mounts, i, one) {
		const char *t = json_string_value(json_object_get(one, "Target"));
		const size_t n = strlen(target);

		if (t && !strncmp(t, target, n) && !t[n + strspn(t + n, "/")])
			return one;
	}
	return NULL;
}

/* A volume that was made for the container: of a mount, or of a path alone. */
static json_t *own_volume(const json_t *mounts, const char *target, json_t *name)
{
	const json_t *asked = mount_at(mounts, target);
	json_t *m = mount_point("volume", json_incref(name), target, strlen(target), "", !json_is_true(json_object_get(asked, "ReadOnly")));

	if (!asked)
		json_object_set_new(m, "Mode", json_string(""));
	return m;
}

json_t *engine_mounts(const struct engine_view *v)
{
	const json_t *binds = engine_asked_host(v, "Binds"),
		     *mounts = engine_asked_host(v, "Mounts"), *one;
	json_t *all = json_array(), *m, *name;
	const char *target;
	size_t i;

	json_object_foreach(json_object_get(v->asked, ENGINE_FILE_VOLUMES), target, name)
		json_array_append_new(all, own_volume(mounts, target, name));
	json_array_foreach((json_t *)(size_t)binds, i, one) {
		m = json_is_string(one) ? mount_of_bind(json_string_value(one)) : NULL;
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
static json_t *summary_command(const struct engine_view *v)
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
	json_t *nets = engine_networks(v), *names = json_array();

	json_array_append_new(names, json_sprintf("/%s", engine_name(v)));
	json_array_extend(names, (json_t *)(size_t)v->names);
	engine_id(v->id, id);
	engine_status(v, now, status, sizeof(status));
	return json_pack("{s:s,s:o,s:s,s:o,s:o,s:I,s:o,s:o,s:s,s:s,s:{s:o},s:{s:o},s:o}", "Id",
			 id, "Names", names, "Image",
			 engine_image_name(v), "ImageID",
			 json_is_string(digest) ? json_deep_copy(digest) : json_string(""),
			 "Command", summary_command(v), "Created", (json_int_t)engine_time(created),
			 "Ports", port_list(v), "Labels", engine_labels(v->record), "State",
			 engine_state_name(engine_state(v)), "Status", status, "HostConfig",
			 "NetworkMode", engine_network_mode_json(v), "NetworkSettings",
			 "Networks", nets,
			 "Mounts", engine_mounts(v));
}

/* ---- the whole document ---- */

/* GET /containers/{id}/json. */

#define SHM_BYTES (64 << 20) /* of /dev/shm, as berth create has it, too */

static json_t *copy_or(const json_t *v, json_t *otherwise)
{
	if (!v)
		return otherwise;
	json_decref(otherwise);
	return json_deep_copy(v);
}

/* The command, as a program and its arguments. */
static void set_inspect_path(json_t *doc, const struct engine_view *v)
{
	const json_t *argv = json_object_get(v->record, "command");
	json_t *args = json_array();
	size_t i;

	for (i = 1; i < json_array_size(argv); i++)
		json_array_append(args, json_array_get(argv, i));
	json_object_set_new(doc, "Path", copy_or(json_array_get(argv, 0), json_string("")));
	json_object_set_new(doc, "Args", args);
}

static json_t *health_of(const struct engine_view *v)
{
	const char *status = engine_health(v);
	const json_t *detail = json_object_get(v->ping, "health_detail"), *one;
	json_t *log = json_array();
	size_t i;

	if (!status) {
		json_decref(log);
		return NULL;
	}
	json_array_foreach(json_object_get(detail, "log"), i, one)
		json_array_append_new(log, json_pack("{s:O*,s:O*,s:O*,s:O*}", "Start",
						     json_object_get(one, "start"), "End",
						     json_object_get(one, "end"), "ExitCode",
						     json_object_get(one, "exit_code"), "Output",
						     json_object_get(one, "output")));
	return json_pack("{s:s,s:O?,s:o}", "Status", status, "FailingStreak",
			 json_object_get(detail, "failing_streak"), "Log", log);
}

static json_t *inspect_time(const json_t *record, const char *key)
{
	const json_t *t = json_object_get(record, key);

	return json_is_string(t) ? json_deep_copy(t) : json_string(ENGINE_NEVER);
}

static json_t *inspect_state(const struct engine_view *v)
{
	const enum engine_state s = engine_state(v);
	const char *started = engine_started(v);
	const char *cause =
		json_string_value(json_object_get(json_object_get(v->record, "verdict"), "cause"));
	const json_t *pid = json_object_get(v->live, "init_pid"),
		     *why = json_object_get(v->record, "start_error");
	json_t *state = json_pack(
		"{s:s,s:b,s:b,s:b,s:b,s:b,s:I,s:i,s:o,s:o,s:o}", "Status", engine_state_name(s),
		"Running", v->runs || s == ENGINE_RESTARTING, "Paused", s == ENGINE_PAUSED,
		"Restarting", s == ENGINE_RESTARTING, "OOMKilled",
		!v->runs && cause && !strcmp(cause, "oom"), "Dead", 0, "Pid",
		v->runs ? json_integer_value(pid) : (json_int_t)0, "ExitCode", engine_exit_code(v),
		"Error", copy_or(v->runs ? NULL : why, json_string("")), "StartedAt",
		json_string(started[0] ? started : ENGINE_NEVER), "FinishedAt",
		inspect_time(v->record, "finished"));
	json_t *health = v->runs ? health_of(v) : NULL;

	if (health)
		json_object_set_new(state, "Health", health);
	return state;
}

/* The image's environment with the container's on top, as Docker merges them. */
static json_t *env_of(const struct engine_view *v)
{
	const json_t *own = engine_asked(v, "Env"), *base = json_object_get(v->image, "env"), *one,
		     *two;
	json_t *all = json_array();
	size_t i, k;

	json_array_foreach((json_t *)(size_t)own, i, one)
		json_array_append(all, (json_t *)(size_t)one);
	json_array_foreach((json_t *)(size_t)base, i, one) {
		const char *text = json_string_value(one);
		size_t n = text ? strcspn(text, "=") + 1 : 0;
		int hidden = 0;

		json_array_foreach((json_t *)(size_t)own, k, two) {
			const char *mine = json_string_value(two);

			hidden |= text && mine && !strncmp(mine, text, n);
		}
		if (!hidden)
			json_array_append(all, (json_t *)(size_t)one);
	}
	return all;
}

static json_t *text_or(const json_t *v, const json_t *second)
{
	if (json_is_string(v) && json_string_length(v))
		return json_deep_copy(v);
	return json_is_string(second) ? json_deep_copy(second) : json_string("");
}

static json_t *asked_flag(const struct engine_view *v, const char *key)
{
	return json_boolean(json_is_true(engine_asked(v, key)));
}

/* As engine_create_read() had it: the id, unless it is that of another container. */
static json_t *hostname_of(const struct engine_view *v)
{
	const json_t *asked = engine_asked(v, "Hostname");

	if (json_string_length(asked))
		return json_deep_copy(asked);
	return json_string(
		v->asked && !json_object_get(json_object_get(v->record, "network"), "container") ?
			v->id :
			"");
}

json_t *engine_config(const struct engine_view *v)
{
	const json_t *entry = engine_asked(v, "Entrypoint"), *cmd = engine_asked(v, "Cmd"),
		     *own = v->asked ? NULL : json_object_get(v->record, "command");
	json_t *c = json_pack(
		"{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "Hostname",
		hostname_of(v), "Domainname", text_or(engine_asked(v, "Domainname"), NULL), "User",
		text_or(engine_asked(v, "User"), json_object_get(v->image, "user")), "AttachStdin",
		asked_flag(v, "AttachStdin"), "AttachStdout", asked_flag(v, "AttachStdout"),
		"AttachStderr", asked_flag(v, "AttachStderr"), "Tty", json_boolean(engine_is_tty(v)),
		"OpenStdin", json_boolean(json_is_true(json_object_get(v->record, "stdin_open"))),
		"StdinOnce", asked_flag(v, "StdinOnce"), "Env", env_of(v));
	const json_t *image_cmd = entry ? NULL : json_object_get(v->image, "cmd");

	json_object_set_new(c, "Cmd",
			    copy_or(cmd && json_array_size(cmd) ? cmd
				    : own			? own
								: image_cmd,
				    json_null()));
	json_object_set_new(c, "Entrypoint",
			    copy_or(entry ? entry
				    : json_array_size(json_object_get(v->image, "entrypoint"))
					    ? json_object_get(v->image, "entrypoint")
					    : NULL,
				    json_null()));
	json_object_set_new(c, "Image", json_string(engine_image_name(v)));
	json_object_set_new(c, "Volumes",
			    copy_or(json_object_size(engine_asked(v, "Volumes")) ?
					    engine_asked(v, "Volumes") :
					    NULL,
				    json_null()));
	json_object_set_new(
		c, "WorkingDir",
		text_or(engine_asked(v, "WorkingDir"), json_object_get(v->image, "workdir")));
	json_object_set_new(c, "OnBuild", json_null());
	json_object_set_new(c, "Labels", engine_labels(v->record));
	if (json_object_size(engine_asked(v, "ExposedPorts")))
		json_object_set_new(c, "ExposedPorts",
				    json_deep_copy(engine_asked(v, "ExposedPorts")));
	if (engine_asked(v, "Healthcheck"))
		json_object_set_new(c, "Healthcheck",
				    json_deep_copy(engine_asked(v, "Healthcheck")));
	if (engine_asked(v, "StopTimeout"))
		json_object_set_new(c, "StopTimeout",
				    json_deep_copy(engine_asked(v, "StopTimeout")));
	/* as it was asked for: a number stays one */
	json_object_set_new(c, "StopSignal",
			    text_or(engine_asked(v, "StopSignal"), json_object_get(v->record, "stop_signal")));
	return c;
}

/* Every member that Docker's has: templates of clients name those that a client left out. */
static void set_absent(json_t *host)
{
	static const char *const numbers[] = { "Memory",
					       "MemorySwap",
					       "MemoryReservation",
					       "NanoCpus",
					       "CpuShares",
					       "CpuPeriod",
					       "CpuQuota",
					       "CpuRealtimePeriod",
					       "CpuRealtimeRuntime",
					       "BlkioWeight",
					       "OomScoreAdj",
					       "CpuCount",
					       "CpuPercent",
					       "IOMaximumIOps",
					       "IOMaximumBandwidth" },
			  *const texts[] = { "ContainerIDFile", "VolumeDriver", "Cgroup",
					     "PidMode",		"UTSMode",	"UsernsMode",
					     "CgroupParent",	"CpusetCpus",	"CpusetMems" },
			  *const nulls[] = { "VolumesFrom",	    "Dns",
					     "DnsOptions",	    "DnsSearch",
					     "ExtraHosts",	    "GroupAdd",
					     "Links",		    "SecurityOpt",
					     "BlkioWeightDevice",   "BlkioDeviceReadBps",
					     "BlkioDeviceWriteBps", "BlkioDeviceReadIOps",
					     "BlkioDeviceWriteIOps", "Devices",
					     "DeviceCgroupRules",   "DeviceRequests",
					     "MemorySwappiness",    "OomKillDisable",
					     "PidsLimit",	    "Ulimits" },
			  *const flags[] = { "PublishAllPorts", "ReadonlyRootfs" };
	autojson json_t *all = json_object();
	size_t i;

	for (i = 0; i < ARRAY_LEN(numbers); i++)
		json_object_set_new(all, numbers[i], json_integer(0));
	for (i = 0; i < ARRAY_LEN(texts); i++)
		json_object_set_new(all, texts[i], json_string(""));
	for (i = 0; i < ARRAY_LEN(nulls); i++)
		json_object_set_new(all, nulls[i], json_null());
	for (i = 0; i < ARRAY_LEN(flags); i++)
		json_object_set_new(all, flags[i], json_false());
	json_object_set_new(all, "ConsoleSize", json_pack("[i,i]", 0, 0));
	json_object_update_missing(host, all);
}

static void set_inspect_paths(json_t *host, const char *key, const char *const *list, size_t n)
{
	json_t *all = json_array();
	size_t i;

	for (i = 0; i < n; i++)
		json_array_append_new(all, json_string(list[i]));
	if (json_is_array(json_object_get(host, key)))
		json_decref(all);
	else
		json_object_set_new(host, key, all);
}

/* What holds where the client left it open; a sandbox that berth made had no client. */
static void set_presets(json_t *host, int is_clients)
{
	static const char *const modes[] = { "CgroupnsMode", "IpcMode" };
	/* Docker's own lists, all of which berth's mount plan hides or holds read-only */
	static const char *const masked[] = { "/proc/asound", "/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
					      "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi",
					      "/sys/firmware", "/sys/devices/virtual/powercap" },
			  *const held[] = { "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger" };
	size_t i;

	set_inspect_paths(host, "MaskedPaths", masked, ARRAY_LEN(masked));
	set_inspect_paths(host, "ReadonlyPaths", held, ARRAY_LEN(held));

	for (i = 0; i < ARRAY_LEN(modes); i++)
		if (!json_string_length(json_object_get(host, modes[i])))
			json_object_set_new(host, modes[i], json_string("private"));
	if (!is_clients)
		json_object_set_new(host, "ShmSize", json_integer(0));
	else if (json_integer_value(json_object_get(host, "ShmSize")) <= 0)
		json_object_set_new(host, "ShmSize", json_integer(SHM_BYTES));
}

/* CPUs as Docker has them: billionths, or where the client gave a quota, that. */
static void show_inspect_cpus(json_t *h, const char *member, uint64_t milli)
{
	const json_int_t quota = json_integer_value(json_object_get(h, "CpuQuota"));
	const json_int_t period = json_integer_value(json_object_get(h, "CpuPeriod"));

	if (quota > 0 && milli != UINT64_MAX)
		json_object_set_new(h, "CpuQuota", json_integer((json_int_t)milli * (period ? period : ENGINE_CPU_PERIOD) / 1000));
	else
		json_object_set_new(h, member, json_integer(milli == UINT64_MAX ? 0 : (json_int_t)milli * 1000000));
}

/* "on-failure:5" as {"Name","MaximumRetryCount"}. */
static void show_restart(json_t *h, const char *policy)
{
	const char *colon = strchr(policy, ':');

	json_object_set_new(h, "RestartPolicy",
			    json_pack("{s:s%,s:i}", "Name", policy, colon ? (size_t)(colon - policy) : strlen(policy),
				      "MaximumRetryCount", colon ? atoi(colon + 1) : 0));
}

/* What the sandbox has now, in the place of what was asked when it was made: berth update, too, changes it. */
static void show_present(json_t *h, const json_t *spec)
{
	autojson json_t *zero = json_integer(0);
	const json_t *pair;
	struct err ignored;
	size_t i;

	json_array_foreach(json_object_get(spec, "options"), i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		const char *text = json_string_value(json_array_get(pair, 1));
		const struct param *p = name && text ? param_named(name) : NULL;
		uint64_t v;

		if (p && p->opt.id == PARAM_RESTART)
			show_restart(h, text);
		if (!p || !p->docker)
			continue;
		if (p->type == PARAM_TEXT)
			json_object_set_new(h, p->docker, json_string(text));
		else if (param_parse(p, text, &v, &ignored) < 0)
			continue;
		else if (p->opt.id == PARAM_CPUS)
			show_inspect_cpus(h, p->docker, v);
		else if (v == UINT64_MAX && p->opt.id == PARAM_PIDS)
			/* an update that lifted it is shown as 0, a create without one as null */
			json_object_set_new(h, p->docker, json_equal(json_object_get(h, p->docker), zero) ? json_integer(0) : json_null());
		else	/* Docker's 0 is none */
			json_object_set_new(h, p->docker, json_integer(v != UINT64_MAX ? (json_int_t)v : 0));
	}
}

/* With the driver of its presets where the client left it open. */
static void show_inspect_log(json_t *h, const json_t *preset)
{
	json_t *log = json_object_get(h, "LogConfig");

	if (!json_is_object(log)) {
		json_object_set_new(h, "LogConfig", json_deep_copy(preset));
		return;
	}
	if (!json_string_length(json_object_get(log, "Type")))
		json_object_set(log, "Type", json_object_get(preset, "Type"));
	if (!json_is_object(json_object_get(log, "Config")))
		json_object_set_new(log, "Config", json_object());
}

/* As requested, and as it is now. */
json_t *engine_host_config(const struct engine_view *v)
{
	const json_t *asked = engine_asked(v, "HostConfig");
	json_t *h = asked ? json_deep_copy(asked) : json_object();
	const char *policy = json_string_value(json_object_get(v->record, "restart"));
	json_t *made = json_pack("{s:o,s:{s:s,s:i},s:{s:s,s:{}},s:b,s:o,s:o,s:o,s:o,s:b,s:s}",
				 "NetworkMode", engine_network_mode_json(v), "RestartPolicy",
				 "Name", policy ? policy : "no", "MaximumRetryCount", 0,
				 "LogConfig", "Type", "json-file", "Config", "AutoRemove", 0,
				 "Binds", json_null(), "PortBindings", json_object(), "CapAdd",
				 json_null(), "CapDrop", json_null(), "Privileged", 0, "Isolation",
				 "");

	json_object_update_missing(h, made);
	show_inspect_log(h, json_object_get(made, "LogConfig"));
	if (!json_string_length(json_object_get(h, "Runtime")))
		json_object_set_new(h, "Runtime", json_string("runc"));
	/* as the daemon keeps it: by id */
	if (json_object_get(json_object_get(v->record, "network"), "container"))
		json_object_set(h, "NetworkMode", json_object_get(made, "NetworkMode"));
	if (!json_string_length(json_object_get(json_object_get(h, "RestartPolicy"), "Name")))
		json_object_set(h, "RestartPolicy", json_object_get(made, "RestartPolicy"));
	json_decref(made);
	if (v->links)
		json_object_set_new(h, "Links", json_array_size(v->links) ? json_incref((json_t *)(size_t)v->links) : json_null());
	set_absent(h);
	set_presets(h, v->asked != NULL);
	show_present(h, v->spec);
	return h;
}

/* Docker's members that berth lacks. */
static void set_inspect_lacked(json_t *doc, const struct engine_view *v)
{
	static const char *const none[] = { "ResolvConfPath", "HostnamePath", "HostsPath",
					    "LogPath",	      "MountLabel",   "ProcessLabel",
					    "AppArmorProfile" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(none); i++)
		json_object_set_new(doc, none[i], json_string(""));
	json_object_set_new(doc, "RestartCount",
			    copy_or(json_object_get(v->record, "restarts"), json_integer(0)));
	json_object_set_new(doc, "Driver", json_string("overlay2"));
	json_object_set_new(doc, "Platform", json_string("linux"));
	json_object_set_new(doc, "ExecIDs", json_null());
	json_object_set_new(doc, "GraphDriver", json_pack("{s:s,s:n}", "Name", "overlay2", "Data"));
}

/* Consumes ports and nets.  At its top it has the address on the bridge without a name. */
static json_t *network_settings(const char *sandbox, json_t *ports, json_t *nets)
{
	static const char *const texts[] = { "Bridge",	    "SandboxKey",
					     "EndpointID",  "Gateway",
					     "IPv6Gateway", "GlobalIPv6Address",
					     "MacAddress",  "LinkLocalIPv6Address" },
			  *const numbers[] = { "GlobalIPv6PrefixLen", "IPPrefixLen",
					       "LinkLocalIPv6PrefixLen" };
	static const char *const copied[] = { "Gateway", "MacAddress", "EndpointID", "IPPrefixLen" };
	const json_t *bridge = json_object_get(nets, "bridge"), *address = json_object_get(bridge, "IPAddress");
	json_t *s = json_pack("{s:s,s:o,s:b,s:o,s:o,s:n,s:n}", "SandboxID", sandbox, "IPAddress",
			      copy_or(address, json_string("")), "HairpinMode", 0, "Ports", ports,
			      "Networks", nets, "SecondaryIPAddresses", "SecondaryIPv6Addresses");
	size_t i;

	for (i = 0; i < ARRAY_LEN(texts); i++)
		json_object_set_new(s, texts[i], json_string(""));
	for (i = 0; i < ARRAY_LEN(numbers); i++)
		json_object_set_new(s, numbers[i], json_integer(0));
	for (i = 0; bridge && i < ARRAY_LEN(copied); i++)
		json_object_set(s, copied[i], json_object_get(bridge, copied[i]));
	return s;
}

json_t *engine_inspect(const struct engine_view *v)
{
	const json_t *digest = json_object_get(v->image, "digest");
	char id[ENGINE_ID];
	json_t *doc, *ports, *nets;

	engine_id(v->id, id);
	ports = engine_ports(v);
	nets = engine_networks(v);
	doc = json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "Id", id, "Created",
			inspect_time(v->record, "created"), "State", inspect_state(v), "Image",
			copy_or(digest, json_string(engine_image_name(v))), "Name",
			json_sprintf("/%s", engine_name(v)), "HostConfig", engine_host_config(v),
			"Mounts", engine_mounts(v), "Config", engine_config(v));
	set_inspect_path(doc, v);
	set_inspect_lacked(doc, v);
	json_object_set_new(doc, "NetworkSettings",
			    network_settings(v->runs ? id : "", ports, nets));
	return doc;
}
