/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S20 of SECURITY.md. */
/*
 * Traffic among the members of one network. Their ports stay isolated and locked (link.h), so
 * each packet passes through the host, which has checked its source before. So nobody has to
 * trust a member about its addresses, and there is no ARP between members.
 */
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <net/if.h>
#include <stdio.h>

#include "base/mem.h"
#include "runtime/net/ruleset_sets.h"

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
	/* what members send each other takes no room in the host's table of connections (S29) */
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
