/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nft - messages and expressions of nftables, by libnftnl, from which ruleset.c makes its rules.
 *
 * A transaction is nft_open(), any number of the calls below, nft_commit(): the
 * kernel takes all of it or nothing.  A call that lacks memory makes the
 * commit fail.
 */
#ifndef BERTH_RUNTIME_NET_NFT_H
#define BERTH_RUNTIME_NET_NFT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/net/nl.h"

struct nftnl_rule;

struct nft {
	struct nl *nl;
	const char *table;
	int failed;		/* no memory, or too much for one batch */
};

/* Types as nft(8) shows them; two or three in a row are a concatenation. */
enum { NFT_T_IPV4 = 7, NFT_T_IPV6 = 8, NFT_T_ETHER = 9, NFT_T_PROTO = 12, NFT_T_SERVICE = 13 };

struct nft_set {
	const char *name;
	uint8_t key[3];		/* types of the key's parts; 0: no more */
	uint8_t data[2];	/* for a map to values: their types; 0: none */
	uint32_t object;	/* for a map to objects: NFT_OBJECT_*; 0: none */
	int verdict;		/* a map to verdicts: chains to jump to */
	int interval;
};

struct nft_chain {
	const char *name;
	const char *type;	/* NULL: the chain is at no hook */
	uint32_t hook;
	int32_t priority;
};

int nft_open(struct nft *t, const char *table, struct err *e);
/* Sends the transaction, which is closed also after an error. */
int nft_commit(struct nft *t, struct err *e);
void nft_abort(struct nft *t);

void nft_table(struct nft *t, int add);
void nft_chain(struct nft *t, const struct nft_chain *c);
/* Removes the chain with its rules; nothing may refer to it any more. */
void nft_chain_remove(struct nft *t, const char *name);
void nft_set(struct nft *t, const struct nft_set *s, uint32_t id);

/* Makes a rule: nft_rule(), expressions in order, nft_rule_end(). */
struct nftnl_rule *nft_rule(struct nft *t, const char *chain);
void nft_rule_end(struct nft *t, struct nftnl_rule *r);

/* Registers of four bytes, numbered from 0; a value takes as many as it needs. */
void nft_meta(struct nftnl_rule *r, uint32_t key, unsigned reg);
void nft_ct(struct nftnl_rule *r, uint32_t key, unsigned reg);
/*
 * Loads the source of a connection, NFT_CT_SRC_IP or NFT_CT_SRC_IP6: that of its first packets (0)
 * or of the answers (1).
 */
void nft_ct_source(struct nftnl_rule *r, uint32_t key, uint8_t direction, unsigned reg);
void nft_payload(struct nftnl_rule *r, uint32_t base, uint32_t offset, uint32_t len, unsigned reg);
void nft_fib_daddr_type(struct nftnl_rule *r, unsigned reg);
void nft_mask(struct nftnl_rule *r, unsigned reg, const void *mask, uint32_t len);
/* Compares; op: NFT_CMP_EQ, NFT_CMP_NEQ. */
void nft_compare(struct nftnl_rule *r, uint32_t op, unsigned reg, const void *data, uint32_t len);
void nft_lookup(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg);
/* Looks up the value in the map, into data_reg. */
void nft_map(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg, unsigned data_reg);
/* Applies the verdict that the map has; if it has none the next rule is tried. */
void nft_verdict_map(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg);
/*
 * Continues if more than count connections are open, this one included; for packets that begin a
 * connection.
 */
void nft_connections_over(struct nftnl_rule *r, uint32_t count);
/* Continues for each packet beyond count a minute; a first burst of packets is not counted. */
void nft_rate_over(struct nftnl_rule *r, uint64_t count, uint32_t burst);
/* Continues for each packet beyond rate bytes a second; burst bytes more may pass at once. */
void nft_bytes_over(struct nftnl_rule *r, uint64_t rate, uint32_t burst);
/* Loads a byte: 1 if the IPv6 packet has an extension header of this type, anywhere. */
void nft_has_header6(struct nftnl_rule *r, uint8_t type, unsigned reg);
/* Counts on the object from the map; for a quota: continues only above it. */
void nft_object_map(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg);
/* Ends with NF_ACCEPT or NF_DROP, or NFT_GOTO or NFT_JUMP with a chain. */
void nft_verdict(struct nftnl_rule *r, int verdict, const char *chain);
/* Rejects the packet, with a TCP reset or else with ICMP. */
void nft_reject(struct nftnl_rule *r, int reset);
void nft_masquerade(struct nftnl_rule *r);
/* Keeps the packet out of connection tracking; for a hook before the kernel looks its connection up. */
void nft_notrack(struct nftnl_rule *r);
/* family: NFPROTO_IPV4, NFPROTO_IPV6 */
void nft_dnat(struct nftnl_rule *r, uint32_t family, unsigned addr_reg, unsigned port_reg);

/* An element of a set; keys and data as registers hold them, each part padded to four bytes. */
struct nft_element {
	uint8_t key[32], key_end[32], data[32];
	uint32_t key_len, data_len;	/* data_len 0: no data */
	int has_end, interval_end;
	const char *object;		/* NULL: none */
	const char *jump;		/* for a map to verdicts: the chain */
};

void nft_elements(struct nft *t, int add, const char *set, uint32_t id, const struct nft_element *list, size_t count);
void nft_counter(struct nft *t, int add, const char *name);
/* Makes or removes a quota; bytes 0: no limit. An existing quota keeps its count. */
void nft_quota(struct nft *t, int add, const char *name, uint64_t bytes);

/* Returns 1 if the chain exists, 0 if not. */
int nft_chain_stands(const char *table, const char *chain, struct err *e);
/*
 * Returns 1 if the table exists and has that chain, 0 if there is no table; -1 with ERR_EXISTS if
 * the table belongs to another program.
 */
int nft_table_is_ours(const char *table, const char *mark, struct err *e);
/* Calls each for every element of a set. */
int nft_walk(const char *table, const char *set, void (*each)(void *ctx, const struct nft_element *el), void *ctx, struct err *e);

#endif
