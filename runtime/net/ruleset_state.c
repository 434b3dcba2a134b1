/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S20 and S21 of SECURITY.md. */
/*
 * Uses the state of a packet's connection: whether the packet is an answer, and whether its
 * sender takes part in the connection.
 */
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "base/mem.h"
#include "runtime/net/ruleset_sets.h"

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

	/* what belongs to no connection would not be masqueraded: it would carry the sandbox's own address out */
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
