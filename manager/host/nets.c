/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/nets.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/net/netpolicy.h"

/* ---- the list of networks, and new ones ---- */

#define RECORD_MAX (1u << 20)
#define PREFIX4_MAX 29
#define PREFIX6_MAX 112

/* The name without its tenant. */
static int bare_of(const char *key, char ret[NETS_NAME_MAX + 1])
{
	const size_t n = strcspn(key, "@");

	if (n > NETS_NAME_MAX || strlen(key) > NETS_NAME_MAX ||
	    (key[n] && !path_is_name(key + n + 1)))
		return 0;
	memcpy(ret, key, n);
	ret[n] = '\0';
	return path_is_name(ret);
}

int nets_check_name(const char *name, struct err *e)
{
	static const char *const words[] = { "none", "host", "bridge", "egress", "container",
					     "default" };
	char bare[NETS_NAME_MAX + 1];
	size_t i;

	if (!bare_of(name, bare))
		return err_set(e, ERR_INVALID, "'%.80s' is not a name for a network; hint: a-z 0-9 "
					       "_ . -",
			       name);
	for (i = 0; i < ARRAY_LEN(words); i++)
		if (!strcmp(bare, words[i]))
			return err_set(e, ERR_INVALID,
				       "%s is a mode of --network and cannot name a "
				       "network; hint: another name", bare);
	return 0;
}

int nets_key(const char *name, const char *tenant, char ret[NETS_NAME_MAX + 1], struct err *e)
{
	const size_t room = NETS_NAME_MAX - (tenant[0] ? strlen(tenant) + 1 : 0);

	/* a tenant names its own networks, and no key */
	if ((tenant[0] && !path_is_name(name)) || strlen(tenant) >= NETS_NAME_MAX ||
	    strlen(name) > room)
		return err_set(e, ERR_INVALID, "'%.80s' is not a name for a network of tenant "
			       "%.64s", name, tenant);
	if (nets_check_name(name, e) < 0)
		return -1;
	snprintf(ret, NETS_NAME_MAX + 1, "%s%s%s", name, tenant[0] ? "@" : "", tenant);
	return 0;
}

int nets_open(const struct config *c, struct err *e)
{
	char path[sizeof(c->state_dir) + 16];

	snprintf(path, sizeof(path), "%s/" NETS_DIR, c->state_dir);
	return path_open_private_dir(path, e);
}

int nets_lock(int dir, struct err *e)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, "open the lock of networks");
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR) {
			err_sys(e, "lock the networks");
			close(fd);
			return -1;
		}
	return fd;
}

static json_t *network_not_found(const char *name, struct err *e)
{
	const int n = (int)strcspn(name, "@");

	/* to a tenant, another tenant's network does not exist */
	if (name[n])
		err_set(e, ERR_NOT_FOUND, "no network named %.*s", n, name);
	else
		err_set(e, ERR_NOT_FOUND,
			"no network named %.64s; hint: berth network create %.64s", name, name);
	return NULL;
}

json_t *nets_load(const struct config *c, const char *name, struct err *e)
{
	char path[sizeof(c->state_dir) + 120];
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	uint64_t version = 0;
	json_t *j;

	if (nets_check_name(name, e) < 0)
		return NULL;
	snprintf(path, sizeof(path), "%s/" NETS_DIR "/%s/" NETS_RECORD, c->state_dir, name);
	if (io_read_file(AT_FDCWD, path, &b, e) < 0)
		return e->code == ERR_NOT_FOUND ? network_not_found(name, e) : NULL;
	j = json_parse(b.data ? b.data : "", b.len, RECORD_MAX, "the record of the network", e);
	if (!j)
		return NULL;
	if (json_get_u64(j, "version", &version, "record", e) == 1 && version == NETS_FORMAT)
		return j;
	json_decref(j);
	err_set(e, ERR_UNSUPPORTED, "the record of network %s is of a newer berth", name);
	return NULL;
}

int nets_is_switch_on(const char *path)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	char c = '0';

	return fd >= 0 && read(fd, &c, 1) == 1 && c == '1';
}

int nets_is_routed(const struct config *c)
{
	return c->network_forwarding || nets_is_switch_on(NETS_FORWARDS);
}

json_t *nets_bridge(const struct config *c)
{
	char dir[sizeof(c->state_dir) + 16];

	snprintf(dir, sizeof(dir), "%s/network", c->state_dir);
	return json_pack("{s:s,s:s,s:s,s:b,s:s}", "name", c->bridge, "pool", c->network_pool,
			 "pool6",
			 c->network_pool6, "forwarding", c->network_forwarding, "dir", dir);
}

json_t *nets_place(const struct config *c, const char *name, struct err *e)
{
	autojson json_t *j = nets_load(c, name, e);
	char dir[sizeof(c->state_dir) + 100], home[sizeof(c->state_dir) + 16];
	char base[sizeof(c->state_dir) + 90];
	static const char *const copied[] = { "max_rate", "gateway", "gateway6", "ranges", "aux", "ipv6" };
	const char *bridge = "", *pool = "", *pool6 = "";
	int internal = 0;
	json_t *place;
	size_t i;

	if (!j || json_get_str(j, "bridge", &bridge, "record", e) < 1 ||
	    json_get_str(j, "subnet", &pool, "record", e) < 1 ||
	    json_get_str(j, "subnet6", &pool6, "record", e) < 1 ||
	    json_get_bool(j, "internal", &internal, "record", e) < 0) {
		if (j)
			err_set(e, ERR_CORRUPT, "the record of network %s is malformed", name);
		return NULL;
	}
	snprintf(dir, sizeof(dir), "%s/" NETS_DIR "/%s/members", c->state_dir, name);
	snprintf(base, sizeof(base), "%s/" NETS_DIR "/%s", c->state_dir, name);
	snprintf(home, sizeof(home), "%s/network", c->state_dir);
	place = json_pack("{s:s,s:s,s:s,s:b,s:s,s:s,s:s,s:b,s:I,s:s,s:O*}", "name", bridge, "pool",
			  pool, "pool6",
			  pool6, "forwarding", c->network_forwarding, "dir", dir, "home", home,
				  "network",
			  name, "internal", internal, "limit", (json_int_t)c->network_max_members,
			  "base", base, NETS_EGRESS, json_object_get(j, NETS_EGRESS));
	if (!place)
		err_nomem(e);
	for (i = 0; place && i < ARRAY_LEN(copied); i++)
		if (json_object_get(j, copied[i]))
			json_object_set(place, copied[i], json_object_get(j, copied[i]));
	return place;
}

struct visit {
	int (*each)(void *ctx, const char *name);
	void *ctx;
	int dir, hidden;
};

static int visit_network_dir(void *ctx, const char *name)
{
	const struct visit *v = ctx;
	struct stat st;

	char bare[NETS_NAME_MAX + 1];

	if ((name[0] == '.') != v->hidden || !bare_of(name + v->hidden, bare) ||
	    fstatat(v->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(st.st_mode))
		return 0;
	return v->each(v->ctx, name);
}

int nets_each_in(int dir, int hidden, int (*each)(void *ctx, const char *name), void *ctx,
		 struct err *e)
{
	struct visit v = { each, ctx, dir, hidden };
	autoclose int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = 0, r = fd < 0 ? -1 : path_each_entry(fd, visit_network_dir, &v, &failed);

	return fd < 0 || failed ? err_sys(e, "read the directory of networks") : r;
}

int nets_each(const struct config *c, int (*each)(void *ctx, const char *name), void *ctx,
	      struct err *e)
{
	char path[sizeof(c->state_dir) + 16];
	autoclose int dir = -1;

	snprintf(path, sizeof(path), "%s/" NETS_DIR, c->state_dir);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open %s", path);
	return nets_each_in(dir, 0, each, ctx, e);
}

/* ---- create ------------------------------------------------------------------------------ */

struct making {
	const struct config *c;
	const struct nets_wanted *w;
	struct subnets taken;
	unsigned count;
	uint64_t own;	/* how many of them are the tenant's */
	struct netcidr net[NETS_SUBNETS];	/* IPv4, IPv6; family 0: not yet */
	struct err *e;
};

static int add_taken_range(struct making *m, const char *text)
{
	struct netcidr c;

	return netcidr_parse(text, &c, m->e) < 0 ? -1 : subnets_add(&m->taken, &c, m->e);
}

static int count_existing_network(void *ctx, const char *name)
{
	struct making *m = ctx;
	autojson json_t *j = nets_load(m->c, name, m->e);
	const char *a = "", *b = "";

	m->count++;
	if (m->w->tenant)
		m->own += !strcmp(name + strcspn(name, "@"), m->w->name + strcspn(m->w->name, "@"));
	if (!j || json_get_str(j, "subnet", &a, "record", m->e) < 1 ||
	    json_get_str(j, "subnet6", &b, "record", m->e) < 1)
		return -1;
	return add_taken_range(m, a) < 0 || add_taken_range(m, b) < 0 ? -1 : 0;
}

/* The address's range: host bits must be 0. */
static int add_interface(struct making *m, const struct sockaddr *a, const struct sockaddr *mask)
{
	struct netcidr c = { .bits = 0 };
	unsigned char bits[16];
	size_t i, n = a->sa_family == AF_INET ? 4 : 16;

	c.net.family = a->sa_family == AF_INET ? 4 : 6;
	if (n == 4) {
		memcpy(c.net.b, &((const struct sockaddr_in *)(const void *)a)->sin_addr, n);
		memcpy(bits, &((const struct sockaddr_in *)(const void *)mask)->sin_addr, n);
	} else {
		memcpy(c.net.b, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, n);
		memcpy(bits, &((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr, n);
	}
	for (i = 0; i < n; i++) {
		c.net.b[i] &= bits[i];
		c.bits += (unsigned)__builtin_popcount(bits[i]);
	}
	return subnets_add(&m->taken, &c, m->e);
}

static int add_interfaces(struct making *m)
{
	struct ifaddrs *list = NULL, *i;
	int r = 0;

	if (getifaddrs(&list) < 0)
		return err_sys(m->e, "list the host's addresses");
	for (i = list; i && r == 0; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_netmask &&
		    (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6))
			r = add_interface(m, i->ifa_addr, i->ifa_netmask);
	freeifaddrs(list);
	return r;
}

/* A requested range: it must be large enough, and not in use. */
static int take_wanted_range(struct making *m, const char *text)
{
	char shown[NETADDR_TEXT + 5];
	const struct netcidr *other;
	struct netcidr c;
	int six;

	if (netcidr_parse(text, &c, m->e) < 0)
		return -1;
	six = c.net.family == 6;
	if (c.bits > (six ? PREFIX6_MAX : PREFIX4_MAX) || !c.bits)
		return err_set(m->e, ERR_INVALID, "the subnet %s has no room; hint: a prefix of 1 "
						  "to %d",
			       text, six ? PREFIX6_MAX : PREFIX4_MAX);
	if (m->net[six].net.family)
		return err_set(m->e, ERR_INVALID, "two subnets have the same family; hint: "
							 "one of IPv4 and one of IPv6");
	if (!m->w->public_subnet && !netaddr_special(&c.net))
		return err_set(m->e, ERR_INVALID, "the subnet %s is of public addresses, which its "
						  "members "
			       "could then not reach; hint: within 10.0.0.0/8, 172.16.0.0/12, "
			       "192.168.0.0/16 or fd00::/8, or --public-subnet", text);
	if ((other = subnets_overlap(&m->taken, &c))) {
		subnets_text(other, shown);
		return err_set(m->e, ERR_EXISTS, "the subnet %s overlaps %s, which another network "
						 "or this "
			       "host has; hint: without --subnet a free one is taken", text, shown);
	}
	m->net[six] = c;
	return subnets_add(&m->taken, &c, m->e);
}

static const struct netcidr *subnet_of(const struct making *m, const struct netaddr *a)
{
	return &m->net[a->family == 6];
}

/* An IPv4 address in the form of IPv6 would be taken for one of the other subnet. */
static int read_address_of_network(const struct making *m, const char *text, struct netaddr *ret, uint64_t *ret_number)
{
	if (netaddr_parse(text, ret) < 0 || (ret->family == 6) != (strchr(text, ':') != NULL) ||
	    netcidr_number(subnet_of(m, ret), ret, ret_number) < 0)
		return -1;
	return 0;
}

/* The last one of IPv4 is for broadcasts. */
static uint64_t last_number4(const struct making *m)
{
	return (1ull << (32 - m->net[0].bits)) - 2;
}

static int check_gateway(struct making *m, const char *text)
{
	struct netaddr a;
	uint64_t n;

	if (netaddr_parse(text, &a) < 0)
		return err_set(m->e, ERR_INVALID, "the gateway %.60s is not an address; hint: one of the subnet", text);
	if (read_address_of_network(m, text, &a, &n) < 0 || !n || (a.family == 4 && n > last_number4(m)))
		return err_set(m->e, ERR_INVALID, "no matching subnet for gateway %.60s; hint: an address of --subnet", text);
	return 0;
}

/* A member has one number in both subnets, so the ranges need a number in common. */
static int check_ranges(struct making *m)
{
	uint64_t from = 1, to = last_number4(m), first, last;
	struct netcidr c;
	size_t i;

	for (i = 0; i < NETS_SUBNETS && m->w->ranges[i]; i++) {
		if (netcidr_parse(m->w->ranges[i], &c, m->e) < 0)
			return -1;
		if ((c.net.family == 6) != (strchr(m->w->ranges[i], ':') != NULL) ||
		    netcidr_span(subnet_of(m, &c.net), &c, &first, &last) < 0)
			return err_set(m->e, ERR_INVALID, "no matching subnet for range %.60s; hint: a part of --subnet",
				       m->w->ranges[i]);
		from = first > from ? first : from;
		to = last < to ? last : to;
	}
	if (from > to)
		return err_set(m->e, ERR_INVALID, "no member could have an address of the ranges: it has the same number in both "
			       "subnets, from 1 to %llu; hint: one --ip-range", (unsigned long long)last_number4(m));
	return 0;
}

static int check_without_ipv6(const struct making *m, const char *option, const char *text)
{
	if (!m->w->no_ipv6 || !text || !strchr(text, ':'))
		return 0;
	return err_set(m->e, ERR_INVALID, "--%s %.60s is an address of IPv6; hint: without --no-ipv6", option, text);
}

/* Gateways, ranges and addresses set aside lie in the subnets, which are known by now. */
static int check_addresses(struct making *m)
{
	struct netaddr a;
	const char *name;
	json_t *text;
	uint64_t n;
	size_t i;

	for (i = 0; i < NETS_SUBNETS; i++)
		if (check_without_ipv6(m, "subnet", m->w->subnets[i]) < 0 || check_without_ipv6(m, "gateway", m->w->gateways[i]) < 0 ||
		    check_without_ipv6(m, "ip-range", m->w->ranges[i]) < 0 ||
		    (m->w->gateways[i] && check_gateway(m, m->w->gateways[i]) < 0))
			return -1;
	if (check_ranges(m) < 0)
		return -1;
	if (json_object_size(m->w->aux) > NETS_AUX_MAX)
		return err_set(m->e, ERR_LIMIT, "more than %d addresses set aside; hint: --ip-range gives out a part of a subnet",
			       NETS_AUX_MAX);
	json_object_foreach ((json_t *)(size_t)m->w->aux, name, text) {
		if (check_without_ipv6(m, "aux-address", json_string_value(text)) < 0)
			return -1;
		if (read_address_of_network(m, json_string_value(text), &a, &n) < 0)
			return err_set(m->e, ERR_INVALID, "no matching subnet for the address %.60s; hint: --aux-address takes "
				       "one of --subnet", json_string_value(text));
	}
	return 0;
}

/* Whether a member may have the address, which is in use or not. */
static int check_member_address(const json_t *place, const char *network, const char *text, uint64_t *ret_number, struct err *e)
{
	const int six = strchr(text, ':') != NULL;
	struct netcidr net, four;
	struct netaddr a;

	if (netcidr_parse(json_string_value(json_object_get(place, "pool")), &four, e) < 0 ||
	    netcidr_parse(json_string_value(json_object_get(place, six ? "pool6" : "pool")), &net, e) < 0)
		return -1;
	if (netaddr_parse(text, &a) < 0 || !netcidr_holds(&net, &a))
		return err_set(e, ERR_INVALID, "invalid address %.60s: it does not belong to any of this network's subnets", text);
	if (six && json_is_false(json_object_get(place, "ipv6")))
		return err_set(e, ERR_INVALID, "invalid address %.60s: network %.64s has IPv4 only; hint: a network made without "
			       "--no-ipv6", text, network);
	/* the first of a subnet is the network's own, and the last of IPv4 for broadcasts */
	if (netcidr_number(&net, &a, ret_number) < 0 || !*ret_number || *ret_number > (1ull << (32 - four.bits)) - 2)
		return err_set(e, ERR_INVALID, "invalid address %.60s: a member has the same number in both subnets, from 1 to %llu; "
			       "hint: another --ip", text, (1ull << (32 - four.bits)) - 2);
	return 0;
}

int nets_check_addresses(const json_t *place, const char *network, const json_t *addresses, struct err *e)
{
	uint64_t n, first = 0;
	const json_t *text;
	uint8_t mac[6];
	size_t i;

	json_array_foreach (addresses, i, text) {
		if (netaddr_mac(json_string_value(text), mac) == 0)
			continue;
		if (check_member_address(place, network, json_string_value(text), &n, e) < 0)
			return -1;
		if (first && n != first)
			return err_set(e, ERR_UNSUPPORTED, "the two addresses of --ip have different numbers in their subnets; hint: "
				       "give one of them, and the other follows");
		first = n;
	}
	return 0;
}

static void add_chosen_addresses(json_t *record, const struct nets_wanted *w)
{
	json_t *ranges = json_array();
	size_t i;

	for (i = 0; i < NETS_SUBNETS && w->gateways[i]; i++)
		json_object_set_new(record, strchr(w->gateways[i], ':') ? "gateway6" : "gateway", json_string(w->gateways[i]));
	for (i = 0; i < NETS_SUBNETS && w->ranges[i]; i++)
		json_array_append_new(ranges, json_string(w->ranges[i]));
	if (json_array_size(ranges))
		json_object_set(record, "ranges", ranges);
	json_decref(ranges);
	if (json_object_size(w->aux))
		json_object_set_new(record, "aux", json_deep_copy(w->aux));
	if (w->no_ipv6)
		json_object_set_new(record, "ipv6", json_false());
}

static int choose_subnets(struct making *m)
{
	struct netcidr base, *six = &m->net[1];

	if (netcidr_parse(m->c->network_subnets, &base, m->e) < 0)
		return err_wrap(m->e, "[network] subnets");
	if (base.net.family != 4 || base.bits > PREFIX4_MAX)
		return err_set(m->e, ERR_CONFIG, "[network] subnets must be IPv4 with a prefix of "
						 "at most %d",
			       PREFIX4_MAX);
	if (!m->net[0].net.family && subnets_choose(&m->taken, &base, &m->net[0]) < 0)
		return err_set(m->e, ERR_LIMIT, "every subnet of %s is taken; hint: --subnet, or "
						"[network] "
			       "subnets in berth.toml", m->c->network_subnets);
	if (six->net.family)
		return 0;
	do {
		*six = (struct netcidr){ .net = { 6, { 0xfd, 0x62, 0x65, 0x72 } }, .bits = 64 };
		if (getrandom(six->net.b + 4, 4, 0) != 4)
			return err_sys(m->e, "choose a subnet");
	} while (subnets_overlap(&m->taken, six));
	return 0;
}

/* A name that no interface has, by chance: 40 bits. */
static int choose_bridge(char out[16], struct err *e)
{
	unsigned char raw[5];

	do {
		if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
			return err_sys(e, "choose the name of a bridge");
		memcpy(out, "bn", 2);
		hex_format(out + 2, raw, sizeof(raw));
	} while (if_nametoindex(out));
	return 0;
}

static json_t *make_network_record(const struct making *m, struct err *e)
{
	char bridge[16], net[2][NETADDR_TEXT + 5], created[CLOCK_UTC];
	autojson json_t *none = json_object();
	json_t *egress = m->w->egress ? json_deep_copy(m->w->egress) : NULL;
	json_t *j;

	/* members find in it which network it is of */
	if (egress)
		json_object_set_new(egress, "network", json_string(m->w->name));
	if (choose_bridge(bridge, e) < 0) {
		json_decref(egress);
		return NULL;
	}
	subnets_text(&m->net[0], net[0]);
	subnets_text(&m->net[1], net[1]);
	clock_utc(time(NULL), created);
	j = json_pack("{s:i,s:s%,s:s*,s:s,s:s,s:s,s:b,s:s,s:O,s:o*}", "version", NETS_FORMAT,
		      "name", m->w->name, strcspn(m->w->name, "@"), "tenant", m->w->tenant,
		      "bridge", bridge, "subnet", net[0], "subnet6", net[1], "internal",
			      m->w->internal,
		      "created", created, "labels", m->w->labels ? m->w->labels : none,
		      NETS_EGRESS, egress);
	if (!j)
		err_nomem(e);
	else if (m->w->max_rate)
		json_object_set_new(j, "max_rate", json_integer((json_int_t)m->w->max_rate));
	if (j)
		add_chosen_addresses(j, m->w);
	return j;
}

/* Under a hidden name first, then under its own. */
static int write_network(int dir, const char *name, const json_t *record, struct err *e)
{
	autofree char *text = json_dumps(record, JSON_COMPACT);
	autoclose int fd = -1;
	char hidden[80];

	if (!text)
		return err_nomem(e);
	snprintf(hidden, sizeof(hidden), ".%s", name);
	if (path_remove_tree(dir, hidden, e) < 0 || (fd = path_make_dir(dir, hidden, e)) < 0 ||
	    io_replace_file(fd, NETS_RECORD, text, strlen(text), 0600, 1, e) < 0)
		return -1;
	if (renameat(dir, hidden, dir, name) < 0 || fsync(dir) < 0)
		return err_sys(e, "record the network %s", name);
	return 0;
}

static int gather_networks(struct making *m, int dir)
{
	if (nets_each_in(dir, 0, count_existing_network, m, m->e) != 0)
		return -1;
	/* tenants must not learn how many networks others have */
	if (m->w->tenant && (m->own >= m->w->tenant_max || m->count >= m->c->network_max))
		return err_set(m->e, ERR_LIMIT, "no more networks are allowed");
	if (m->count >= m->c->network_max)
		return err_set(m->e, ERR_LIMIT, "there are %u networks, and no more are allowed; "
						"hint: berth "
			       "network prune, or [network] max_networks in berth.toml", m->count);
	if (add_taken_range(m, m->c->network_pool) < 0 || add_taken_range(m, m->c->network_pool6) < 0)
		return err_wrap(m->e, "[network] pool");
	return add_interfaces(m);
}

int nets_create(const struct config *c, const struct nets_wanted *w, json_t **ret, struct err *e)
{
	autofree struct making *m = calloc(1, sizeof(*m));
	autoclose int dir = -1, lock = -1;
	autojson json_t *record = NULL;
	size_t i;

	if (!m)
		return err_nomem(e);
	*m = (struct making){ .c = c, .w = w, .e = e };
	if (nets_check_name(w->name, e) < 0 || (dir = nets_open(c, e)) < 0 ||
	    (lock = nets_lock(dir, e)) < 0)
		return -1;
	if (path_has(dir, w->name))
		return err_set(e, ERR_EXISTS, "there is a network named %.*s",
			       (int)strcspn(w->name, "@"), w->name);
	if (gather_networks(m, dir) < 0)
		return -1;
	for (i = 0; i < NETS_SUBNETS && w->subnets[i]; i++)
		if (take_wanted_range(m, w->subnets[i]) < 0)
			return -1;
	if (choose_subnets(m) < 0 || check_addresses(m) < 0 || !(record = make_network_record(m, e)) || write_network(dir, w->name, record,
									 e) < 0)
		return -1;
	*ret = json_incref(record);
	return 0;
}

/* ---- the used ranges of addresses ---- */

int subnets_add(struct subnets *t, const struct netcidr *c, struct err *e)
{
	if (t->count == SUBNETS_TAKEN)
		return err_set(e, ERR_LIMIT, "this host has more than %d ranges of addresses",
			       SUBNETS_TAKEN);
	t->list[t->count++] = *c;
	return 0;
}

const struct netcidr *subnets_overlap(const struct subnets *t, const struct netcidr *c)
{
	size_t i;

	for (i = 0; i < t->count; i++)
		if (netcidr_holds(&t->list[i], &c->net) || netcidr_holds(c, &t->list[i].net))
			return &t->list[i];
	return NULL;
}

int subnets_choose(const struct subnets *t, const struct netcidr *base, struct netcidr *ret)
{
	const unsigned bits = base->bits > SUBNETS_BITS ? base->bits : SUBNETS_BITS;
	const uint64_t count = 1ULL << (bits - base->bits), size = 1ULL << (32 - bits);
	uint64_t i;

	for (i = 0; i < count; i++) {
		struct netcidr c = { .bits = bits };

		if (netcidr_nth(base, i * size, &c.net) == 0 && !subnets_overlap(t, &c)) {
			*ret = c;
			return 0;
		}
	}
	return -1;
}

void subnets_text(const struct netcidr *c, char out[NETADDR_TEXT + 5])
{
	char text[NETADDR_TEXT];

	snprintf(out, NETADDR_TEXT + 5, "%s/%u", netaddr_text(&c->net, text), c->bits);
}

/* ---- changes of rules: pure ---- */

/* Pairs of lists: an entry in one removes the same entry from the other. */
static const struct { const char *key, *opposite; } lists[] = {
	{ "allow_host", "deny_host" },
	{ "deny_host", "allow_host" },
	{ "allow_net", "deny_net" },
	{ "deny_net", "allow_net" },
};

#define RESET "reset_rules"

/* Forgotten at a reset: not the ranges that were opened, which may be the configuration's. */
static const char *const forgotten[] = { "allow_host", "deny_host", "deny_net" };

static const char *const budgets[] = { "max_bytes", "max_connections", "max_rate" };

static void remove_value(json_t *list, const json_t *value)
{
	size_t i;

	for (i = json_array_size(list); i-- > 0;)
		if (json_equal(json_array_get(list, i), value))
			json_array_remove(list, i);
}

static int merge_list(json_t *policy, const char *key, const char *opposite, const json_t *changes,
		      struct err *e)
{
	json_t *more = json_object_get(changes, key), *list, *value;
	size_t i;

	if (!json_is_array(more))
		return 0;
	if (!json_object_get(policy, key))
		json_object_set_new(policy, key, json_array());
	list = json_object_get(policy, key);
	json_array_foreach(more, i, value) {
		remove_value(json_object_get(policy, opposite), value);
		remove_value(list, value);
		if (json_array_append(list, value) < 0)
			return err_nomem(e);
	}
	return 0;
}

int netmerge_wanted(const json_t *changes)
{
	size_t i;

	if (json_is_true(json_object_get(changes, RESET)))
		return 1;
	for (i = 0; i < ARRAY_LEN(lists); i++)
		if (json_object_get(changes, lists[i].key))
			return 1;
	for (i = 0; i < ARRAY_LEN(budgets); i++)
		if (json_object_get(changes, budgets[i]))
			return 1;
	return 0;
}

int netmerge(json_t *policy, const json_t *changes, struct err *e)
{
	int r = 0;
	json_t *v;
	size_t i;

	for (i = 0; json_is_true(json_object_get(changes, RESET)) && i < ARRAY_LEN(forgotten); i++)
		if (json_object_get(policy, forgotten[i]))
			json_object_set_new(policy, forgotten[i], json_array());
	for (i = 0; r == 0 && i < ARRAY_LEN(lists); i++)
		r = merge_list(policy, lists[i].key, lists[i].opposite, changes, e);
	for (i = 0; r == 0 && i < ARRAY_LEN(budgets); i++)
		if ((v = json_object_get(changes, budgets[i])))
			r = json_object_set(policy, budgets[i], v);
	return r;
}

/* ---- changes of a network ---- */

static int check_network_policy(const json_t *policy, struct err *e)
{
	autofree struct netpolicy *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_nomem(e);
	r = netpolicy_load(p, policy, e);
	netpolicy_release(p);
	return r;
}

static int replace_network_record(int dir, const char *name, const json_t *record, struct err *e)
{
	autofree char *text = json_dumps(record, JSON_COMPACT);
	autoclose int fd = -1;

	if (!text)
		return err_nomem(e);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open the directory of network %s", name);
	return io_replace_file(fd, NETS_RECORD, text, strlen(text), 0600, 1, e);
}

int nets_change(const struct config *c, const char *name, const json_t *changes, json_t **ret,
		struct err *e)
{
	autoclose int dir = nets_open(c, e), lock = -1;
	autojson json_t *record = NULL;
	json_t *policy;

	if (dir < 0 || (lock = nets_lock(dir, e)) < 0 || !(record = nets_load(c, name, e)))
		return -1;
	policy = json_object_get(record, NETS_EGRESS);
	if (!policy)
		return err_set(e, ERR_INVALID,
			       "network %s was made without rules, and its members have their own; "
			       "hint: berth network create --allow-host NAME makes one with rules",
			       name);
	if (netmerge(policy, changes, e) < 0 || check_network_policy(policy, e) < 0 ||
	    replace_network_record(dir, name, record, e) < 0)
		return -1;
	*ret = json_incref(record);
	return 0;
}
