/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S21 of SECURITY.md. */
/* The addresses that are not public, as the rules have them. */
#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <string.h>

#include "base/mem.h"
#include "base/netaddr.h"
#include "runtime/net/ruleset_sets.h"

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
