/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ruleset_sets - the part shared by ruleset*.c: the sets and maps that the rules look into, and the
 * rules for a connection's state.
 */
#ifndef BERTH_RUNTIME_NET_RULESET_SETS_H
#define BERTH_RUNTIME_NET_RULESET_SETS_H

#include "runtime/net/nft.h"

/*
 * Name of an empty chain, which changes with the rules: a table made by another version is not
 * taken for ours.
 */
#define RULESET_MARK "berth-rules-5"

/* The chain for connections over the limit. */
#define RULESET_OVER "over-limit"

enum { SRC4, SRC6, ADDR4, ADDR6, OUT4, OUT6, IN4, IN6, QUOTA4, QUOTA6, ALLOW4, ALLOW6, DENY4, DENY6, DNS4, DNS6, PUB4, PUB6, PUBIP4,
	PUBIP6, REFUSED, OVER, LIMITS, NAMES, SPECIAL4, SETS };

extern const struct nft_set ruleset_sets[SETS];

/* The differences between the families. */
struct family {
	uint8_t nfproto;
	unsigned src, dst, len, words;	/* offsets in the header; length of an address; registers for one */
	int source, addr, out, in, quota, allow, deny, dns, pub, pubip;
};

/* IPv4, IPv6 */
extern const struct family ruleset_families[2];

/* NF_CT_STATE_BIT() of the kernel's nf_conntrack_common.h */
#define RULESET_INVALID (1U << 0)
#define RULESET_ESTABLISHED (1U << 1)
#define RULESET_RELATED (1U << 2)
#define RULESET_NEW (1U << 3)

/* Matches the name of the interface that key means (NFT_META_IIFNAME, OIFNAME): op NFT_CMP_EQ, or NEQ. */
void ruleset_match_interface(struct nftnl_rule *r, uint32_t key, uint32_t op, const char *name);
void ruleset_match_family(struct nftnl_rule *r, const struct family *f);
/* Matches a packet of a connection in one of the states; direction 1: the other side began the connection. */
void ruleset_match_answer(struct nftnl_rule *r, uint32_t states, uint8_t direction);
void ruleset_accept_answers(struct nft *t, const char *chain);
/*
 * Drops packets from a sandbox that belong to no connection, or to another's. The chain "related"
 * must exist.
 */
void ruleset_drop_strange(struct nft *t, const char *chain);
/* For a named network: the chain for packets from a member, and the drop of redirects. */
#define RULESET_MEMBER "from-member"
void ruleset_peers(struct nft *t, const char *bridge);
/* In a chain of packets with a checked source: packets to another member pass. */
void ruleset_accept_peers(struct nft *t, const char *bridge, const char *chain);
/* Counts questions to a DNS server on the host, in a chain of input, and its answers. */
void ruleset_count_questions(struct nft *t, const char *chain);
void ruleset_count_answers(struct nft *t, const char *bridge);
/* Rejects or drops an IPv6 source or destination (its offset) that is not public. */
void ruleset_special6(struct nft *t, const char *chain, unsigned offset, int reject);
/* Fills the set of the IPv4 ranges that are not public. */
void ruleset_special4(struct nft *t);
/* Bounds the fragments of packets from sandboxes that wait in the host for the rest. */
void ruleset_fragments(struct nft *t, const char *bridge);
/* Sets the rate that all members share, unless it is 0 (ruleset.c). */
void ruleset_rate(struct nft *t, const char *bridge, uint64_t rate);
/* Fills the chain "related". */
void ruleset_related(struct nft *t);

#endif
