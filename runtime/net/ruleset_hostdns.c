/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A DNS server on the host itself: questions to it and its answers pass the hooks of input and
 * output, and not that of forwarding, where all else is counted.  So they count here, and
 * stop with the budget of --network-bytes.
 */
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <net/if.h>
#include <stdio.h>

#include "base/mem.h"
#include "runtime/net/ruleset_sets.h"

/* The two ends of what is said to a server, or by it: where the addresses and the server's port are. */
struct ends {
	unsigned sandbox, server, port;
};

/* Two rules: a counter, and the drop of what exceeds the budget. */
static void count(struct nft *t, const char *chain, const char *bridge, const struct family *f,
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
		count(t, chain, NULL, f, &(struct ends){ f->src, f->dst, 2 }, f->out);
}

void ruleset_count_answers(struct nft *t, const char *bridge)
{
	static const struct nft_chain chain = { "from-host", "filter", NF_INET_LOCAL_OUT, 0 };
	const struct family *f;

	nft_chain(t, &chain);
	for (f = ruleset_families; f < ruleset_families + ARRAY_LEN(ruleset_families); f++)
		count(t, chain.name, bridge, f, &(struct ends){ f->dst, f->src, 0 }, f->in);
}
