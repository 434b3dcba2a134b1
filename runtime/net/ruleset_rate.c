/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S20 of SECURITY.md. */
/*
 * The rate that all members of a network share: what passes between them and everybody else is
 * counted once for all, in each direction, and dropped beyond the rate.  The hooks see all of it:
 * what is routed, what the host itself sends and receives, and what answers a published port.
 * What members send each other is not counted.
 */
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "base/mem.h"
#include "runtime/net/netrate.h"
#include "runtime/net/ruleset_sets.h"

/* A packet may be so large before the kernel cuts it, and would never pass a smaller bucket. */
#define BURST_MIN (128u << 10)

/* Behind "source", which checks who sends, and behind the change of addresses. */
static const struct nft_chain out = { "rate-out", "filter", NF_INET_PRE_ROUTING, -290 };
static const struct nft_chain in = { "rate-in", "filter", NF_INET_POST_ROUTING, 200 };

static void bound(struct nft *t, const struct nft_chain *chain, uint32_t interface,
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
		nft_payload(r, NFT_PAYLOAD_NETWORK_HEADER, chain == &out ? f->dst : f->src, f->len,
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
	bound(t, &out, NFT_META_IIFNAME, bridge, rate);
	bound(t, &in, NFT_META_OIFNAME, bridge, rate);
}
