/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/bridge.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/net/forward.h"
#include "runtime/net/forwarding.h"
#include "runtime/net/link.h"
#include "runtime/net/names.h"
#include "runtime/net/nameserver.h"
#include "runtime/net/nametable.h"
#include "runtime/net/netcount.h"
#include "runtime/net/netwire.h"
#include "runtime/net/pool.h"
#include "runtime/net/ruleset.h"

#define PORT_TRIES 16

void bridge_answer(const json_t *j)
{
	struct err ok = { 0 };
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	size_t n = text ? strlen(text) : 0;
	autofree char *packet = malloc(sizeof(ok) + n + 2);

	if (!packet)
		return;
	memcpy(packet, &ok, sizeof(ok));
	if (!text) {
		memcpy(packet + sizeof(ok), "{}", 2);
		n = 2;
	} else {
		memcpy(packet + sizeof(ok), text, n);
	}
	(void)!send(NETHELPER_SOCK, packet, sizeof(ok) + n, MSG_NOSIGNAL);
}

static int parse_pools(struct bridge *b, const json_t *place, struct err *e)
{
	const char *pool = "", *pool6 = "";
	struct link_plan *l = &b->link;

	if (json_get_str(place, "pool", &pool, "job", e) < 1 || json_get_str(place, "pool6", &pool6, "job", e) < 1)
		return err_set(e, ERR_INTERNAL, "berth-net: a job without pools");
	if (netcidr_parse(pool, &l->pool, e) < 0 || netcidr_parse(pool6, &l->pool6, e) < 0)
		return -1;
	if (l->pool.net.family != 4 || l->pool.bits > 29 || l->pool6.net.family != 6 || l->pool6.bits > 112)
		return err_set(e, ERR_CONFIG, "[network] pool must be IPv4 with a prefix of at most 29, pool6 IPv6 with one of at most 112");
	l->bridge = b->name;
	return 0;
}

/* The number of an address of the network, of whichever family. */
static int number_of_address(const struct bridge *b, const char *text, uint64_t *ret, struct err *e)
{
	struct netaddr a;

	if (netaddr_parse(text, &a) < 0 ||
	    netcidr_number(a.family == 4 ? &b->link.pool : &b->link.pool6, &a, ret) < 0)
		return err_set(e, ERR_INVALID, "the address %.60s does not belong to any of this network's subnets", text);
	return 0;
}

/* A member has the same number in both families, so one list serves both. */
static int keep_numbers(struct bridge *b, const json_t *texts, struct err *e)
{
	const json_t *text;
	const char *key;

	json_object_foreach ((json_t *)(size_t)texts, key, text) {
		if (b->plan.kept_count == POOL_KEPT || !json_is_string(text))
			return err_set(e, ERR_INTERNAL, "berth-net: malformed addresses set aside");
		if (number_of_address(b, json_string_value(text), &b->plan.kept[b->plan.kept_count++], e) < 0)
			return -1;
	}
	return 0;
}

/* Sets the range that members get addresses from, its ends included, if the network has one. */
static int set_range(struct bridge *b, const json_t *ranges, struct err *e)
{
	uint64_t first, last;
	const json_t *text;
	struct netcidr c;
	size_t i;

	b->plan.from = json_array_size(ranges) ? 1 : POOL_FIRST, b->plan.to = UINT64_MAX / 2;
	json_array_foreach (ranges, i, text) {
		if (!json_is_string(text) || netcidr_parse(json_string_value(text), &c, e) < 0 ||
		    netcidr_span(c.net.family == 4 ? &b->link.pool : &b->link.pool6, &c, &first, &last) < 0)
			return err_set(e, ERR_INTERNAL, "berth-net: a malformed range");
		b->plan.from = first > b->plan.from ? first : b->plan.from;
		b->plan.to = last < b->plan.to ? last : b->plan.to;
	}
	return 0;
}

static int parse_plan(struct bridge *b, const json_t *place, struct err *e)
{
	json_t *ranges = NULL, *aux = NULL, *asked = NULL, *text;
	const char *gateway = NULL, *gateway6 = NULL;
	uint64_t four = 1, six = 1, n;
	size_t i;

	b->plan.net = b->link.pool, b->plan.net6 = b->link.pool6;
	if (json_get_str(place, "gateway", &gateway, "job", e) < 0 || json_get_str(place, "gateway6", &gateway6, "job", e) < 0 ||
	    json_get_arr(place, "ranges", &ranges, "job", e) < 0 || json_get_obj(place, "aux", &aux, "job", e) < 0 ||
	    json_get_arr(b->policy_json, "addresses", &asked, "job", e) < 0 ||
	    (gateway && number_of_address(b, gateway, &four, e) < 0) || (gateway6 && number_of_address(b, gateway6, &six, e) < 0))
		return -1;
	netcidr_nth(&b->link.pool, four, &b->link.gateway);
	netcidr_nth(&b->link.pool6, six, &b->link.gateway6);
	b->plan.kept[0] = four, b->plan.kept[1] = six, b->plan.kept_count = 2;
	json_array_foreach (asked, i, text) {
		if (json_is_string(text) && netaddr_mac(json_string_value(text), b->link.mac) == 0)
			continue;
		if (!json_is_string(text) || number_of_address(b, json_string_value(text), &n, e) < 0)
			return -1;
		if (b->plan.has_wanted && n != b->plan.wanted)
			return err_set(e, ERR_INTERNAL, "berth-net: two addresses with different numbers");
		b->plan.wanted = n;
		b->plan.has_wanted = 1;
	}
	return set_range(b, ranges, e) < 0 ? -1 : keep_numbers(b, aux, e);
}

/*
 * A network with a name has a directory of its own; the switches are the host's, and recorded
 * once.
 */
static int load_network(struct bridge *b, const json_t *place, struct err *e)
{
	const char *home = b->dir;

	b->network = "";
	if (json_get_str(place, "network", &b->network, "job", e) < 0 ||
	    json_get_str(place, "home", &home, "job", e) < 0 ||
	    json_get_bool(place, "internal", &b->kind.internal, "job", e) < 0 ||
	    json_get_u64(place, "limit", &b->limit, "job", e) < 0 ||
	    json_get_u64(place, "max_rate", &b->kind.rate, "job", e) < 0)
		return -1;
	b->kind.peers = b->network[0] != '\0';
	b->link.internal = b->kind.internal;
	return pool_open(&b->pool, b->dir, e) < 0 ? -1 : pool_open(&b->home, home, e);
}

int bridge_load(struct bridge *b, const json_t *job, struct err *e)
{
	uint64_t interface = 0;
	json_t *place = NULL;

	memset(b, 0, sizeof(*b));
	b->pool.dir_fd = b->pool.lock_fd = b->home.dir_fd = b->home.lock_fd = -1;
	b->id = b->files = b->sandbox = "";
	b->hostname = "sandbox";
	if (json_get_u64(job, "interface", &interface, "job", e) < 0 ||
	    json_get_str(job, "id", &b->id, "job", e) < 0 ||
	    json_get_str(job, "files", &b->files, "job", e) < 0 ||
	    json_get_str(job, "name", &b->sandbox, "job", e) < 0 ||
	    json_get_str(job, "hostname", &b->hostname, "job", e) < 0 || json_get_u64(job, "used_bytes", &b->used_before, "job", e) < 0 ||
	    json_get_obj(job, "policy", &b->policy_json, "job", e) < 1 ||
	    json_get_obj(b->policy_json, "bridge", &place, "job", e) < 1 || json_get_str(place, "name", &b->name, "job", e) < 1 ||
	    json_get_str(place, "dir", &b->dir, "job", e) < 1 || json_get_bool(place, "forwarding", &b->forwarding, "job", e) < 0)
		return err_set(e, ERR_INTERNAL, "berth-net: a malformed job");
	if (parse_pools(b, place, e) < 0 || parse_plan(b, place, e) < 0 || netpolicy_load(&b->policy, b->policy_json, e) < 0)
		return -1;
	b->link.interface = (unsigned)interface;
	b->link.with6 = !json_is_false(json_object_get(place, "ipv6")) && access("/proc/sys/net/ipv6", F_OK) == 0;
	return load_network(b, place, e);
}

void bridge_unload(struct bridge *b)
{
	netpolicy_release(&b->policy);
	pool_close(&b->pool);
	pool_close(&b->home);
}

/*
 * Takes the network's lock first, then that of the host's switches, which is the same lock for a
 * bridge without a name.
 */
int bridge_lock(struct bridge *b, struct err *e)
{
	if (pool_lock(&b->pool, e) < 0)
		return -1;
	if (!b->kind.peers || pool_lock(&b->home, e) == 0)
		return 0;
	pool_unlock(&b->pool);
	return -1;
}

void bridge_unlock(struct bridge *b)
{
	if (b->kind.peers)
		pool_unlock(&b->home);
	pool_unlock(&b->pool);
}

static int need_forwarding(struct bridge *b, struct err *e)
{
	struct pool *p = b->kind.peers ? &b->home : &b->pool;

	b->unrouted = !b->kind.internal && !b->forwarding && !forwarding_stands() && netpolicy_is_local(&b->policy, b->kind.peers);
	/* between members the bridge's own switch does this, but it has none for IPv6 */
	return b->kind.internal || b->unrouted ?
	       forwarding_need6(p, b->forwarding, b->link.with6, &b->link.route6, e) :
	       forwarding_need(p, b->forwarding, b->link.with6, &b->link.route6, e);
}

/* Removes the bridge, which has no member any more. */
int bridge_remove_all(struct bridge *b, struct err *e)
{
	if (ruleset_remove(b->name, e) < 0 || link_bridge_remove(b->name, e) < 0)
		return -1;
	return forwarding_restore(b->kind.peers ? &b->home : &b->pool, e);
}

/* ---- up ------------------------------------------------------------------------------------ */

/* The policy with the servers and ports that were used, so that exactly those are removed. */
static json_t *settled(const json_t *policy, const struct netpolicy *p)
{
	json_t *copy = json_deep_copy(policy), *dns = json_array(), *ports = json_array();
	char text[NETADDR_TEXT + 10], addr[NETADDR_TEXT];
	size_t i;

	for (i = 0; i < p->dns_count; i++) {
		snprintf(text, sizeof(text), p->dns[i].addr.family == 4 ? "%s:%u" : "[%s]:%u", netaddr_text(&p->dns[i].addr, addr),
			 p->dns[i].port);
		json_array_append_new(dns, json_string(text));
	}
	json_object_set_new(copy, "dns", dns);
	for (i = 0; i < p->publish_count; i++)
		json_array_append_new(ports, json_string(p->publish[i].text));
	json_object_set_new(copy, "publish", ports);
	return copy;
}

static json_t *make_member_record(const struct bridge *b)
{
	char v4[NETADDR_TEXT], v6[NETADDR_TEXT];
	json_t *j = json_pack("{s:s,s:I,s:s,s:s,s:s,s:s,s:b,s:I,s:o}", "id", b->id, "number",
			      (json_int_t)b->number, "bridge", b->name, "port",
			      b->link.port, "address", netaddr_text(&b->link.address, v4), "address6",
			      b->link.with6 ? netaddr_text(&b->link.address6, v6) : "", "route6", b->link.route6, "used_bytes",
			      (json_int_t)b->used_before, "policy", settled(b->policy_json, &b->policy));

	return j;
}

/*
 * Names the port. Two of one sandbox may have the same number in their networks; the letter behind
 * the id's digits tells them apart.
 */
static void name_port(struct bridge *b)
{
	const unsigned long long number = b->number & 0xfffff;

	if (b->link.interface)
		snprintf(b->link.port, sizeof(b->link.port), "bv%.7s%c%05llx", b->id,
			 'g' + (char)(b->link.interface & 0xf), number);
	else
		snprintf(b->link.port, sizeof(b->link.port), "bv%.8s%05llx", b->id, number);
}

static int write_member_record(struct bridge *b, struct err *e)
{
	autojson json_t *record = make_member_record(b);

	return record ? pool_record(&b->pool, b->id, record, e) : err_nomem(e);
}

/* Describes it for queries; loopback: ports of the host's loopback lead to it. */
static json_t *describe_bridge(const struct bridge *b, int loopback)
{
	char v4[NETADDR_TEXT], v6[NETADDR_TEXT];
	char text[NETADDR_MAC_TEXT];
	uint8_t m[6];

	json_t *j = json_pack("{s:s,s:s,s:s,s:s,s:b,s:b}", "bridge", b->name, "port", b->link.port,
			      "address", netaddr_text(&b->link.address, v4),
			      "address6", b->link.with6 ? netaddr_text(&b->link.address6, v6) : "",
				      "route6", b->link.route6, "loopback", loopback);

	link_mac_of(&b->link, m);
	if (j)
		json_object_set_new(j, "mac", json_string(netaddr_mac_text(m, text)));
	if (b->policy.publish_count && j)
		json_object_set_new(j, "ports", freeport_describe(&b->policy, &b->link));
	if (b->unrouted && j)
		json_object_set_new(j, "routed", json_false());
	if (b->kind.peers && j) {
		json_object_set_new(j, "network", json_string(b->network));
		json_object_set_new(j, b->link.interface ? "joined" : "resolver", json_true());
	}
	return j;
}

struct mac_search {
	struct bridge *b;
	struct err *e;
};

/* -1 for another member that has chosen our hardware address: frames for it would go astray. */
static int differs_in_mac(void *ctx, const char *id)
{
	const struct mac_search *x = ctx;
	struct err ignored;
	autojson json_t *record = strcmp(id, x->b->id) ? pool_recorded(&x->b->pool, id, &ignored) : NULL;
	const json_t *list = json_object_get(json_object_get(record, "policy"), "addresses"), *text;
	uint8_t mac[6];
	size_t i;

	json_array_foreach (list, i, text)
		if (json_is_string(text) && netaddr_mac(json_string_value(text), mac) == 0 && !memcmp(mac, x->b->link.mac, sizeof(mac)))
			return err_set(x->e, ERR_EXISTS, "the hardware address %s is that of sandbox %.64s on the same network", json_string_value(text), id);
	return 0;
}

static int check_mac_is_free(struct bridge *b, struct err *e)
{
	static const uint8_t none[6];
	struct mac_search x = { b, e };

	return memcmp(b->link.mac, none, sizeof(none)) ? pool_each(&b->pool, differs_in_mac, &x, e) : 0;
}

/* Forwarding, and the address, which is recorded before the kernel hears of it. */
static int take_pool_address(struct bridge *b, struct err *e)
{
	int r;

	if (bridge_lock(b, e) < 0)
		return -1;
	r = b->kind.peers ? members_room(&b->pool, b->network, b->limit, e) : 0;
	if (r == 0)
		r = check_mac_is_free(b, e);
	if (r == 0)
		r = need_forwarding(b, e);
	if (r == 0)
		r = pool_take(&b->pool, b->id, &b->plan, &b->number, e);
	if (r == 0) {
		name_port(b);
		netcidr_nth(&b->link.pool, b->number, &b->link.address);
		netcidr_nth(&b->link.pool6, b->number, &b->link.address6);
		r = write_member_record(b, e);
	}
	if (r == 0)
		r = bridge_take_names(b, e);
	/*
	 * under the lock: two first sandboxes must not both make them. The table is made last,
	 * so that its presence means that all is made.
	 */
	if (r == 0)
		r = ruleset_stands(b->name, e);
	if (r == 0 || (r == 1 && !link_bridge_stands(&b->link)))
		r = link_bridge(&b->link, e) < 0 ? -1 : ruleset_make(b->name, &b->kind, e);
	else if (r == 1)
		r = 0;
	bridge_unlock(b);
	return r;
}

static int chose_port(const struct netpolicy *p)
{
	size_t i;

	for (i = 0; i < p->publish_count; i++)
		if (p->publish[i].any_port)
			return 1;
	return 0;
}

/* A port that is free on the host may be another sandbox's, which is seen here only. */
static int add_rules(struct bridge *b, struct err *e)
{
	int tries = PORT_TRIES;

	while (ruleset_add(b->id, &b->link, &b->policy, b->used_before, e) < 0)
		if (e->os_errno != EEXIST || !chose_port(&b->policy) || !--tries ||
		    freeport_choose(&b->policy, e) < 0 || write_member_record(b, e) < 0)
			return -1;
	return 0;
}

static int make_bridge_member(struct bridge *b, struct err *e)
{
	if ((!b->link.interface && names_choose(&b->policy, e) < 0) ||
	    freeport_choose(&b->policy, e) < 0)
		return -1;
	if (take_pool_address(b, e) < 0 || add_rules(b, e) < 0 ||
	    link_join(&b->link, NETHELPER_NETNS, e) < 0)
		return -1;
	if (b->policy.max_rate &&
	    tbf_set(b->link.port, NETHELPER_NETNS, "eth0", b->policy.max_rate, e) < 0)
		return -1;
	if (b->link.interface)
		return 0;	/* the files are those of the first */
	return names_write(b->files, b->hostname, &b->policy, &b->link, b->kind.peers, b->policy_json, e);
}

/* ---- down ------------------------------------------------------------------------------------- */

/* Takes the record's values for a sandbox, instead of those of the job. */
static int adopt(struct bridge *b, const json_t *record, struct err *e)
{
	const char *v4 = "", *v6 = "", *port = "";
	json_t *policy = NULL, *text;
	size_t i;

	if (json_get_str(record, "port", &port, "record", e) < 1 || json_get_str(record, "address", &v4, "record", e) < 1 ||
	    json_get_str(record, "address6", &v6, "record", e) < 0 ||
	    json_get_u64(record, "used_bytes", &b->used_before, "record", e) < 0 || json_get_obj(record, "policy", &policy, "record", e) < 1)
		return err_set(e, ERR_CORRUPT, "the record of the network of sandbox %s is malformed", b->id);
	netpolicy_release(&b->policy);
	if (netpolicy_load(&b->policy, policy, e) < 0)
		return -1;
	json_array_foreach (json_object_get(policy, "addresses"), i, text)
		if (json_is_string(text))
			(void)netaddr_mac(json_string_value(text), b->link.mac);
	b->link.with6 = v6[0] != '\0';
	snprintf(b->link.port, sizeof(b->link.port), "%s", port);
	if (netaddr_parse(v4, &b->link.address) < 0 || (v6[0] && netaddr_parse(v6, &b->link.address6) < 0))
		return err_set(e, ERR_CORRUPT, "the record of the network of sandbox %s is malformed", b->id);
	return 0;
}

/* The number is free, and the record goes when it is still of this number: the sandbox may run again already. */
static int forget_member(struct bridge *b, uint64_t number, struct err *e)
{
	autojson json_t *now = NULL;
	struct err ignored;

	now = pool_recorded(&b->pool, b->id, &ignored);
	if (now && (uint64_t)json_integer_value(json_object_get(now, "number")) != number) {
		pool_free(&b->pool, number);
		return 0;
	}
	return pool_forget(&b->pool, b->id, e);
}

/*
 * Removes it in an order in which nothing gets through: a sandbox in no set may send nothing.
 * Its last counters go to *ret_last. With `soon`, our caller gets its answer before the
 * interface is removed, which takes long.
 */
int bridge_take_back(struct bridge *b, int locked, int soon, json_t **ret_last, struct err *e)
{
	autojson json_t *record = pool_recorded(&b->pool, b->id, e);
	struct netcount last = { 0 };
	struct err none, ignored;
	int r;

	if (!record)
		return e->code == ERR_NOT_FOUND ? pool_forget(&b->pool, b->id, e) : -1;
	if (adopt(b, record, e) < 0)
		return -1;
	netcount_read(b->name, b->id, &last, &none);
	json_decref(*ret_last);
	*ret_last = json_pack("{s:I,s:I,s:I}", "bytes_in", (json_int_t)last.bytes_in, "bytes_out", (json_int_t)last.bytes_out,
			      "used_bytes", (json_int_t)(b->used_before + last.bytes_in + last.bytes_out));
	bridge_forget_names(b, (uint64_t)json_integer_value(json_object_get(record, "number")));
	if (link_forget(&b->link, e) < 0 || ruleset_take_back(b->id, &b->link, &b->policy, e) < 0)
		return err_wrap(e, "take back the network of sandbox %s", b->id);
	if (soon)
		bridge_answer(*ret_last);
	if (link_leave(&b->link, e) < 0)
		return err_wrap(e, "take back the network of sandbox %s", b->id);
	if (!locked && bridge_lock(b, e) < 0)
		return -1;
	r = forget_member(b, (uint64_t)json_integer_value(json_object_get(record, "number")), e);
	/* the last member of a network has left: no part of the network stays in the kernel */
	if (r == 0 && b->kind.peers && !locked && members_count(&b->pool, &ignored) == 0)
		r = bridge_remove_all(b, e);
	if (!locked)
		bridge_unlock(b);
	return r;
}

int bridge_up(const json_t *job, struct err *e)
{
	autojson json_t *told = NULL;
	pid_t parent = getppid();
	struct forward *f = NULL;
	struct bridge b;
	struct err second;
	int r = bridge_load(&b, job, e);

	if (r == 0) {
		r = make_bridge_member(&b, e) < 0 ? -1 : b.link.interface ? 0 : bridge_open_servers(&b, &f, e);
		if (r < 0)
			bridge_take_back(&b, 0, 0, &told, &second);
	}
	if (r == 0) {
		told = describe_bridge(&b, forward_ports(f) > 0);
		if (!f)
			bridge_answer(told);
	}
	bridge_unload(&b);
	return r == 0 && f ? bridge_stay(f, job, told, parent, e) : r;
}

int bridge_down(const json_t *job, struct err *e)
{
	autojson json_t *last = NULL;
	struct bridge b;
	int r = bridge_load(&b, job, e);

	if (r == 0)
		r = bridge_take_back(&b, 0, 1, &last, e);
	if (r == 0)
		bridge_answer(last);	/* it is sent twice if it was sent already, but then nobody reads
					 * it */
	bridge_unload(&b);
	return r;
}

/* ---- while it lives ------------------------------------------------------------------------------ */

int bridge_change(const json_t *job, struct err *e)
{
	struct netpolicy fresh;
	struct bridge b;
	autojson json_t *record = NULL;
	int r = bridge_load(&b, job, e);

	fresh = b.policy;
	b.policy = (struct netpolicy){ 0 };
	if (r == 0 && !(record = pool_recorded(&b.pool, b.id, e)))
		r = -1;
	if (r == 0)
		r = adopt(&b, record, e);
	/* the file in the sandbox stays as it is, and so do the ports that were chosen */
	memcpy(fresh.dns, b.policy.dns, sizeof(fresh.dns));
	fresh.dns_count = b.policy.dns_count;
	memcpy(fresh.publish, b.policy.publish, sizeof(fresh.publish));
	fresh.publish_count = b.policy.publish_count;
	/* the record first, so that anything left in the kernel is found */
	if (r == 0 && (json_object_set_new(record, "policy", settled(b.policy_json, &fresh)) < 0 || pool_record(&b.pool, b.id, record, e) < 0))
		r = -1;
	if (r == 0)
		r = ruleset_change(b.id, &b.link, &b.policy, &fresh, b.used_before, e);
	if (r == 0 && fresh.max_rate != b.policy.max_rate)
		r = tbf_set(b.link.port, NETHELPER_NETNS, "eth0", fresh.max_rate, e);
	if (r == 0)
		bridge_answer(NULL);
	netpolicy_release(&fresh);
	bridge_unload(&b);
	return r;
}

/* ---- the names of a member ---- */

/* The names that a member has on its network, in the table that the resolvers of all read. */

#define SHORT_ID 12

int bridge_take_names(struct bridge *b, struct err *e)
{
	const json_t *aliases = json_object_get(b->policy_json, "aliases"), *v;
	const char *names[NAMETABLE_NAMES];
	struct nametable t;
	char short_id[SHORT_ID + 1];
	size_t n = 0, i;
	int r;

	if (!b->kind.peers)
		return 0;
	snprintf(short_id, sizeof(short_id), "%s", b->id);
	if (b->sandbox[0])
		names[n++] = b->sandbox;
	names[n++] = short_id;
	json_array_foreach(aliases, i, v)
		if (n < NAMETABLE_NAMES && json_is_string(v))
			names[n++] = json_string_value(v);
	if (nametable_open(&t, b->pool.dir_fd, e) < 0)
		return -1;
	r = nametable_set(&t, (uint32_t)b->number, names, n, e);
	nametable_close(&t);
	return r;
}

void bridge_forget_names(struct bridge *b, uint64_t number)
{
	struct nametable t;
	struct err ignored;

	if (!path_has(b->pool.dir_fd, NAMETABLE_FILE) ||
	    nametable_open(&t, b->pool.dir_fd, &ignored) < 0)
		return;
	nametable_forget(&t, (uint32_t)number);
	nametable_close(&t);
}

/* Renames it, with its recorded aliases. */
static int rename_by(struct bridge *b, const json_t *record, struct err *e)
{
	if (json_get_u64(record, "number", &b->number, "record", e) < 1 ||
	    json_get_obj(record, "policy", &b->policy_json, "record", e) < 1)
		return err_set(e, ERR_CORRUPT, "the record of the network of sandbox %s is "
					       "malformed", b->id);
	return bridge_take_names(b, e);
}

int bridge_rename(const json_t *job, struct err *e)
{
	autojson json_t *record = NULL;
	struct bridge b;
	int r = bridge_load(&b, job, e);

	if (r == 0 && bridge_lock(&b, e) < 0)
		r = -1;
	if (r == 0) {
		record = pool_recorded(&b.pool, b.id, e);
		if (!record)	/* the sandbox has just ended */
			r = e->code == ERR_NOT_FOUND ? 0 : -1;
		else
			r = rename_by(&b, record, e);
		bridge_unlock(&b);
	}
	if (r == 0)
		bridge_answer(NULL);
	bridge_unload(&b);
	return r;
}

/* ---- the runs that stay ---- */

/* The runs of berth-net that stay: ports of the loopback, and the names of networks. */

int bridge_open_servers(struct bridge *b, struct forward **ret, struct err *e)
{
	const struct nameserver_place at = { b->network, b->pool.dir_fd, b->kind.internal, &b->link,
					     &b->policy, json_object_get(b->policy_json, NAMESERVER_LINKS) };
	struct nameserver *names = NULL;
	struct forward *f = NULL;

	if (forward_open(&b->policy, &b->link, b->kind.peers, &f, e) < 0)
		return -1;
	if (b->kind.peers && nameserver_open(&at, NETHELPER_NETNS, &names, e) < 0) {
		forward_free(f);
		return -1;
	}
	if (f)
		forward_names(f, names);
	*ret = f;
	return 0;
}

int bridge_stay(struct forward *f, const json_t *job, const json_t *told, pid_t parent,
		struct err *e)
{
	autofree char *text = told ? json_dumps(told, JSON_COMPACT) : NULL;
	uint64_t uid = 0;
	int r = -1;

	if (!text || json_get_u64(job, "uid", &uid, "job", e) < 1 || uid < 65536) {
		err_set(e, ERR_INTERNAL, "berth-net: a malformed job");
	} else {
		close(NETHELPER_NETNS);	/* otherwise the namespace would exist as long as we do */
		close(NETHELPER_JOB);
		r = forward_run(f, text, (uid_t)uid, parent, e);
	}
	forward_free(f);
	return r;
}

/* The servers that the sandbox has asked until now, by the policy that its bridge enforces. */
static int open_resolver(struct bridge *b, struct nameserver **ret, struct err *e)
{
	autojson json_t *record = pool_recorded(&b->pool, b->id, e);
	json_t *policy = NULL;
	struct nameserver_place at = { "", -1, 0, &b->link, &b->policy, NULL };

	if (!record)
		return -1;
	if (json_get_obj(record, "policy", &policy, "record", e) < 1)
		return err_set(e, ERR_CORRUPT,
			       "the record of the network of sandbox %s is malformed", b->id);
	netpolicy_release(&b->policy);
	at.links = json_object_get(policy, NAMESERVER_LINKS);
	return netpolicy_load(&b->policy, policy, e) < 0 ?
		       -1 :
		       nameserver_open(&at, NETHELPER_NETNS, ret, e);
}

int bridge_resolver(const json_t *job, struct err *e)
{
	autojson json_t *told = json_pack("{s:b}", "resolver", 1);
	const struct netpolicy no_ports = { 0 };
	struct nameserver *names = NULL;
	struct forward *f = NULL;
	pid_t parent = getppid();
	struct bridge b;
	int r = bridge_load(&b, job, e);

	if (r == 0)
		r = open_resolver(&b, &names, e);
	if (r == 0 && forward_open(&no_ports, &b.link, 1, &f, e) < 0) {
		nameserver_free(names);
		r = -1;
	}
	bridge_unload(&b);
	if (r < 0)
		return -1;
	forward_names(f, names);
	return bridge_stay(f, job, told, parent, e);
}

/* ---- what is left of a network ---- */

/* The leftovers of ended sandboxes in a network, and the end of a network. */

struct gc {
	struct bridge *b;
	int living_fd;
	unsigned cleared, used;
	struct err *e;
	int failed;
};

static int look_at_recorded_member(void *ctx, const char *id)
{
	autojson json_t *last = NULL;
	struct gc *g = ctx;
	char mine[65];

	if (path_has(g->living_fd, id)) {
		g->used++;
		return 0;
	}
	snprintf(mine, sizeof(mine), "%s", id);
	g->b->id = mine;
	if (bridge_take_back(g->b, 1, 0, &last, g->e) < 0)
		g->failed = 1;	/* the others can still be cleared */
	else
		g->cleared++;
	g->b->id = "";
	return 0;
}

/* Under the lock: removes those whose sandbox is gone. */
static int sweep_bridge(struct bridge *b, const json_t *job, struct gc *g, struct err *e)
{
	autoclose int living = -1;
	const char *dir = NULL;

	if (json_get_str(job, "sandboxes", &dir, "job", e) < 1)
		return err_set(e, ERR_INTERNAL, "berth-net: a malformed job");
	living = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (living < 0)
		return err_sys(e, "open %s", dir);
	*g = (struct gc){ .b = b, .living_fd = living, .e = e };
	if (bridge_lock(b, e) < 0 || pool_each(&b->pool, look_at_recorded_member, g, e) < 0)
		return -1;
	return g->failed ? -1 : 0;
}

int bridge_gc(const json_t *job, struct err *e)
{
	autojson json_t *told = NULL;
	struct bridge b;
	struct gc g = { .used = 0 };
	int r = bridge_load(&b, job, e);

	if (r == 0)
		r = sweep_bridge(&b, job, &g, e);
	if (r == 0 && !g.used)
		r = bridge_remove_all(&b, e);
	if (r == 0) {
		told = json_pack("{s:i,s:i}", "cleared", g.cleared, "used", g.used);
		bridge_answer(told);
	}
	bridge_unload(&b);
	return r;
}

int bridge_remove(const json_t *job, struct err *e)
{
	struct gc g = { .used = 0 };
	struct bridge b;
	int r = bridge_load(&b, job, e), n;

	/* a sandbox that has just ended may not have removed its network yet */
	if (r == 0)
		r = sweep_bridge(&b, job, &g, e);
	if (r == 0 && (n = members_count(&b.pool, e)) != 0)
		r = n < 0 ? -1 : err_set(e, ERR_BUSY, "network %s has %d member%s; hint: berth "
						      "network inspect %s",
					 b.network, n, n == 1 ? "" : "s", b.network);
	/* a process that waits for the lock to join finds the network closed */
	if (r == 0)
		r = members_close(&b.pool, e);
	if (r == 0)
		r = bridge_remove_all(&b, e);
	if (r == 0)
		bridge_answer(NULL);
	bridge_unload(&b);
	return r;
}

/* ---- a test of the kernel ---- */

/* Tests this kernel's support for a bridge: everything is made in a separate namespace. */

int bridge_probe(const json_t *job, struct err *e)
{
	struct err ok = { 0 };
	struct link_plan l = { .bridge = "berthprobe", .port = "bvprobe", .with6 = 1, .route6 = 1 };
	const struct ruleset_kind kind = { 0 };
	struct netpolicy *p = calloc(1, sizeof(*p));
	autoclose int inner = -1;
	int r = -1;

	(void)job;
	if (!p)
		return err_nomem(e);
	if (unshare(CLONE_NEWNET) < 0 || (inner = open("/proc/self/ns/net",
						       O_RDONLY | O_CLOEXEC)) < 0 ||
							       unshare(CLONE_NEWNET) < 0) {
		err_sys(e, "make a network namespace");
	} else if (netcidr_parse("10.203.0.0/16", &l.pool, e) == 0 &&
		   netcidr_parse("fd62:6572:7468::/64", &l.pool6, e) == 0) {
		netcidr_nth(&l.pool, 1, &l.gateway);
		netcidr_nth(&l.pool6, 1, &l.gateway6);
		netcidr_nth(&l.pool, 2, &l.address);
		netcidr_nth(&l.pool6, 2, &l.address6);
		l.with6 = access("/proc/sys/net/ipv6", F_OK) == 0;
		if (link_bridge(&l, e) == 0 && ruleset_make(l.bridge, &kind, e) == 0 &&
		    ruleset_add("probe", &l, p, 0, e) == 0 &&
		    link_join(&l, inner, e) == 0)
			r = 0;
	}
	if (r == 0)
		(void)!send(NETHELPER_SOCK, &ok, sizeof(ok), MSG_NOSIGNAL);
	free(p);
	return r;
}
