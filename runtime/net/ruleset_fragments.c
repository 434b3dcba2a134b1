/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S29 of SECURITY.md. */
/*
 * Fragments of packets from sandboxes. The kernel reassembles packets before it tracks a
 * connection, in memory that the host has once for each family: 4 MiB, by ipfrag_high_thresh and
 * nf_conntrack_frag6_high_thresh. An incomplete packet stays for 30 s, or 60; when the memory is
 * full, no packet on the host is reassembled any more. So few fragments pass in that time that
 * they cannot fill it, with any content; an occasional large datagram still passes.
 */
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/net/ruleset_sets.h"

#define BEFORE_DEFRAGMENTATION (-450)	/* NF_IP_PRI_CONNTRACK_DEFRAG is -400 */
#define A_MINUTE 180	/* so 212 wait at most, of up to 4.6 KB: 1 MB for a bridge */
#define AT_ONCE 32
#define FRAGMENT_HEADER 44	/* RFC 8200 */

static const struct nft_chain chain = {
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

	nft_chain(t, &chain);
	r = nft_rule(t, chain.name);
	ruleset_match_interface(r, NFT_META_IIFNAME, NFT_CMP_NEQ, bridge);
	nft_verdict(r, NF_ACCEPT, NULL);
	nft_rule_end(t, r);
	r = nft_rule(t, chain.name);
	ruleset_match_family(r, &ruleset_families[0]);
	nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, 6, sizeof(none), 0);
	nft_mask(r, 0, more_or_offset, sizeof(more_or_offset));
	nft_compare(r, NFT_CMP_NEQ, 0, none, sizeof(none));
	drop_many(t, r);
	r = nft_rule(t, chain.name);
	ruleset_match_family(r, &ruleset_families[1]);
	nft_has_header6(r, FRAGMENT_HEADER, 0);
	nft_compare(r, NFT_CMP_EQ, 0, &one, sizeof(one));
	drop_many(t, r);
}
