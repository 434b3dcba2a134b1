/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/netopts.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "manager/host/nets.h"
#include "runtime/net/names.h"
#include "runtime/net/nameserver.h"
#include "runtime/net/netpolicy.h"

#define BRIDGE 1U
#define EGRESS 2U
#define GROUP 4U	/* mode of a member of a network with rules */
#define GATEWAY "host-gateway"
#define HOSTS_MAX 64
#define ALIASES "aliases"	/* in the policy */
#define ADDRESSES "addresses"	/* the same */
#define ALIASES_MAX 16
#define ALIAS_MAX 63		/* a label of the DNS (RFC 1035) */

static const struct {
	const char *key, *option;
	unsigned modes;
	size_t max;
} lists[] = {
	[NETOPTS_ALLOW_HOST] = { "allow_host", "allow-host", EGRESS | GROUP, NETPOLICY_HOSTS },
	[NETOPTS_DENY_HOST] = { "deny_host", "deny-host", EGRESS | GROUP, NETPOLICY_HOSTS },
	[NETOPTS_ALLOW_NET] = { "allow_net", "allow-net", BRIDGE | EGRESS, NETPOLICY_NETS },
	[NETOPTS_DENY_NET] = { "deny_net", "deny-net", BRIDGE | EGRESS | GROUP, NETPOLICY_NETS },
	[NETOPTS_DNS] = { "dns", "dns", BRIDGE | EGRESS, NETPOLICY_DNS },
	[NETOPTS_PUBLISH] = { "publish", "publish", BRIDGE, NETPOLICY_PUBLISH },
	[NETOPTS_DNS_SEARCH] = { NAMES_SEARCH, "dns-search", BRIDGE, NAMES_SEARCH_MAX },
	[NETOPTS_DNS_OPTION] = { NAMES_OPTIONS, "dns-option", BRIDGE, NAMES_OPTIONS_MAX },
	[NETOPTS_LINK] = { NAMESERVER_LINKS, "link", BRIDGE, NAMESERVER_LINKS_MAX },
};
_Static_assert(ARRAY_LEN(lists) == NETOPTS_LISTS, "one row per list");

static const struct { const char *key, *option; unsigned modes; } budgets[] = {
	[NETOPTS_BYTES] = { "max_bytes", "network-bytes", BRIDGE | EGRESS | GROUP },
	[NETOPTS_CONNECTIONS] = { "max_connections", "network-connections", BRIDGE | EGRESS | GROUP },
	[NETOPTS_RATE] = { "max_rate", "network-rate", BRIDGE | EGRESS },
};
_Static_assert(ARRAY_LEN(budgets) == NETOPTS_BUDGETS, "one row per budget");

const char *netopts_key(enum netopts_list l)
{
	return lists[l].key;
}

const char *netopts_option(enum netopts_list l)
{
	return lists[l].option;
}

/*
 * Refuses a loopback address: programs ask no proxy for it, and nothing routes it, so the rule
 * would not have the effect that its author wants.
 */
static int refuse_loopback(const char *value, struct err *e)
{
	return err_set(e, ERR_INVALID, "'%.80s' is the loopback, which each sandbox has of its own: it needs no rule there, and none "
		       "leads to the host's; hint: let the host's service listen on another address of the host, and allow that", value);
}

/* A word of resolv.conf(5), of these characters and no others: it cannot end the line, nor begin a comment. */
static int check_resolv_word(const char *value, const char *more, size_t max, const char *what, struct err *e)
{
	const size_t n = strlen(value);
	size_t i;

	for (i = 0; i < n && ((value[i] >= 'a' && value[i] <= 'z') || (value[i] >= 'A' && value[i] <= 'Z') ||
			      (value[i] >= '0' && value[i] <= '9') || strchr(more, value[i])); i++)
		;
	return n && n <= max && i == n ? 0 :
	       err_set(e, ERR_INVALID, "'%.80s' is not %s; hint: %s", value, what,
		       max == NAMES_DOMAIN ? "a domain such as example.org, or . for none" : "an option of resolv.conf(5), such as ndots:2");
}

/* NAME:ALIAS, each a name that a resolver looks for. */
static int check_link(const char *value, struct err *e)
{
	const char *colon = strchr(value, ':');
	const size_t n = colon ? (size_t)(colon - value) : 0;

	return n && n <= ALIAS_MAX && colon[1] && strlen(colon + 1) <= ALIAS_MAX &&
			       strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == n &&
			       strspn(colon + 1, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(colon + 1) ?
		       0 : err_set(e, ERR_INVALID, "'%.80s' is not NAME:ALIAS, two names of small letters, digits, '-', '_' and '.'; "
				   "hint: --link db:database", value);
}

int netopts_check(enum netopts_list l, const char *value, struct err *e)
{
	struct nethost host;
	struct netcidr net;
	struct netserver server;
	struct netpublish publish;

	switch (l) {
	case NETOPTS_ALLOW_HOST:
		if (nethost_parse(value, &host, e) < 0)
			return -1;
		return (host.kind == NETHOST_ADDRESS && netaddr_is_loopback(&host.addr)) ||
		       (host.kind == NETHOST_EXACT && !strcmp(host.name, "localhost")) ? refuse_loopback(value, e) : 0;
	case NETOPTS_DENY_HOST:
		return nethost_parse(value, &host, e);
	case NETOPTS_ALLOW_NET:
		if (netcidr_parse(value, &net, e) < 0)
			return -1;
		return net.bits >= 8 && netaddr_is_loopback(&net.net) ? refuse_loopback(value, e) : 0;
	case NETOPTS_DENY_NET:
		return netcidr_parse(value, &net, e);
	case NETOPTS_DNS:
		return netserver_parse(value, &server, e);
	case NETOPTS_LINK:
		return check_link(value, e);
	case NETOPTS_DNS_SEARCH:
		return check_resolv_word(value, "-_.", NAMES_DOMAIN, "a search domain", e);
	case NETOPTS_DNS_OPTION:
		return check_resolv_word(value, "-_:", NAMES_OPTION, "an option of the resolver", e);
	default:
		return netpublish_parse(value, &publish, e);
	}
}

static json_t *policy(struct netopts *o)
{
	if (!o->policy)
		o->policy = json_object();
	return o->policy;
}

int netopts_add(struct netopts *o, enum netopts_list l, const char *value, struct err *e)
{
	json_t *list = json_object_get(policy(o), lists[l].key);

	if (netopts_check(l, value, e) < 0)
		return -1;
	if (!list) {
		list = json_array();
		json_object_set_new(o->policy, lists[l].key, list);
	}
	if (json_array_size(list) >= lists[l].max)
		return err_set(e, ERR_LIMIT, "more than %zu of them", lists[l].max);
	return json_array_append_new(list, json_string(value)) < 0 ? err_nomem(e) : 0;
}

/* Parses bytes a second, or, with "bit", bits. */
static int parse_rate(const char *value, uint64_t *ret, struct err *e)
{
	const size_t n = strlen(value);
	const int is_bits = n > 3 && !strcmp(value + n - 3, "bit");
	const char *const option = budgets[NETOPTS_RATE].option;
	char number[32], unit = '\0';
	uint64_t v, scale = 1;

	if (!is_bits)
		return num_size(value, option, NETRATE_MIN, NETRATE_MAX, ret, e);
	if (n - 3 < sizeof(number)) {
		snprintf(number, sizeof(number), "%.*s", (int)(n - 3), value);
		unit = number[n - 4];
	}
	if (unit == 'k' || unit == 'm' || unit == 'g') {
		scale = unit == 'k' ? 1000 : unit == 'm' ? 1000000 : 1000000000;
		number[n - 4] = '\0';
	}
	if (!unit || num_u64(number, option, 1, NETRATE_MAX, &v, e) < 0 || v > NETRATE_MAX / scale ||
	    v * scale / 8 < NETRATE_MIN)
		return err_set(e, ERR_INVALID, "%s: '%.40s' is not a rate of 8192bit or more; hint: 10m is "
			       "10 MiB a second, 10mbit ten million bits", option, value);
	*ret = v * scale / 8;
	return 0;
}

int netopts_budget(enum netopts_budget b, const char *value, uint64_t *ret, struct err *e)
{
	if (!strcmp(value, "unlimited")) {
		*ret = 0;
		return 0;
	}
	if (b == NETOPTS_RATE)
		return parse_rate(value, ret, e);
	return b == NETOPTS_BYTES ? num_size(value, budgets[b].option, 1, 1ULL << 60, ret, e) :
				    num_u64(value, budgets[b].option, 1, 1ULL << 40, ret, e);
}

int netopts_set(struct netopts *o, enum netopts_budget b, const char *value, struct err *e)
{
	uint64_t v;

	if (netopts_budget(b, value, &v, e) < 0)
		return -1;
	return json_object_set_new(policy(o), budgets[b].key, json_integer((json_int_t)v)) < 0 ? err_nomem(e) : 0;
}

static int joined_mode(struct netopts *o, const char *of, enum spec_network *ret, struct err *e)
{
	if (!path_is_name(of) || strlen(of) >= sizeof(o->joins))
		return err_set(e, ERR_INVALID, "'%.80s' is not a name or an id of a sandbox; hint: "
					       "--network container:NAME, of one that berth ps "
					       "lists", of);
	snprintf(o->joins, sizeof(o->joins), "%s", of);
	*ret = NETWORK_JOINED;
	return 0;
}

int netopts_mode(struct netopts *o, const char *value, enum spec_network *ret, struct err *e)
{
	int n;

	o->name[0] = o->joins[0] = '\0';
	if (!strncmp(value, NETOPTS_CONTAINER, strlen(NETOPTS_CONTAINER)))
		return joined_mode(o, value + strlen(NETOPTS_CONTAINER), ret, e);
	for (n = 0; n < NETWORK_COUNT; n++) {
		if (n != NETWORK_JOINED &&
		    !strcmp(value, spec_network_name((enum spec_network)n))) {
			*ret = (enum spec_network)n;
			return 0;
		}
	}
	if (nets_check_name(value, e) < 0)
		return err_set(e, ERR_INVALID,
			       "'%.40s' is neither a mode nor a name; hint: none, host, bridge, "
			       "egress, container:SANDBOX, or what berth network create made",
			       value);
	snprintf(o->name, sizeof(o->name), "%s", value);
	*ret = NETWORK_BRIDGE;
	return 0;
}

int netopts_alias(struct netopts *o, const char *value, struct err *e)
{
	json_t *list = json_object_get(policy(o), ALIASES);

	if (!path_is_name(value) || strlen(value) > ALIAS_MAX)
		return err_set(e, ERR_INVALID, "'%.80s' is not a name for a sandbox on a network; "
					       "hint: up to 63 of a-z 0-9 _ . -",
			       value);
	if (!list) {
		list = json_array();
		json_object_set_new(o->policy, ALIASES, list);
	}
	if (json_array_size(list) >= ALIASES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d names on a network; hint: fewer of "
					     "--alias", ALIASES_MAX);
	return json_array_append_new(list, json_string(value)) < 0 ? err_nomem(e) : 0;
}

/* 4 and 6 for IP, 1 for a hardware address, 0 for none of them. */
static int address_kind(const char *text)
{
	struct netaddr a;
	uint8_t mac[6];

	return netaddr_mac(text, mac) == 0 ? 1 : netaddr_parse(text, &a) == 0 ? a.family : 0;
}

/* Neither for many, nor for none, nor one that follows from an address. */
static int check_mac(const char *text, struct err *e)
{
	static const uint8_t none[6];
	uint8_t mac[6];

	if (netaddr_mac(text, mac) == 0 && !(mac[0] & 1) && memcmp(mac, none, sizeof(none)) && !netaddr_mac_is_own(mac))
		return 0;
	return err_set(e, ERR_INVALID, "the hardware address %.20s cannot be chosen: it is 0, is for many, or begins with 02:62 as those that "
		       "berth gives; hint: --ip 02:42:ac:11:00:0a", text);
}

int netopts_ip(struct netopts *o, const char *value, struct err *e)
{
	json_t *list = json_object_get(policy(o), ADDRESSES);
	const int kind = address_kind(value);
	const json_t *one;
	size_t i;

	if (!kind)
		return err_set(e, ERR_INVALID, "'%.80s' is not an address; hint: --ip 10.1.2.3, of the network's subnet", value);
	if (kind == 1 && check_mac(value, e) < 0)
		return -1;
	json_array_foreach (list, i, one)
		if (address_kind(json_string_value(one)) == kind)
			return err_set(e, ERR_LIMIT, "a sandbox has one address of IPv4, one of IPv6 and one of its hardware on a network");
	if (!list) {
		list = json_array();
		json_object_set_new(o->policy, ADDRESSES, list);
	}
	return json_array_append_new(list, json_string(value)) < 0 ? err_nomem(e) : 0;
}

const json_t *netopts_addresses(const struct netopts *o)
{
	return json_object_get(o->policy, ADDRESSES);
}

static int is_host_name(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && (!i || !strchr("_.-", s[i])))
			return 0;
	return n > 0 && n < NETHOST_NAME;
}

int netopts_host(struct netopts *o, const char *value, struct err *e)
{
	const char *colon = strchr(value, ':'), *address = colon ? colon + 1 : "";
	size_t n = colon ? (size_t)(colon - value) : 0, len = strlen(address);
	char text[NETADDR_TEXT] = "";
	struct netaddr a;

	/* [::1], in the form in which a port would follow */
	if (len > 2 && len < sizeof(text) && address[0] == '[' && address[len - 1] == ']')
		snprintf(text, sizeof(text), "%.*s", (int)len - 2, address + 1);
	else if (len < sizeof(text))
		snprintf(text, sizeof(text), "%s", address);
	if (!is_host_name(value, n) || (strcmp(text, GATEWAY) && netaddr_parse(text, &a) < 0))
		return err_set(e, ERR_INVALID, "'%.200s' is not a line for /etc/hosts; hint: "
					       "NAME:ADDRESS, such as db:10.1.2.3, or "
					       "NAME:host-gateway", value);
	if (!o->hosts)
		o->hosts = json_array();
	if (json_array_size(o->hosts) >= HOSTS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d of them", HOSTS_MAX);
	return json_array_append_new(o->hosts, json_pack("[s%,s]", value, n, text)) < 0 ?
	       err_nomem(e) : 0;
}

/*
 * Sets the hosts: if berth-net writes no file of hosts, they are in the layer that the sandbox
 * writes to; a proxy knows the names, too.
 */
static int settle_hosts(struct netopts *o, struct spec *s, struct err *e)
{
	json_t *pair;
	size_t i;

	if (!o->hosts)
		return 0;
	if ((s->network == NETWORK_BRIDGE || s->network == NETWORK_EGRESS) && json_object_set(policy(o), "hosts", o->hosts) < 0)
		return err_nomem(e);
	if (s->network == NETWORK_BRIDGE)
		return 0;
	o->lines = (struct buf)BUF_INIT(1 << 16);
	json_array_foreach(o->hosts, i, pair) {
		const char *address = json_string_value(json_array_get(pair, 1));

		if (!strcmp(address, GATEWAY) && s->network != NETWORK_HOST)
			return err_set(e, ERR_INVALID, "host-gateway has no meaning with this "
						       "network mode; hint: --network bridge");
		if (!strcmp(address, GATEWAY))
			address = "127.0.0.1";
		if (buf_addf(&o->lines, e, "%s\t%s\n", address,
			     json_string_value(json_array_get(pair, 0))) < 0)
			return -1;
	}
	s->hosts = o->lines.data;
	return 0;
}

static int refuse_net_option(const char *option, unsigned modes, struct err *e)
{
	return err_set(e, ERR_INVALID, "--%s has no meaning with this network mode; hint: --network %s", option,
		       (modes & ~GROUP) == EGRESS ? "egress" : modes == BRIDGE ? "bridge" : "egress or bridge");
}

/* Checks that each given option fits the mode: none is ignored silently. */
static int check_net_mode(const struct netopts *o, unsigned mode, struct err *e)
{
	size_t i;

	for (i = 0; i < NETOPTS_LISTS; i++)
		if (json_object_get(o->policy, lists[i].key) && !(lists[i].modes & mode))
			return refuse_net_option(lists[i].option, lists[i].modes, e);
	for (i = 0; i < NETOPTS_BUDGETS; i++)
		if (json_object_get(o->policy, budgets[i].key) && !(budgets[i].modes & mode))
			return refuse_net_option(budgets[i].option, budgets[i].modes, e);
	return 0;
}

/*
 * Checks the options for an internal network, which has no way out and none in: an option that
 * would open one is refused.
 */
static int check_internal(const struct netopts *o, const json_t *place, struct err *e)
{
	static const enum netopts_list open[] = { NETOPTS_ALLOW_NET, NETOPTS_DNS };
	size_t i;

	for (i = 0; json_is_true(json_object_get(place, "internal")) && i < ARRAY_LEN(open); i++)
		if (json_object_get(o->policy, lists[open[i]].key))
			return err_set(e, ERR_INVALID, "--%s has no meaning on network %s, which "
						       "is internal; "
				       "hint: a network made without --internal",
					       lists[open[i]].option,
				       o->name);
	return 0;
}

/*
 * Splits off the published ports of a sandbox that the host's kernel cannot lead to: a relay serves
 * them (net/forward.h), on the loopback of the host and for TCP only.
 */
static int split_relay(struct netopts *o, struct spec *s, const char *where, struct err *e)
{
	json_t *list = json_object_get(o->policy, lists[NETOPTS_PUBLISH].key), *one;
	autojson json_t *relay = NULL;
	struct netpublish p;
	size_t i;

	if (!list)
		return 0;
	json_array_foreach(list, i, one) {
		if (netpublish_parse(json_string_value(one), &p, e) < 0)
			return -1;
		if (p.udp || (p.addr.family && !netaddr_is_loopback(&p.addr)))
			return err_set(e, ERR_INVALID, "--publish %s has no meaning with %s, where only TCP from a loopback address of "
				       "the host leads in; hint: 127.0.0.1:8080:80, or --network bridge, which has %s", p.text, where,
				       p.udp ? "UDP too" : "every address");
	}
	relay = json_pack("{s:O}", lists[NETOPTS_PUBLISH].key, list);
	o->relay_policy = relay ? json_dumps(relay, JSON_COMPACT) : NULL;
	if (!o->relay_policy)
		return err_nomem(e);
	s->net_relay = o->relay_policy;
	json_object_del(o->policy, lists[NETOPTS_PUBLISH].key);
	return 0;
}

/*
 * Splits the rules on a network with rules: the sandbox's own go to its proxy, and none to the
 * bridge, from which nothing leads out.
 */
static int split_own(struct netopts *o, json_t *place, struct spec *s, struct err *e)
{
	json_t *group = json_object_get(place, NETS_EGRESS);
	size_t i;

	if (!group)
		return 0;
	o->own = json_object();
	for (i = 0; i < NETOPTS_LISTS; i++)
		if (lists[i].modes & GROUP && json_object_get(policy(o), lists[i].key)) {
			json_object_set(o->own, lists[i].key,
					json_object_get(o->policy, lists[i].key));
			json_object_del(o->policy, lists[i].key);
		}
	for (i = 0; i < NETOPTS_BUDGETS; i++)
		if (json_object_get(policy(o), budgets[i].key)) {
			json_object_set(o->own, budgets[i].key,
					json_object_get(o->policy, budgets[i].key));
			if (i != NETOPTS_RATE)	/* both its interface and its proxy bound it */
				json_object_del(o->policy, budgets[i].key);
		}
	if (json_object_set(o->own, "group", group) < 0 ||
	    !(o->own_text = json_dumps(o->own, JSON_COMPACT)))
		return err_nomem(e);
	s->net_egress = o->own_text;
	s->net_group_dir = json_string_value(json_object_get(place, "base"));
	return 0;
}

/* The addresses of the configured network, and the rules for every sandbox on it. */
static int add_bridge(struct netopts *o, const struct config *c, struct spec *s, struct err *e)
{
	json_t *place = o->name[0] ? nets_place(c, o->name, e) : nets_bridge(c);
	char text[sizeof(c->network_allow)], *word, *save = NULL;

	if (!place)
		return o->name[0] ? -1 : err_nomem(e);
	/* the policy keeps it, and with it the strings that spec borrows */
	if (json_object_set_new(policy(o), "bridge", place) < 0)
		return err_nomem(e);
	if (check_net_mode(o, json_object_get(place, NETS_EGRESS) ? GROUP | BRIDGE : BRIDGE, e) < 0 ||
	    (json_is_true(json_object_get(place, "internal")) && split_relay(o, s, "an internal network", e) < 0) ||
	    (o->name[0] && (check_internal(o, place, e) < 0 || nets_check_addresses(place, o->name, netopts_addresses(o), e) < 0)) ||
	    split_own(o, place, s, e) < 0)
		return -1;
	memcpy(text, c->network_allow, sizeof(text));
	for (word = strtok_r(text, ", ", &save); word; word = strtok_r(NULL, ", ", &save))
		if (netopts_add(o, NETOPTS_ALLOW_NET, word, e) < 0)
			return err_wrap(e, "[network] allow");
	return 0;
}

/*
 * Bounds the connections: one sandbox must not fill the table of connections that the host's own
 * packets need.
 */
static int bound_connections(struct netopts *o, struct err *e)
{
	const char *key = budgets[NETOPTS_CONNECTIONS].key;

	if (json_object_get(policy(o), key))
		return 0;
	return json_object_set_new(o->policy, key, json_integer((json_int_t)netshare_connections())) < 0 ? err_nomem(e) : 0;
}

/*
 * Sets up a joined network. The network and its files are another sandbox's, so options that would
 * change them belong there.
 */
static int settle_joined(const struct netopts *o, const struct config *c, struct spec *s,
			 struct err *e)
{
	const char *option = NULL;
	size_t i;

	for (i = 0; i < NETOPTS_LISTS; i++)
		if (json_object_get(o->policy, lists[i].key))
			option = lists[i].option;
	for (i = 0; i < NETOPTS_BUDGETS; i++)
		if (json_object_get(o->policy, budgets[i].key))
			option = budgets[i].option;
	option = json_object_get(o->policy, ALIASES) ? "alias" : json_object_get(o->policy, ADDRESSES) ? "ip" : o->hosts ? "add-host" : option;
	if (s->hostname != c->hostname)
		option = "hostname";
	if (option)
		return err_set(e, ERR_INVALID,
			       "--%s has no meaning with --network container:%s, whose network "
			       "and files it uses; hint: give it where %s is made",
			       option, o->joins, o->joins);
	s->joined.id = o->joins;
	if (s->joined.hostname)
		s->hostname = s->joined.hostname;
	s->hosts = s->joined.hosts;
	return 0;
}

int netopts_finish(struct netopts *o, const struct config *c, struct spec *s, struct err *e)
{
	const json_t *one;
	int asks = 0;
	size_t i;

	if (s->network == NETWORK_JOINED)
		return settle_joined(o, c, s, e);
	if ((s->network == NETWORK_NONE || s->network == NETWORK_EGRESS) &&
	    split_relay(o, s, s->network == NETWORK_NONE ? "--network none" : "--network egress", e) < 0)
		return -1;
	if (s->network != NETWORK_BRIDGE &&
	    check_net_mode(o, s->network == NETWORK_EGRESS ? EGRESS : 0, e) < 0)
		return -1;
	if (json_object_get(o->policy, ALIASES) && !o->name[0])
		return err_set(e, ERR_INVALID, "--alias has no meaning without a network that has a "
					       "name; hint: --network NAME, made by berth network "
					       "create");
	json_array_foreach (json_object_get(o->policy, ADDRESSES), i, one)
		asks |= address_kind(json_string_value(one)) > 1;
	if (asks && !o->name[0])
		return err_set(e, ERR_INVALID, "--ip has no meaning without a network that has a name; hint: --network NAME, made by "
			       "berth network create");
	if (json_object_get(o->policy, NAMESERVER_LINKS) && !o->name[0])
		return err_set(e, ERR_INVALID, "--link has no meaning without a network that has a name, on which sandboxes reach each other; "
			       "hint: --network NAME, made by berth network create");
	if (settle_hosts(o, s, e) < 0)
		return -1;
	if (!spec_needs_nethelper(s))
		return 0;
	if (s->network == NETWORK_BRIDGE && (add_bridge(o, c, s, e) < 0 || bound_connections(o, e) < 0))
		return -1;
	o->text = json_dumps(policy(o), JSON_COMPACT);
	if (!o->text)
		return err_nomem(e);
	s->net_policy = o->text;
	return 0;
}

int netopts_is_unrouted(const struct netopts *o, const struct config *c, const struct spec *s)
{
	return s->network == NETWORK_BRIDGE && !nets_is_routed(c) &&
	       !json_is_true(json_object_get(json_object_get(o->policy, "bridge"), "internal"));
}

static int chose_port_of(const json_t *list)
{
	struct netpublish p;
	struct err ignored;
	json_t *v;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, v)
		if (netpublish_parse(json_string_value(v), &p, &ignored) == 0 && p.any_port)
			return 1;
	return 0;
}

int netopts_chose_port(const struct netopts *o)
{
	const char *key = lists[NETOPTS_PUBLISH].key;
	autojson json_t *relay = o->relay_policy ? json_loads(o->relay_policy, 0, NULL) : NULL;

	return chose_port_of(json_object_get(o->policy, key)) || chose_port_of(json_object_get(relay, key));
}

int netopts_has(const struct netopts *o, enum netopts_budget b)
{
	return json_integer_value(json_object_get(o->policy, budgets[b].key)) > 0;
}

int netopts_is_unlimited(const struct netopts *o, enum netopts_budget b)
{
	const json_t *v = json_object_get(o->policy, budgets[b].key);

	return v && !json_integer_value(v);
}

void netopts_release(struct netopts *o)
{
	json_decref(o->policy);
	json_decref(o->hosts);
	json_decref(o->own);
	free(o->own_text);
	free(o->relay_policy);
	buf_release(&o->lines);
	free(o->text);
	memset(o, 0, sizeof(*o));
}
