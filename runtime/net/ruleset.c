/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S20 and S21 of SECURITY.md. */
#include "runtime/net/ruleset.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/netaddr.h"
#include "runtime/net/netpolicy.h"
#include "runtime/net/ruleset_sets.h"

const struct nft_set ruleset_sets[SETS] = {
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
	/* by hardware address, which is one for both families */
	[REFUSED] = { "refused", { NFT_T_ETHER }, .object = NFT_OBJECT_COUNTER },
	[OVER] = { "over-limit", { NFT_T_ETHER }, .object = NFT_OBJECT_COUNTER },
	[LIMITS] = { "limits", { NFT_T_ETHER }, .verdict = 1 },
	[NAMES] = { "names", { NFT_T_ETHER }, .verdict = 1 },
	[SPECIAL4] = { "special4", { NFT_T_IPV4 }, .interval = 1 },
};

const struct family ruleset_families[2] = {
	{ NFPROTO_IPV4, 12, 16, 4, 1, SRC4, ADDR4, OUT4, IN4, QUOTA4, ALLOW4, DENY4, DNS4, PUB4, PUBIP4 },
	{ NFPROTO_IPV6, 8, 24, 16, 4, SRC6, ADDR6, OUT6, IN6, QUOTA6, ALLOW6, DENY6, DNS6, PUB6, PUBIP6 },
};

static uint32_t ruleset_set_id(int set)
{
	return (uint32_t)set + 1;
}

/* ---- the rules ---------------------------------------------------------------------------- */

void ruleset_match_interface(struct nftnl_rule *r, uint32_t key, uint32_t op, const char *bridge)
{
	char name[IFNAMSIZ] = "";

	snprintf(name, sizeof(name), "%s", bridge);
	nft_meta(r, key, 0);
	nft_compare(r, op, 0, name, sizeof(name));
}

void ruleset_match_family(struct nftnl_rule *r, const struct family *f)
{
	nft_meta(r, NFT_META_NFPROTO, 0);
	nft_compare(r, NFT_CMP_EQ, 0, &f->nfproto, 1);
}

/* Source and destination in the first registers. */
static void load_pair(struct nftnl_rule *r, const struct family *f)
{
	ruleset_match_family(r, f);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->src, f->len, 0);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->dst, f->len, f->words);
}

static void load_header_address(struct nftnl_rule *r, const struct family *f, unsigned offset)
{
	ruleset_match_family(r, f);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, offset, f->len, 0);
}

static void look_up_in_set(struct nftnl_rule *r, int set)
{
	nft_lookup(r, ruleset_sets[set].name, ruleset_set_id(set), 0);
}

/* Checks that the hardware address, the source and the port belong together. */
static void rules_source(struct nft *t, const char *bridge, int peers)
{
	struct nftnl_rule *r = nft_rule(t, "source");
	size_t i;

	ruleset_match_interface(r, NFT_META_IIFNAME, NFT_CMP_NEQ, bridge);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	for (i = 0; i < ARRAY_LEN(ruleset_families); i++) {
		r = nft_rule(t, "source");
		ruleset_match_family(r, &ruleset_families[i]);
		nft_payload(r, NFT_PAYLOAD_LL_HEADER, 6, 6, 0);
		nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, ruleset_families[i].src, ruleset_families[i].len, 2);
		look_up_in_set(r, ruleset_families[i].source);
		if (peers)
			nft_verdict(r, NFT_GOTO, RULESET_MEMBER);
		else
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

	ruleset_match_family(r, f);
	nft_fib_daddr_type(r, 0);
	nft_compare(r, NFT_CMP_EQ, 0, &local, 4);
	nft_meta(r, NFT_META_L4PROTO, 0);
	nft_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, 1);
	nft_map(r, ruleset_sets[f->pub].name, ruleset_set_id(f->pub), 0, 0);
	nft_dnat(r, f->nfproto, 0, f->words);
	nft_rule_end(t, r);

	r = nft_rule(t, chain);
	load_header_address(r, f, f->dst);
	nft_meta(r, NFT_META_L4PROTO, f->words);
	nft_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, f->words + 1);
	nft_map(r, ruleset_sets[f->pubip].name, ruleset_set_id(f->pubip), 0, 0);
	nft_dnat(r, f->nfproto, 0, f->words);
	nft_rule_end(t, r);
}

static void rules_nat(struct nft *t, const char *bridge)
{
	static const uint8_t net127 = 127, one6[16] = { [15] = 1 };
	struct nftnl_rule *r = nft_rule(t, "publish");
	size_t i;

	/* not from sandboxes: a published port must not lead to a neighbour */
	ruleset_match_interface(r, NFT_META_IIFNAME, NFT_CMP_EQ, bridge);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	/* packets of the host itself to 127.0.0.1 stay there (CVE-2020-8558) */
	r = nft_rule(t, "publish-host");
	load_header_address(r, &ruleset_families[0], ruleset_families[0].dst);
	nft_mask(r, 0, "\xff\0\0\0", 4);
	nft_compare(r, NFT_CMP_EQ, 0, (const uint8_t[4]){ net127 }, 4);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	r = nft_rule(t, "publish-host");
	load_header_address(r, &ruleset_families[1], ruleset_families[1].dst);
	nft_compare(r, NFT_CMP_EQ, 0, one6, 16);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	for (i = 0; i < ARRAY_LEN(ruleset_families); i++) {
		rules_publish(t, "publish", &ruleset_families[i]);
		rules_publish(t, "publish-host", &ruleset_families[i]);
		r = nft_rule(t, "masquerade");
		ruleset_match_interface(r, NFT_META_OIFNAME, NFT_CMP_NEQ, bridge);
		load_header_address(r, &ruleset_families[i], ruleset_families[i].src);
		look_up_in_set(r, ruleset_families[i].addr);
		nft_masquerade(r);
		nft_rule_end(t, r);
	}
}

static void rules_pair(struct nft *t, const char *chain, const struct family *f, int set, int accept)
{
	struct nftnl_rule *r = nft_rule(t, chain);

	load_pair(r, f);
	look_up_in_set(r, set);
	nft_verdict(r, NFT_GOTO, accept ? "connections" : "refuse");
	nft_rule_end(t, r);
}

/* Protocols of DNS. In others the bytes at that place are not a port: a tunnel to the server would pass. */
static const uint8_t dns_protocols[] = { IPPROTO_UDP, IPPROTO_TCP };

/* DNS servers that it was given, by address and port. */
static void rule_dns(struct nft *t, const char *chain, const struct family *f)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(dns_protocols); i++) {
		struct nftnl_rule *r = nft_rule(t, chain);

		nft_meta(r, NFT_META_L4PROTO, 0);
		nft_compare(r, NFT_CMP_EQ, 0, &dns_protocols[i], 1);
		load_pair(r, f);
		nft_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, 2 * f->words);
		look_up_in_set(r, f->dns);
		/* each question of a stub resolver is a flow of its own */
		nft_verdict(r, NFT_GOTO, "questions");
		nft_rule_end(t, r);
	}
}

static void rule_reject(struct nft *t, const char *chain)
{
	struct nftnl_rule *r = nft_rule(t, chain);

	nft_verdict(r, NFT_GOTO, "refuse");
	nft_rule_end(t, r);
}

/*
 * Rules for packets to the host itself: answers, queries to a DNS server on it, and targets allowed
 * by address pass, nothing else.
 */
static void rules_input(struct nft *t, const char *bridge)
{
	struct nftnl_rule *r = nft_rule(t, "to-host");
	size_t i;

	ruleset_match_interface(r, NFT_META_IIFNAME, NFT_CMP_NEQ, bridge);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	ruleset_drop_strange(t, "to-host");
	ruleset_count_questions(t, "to-host");
	ruleset_accept_answers(t, "to-host");
	for (i = 0; i < ARRAY_LEN(ruleset_families); i++) {
		rule_dns(t, "to-host", &ruleset_families[i]);
		rules_pair(t, "to-host", &ruleset_families[i], ruleset_families[i].deny, 0);
		rules_pair(t, "to-host", &ruleset_families[i], ruleset_families[i].allow, 1);
	}
	rule_reject(t, "to-host");
}

/* Counts, then drops what exceeds the budget. */
static void rules_account(struct nft *t, const char *chain, const struct family *f, unsigned offset, int counter)
{
	struct nftnl_rule *r = nft_rule(t, chain);

	load_header_address(r, f, offset);
	nft_object_map(r, ruleset_sets[counter].name, ruleset_set_id(counter), 0);
	nft_rule_end(t, r);
	r = nft_rule(t, chain);
	load_header_address(r, f, offset);
	nft_object_map(r, ruleset_sets[f->quota].name, ruleset_set_id(f->quota), 0);
	nft_verdict(r, NF_DROP, NULL);
	nft_rule_end(t, r);
}

static void rules_from(struct nft *t, const char *bridge, const struct ruleset_kind *kind)
{
	struct nftnl_rule *r;
	size_t i;

	if (kind->peers)
		ruleset_accept_peers(t, bridge, "from-sandbox");
	if (kind->internal) {
		rule_reject(t, "from-sandbox");
		return;
	}
	r = nft_rule(t, "from-sandbox");
	ruleset_match_interface(r, NFT_META_OIFNAME, NFT_CMP_EQ, bridge);
	nft_verdict(r, NFT_GOTO, "refuse");
	nft_rule_end(t, r);
	ruleset_drop_strange(t, "from-sandbox");
	for (i = 0; i < ARRAY_LEN(ruleset_families); i++)
		rules_account(t, "from-sandbox", &ruleset_families[i], ruleset_families[i].src, ruleset_families[i].out);
	ruleset_accept_answers(t, "from-sandbox");
	for (i = 0; i < ARRAY_LEN(ruleset_families); i++) {
		rule_dns(t, "from-sandbox", &ruleset_families[i]);
		rules_pair(t, "from-sandbox", &ruleset_families[i], ruleset_families[i].deny, 0);
		rules_pair(t, "from-sandbox", &ruleset_families[i], ruleset_families[i].allow, 1);
	}
	r = nft_rule(t, "from-sandbox");
	load_header_address(r, &ruleset_families[0], ruleset_families[0].dst);
	look_up_in_set(r, SPECIAL4);
	nft_verdict(r, NFT_GOTO, "refuse");
	nft_rule_end(t, r);
	ruleset_special6(t, "from-sandbox", ruleset_families[1].dst, 1);
	r = nft_rule(t, "from-sandbox");
	nft_verdict(r, NFT_GOTO, "connections");
	nft_rule_end(t, r);
}

/* The pair the other way round: the sandbox is where it goes to. */
static void load_pair_back(struct nftnl_rule *r, const struct family *f)
{
	ruleset_match_family(r, f);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->dst, f->len, 0);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->src, f->len, f->words);
}

static void rule_back(struct nft *t, const struct family *f, int set, int with_port, int verdict)
{
	struct nftnl_rule *r = nft_rule(t, "to-answers");

	load_pair_back(r, f);
	if (with_port)
		nft_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 2, 2 * f->words);
	look_up_in_set(r, set);
	nft_verdict(r, verdict, verdict == NF_DROP ? NULL : "to-account");
	nft_rule_end(t, r);
}

/*
 * Rules for answers. Packets from a server are judged like packets to it, so a connection that is
 * no longer allowed is cut in both directions.
 */
static void rules_answers(struct nft *t)
{
	struct nftnl_rule *r;
	size_t i;

	for (i = 0; i < ARRAY_LEN(ruleset_families); i++) {
		rule_back(t, &ruleset_families[i], ruleset_families[i].dns, 1, NFT_GOTO);
		rule_back(t, &ruleset_families[i], ruleset_families[i].deny, 0, NF_DROP);
		rule_back(t, &ruleset_families[i], ruleset_families[i].allow, 0, NFT_GOTO);
	}
	r = nft_rule(t, "to-answers");
	load_header_address(r, &ruleset_families[0], ruleset_families[0].src);
	look_up_in_set(r, SPECIAL4);
	nft_verdict(r, NF_DROP, NULL);
	nft_rule_end(t, r);
	ruleset_special6(t, "to-answers", ruleset_families[1].src, 0);
	r = nft_rule(t, "to-answers");
	nft_verdict(r, NFT_GOTO, "to-account");
	nft_rule_end(t, r);
}

/* Answers to a sandbox's connections, errors from routers, and packets to a published port. */
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
	ruleset_match_answer(r, RULESET_RELATED, 1);
	nft_verdict(r, NFT_GOTO, "to-account");
	nft_rule_end(t, r);
	r = nft_rule(t, "to-sandbox");
	ruleset_match_answer(r, RULESET_ESTABLISHED, 1);
	nft_verdict(r, NFT_GOTO, "to-answers");
	nft_rule_end(t, r);
	r = nft_rule(t, "to-sandbox");
	nft_verdict(r, NF_DROP, NULL);
	nft_rule_end(t, r);
	rules_answers(t);
	for (i = 0; i < ARRAY_LEN(ruleset_families); i++)
		rules_account(t, "to-account", &ruleset_families[i], ruleset_families[i].dst, ruleset_families[i].in);
	r = nft_rule(t, "to-account");
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
}

static void load_hardware(struct nftnl_rule *r)
{
	nft_payload(r, NFT_PAYLOAD_LL_HEADER, 6, 6, 0);
}

/*
 * Allowed packets, except a connection above the sandbox's limit; limits is the map of the
 * chains that count them.
 */
static void rules_connections(struct nft *t, const char *chain, int limits)
{
	const uint32_t begins = RULESET_NEW, none = 0;
	struct nftnl_rule *r = nft_rule(t, chain);

	nft_ct(r, NFT_CT_STATE, 0);
	nft_mask(r, 0, &begins, 4);
	nft_compare(r, NFT_CMP_EQ, 0, &none, 4);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	r = nft_rule(t, chain);
	load_hardware(r);
	nft_verdict_map(r, ruleset_sets[limits].name, ruleset_set_id(limits), 0);
	nft_rule_end(t, r);
	r = nft_rule(t, chain);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
}

static void rules_counted_refusal(struct nft *t, const char *chain, int counter)
{
	struct nftnl_rule *r = nft_rule(t, chain);

	load_hardware(r);
	nft_object_map(r, ruleset_sets[counter].name, ruleset_set_id(counter), 0);
	nft_rule_end(t, r);
	r = nft_rule(t, chain);
	nft_verdict(r, NFT_GOTO, "reject");
	nft_rule_end(t, r);
}

/* Answered at once: a reset for TCP, which also cuts open connections, else ICMP. */
static void rules_refuse(struct nft *t)
{
	const uint8_t tcp = IPPROTO_TCP;
	struct nftnl_rule *r;

	rules_counted_refusal(t, "refuse", REFUSED);
	rules_counted_refusal(t, RULESET_OVER, OVER);
	r = nft_rule(t, "reject");
	nft_meta(r, NFT_META_L4PROTO, 0);
	nft_compare(r, NFT_CMP_EQ, 0, &tcp, 1);
	nft_reject(r, 1);
	nft_rule_end(t, r);
	r = nft_rule(t, "reject");
	nft_reject(r, 0);
	nft_rule_end(t, r);
}

static void rules_forward(struct nft *t, const char *bridge)
{
	struct nftnl_rule *r = nft_rule(t, "forward");

	ruleset_match_interface(r, NFT_META_IIFNAME, NFT_CMP_EQ, bridge);
	nft_verdict(r, NFT_GOTO, "from-sandbox");
	nft_rule_end(t, r);
	r = nft_rule(t, "forward");
	ruleset_match_interface(r, NFT_META_OIFNAME, NFT_CMP_EQ, bridge);
	nft_verdict(r, NFT_GOTO, "to-sandbox");
	nft_rule_end(t, r);
}

int ruleset_stands(const char *bridge, struct err *e)
{
	return nft_table_is_ours(bridge, RULESET_MARK, e);
}

int ruleset_make(const char *bridge, const struct ruleset_kind *kind, struct err *e)
{
	static const struct nft_chain chains[] = {
		{ RULESET_MARK }, { "related" }, { "from-sandbox" }, { "to-sandbox" }, { "to-answers" }, { "to-account" }, { "connections" }, { "questions" },
		{ "refuse" },
		{ RULESET_OVER }, { "reject" },
		{ "source", "filter", NF_INET_PRE_ROUTING, -300 }, { "publish", "nat", NF_INET_PRE_ROUTING, -100 },
		{ "publish-host", "nat", NF_INET_LOCAL_OUT, -100 }, { "masquerade", "nat", NF_INET_POST_ROUTING, 100 },
		{ "to-host", "filter", NF_INET_LOCAL_IN, 0 }, { "forward", "filter", NF_INET_FORWARD, 0 },
	};
	struct nft t;
	size_t i;
	int r = nft_table_is_ours(bridge, RULESET_MARK, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (nft_open(&t, bridge, e) < 0)
		return -1;
	nft_table(&t, 1);
	for (i = 0; i < ARRAY_LEN(chains); i++)
		nft_chain(&t, &chains[i]);
	for (i = 0; i < SETS; i++)
		nft_set(&t, &ruleset_sets[i], ruleset_set_id((int)i));
	ruleset_special4(&t);
	if (kind->peers)
		ruleset_peers(&t, bridge);
	ruleset_fragments(&t, bridge);
	ruleset_rate(&t, bridge, kind->rate);
	rules_source(&t, bridge, kind->peers);
	ruleset_related(&t);
	rules_nat(&t, bridge);
	rules_input(&t, bridge);
	ruleset_count_answers(&t, bridge);
	rules_forward(&t, bridge);
	rules_from(&t, bridge, kind);
	rules_to(&t);
	rules_connections(&t, "connections", LIMITS);
	rules_connections(&t, "questions", NAMES);
	rules_refuse(&t);
	return nft_commit(&t, e);
}

int ruleset_remove(const char *bridge, struct err *e)
{
	struct nft t;
	int r = nft_table_is_ours(bridge, RULESET_MARK, e);

	if (r != 1)
		return r;
	if (nft_open(&t, bridge, e) < 0)
		return -1;
	nft_table(&t, 0);
	return nft_commit(&t, e);
}

/* ---- the state of a connection ---- */

/* Upholds S20 and S21 of SECURITY.md. */
/*
 * Uses the state of a packet's connection: whether the packet is an answer, and whether its
 * sender takes part in the connection.
 */

static void match_state(struct nftnl_rule *r, uint32_t states)
{
	const uint32_t none = 0;

	nft_ct(r, NFT_CT_STATE, 0);
	nft_mask(r, 0, &states, 4);
	nft_compare(r, NFT_CMP_NEQ, 0, &none, 4);
}

static void match_direction(struct nftnl_rule *r, uint8_t direction)
{
	nft_ct(r, NFT_CT_DIRECTION, 0);
	nft_compare(r, NFT_CMP_EQ, 0, &direction, 1);
}

void ruleset_match_answer(struct nftnl_rule *r, uint32_t states, uint8_t direction)
{
	match_state(r, states);
	match_direction(r, direction);
}

void ruleset_accept_answers(struct nft *t, const char *chain)
{
	struct nftnl_rule *r = nft_rule(t, chain);

	ruleset_match_answer(r, RULESET_ESTABLISHED | RULESET_RELATED, 1);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
}

void ruleset_drop_strange(struct nft *t, const char *chain)
{
	struct nftnl_rule *r = nft_rule(t, chain);

	/* packets of no connection would not be masqueraded, and carry the sandbox's own address out */
	match_state(r, RULESET_INVALID);
	nft_verdict(r, NF_DROP, NULL);
	nft_rule_end(t, r);
	r = nft_rule(t, chain);
	match_state(r, RULESET_RELATED);
	nft_verdict(r, NFT_JUMP, "related");
	nft_rule_end(t, r);
}

/*
 * The kernel finds the connection of an ICMP error by the packet quoted in it, which a sender
 * can invent: a connection of the host, or between another sandbox and its client. Only an end
 * of a connection may send errors about it.
 */
void ruleset_related(struct nft *t)
{
	struct nftnl_rule *r;
	uint8_t direction;
	size_t i;

	for (i = 0; i < ARRAY_LEN(ruleset_families); i++) {
		const struct family *f = &ruleset_families[i];

		for (direction = 0; direction < 2; direction++) {
			r = nft_rule(t, "related");
			match_direction(r, direction);
			nft_payload(r, NFT_PAYLOAD_LL_HEADER, 6, 6, 0);
			nft_ct_source(r, f->nfproto == NFPROTO_IPV4 ? NFT_CT_SRC_IP : NFT_CT_SRC_IP6, direction, 2);
			nft_lookup(r, ruleset_sets[f->source].name, (uint32_t)f->source + 1, 0);
			nft_verdict(r, NFT_RETURN, NULL);
			nft_rule_end(t, r);
		}
	}
	r = nft_rule(t, "related");
	nft_verdict(r, NF_DROP, NULL);
	nft_rule_end(t, r);
}

/* ---- members of one network ---- */

/* Upholds S20 of SECURITY.md. */
/*
 * Rules for traffic among the members of one network. Their ports stay isolated and locked
 * (link.h), so each packet passes through the host, which has checked its source before. So no
 * member has to be trusted about its addresses, and there is no ARP between members.
 */

#define REDIRECT4 5	/* RFC 792 */
#define REDIRECT6 137	/* RFC 4861 */

static void match_member(struct nftnl_rule *r, const struct family *f)
{
	ruleset_match_family(r, f);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, f->dst, f->len, 0);
	nft_lookup(r, ruleset_sets[f->addr].name, (uint32_t)f->addr + 1, 0);
}

/*
 * The host routes a packet back through the interface that it came from, and would tell the
 * sender of a shorter way. There is none: a member that believed the message would lose its
 * connections.
 */
static void drop_redirects(struct nft *t, const char *bridge)
{
	static const uint8_t rows[][2] = {
		{ IPPROTO_ICMP, REDIRECT4 }, { IPPROTO_ICMPV6, REDIRECT6 },
	};
	static const struct nft_chain chain = { "redirects", "filter", NF_INET_LOCAL_OUT, 0 };
	size_t i;

	nft_chain(t, &chain);
	for (i = 0; i < ARRAY_LEN(rows); i++) {
		struct nftnl_rule *r = nft_rule(t, chain.name);

		ruleset_match_interface(r, NFT_META_OIFNAME, NFT_CMP_EQ, bridge);
		nft_meta(r, NFT_META_L4PROTO, 0);
		nft_compare(r, NFT_CMP_EQ, 0, &rows[i][0], 1);
		nft_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1, 0);
		nft_compare(r, NFT_CMP_EQ, 0, &rows[i][1], 1);
		nft_verdict(r, NF_DROP, NULL);
		nft_rule_end(t, r);
	}
}

void ruleset_peers(struct nft *t, const char *bridge)
{
	static const struct nft_chain chain = { .name = RULESET_MEMBER };
	struct nftnl_rule *r;
	size_t i;

	nft_chain(t, &chain);
	/* packets between members take no room in the host's table of connections (S29) */
	for (i = 0; i < ARRAY_LEN(ruleset_families); i++) {
		r = nft_rule(t, RULESET_MEMBER);
		match_member(r, &ruleset_families[i]);
		nft_notrack(r);
		nft_rule_end(t, r);
	}
	r = nft_rule(t, RULESET_MEMBER);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	drop_redirects(t, bridge);
}

void ruleset_accept_peers(struct nft *t, const char *bridge, const char *chain)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(ruleset_families); i++) {
		struct nftnl_rule *r = nft_rule(t, chain);

		ruleset_match_interface(r, NFT_META_OIFNAME, NFT_CMP_EQ, bridge);
		match_member(r, &ruleset_families[i]);
		nft_verdict(r, NF_ACCEPT, NULL);
		nft_rule_end(t, r);
	}
}

/* ---- addresses that are not public ---- */

/* Upholds S21 of SECURITY.md. */
/* The addresses that are not public, as the rules have them. */

/* IPv6 is public within 2000::/3, but for these (netaddr.h). */
void ruleset_special6(struct nft *t, const char *chain, unsigned offset, int reject)
{
	static const struct { const char *net; unsigned bits; uint32_t op; } rows[] = {
		{ "2000::", 3, NFT_CMP_NEQ }, { "2001::", 23, NFT_CMP_EQ },
			{ "2001:db8::", 32, NFT_CMP_EQ }, { "2002::", 16, NFT_CMP_EQ },
		{ "3fff::", 20, NFT_CMP_EQ },
	};
	size_t i, b;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		struct nftnl_rule *r = nft_rule(t, chain);
		uint8_t net[16], mask[16] = { 0 };

		inet_pton(AF_INET6, rows[i].net, net);
		for (b = 0; b < rows[i].bits; b++)
			mask[b / 8] |= (uint8_t)(0x80 >> b % 8);
		nft_meta(r, NFT_META_NFPROTO, 0);
		nft_compare(r, NFT_CMP_EQ, 0, &ruleset_families[1].nfproto, 1);
		nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, offset, 16, 0);
		nft_mask(r, 0, mask, 16);
		nft_compare(r, rows[i].op, 0, net, 16);
		if (reject)
			nft_verdict(r, NFT_GOTO, "refuse");
		else
			nft_verdict(r, NF_DROP, NULL);
		nft_rule_end(t, r);
	}
}

/* The ranges of netaddr.h; a range up to the last address has no end element. */
void ruleset_special4(struct nft *t)
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
	nft_elements(t, 1, ruleset_sets[SPECIAL4].name, SPECIAL4 + 1, list, n);
}

/* ---- fragments ---- */

/* Upholds S29 of SECURITY.md. */
/*
 * Fragments of packets from sandboxes. The kernel reassembles packets before it tracks a
 * connection, in memory that the host has once for each family: 4 MiB, by ipfrag_high_thresh and
 * nf_conntrack_frag6_high_thresh. An incomplete packet stays for 30 s, or 60; when the memory is
 * full, no packet on the host is reassembled any more. So few fragments pass in that time that
 * they cannot fill it, with any content; an occasional large datagram still passes.
 */

#define BEFORE_DEFRAGMENTATION (-450)	/* NF_IP_PRI_CONNTRACK_DEFRAG is -400 */
#define A_MINUTE 180	/* so 212 wait at most, of up to 4.6 KB: 1 MB for a bridge */
#define AT_ONCE 32
#define FRAGMENT_HEADER 44	/* RFC 8200 */

static const struct nft_chain fragments_chain = {
	"fragments", "filter", NF_INET_PRE_ROUTING, BEFORE_DEFRAGMENTATION,
};

static void drop_many(struct nft *t, struct nftnl_rule *r)
{
	nft_rate_over(r, A_MINUTE, AT_ONCE);
	nft_verdict(r, NF_DROP, NULL);
	nft_rule_end(t, r);
}

void ruleset_fragments(struct nft *t, const char *bridge)
{
	static const uint8_t more_or_offset[2] = { 0x3f, 0xff }, none[2], one = 1;
	struct nftnl_rule *r;

	nft_chain(t, &fragments_chain);
	r = nft_rule(t, fragments_chain.name);
	ruleset_match_interface(r, NFT_META_IIFNAME, NFT_CMP_NEQ, bridge);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	r = nft_rule(t, fragments_chain.name);
	ruleset_match_family(r, &ruleset_families[0]);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, 6, sizeof(none), 0);
	nft_mask(r, 0, more_or_offset, sizeof(more_or_offset));
	nft_compare(r, NFT_CMP_NEQ, 0, none, sizeof(none));
	drop_many(t, r);
	r = nft_rule(t, fragments_chain.name);
	ruleset_match_family(r, &ruleset_families[1]);
	nft_has_header6(r, FRAGMENT_HEADER, 0);
	nft_compare(r, NFT_CMP_EQ, 0, &one, sizeof(one));
	drop_many(t, r);
}

/* ---- a DNS server on the host ---- */

/*
 * A DNS server on the host itself: questions to it and its answers pass the hooks of input and
 * output, and not that of forwarding, where everything else is counted. So they are counted here,
 * and stop with the budget of --network-bytes.
 */

/* The two directions between a client and a server: where the addresses and the server's port are. */
struct ends {
	unsigned sandbox, server, port;
};

/* Adds two rules: a counter, and the drop of packets that exceed the budget. */
static void count_host_dns(struct nft *t, const char *chain, const char *bridge, const struct family *f,
		  const struct ends *at, int counter)
{
	const int map[] = { counter, f->quota };
	char name[IFNAMSIZ] = "";
	size_t i;

	snprintf(name, sizeof(name), "%s", bridge ? bridge : "");
	for (i = 0; i < ARRAY_LEN(map); i++) {
		struct nftnl_rule *r = nft_rule(t, chain);

		if (bridge) {
			nft_meta(r, NFT_META_OIFNAME, 0);
			nft_compare(r, NFT_CMP_EQ, 0, name, sizeof(name));
		}
		nft_meta(r, NFT_META_NFPROTO, 0);
		nft_compare(r, NFT_CMP_EQ, 0, &f->nfproto, 1);
		nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, at->sandbox, f->len, 0);
		nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, at->server, f->len, f->words);
		nft_payload(r, NFT_PAYLOAD_TRANSPORT_HEADER, at->port, 2, 2 * f->words);
		nft_lookup(r, ruleset_sets[f->dns].name, (uint32_t)f->dns + 1, 0);
		nft_object_map(r, ruleset_sets[map[i]].name, (uint32_t)map[i] + 1, 0);
		if (map[i] == f->quota)
			nft_verdict(r, NF_DROP, NULL);
		nft_rule_end(t, r);
	}
}

void ruleset_count_questions(struct nft *t, const char *chain)
{
	const struct family *f;

	for (f = ruleset_families; f < ruleset_families + ARRAY_LEN(ruleset_families); f++)
		count_host_dns(t, chain, NULL, f, &(struct ends){ f->src, f->dst, 2 }, f->out);
}

void ruleset_count_answers(struct nft *t, const char *bridge)
{
	static const struct nft_chain chain = { "from-host", "filter", NF_INET_LOCAL_OUT, 0 };
	const struct family *f;

	nft_chain(t, &chain);
	for (f = ruleset_families; f < ruleset_families + ARRAY_LEN(ruleset_families); f++)
		count_host_dns(t, chain.name, bridge, f, &(struct ends){ f->dst, f->src, 0 }, f->in);
}

/* ---- the rate of all members ---- */

/* Upholds S20 of SECURITY.md. */
/*
 * The rate that all members of a network share: bytes between them and other hosts are counted
 * together, in each direction, and dropped beyond the rate. The hooks see all of them: routed
 * packets, packets that the host itself sends and receives, and answers from published ports.
 * Packets between members are not counted.
 */

/* A packet may be so large before the kernel cuts it, and would never pass a smaller bucket. */
#define BURST_MIN (128u << 10)

/* After "source", which checks the sender, and after the change of addresses. */
static const struct nft_chain rate_out_chain = { "rate-out", "filter", NF_INET_PRE_ROUTING, -290 };
static const struct nft_chain rate_in_chain = { "rate-in", "filter", NF_INET_POST_ROUTING, 200 };

static void bound_member_rate(struct nft *t, const struct nft_chain *chain, uint32_t interface,
		  const char *bridge, uint64_t rate)
{
	const uint64_t burst = netrate_burst(rate);
	struct nftnl_rule *r;
	size_t i;

	nft_chain(t, chain);
	r = nft_rule(t, chain->name);
	ruleset_match_interface(r, interface, NFT_CMP_NEQ, bridge);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	for (i = 0; i < ARRAY_LEN(ruleset_families); i++) {
		const struct family *f = &ruleset_families[i];

		r = nft_rule(t, chain->name);
		ruleset_match_family(r, f);
		nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, chain == &rate_out_chain ? f->dst : f->src, f->len,
			    0);
		nft_lookup(r, ruleset_sets[f->addr].name, (uint32_t)f->addr + 1, 0);
		nft_verdict(r, NF_ACCEPT, NULL);
		nft_rule_end(t, r);
	}
	r = nft_rule(t, chain->name);
	nft_bytes_over(r, rate, (uint32_t)(burst < BURST_MIN ? BURST_MIN : burst));
	nft_verdict(r, NF_DROP, NULL);
	nft_rule_end(t, r);
}

void ruleset_rate(struct nft *t, const char *bridge, uint64_t rate)
{
	if (!rate)
		return;
	bound_member_rate(t, &rate_out_chain, NFT_META_IIFNAME, bridge, rate);
	bound_member_rate(t, &rate_in_chain, NFT_META_OIFNAME, bridge, rate);
}
