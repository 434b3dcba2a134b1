/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/ruleset.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/net/nft.h"

/* Changes with the rules: a table made by another version is not taken for ours. */
#define MARK "berth-rules-1"

enum { SRC4, SRC6, ADDR4, ADDR6, OUT4, OUT6, IN4, IN6, QUOTA4, QUOTA6, ALLOW4, ALLOW6, DENY4, DENY6, DNS4, DNS6, PUB4, PUB6, PUBIP4,
       PUBIP6, SPECIAL4, SETS };

static const struct nft_set sets[SETS] = {
	[SRC4] = { "src4", { NFT_T_ETHER, NFT_T_IPV4 } },
	[SRC6] = { "src6", { NFT_T_ETHER, NFT_T_IPV6 } },
	[ADDR4] = { "addr4", { NFT_T_IPV4 } },
	[ADDR6] = { "addr6", { NFT_T_IPV6 } },
	[OUT4] = { "out4", { NFT_T_IPV4 }, .object = NFT_OBJECT_COUNTER },
	[OUT6] = { "out6", { NFT_T_IPV6 }, .object = NFT_OBJECT_COUNTER },
	[IN4] = { "in4", { NFT_T_IPV4 }, .object = NFT_OBJECT_COUNTER },
	[IN6] = { "in6", { NFT_T_IPV6 }, .object = NFT_OBJECT_COUNTER },
	[QUOTA4] = { "budget4", { NFT_T_IPV4 }, .object = NFT_OBJECT_QUOTA },
	[QUOTA6] = { "budget6", { NFT_T_IPV6 }, .object = NFT_OBJECT_QUOTA },
	[ALLOW4] = { "allow4", { NFT_T_IPV4, NFT_T_IPV4 }, .interval = 1 },
	[ALLOW6] = { "allow6", { NFT_T_IPV6, NFT_T_IPV6 }, .interval = 1 },
	[DENY4] = { "deny4", { NFT_T_IPV4, NFT_T_IPV4 }, .interval = 1 },
	[DENY6] = { "deny6", { NFT_T_IPV6, NFT_T_IPV6 }, .interval = 1 },
	[DNS4] = { "dns4", { NFT_T_IPV4, NFT_T_IPV4, NFT_T_SERVICE } },
	[DNS6] = { "dns6", { NFT_T_IPV6, NFT_T_IPV6, NFT_T_SERVICE } },
	[PUB4] = { "publish4", { NFT_T_PROTO, NFT_T_SERVICE }, { NFT_T_IPV4, NFT_T_SERVICE } },
	[PUB6] = { "publish6", { NFT_T_PROTO, NFT_T_SERVICE }, { NFT_T_IPV6, NFT_T_SERVICE } },
	[PUBIP4] = { "publish-at4", { NFT_T_IPV4, NFT_T_PROTO, NFT_T_SERVICE }, { NFT_T_IPV4, NFT_T_SERVICE } },
	[PUBIP6] = { "publish-at6", { NFT_T_IPV6, NFT_T_PROTO, NFT_T_SERVICE }, { NFT_T_IPV6, NFT_T_SERVICE } },
	[SPECIAL4] = { "special4", { NFT_T_IPV4 }, .interval = 1 },
};

/* What differs between the families. */
struct family {
	uint8_t nfproto;
	unsigned src, dst, len, words;	/* offsets in the header, length of an address, registers of one */
	int source, addr, out, in, quota, allow, deny, dns, pub, pubip;
};

static const struct family families[] = {
	{ NFPROTO_IPV4, 12, 16, 4, 1, SRC4, ADDR4, OUT4, IN4, QUOTA4, ALLOW4, DENY4, DNS4, PUB4, PUBIP4 },
	{ NFPROTO_IPV6, 8, 24, 16, 4, SRC6, ADDR6, OUT6, IN6, QUOTA6, ALLOW6, DENY6, DNS6, PUB6, PUBIP6 },
};

static uint32_t id_of(int set)
{
	return (uint32_t)set + 1;
}

/* ---- the rules ---------------------------------------------------------------------------- */

static void match_interface(struct nftnl_rule *r, uint32_t key, uint32_t op, const char *bridge)
{
	char name[IFNAMSIZ] = "";

	snprintf(name, sizeof(name), "%s", bridge);
	nft_meta(r, key, 0);
	nft_compare(r, op, 0, name, sizeof(name));
}

static void match_family(struct nftnl_rule *r, const struct family *f)
{
	nft_meta(r, NFT_META_NFPROTO, 0);
	nft_compare(r, NFT_CMP_EQ, 0, &f->nfproto, 1);
}

/* NF_CT_STATE_BIT() of the kernel's nf_conntrack_common.h */
#define STATE_ESTABLISHED (1U << 1)
#define STATE_RELATED (1U << 2)

/* A packet of a connection that the other side began and that was let in. */
static void match_answer(struct nftnl_rule *r, uint32_t states, uint8_t direction)
{
	const uint32_t none = 0;

	nft_ct(r, NFT_CT_STATE, 0);
	nft_mask(r, 0, &states, 4);
	nft_compare(r, NFT_CMP_NEQ, 0, &none, 4);
	nft_ct(r, NFT_CT_DIRECTION, 0);
	nft_compare(r, NFT_CMP_EQ, 0, &direction, 1);
}

/* Source and destination in the first registers. */
static void load_pair(struct nftnl_rule *r, const struct family *f)
{
	match_family(r, f);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->src, f->len, 0);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->dst, f->len, f->words);
}

static void load_one(struct nftnl_rule *r, const struct family *f, unsigned offset)
{
	match_family(r, f);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, offset, f->len, 0);
}

static void lookup(struct nftnl_rule *r, int set)
{
	nft_lookup(r, sets[set].name, id_of(set), 0);
}

/* The hardware address, the source and the port belong together, or it is nobody. */
static void rules_source(struct nft *t, const char *bridge)
{
	struct nftnl_rule *r = nft_rule(t, "source");
	size_t i;

	match_interface(r, NFT_META_IIFNAME, NFT_CMP_NEQ, bridge);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	for (i = 0; i < ARRAY_LEN(families); i++) {
		r = nft_rule(t, "source");
		match_family(r, &families[i]);
		nft_payload(r, NFT_PAYLOAD_LL_HEADER, 6, 6, 0);
		nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, families[i].src, families[i].len, 2);
		lookup(r, families[i].source);
		nft_verdict(r, NF_ACCEPT, NULL);
		nft_rule_end(t, r);
	}
	r = nft_rule(t, "source");
	nft_verdict(r, NF_DROP, NULL);
	nft_rule_end(t, r);
}

/* A published port: of any address of the host, or of one. */
static void rules_publish(struct nft *t, const char *chain, const struct family *f)
{
	const uint32_t local = RTN_LOCAL;
	struct nftnl_rule *r = nft_rule(t, chain);

	match_family(r, f);
	nft_fib_daddr_type(r, 0);
	nft_compare(r, NFT_CMP_EQ, 0, &local, 4);
	nft_meta(r, NFT_META_L4PROTO, 0);
	nft_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, 1);
	nft_map(r, sets[f->pub].name, id_of(f->pub), 0, 0);
	nft_dnat(r, f->nfproto, 0, f->words);
	nft_rule_end(t, r);

	r = nft_rule(t, chain);
	load_one(r, f, f->dst);
	nft_meta(r, NFT_META_L4PROTO, f->words);
	nft_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, f->words + 1);
	nft_map(r, sets[f->pubip].name, id_of(f->pubip), 0, 0);
	nft_dnat(r, f->nfproto, 0, f->words);
	nft_rule_end(t, r);
}

static void rules_nat(struct nft *t, const char *bridge)
{
	static const uint8_t net127 = 127, one6[16] = { [15] = 1 };
	struct nftnl_rule *r = nft_rule(t, "publish");
	size_t i;

	/* not for sandboxes: a port that is published to the world is no way to the neighbour */
	match_interface(r, NFT_META_IIFNAME, NFT_CMP_EQ, bridge);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	/* what the host itself sends to 127.0.0.1 stays there (CVE-2020-8558) */
	r = nft_rule(t, "publish-host");
	load_one(r, &families[0], families[0].dst);
	nft_mask(r, 0, "\xff\0\0\0", 4);
	nft_compare(r, NFT_CMP_EQ, 0, (const uint8_t[4]){ net127 }, 4);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	r = nft_rule(t, "publish-host");
	load_one(r, &families[1], families[1].dst);
	nft_compare(r, NFT_CMP_EQ, 0, one6, 16);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	for (i = 0; i < ARRAY_LEN(families); i++) {
		rules_publish(t, "publish", &families[i]);
		rules_publish(t, "publish-host", &families[i]);
		r = nft_rule(t, "masquerade");
		match_interface(r, NFT_META_OIFNAME, NFT_CMP_NEQ, bridge);
		load_one(r, &families[i], families[i].src);
		lookup(r, families[i].addr);
		nft_masquerade(r);
		nft_rule_end(t, r);
	}
}

static void rules_pair(struct nft *t, const char *chain, const struct family *f, int set, int accept)
{
	struct nftnl_rule *r = nft_rule(t, chain);

	load_pair(r, f);
	lookup(r, set);
	if (accept)
		nft_verdict(r, NF_ACCEPT, NULL);
	else
		nft_verdict(r, NFT_GOTO, "refuse");
	nft_rule_end(t, r);
}

/* DNS servers that it was given, by address and port. */
static void rule_dns(struct nft *t, const char *chain, const struct family *f)
{
	struct nftnl_rule *r = nft_rule(t, chain);

	load_pair(r, f);
	nft_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, 2 * f->words);
	lookup(r, f->dns);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
}

static void rule_reject(struct nft *t, const char *chain)
{
	struct nftnl_rule *r = nft_rule(t, chain);

	nft_verdict(r, NFT_GOTO, "refuse");
	nft_rule_end(t, r);
}

static void rule_accept_answers(struct nft *t, const char *chain)
{
	struct nftnl_rule *r = nft_rule(t, chain);

	match_answer(r, STATE_ESTABLISHED | STATE_RELATED, 1);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
}

/* To the host itself: answers, a DNS server on it, what is allowed by address, and nothing else. */
static void rules_input(struct nft *t, const char *bridge)
{
	struct nftnl_rule *r = nft_rule(t, "to-host");
	size_t i;

	match_interface(r, NFT_META_IIFNAME, NFT_CMP_NEQ, bridge);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	rule_accept_answers(t, "to-host");
	for (i = 0; i < ARRAY_LEN(families); i++) {
		rule_dns(t, "to-host", &families[i]);
		rules_pair(t, "to-host", &families[i], families[i].deny, 0);
		rules_pair(t, "to-host", &families[i], families[i].allow, 1);
	}
	rule_reject(t, "to-host");
}

/* Counts, then stops what is over its budget. */
static void rules_account(struct nft *t, const char *chain, const struct family *f, unsigned offset, int counter)
{
	struct nftnl_rule *r = nft_rule(t, chain);

	load_one(r, f, offset);
	nft_object_map(r, sets[counter].name, id_of(counter), 0);
	nft_rule_end(t, r);
	r = nft_rule(t, chain);
	load_one(r, f, offset);
	nft_object_map(r, sets[f->quota].name, id_of(f->quota), 0);
	nft_verdict(r, NF_DROP, NULL);
	nft_rule_end(t, r);
}

/* IPv6 is public within 2000::/3, but for these (netaddr.h). */
static void rules_special6(struct nft *t, const char *chain, unsigned offset, int reject)
{
	static const struct { const char *net; unsigned bits; uint32_t op; } rows[] = {
		{ "2000::", 3, NFT_CMP_NEQ }, { "2001::", 23, NFT_CMP_EQ }, { "2001:db8::", 32, NFT_CMP_EQ }, { "2002::", 16, NFT_CMP_EQ },
		{ "3fff::", 20, NFT_CMP_EQ },
	};
	size_t i, b;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		struct nftnl_rule *r = nft_rule(t, chain);
		uint8_t net[16], mask[16] = { 0 };

		inet_pton(AF_INET6, rows[i].net, net);
		for (b = 0; b < rows[i].bits; b++)
			mask[b / 8] |= (uint8_t)(0x80 >> b % 8);
		load_one(r, &families[1], offset);
		nft_mask(r, 0, mask, 16);
		nft_compare(r, rows[i].op, 0, net, 16);
		if (reject)
			nft_verdict(r, NFT_GOTO, "refuse");
		else
			nft_verdict(r, NF_DROP, NULL);
		nft_rule_end(t, r);
	}
}

static void rules_from(struct nft *t, const char *bridge)
{
	struct nftnl_rule *r = nft_rule(t, "from-sandbox");
	size_t i;

	match_interface(r, NFT_META_OIFNAME, NFT_CMP_EQ, bridge);
	nft_verdict(r, NFT_GOTO, "refuse");
	nft_rule_end(t, r);
	for (i = 0; i < ARRAY_LEN(families); i++)
		rules_account(t, "from-sandbox", &families[i], families[i].src, families[i].out);
	rule_accept_answers(t, "from-sandbox");
	for (i = 0; i < ARRAY_LEN(families); i++) {
		rule_dns(t, "from-sandbox", &families[i]);
		rules_pair(t, "from-sandbox", &families[i], families[i].deny, 0);
		rules_pair(t, "from-sandbox", &families[i], families[i].allow, 1);
	}
	r = nft_rule(t, "from-sandbox");
	load_one(r, &families[0], families[0].dst);
	lookup(r, SPECIAL4);
	nft_verdict(r, NFT_GOTO, "refuse");
	nft_rule_end(t, r);
	rules_special6(t, "from-sandbox", families[1].dst, 1);
	r = nft_rule(t, "from-sandbox");
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
}

/* The pair the other way round: the sandbox is where it goes to. */
static void load_pair_back(struct nftnl_rule *r, const struct family *f)
{
	match_family(r, f);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->dst, f->len, 0);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->src, f->len, f->words);
}

static void rule_back(struct nft *t, const struct family *f, int set, int with_port, int verdict)
{
	struct nftnl_rule *r = nft_rule(t, "to-answers");

	load_pair_back(r, f);
	if (with_port)
		nft_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 2, 2 * f->words);
	lookup(r, set);
	nft_verdict(r, verdict, verdict == NF_DROP ? NULL : "to-account");
	nft_rule_end(t, r);
}

/* What comes from a server is judged as what goes to it: a connection that is no longer allowed is cut in both directions. */
static void rules_answers(struct nft *t)
{
	struct nftnl_rule *r;
	size_t i;

	for (i = 0; i < ARRAY_LEN(families); i++) {
		rule_back(t, &families[i], families[i].dns, 1, NFT_GOTO);
		rule_back(t, &families[i], families[i].deny, 0, NF_DROP);
		rule_back(t, &families[i], families[i].allow, 0, NFT_GOTO);
	}
	r = nft_rule(t, "to-answers");
	load_one(r, &families[0], families[0].src);
	lookup(r, SPECIAL4);
	nft_verdict(r, NF_DROP, NULL);
	nft_rule_end(t, r);
	rules_special6(t, "to-answers", families[1].src, 0);
	r = nft_rule(t, "to-answers");
	nft_verdict(r, NFT_GOTO, "to-account");
	nft_rule_end(t, r);
}

/* Answers to what a sandbox began, errors that routers report, and what was led to it by a published port. */
static void rules_to(struct nft *t)
{
	const uint32_t dnat = IPS_DST_NAT, none = 0;
	struct nftnl_rule *r = nft_rule(t, "to-sandbox");
	size_t i;

	nft_ct(r, NFT_CT_STATUS, 0);
	nft_mask(r, 0, &dnat, 4);
	nft_compare(r, NFT_CMP_NEQ, 0, &none, 4);
	nft_verdict(r, NFT_GOTO, "to-account");
	nft_rule_end(t, r);
	r = nft_rule(t, "to-sandbox");
	match_answer(r, STATE_RELATED, 1);
	nft_verdict(r, NFT_GOTO, "to-account");
	nft_rule_end(t, r);
	r = nft_rule(t, "to-sandbox");
	match_answer(r, STATE_ESTABLISHED, 1);
	nft_verdict(r, NFT_GOTO, "to-answers");
	nft_rule_end(t, r);
	r = nft_rule(t, "to-sandbox");
	nft_verdict(r, NF_DROP, NULL);
	nft_rule_end(t, r);
	rules_answers(t);
	for (i = 0; i < ARRAY_LEN(families); i++)
		rules_account(t, "to-account", &families[i], families[i].dst, families[i].in);
	r = nft_rule(t, "to-account");
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
}

/* Told at once: a reset for TCP, which cuts what is open too, else ICMP. */
static void rules_refuse(struct nft *t)
{
	const uint8_t tcp = IPPROTO_TCP;
	struct nftnl_rule *r = nft_rule(t, "refuse");

	nft_meta(r, NFT_META_L4PROTO, 0);
	nft_compare(r, NFT_CMP_EQ, 0, &tcp, 1);
	nft_reject(r, 1);
	nft_rule_end(t, r);
	r = nft_rule(t, "refuse");
	nft_reject(r, 0);
	nft_rule_end(t, r);
}

static void rules_forward(struct nft *t, const char *bridge)
{
	struct nftnl_rule *r = nft_rule(t, "forward");

	match_interface(r, NFT_META_IIFNAME, NFT_CMP_EQ, bridge);
	nft_verdict(r, NFT_GOTO, "from-sandbox");
	nft_rule_end(t, r);
	r = nft_rule(t, "forward");
	match_interface(r, NFT_META_OIFNAME, NFT_CMP_EQ, bridge);
	nft_verdict(r, NFT_GOTO, "to-sandbox");
	nft_rule_end(t, r);
}

/* The ranges of netaddr.h; one that reaches the end of all addresses has no end. */
static void fill_special4(struct nft *t)
{
	struct nft_element list[64] = { 0 };
	struct netcidr c;
	size_t i, n = 0;

	for (i = 0; netaddr_special4(i, &c) == 0; i++) {
		uint32_t first, next;

		memcpy(&first, c.net.b, 4);
		next = ntohl(first) + (c.bits ? 1U << (32 - c.bits) : 0);
		/* ranges that touch are one */
		if (n && list[n - 1].interval_end && !memcmp(list[n - 1].key, &first, 4)) {
			n--;
		} else {
			memcpy(list[n].key, &first, 4);
			list[n++].key_len = 4;
		}
		next = htonl(next);
		if (next) {
			memcpy(list[n].key, &next, 4);
			list[n].key_len = 4;
			list[n++].interval_end = 1;
		}
	}
	nft_elements(t, 1, sets[SPECIAL4].name, id_of(SPECIAL4), list, n);
}

int ruleset_stands(const char *bridge, struct err *e)
{
	return nft_table_is_ours(bridge, MARK, e);
}

int ruleset_make(const char *bridge, struct err *e)
{
	static const struct nft_chain chains[] = {
		{ MARK }, { "from-sandbox" }, { "to-sandbox" }, { "to-answers" }, { "to-account" }, { "refuse" },
		{ "source", "filter", NF_INET_PRE_ROUTING, -300 }, { "publish", "nat", NF_INET_PRE_ROUTING, -100 },
		{ "publish-host", "nat", NF_INET_LOCAL_OUT, -100 }, { "masquerade", "nat", NF_INET_POST_ROUTING, 100 },
		{ "to-host", "filter", NF_INET_LOCAL_IN, 0 }, { "forward", "filter", NF_INET_FORWARD, 0 },
	};
	struct nft t;
	size_t i;
	int r = nft_table_is_ours(bridge, MARK, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (nft_open(&t, bridge, e) < 0)
		return -1;
	nft_table(&t, 1);
	for (i = 0; i < ARRAY_LEN(chains); i++)
		nft_chain(&t, &chains[i]);
	for (i = 0; i < SETS; i++)
		nft_set(&t, &sets[i], id_of((int)i));
	fill_special4(&t);
	rules_source(&t, bridge);
	rules_nat(&t, bridge);
	rules_input(&t, bridge);
	rules_forward(&t, bridge);
	rules_from(&t, bridge);
	rules_to(&t);
	rules_refuse(&t);
	return nft_commit(&t, e);
}

int ruleset_remove(const char *bridge, struct err *e)
{
	struct nft t;
	int r = nft_table_is_ours(bridge, MARK, e);

	if (r != 1)
		return r;
	if (nft_open(&t, bridge, e) < 0)
		return -1;
	nft_table(&t, 0);
	return nft_commit(&t, e);
}

/* ---- one sandbox's elements --------------------------------------------------------------------- */

/* Appends a part of a key, padded as registers are. */
static void part(uint8_t *key, uint32_t *len, const void *p, uint32_t n)
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

static void one(struct nft *t, int add, int set, const struct nft_element *el)
{
	nft_elements(t, add, sets[set].name, 0, el, 1);
}

static void put_identity(struct nft *t, int add, const char *id, const struct link_plan *l, const struct netaddr *a)
{
	const struct family *f = &families[a->family == 6];
	char out[80], in[80];
	struct nft_element source = { 0 }, el;
	uint8_t mac[6];

	snprintf(out, sizeof(out), "%s-out", id);
	snprintf(in, sizeof(in), "%s-in", id);
	link_mac(&l->address, mac);
	part(source.key, &source.key_len, mac, 6);
	part(source.key, &source.key_len, a->b, f->len);
	one(t, add, f->source, &source);
	el = address_key(a, NULL);
	one(t, add, f->addr, &el);
	el = address_key(a, out);
	one(t, add, f->out, &el);
	el = address_key(a, in);
	one(t, add, f->in, &el);
	el = address_key(a, id);
	one(t, add, f->quota, &el);
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
		part(el.key, &el.key_len, own->b, n);
		part(el.key, &el.key_len, c->net.b, n);
		part(el.key_end, &end, own->b, n);
		part(el.key_end, &end, last, n);
		one(t, add, c->net.family == 4 ? set4 : set6, &el);
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
		part(el.key, &el.key_len, own->b, d->addr.family == 4 ? 4 : 16);
		part(el.key, &el.key_len, d->addr.b, d->addr.family == 4 ? 4 : 16);
		part(el.key, &el.key_len, &port, 2);
		one(t, add, d->addr.family == 4 ? DNS4 : DNS6, &el);
	}
}

static void put_port(struct nft *t, int add, const struct netpublish *b, const struct netaddr *to)
{
	const uint16_t from = htons(b->host_port), port = htons(b->port);
	const uint8_t proto = b->udp ? IPPROTO_UDP : IPPROTO_TCP;
	const struct family *f = &families[to->family == 6];
	struct nft_element el = { 0 };

	if (b->addr.family)
		part(el.key, &el.key_len, b->addr.b, f->len);
	part(el.key, &el.key_len, &proto, 1);
	part(el.key, &el.key_len, &from, 2);
	part(el.data, &el.data_len, to->b, f->len);
	part(el.data, &el.data_len, &port, 2);
	if (!add)
		el.data_len = 0;
	one(t, add, b->addr.family ? f->pubip : f->pub, &el);
}

static void put_ports(struct nft *t, int add, const struct link_plan *l, const struct netpolicy *p)
{
	size_t i;

	for (i = 0; i < p->publish_count; i++) {
		const struct netpublish *b = &p->publish[i];

		if (b->addr.family != 6)
			put_port(t, add, b, &l->address);
		if (b->addr.family != 4 && l->with6)
			put_port(t, add, b, &l->address6);
	}
}

static void put_policy(struct nft *t, int add, const struct link_plan *l, const struct netpolicy *p)
{
	put_ranges(t, add, l, p->allow_net, p->allow_net_count, ALLOW4, ALLOW6);
	put_ranges(t, add, l, p->deny_net, p->deny_net_count, DENY4, DENY6);
	put_dns(t, add, l, p);
	put_ports(t, add, l, p);
}

static void put_objects(struct nft *t, int add, const char *id, uint64_t bytes)
{
	char out[80], in[80];

	snprintf(out, sizeof(out), "%s-out", id);
	snprintf(in, sizeof(in), "%s-in", id);
	nft_counter(t, add, out);
	nft_counter(t, add, in);
	nft_quota(t, add, id, bytes);
}

int ruleset_add(const char *id, const struct link_plan *l, const struct netpolicy *p, struct err *e)
{
	struct nft t;

	if (nft_open(&t, l->bridge, e) < 0)
		return -1;
	put_objects(&t, 1, id, p->max_bytes);
	put_identity(&t, 1, id, l, &l->address);
	if (l->with6)
		put_identity(&t, 1, id, l, &l->address6);
	put_policy(&t, 1, l, p);
	if (nft_commit(&t, e) == 0)
		return 0;
	if (e->os_errno == EEXIST && p->publish_count)
		err_hint(e, "a published port belongs to another sandbox already; berth network ls tells");
	return -1;
}

int ruleset_change(const char *id, const struct link_plan *l, const struct netpolicy *old, const struct netpolicy *fresh, struct err *e)
{
	struct nft t;

	if (nft_open(&t, l->bridge, e) < 0)
		return -1;
	put_policy(&t, 0, l, old);
	put_policy(&t, 1, l, fresh);
	nft_quota(&t, 1, id, fresh->max_bytes);
	return nft_commit(&t, e);
}

/* ---- taking back --------------------------------------------------------------------------------- */

struct finder {
	struct nft *t;
	const struct link_plan *l;
	const char *set;
	int by_data;		/* a map of published ports: it is ours when it leads to us */
};

static int holds(const uint8_t *p, uint32_t n, const struct netaddr *a)
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

	if (n < skip || (!holds(p + skip, n - (uint32_t)skip, &f->l->address) && !holds(p + skip, n - (uint32_t)skip, &f->l->address6)))
		return;
	mine.data_len = 0;
	nft_elements(f->t, 0, f->set, 0, &mine, 1);
}

/* By looking through every set: for what does not stand as it is recorded. */
static int search(const char *id, const struct link_plan *l, struct err *e)
{
	uint64_t ignored, ignored2;
	struct err none;
	struct nft t;
	int i, r = 0;

	if (nft_open(&t, l->bridge, e) < 0)
		return -1;
	for (i = 0; r == 0 && i < SETS; i++) {
		struct finder f = { &t, l, sets[i].name, sets[i].data[0] != 0 };

		if (i != SPECIAL4)
			r = nft_walk(l->bridge, sets[i].name, remove_ours, &f, e);
	}
	if (r == 0 && nft_read_quota(l->bridge, id, &ignored, &ignored2, &none) == 0)
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
	int r = nft_table_is_ours(l->bridge, MARK, e);

	if (r != 1)
		return r;	/* no table, so nothing of anybody's */
	if (nft_open(&t, l->bridge, e) < 0)
		return -1;
	put_policy(&t, 0, l, p);
	put_identity(&t, 0, id, l, &l->address);
	if (l->with6)
		put_identity(&t, 0, id, l, &l->address6);
	put_objects(&t, 0, id, 0);
	if (nft_commit(&t, e) == 0)
		return 0;
	return search(id, l, e);
}

int ruleset_read(const char *bridge, const char *id, struct ruleset_counters *ret, struct err *e)
{
	char name[80];

	snprintf(name, sizeof(name), "%s-in", id);
	if (nft_read_counter(bridge, name, &ret->bytes_in, e) < 0)
		return -1;
	snprintf(name, sizeof(name), "%s-out", id);
	if (nft_read_counter(bridge, name, &ret->bytes_out, e) < 0 || nft_read_quota(bridge, id, &ret->limit, &ret->used, e) < 0)
		return -1;
	if (ret->limit == INT64_MAX)
		ret->limit = 0;
	return 0;
}
