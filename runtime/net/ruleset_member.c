/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox's part of the table: adds, changes and removes its elements, counters and budget. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/net/netcount.h"
#include "runtime/net/netpolicy.h"
#include "runtime/net/ruleset.h"
#include "runtime/net/ruleset_sets.h"

/* ---- one sandbox's elements --------------------------------------------------------------------- */

/* Appends a part of a key, padded as registers are. */
static void append_key_part(uint8_t *key, uint32_t *len, const void *p, uint32_t n)
{
	memcpy(key + *len, p, n);
	*len += (n + 3U) & ~3U;
}

static struct nft_element address_key(const struct netaddr *a, const char *object)
{
	struct nft_element el = { .object = object };

	el.key_len = a->family == 4 ? 4 : 16;
	memcpy(el.key, a->b, el.key_len);
	return el;
}

static void change_set_element(struct nft *t, int add, int set, const struct nft_element *el)
{
	nft_elements(t, add, ruleset_sets[set].name, 0, el, 1);
}

static void put_identity(struct nft *t, int add, const char *id, const struct link_plan *l, const struct netaddr *a)
{
	const struct family *f = &ruleset_families[a->family == 6];
	char out[80], in[80];
	struct nft_element source = { 0 }, el;
	uint8_t mac[6];

	snprintf(out, sizeof(out), "%s-out", id);
	snprintf(in, sizeof(in), "%s-in", id);
	link_mac_of(l, mac);
	append_key_part(source.key, &source.key_len, mac, 6);
	append_key_part(source.key, &source.key_len, a->b, f->len);
	change_set_element(t, add, f->source, &source);
	el = address_key(a, NULL);
	change_set_element(t, add, f->addr, &el);
	el = address_key(a, out);
	change_set_element(t, add, f->out, &el);
	el = address_key(a, in);
	change_set_element(t, add, f->in, &el);
	el = address_key(a, id);
	change_set_element(t, add, f->quota, &el);
}

static struct nft_element hardware_key(const struct link_plan *l, const char *object)
{
	struct nft_element el = { .key_len = 6, .object = object };

	link_mac_of(l, el.key);
	return el;
}

static void put_counters(struct nft *t, int add, const char *id, const struct link_plan *l)
{
	char refused[80], over[80];
	struct nft_element el;

	snprintf(refused, sizeof(refused), "%s-refused", id);
	snprintf(over, sizeof(over), "%s-over", id);
	el = hardware_key(l, refused);
	change_set_element(t, add, REFUSED, &el);
	el = hardware_key(l, over);
	change_set_element(t, add, OVER, &el);
}

/* A chain of its own, as only a rule can hold a number of connections; the map leads there. */
/* S29: the chains that count what a sandbox has open: PREFIX-ID, and the map that leads there. */
static const struct { int map; const char *prefix; } limits[] = { { LIMITS, "limit" }, { NAMES, "names" } };

#define RATE_SHARES 2	/* connections a minute: this many times the share of open connections, or the
			 * sandbox's own limit if that is higher */
#define RATE_BURST_MAX (1u << 20)	/* the kernel multiplies it by the nanoseconds of one */

static void limit_name(char out[80], size_t i, const char *id)
{
	snprintf(out, 80, "%s-%s", limits[i].prefix, id);
}

static void put_over(struct nft *t, const char *chain, uint64_t connections, uint64_t share)
{
	const uint64_t most = connections > share ? connections : share;
	struct nftnl_rule *r = nft_rule(t, chain);

	/* connlimit counts no TCP connection that has ended, which the kernel goes on tracking for two minutes */
	nft_rate_over(r, RATE_SHARES * most, most < RATE_BURST_MAX ? (uint32_t)most : RATE_BURST_MAX);
	nft_verdict(r, NFT_GOTO, RULESET_OVER);
	nft_rule_end(t, r);
	r = nft_rule(t, chain);
	/* the kernel counts in an int, and holds fewer connections than that */
	nft_connections_over(r, connections < INT32_MAX ? (uint32_t)connections : INT32_MAX);
	nft_verdict(r, NFT_GOTO, RULESET_OVER);
	nft_rule_end(t, r);
}

/*
 * Queries to its DNS servers are counted separately: a sandbox at its limit of connections can
 * still resolve names.
 */
static void put_limit(struct nft *t, int add, const char *id, const struct link_plan *l, uint64_t connections)
{
	uint64_t share = netshare_connections();
	char name[80];
	size_t i;

	for (i = 0; connections && i < ARRAY_LEN(limits); i++) {
		struct nft_element el = hardware_key(l, NULL);
		const struct nft_chain chain = { .name = name };

		limit_name(name, i, id);
		if (add) {
			nft_chain(t, &chain);
			put_over(t, name, limits[i].map == NAMES && connections < share ? share : connections, share);
			el.jump = name;
		}
		change_set_element(t, add, limits[i].map, &el);
		if (!add)
			nft_chain_remove(t, name);
	}
}

/* Intervals of a set must not overlap: a range within another of the list says nothing new. */
static int is_covered(const struct netcidr *list, size_t count, size_t i)
{
	size_t j;

	for (j = 0; j < count; j++)
		if (j != i && netcidr_holds(&list[j], &list[i].net) && (list[j].bits != list[i].bits ? list[j].bits < list[i].bits : j < i))
			return 1;
	return 0;
}

static void put_ranges(struct nft *t, int add, const struct link_plan *l, const struct netcidr *list, size_t count, int set4, int set6)
{
	size_t i, b;

	for (i = 0; i < count; i++) {
		const struct netcidr *c = &list[i];
		const struct netaddr *own = c->net.family == 4 ? &l->address : &l->address6;
		uint32_t n = c->net.family == 4 ? 4 : 16, end = 0;
		struct nft_element el = { .has_end = 1 };
		uint8_t last[16];

		if ((c->net.family == 6 && !l->with6) || is_covered(list, count, i))
			continue;
		memcpy(last, c->net.b, 16);
		for (b = c->bits; b < n * 8; b++)
			last[b / 8] |= (uint8_t)(0x80 >> b % 8);
		append_key_part(el.key, &el.key_len, own->b, n);
		append_key_part(el.key, &el.key_len, c->net.b, n);
		append_key_part(el.key_end, &end, own->b, n);
		append_key_part(el.key_end, &end, last, n);
		change_set_element(t, add, c->net.family == 4 ? set4 : set6, &el);
	}
}

static int is_repeated(const struct netpolicy *p, size_t i)
{
	size_t j;

	for (j = 0; j < i; j++)
		if (netaddr_equal(&p->dns[j].addr, &p->dns[i].addr) && p->dns[j].port == p->dns[i].port)
			return 1;
	return 0;
}

static void put_dns(struct nft *t, int add, const struct link_plan *l, const struct netpolicy *p)
{
	size_t i;

	for (i = 0; i < p->dns_count; i++) {
		const struct netserver *d = &p->dns[i];
		const struct netaddr *own = d->addr.family == 4 ? &l->address : &l->address6;
		const uint16_t port = htons(d->port);
		struct nft_element el = { 0 };

		if ((d->addr.family == 6 && !l->with6) || is_repeated(p, i))
			continue;
		append_key_part(el.key, &el.key_len, own->b, d->addr.family == 4 ? 4 : 16);
		append_key_part(el.key, &el.key_len, d->addr.b, d->addr.family == 4 ? 4 : 16);
		append_key_part(el.key, &el.key_len, &port, 2);
		change_set_element(t, add, d->addr.family == 4 ? DNS4 : DNS6, &el);
	}
}

static void put_port(struct nft *t, int add, const struct netpublish *b, const struct netaddr *at, const struct netaddr *to)
{
	const int any = netaddr_is_any(at);
	const uint16_t from = htons(b->host_port), port = htons(b->port);
	const uint8_t proto = b->udp ? IPPROTO_UDP : IPPROTO_TCP;
	const struct family *f = &ruleset_families[to->family == 6];
	struct nft_element el = { 0 };

	if (!any)
		append_key_part(el.key, &el.key_len, at->b, f->len);
	append_key_part(el.key, &el.key_len, &proto, 1);
	append_key_part(el.key, &el.key_len, &from, 2);
	append_key_part(el.data, &el.data_len, to->b, f->len);
	append_key_part(el.data, &el.data_len, &port, 2);
	if (!add)
		el.data_len = 0;
	change_set_element(t, add, any ? f->pub : f->pubip, &el);
}

static void put_ports(struct nft *t, int add, const struct link_plan *l, const struct netpolicy *p)
{
	struct netaddr loopback4, loopback6;
	size_t i;

	netaddr_loopback(4, &loopback4);
	netaddr_loopback(6, &loopback6);
	for (i = 0; i < p->publish_count; i++) {
		const struct netpublish *b = &p->publish[i];
		const int given = b->addr.family != 0;

		/*
		 * no packet goes to a loopback address over the network; its element keeps the port
		 * from other sandboxes
		 */
		if (b->addr.family != 6)
			put_port(t, add, b, given ? &b->addr : &loopback4, &l->address);
		if (b->addr.family != 4 && l->with6)
			put_port(t, add, b, given ? &b->addr : &loopback6, &l->address6);
	}
}

static void put_member_policy(struct nft *t, int add, const struct link_plan *l, const struct netpolicy *p)
{
	put_ranges(t, add, l, p->allow_net, p->allow_net_count, ALLOW4, ALLOW6);
	put_ranges(t, add, l, p->deny_net, p->deny_net_count, DENY4, DENY6);
	put_dns(t, add, l, p);
	put_ports(t, add, l, p);
}

static void put_objects(struct nft *t, int add, const char *id, uint64_t bytes)
{
	static const char *const counters[] = { "out", "in", "refused", "over" };
	char name[80];
	size_t i;

	for (i = 0; i < ARRAY_LEN(counters); i++) {
		snprintf(name, sizeof(name), "%s-%s", id, counters[i]);
		nft_counter(t, add, name);
	}
	nft_quota(t, add, id, bytes);
}

/*
 * Returns the rest of the budget for this run of the sandbox; if it is used up, one byte, because
 * every packet is longer.
 */
static uint64_t budget_left(uint64_t budget, uint64_t used_before)
{
	return !budget ? 0 : budget > used_before ? budget - used_before : 1;
}

int ruleset_add(const char *id, const struct link_plan *l, const struct netpolicy *p, uint64_t used_before, struct err *e)
{
	struct nft t;

	if (nft_open(&t, l->bridge, e) < 0)
		return -1;
	put_objects(&t, 1, id, budget_left(p->max_bytes, used_before));
	put_counters(&t, 1, id, l);
	put_limit(&t, 1, id, l, p->max_connections);
	put_identity(&t, 1, id, l, &l->address);
	if (l->with6)
		put_identity(&t, 1, id, l, &l->address6);
	put_member_policy(&t, 1, l, p);
	if (nft_commit(&t, e) == 0)
		return 0;
	if (e->os_errno == EEXIST && p->publish_count) {
		err_set(e, ERR_EXISTS, "port is already allocated: a port of --publish belongs to another sandbox; hint: berth network ls tells");
		e->os_errno = EEXIST;	/* a caller with a range of ports takes another */
	}
	return -1;
}

/* ---- by looking through the sets: for what does not stand as it is recorded ------------------------ */

struct finder {
	struct nft *t;
	const struct link_plan *l;
	const char *set;
	/* a map of published ports: the element is ours if it leads to us */
	int by_data;
	int by_mac;
};

static int key_holds_address(const uint8_t *p, uint32_t n, const struct netaddr *a)
{
	uint32_t len = a->family == 4 ? 4 : 16;

	return a->family && n >= len && !memcmp(p, a->b, len);
}

static void remove_ours(void *ctx, const struct nft_element *el)
{
	const struct finder *f = ctx;
	const uint8_t *p = f->by_data ? el->data : el->key;
	uint32_t n = f->by_data ? el->data_len : el->key_len;
	struct nft_element mine = *el;
	size_t skip = !strncmp(f->set, "src", 3) ? 8 : 0;	/* a hardware address goes before */

	if (f->by_mac) {
		uint8_t mac[6];

		link_mac_of(f->l, mac);
		if (n < sizeof(mac) || memcmp(p, mac, sizeof(mac)))
			return;
	} else if (n < skip || (!key_holds_address(p + skip, n - (uint32_t)skip, &f->l->address) &&
		!key_holds_address(p + skip, n - (uint32_t)skip, &f->l->address6)))
		return;
	mine.data_len = 0;
	nft_elements(f->t, 0, f->set, 0, &mine, 1);
}

/* The chain that a map of limits led to. */
static void remove_limit(struct nft *t, const char *id, const struct link_plan *l, int map)
{
	char name[80];
	struct err none;
	size_t i;

	for (i = 0; i < ARRAY_LEN(limits); i++) {
		limit_name(name, i, id);
		if (limits[i].map == map && nft_chain_stands(l->bridge, name, &none) == 1)
			nft_chain_remove(t, name);
	}
}

/*
 * Removes our elements from the sets first to last, and the chains of our limits if their maps
 * are among them.
 */
static int remove_found(struct nft *t, const char *id, const struct link_plan *l, int first, int last, struct err *e)
{
	int i;

	for (i = first; i <= last; i++) {
		struct finder f = { t, l, ruleset_sets[i].name, ruleset_sets[i].data[0] != 0,
				    ruleset_sets[i].key[0] == NFT_T_ETHER && !ruleset_sets[i].key[1] };

		if (i != SPECIAL4 && nft_walk(l->bridge, ruleset_sets[i].name, remove_ours, &f, e) < 0)
			return -1;
		remove_limit(t, id, l, i);
	}
	return 0;
}

/* ---- another policy -------------------------------------------------------------------------------- */

/*
 * An earlier change was interrupted: the kernel has the state before that change, and not the
 * recorded one.
 */
static int change_anyhow(const char *id, const struct link_plan *l, const struct netpolicy *fresh, uint64_t used_before, struct err *e)
{
	struct nft t;

	if (nft_open(&t, l->bridge, e) < 0)
		return -1;
	if (remove_found(&t, id, l, ALLOW4, PUBIP6, e) < 0 || remove_found(&t, id, l, LIMITS, NAMES, e) < 0) {
		nft_abort(&t);
		return -1;
	}
	put_member_policy(&t, 1, l, fresh);
	put_limit(&t, 1, id, l, fresh->max_connections);
	nft_quota(&t, 1, id, budget_left(fresh->max_bytes, used_before));
	return nft_commit(&t, e);
}

int ruleset_change(const char *id, const struct link_plan *l, const struct netpolicy *old, const struct netpolicy *fresh,
		   uint64_t used_before, struct err *e)
{
	struct nft t;

	if (nft_open(&t, l->bridge, e) < 0)
		return -1;
	put_member_policy(&t, 0, l, old);
	put_member_policy(&t, 1, l, fresh);
	nft_quota(&t, 1, id, budget_left(fresh->max_bytes, used_before));
	/* with another limit counting starts again: the new rule does not know the open connections */
	if (old->max_connections != fresh->max_connections) {
		put_limit(&t, 0, id, l, old->max_connections);
		put_limit(&t, 1, id, l, fresh->max_connections);
	}
	if (nft_commit(&t, e) == 0)
		return 0;
	return e->os_errno == ENOENT || e->os_errno == EEXIST ? change_anyhow(id, l, fresh, used_before, e) : -1;
}

/* ---- taking back --------------------------------------------------------------------------------- */

static int search_member_elements(const char *id, const struct link_plan *l, struct err *e)
{
	struct netcount ignored;
	struct err none;
	struct nft t;
	int r;

	if (nft_open(&t, l->bridge, e) < 0)
		return -1;
	r = remove_found(&t, id, l, 0, SETS - 1, e);
	if (r == 0 && netcount_read(l->bridge, id, &ignored, &none) == 0)
		put_objects(&t, 0, id, 0);
	if (r < 0) {
		nft_abort(&t);
		return -1;
	}
	return nft_commit(&t, e);
}

int ruleset_take_back(const char *id, const struct link_plan *l, const struct netpolicy *p, struct err *e)
{
	struct nft t;
	int r = nft_table_is_ours(l->bridge, RULESET_MARK, e);

	if (r != 1)
		return r;	/* no table, so no sandbox has an element */
	if (nft_open(&t, l->bridge, e) < 0)
		return -1;
	put_member_policy(&t, 0, l, p);
	put_identity(&t, 0, id, l, &l->address);
	if (l->with6)
		put_identity(&t, 0, id, l, &l->address6);
	put_counters(&t, 0, id, l);
	put_limit(&t, 0, id, l, p->max_connections);
	put_objects(&t, 0, id, 0);
	if (nft_commit(&t, e) == 0)
		return 0;
	return search_member_elements(id, l, e);
}
