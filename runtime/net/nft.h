/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nft - messages and expressions of nftables, by libnftnl: the words that the
 * rules of ruleset.c are made of.
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
	uint8_t key[3];		/* types; 0: no more */
	uint8_t data[2];	/* a map to values; 0: none */
	uint32_t object;	/* a map to objects: NFT_OBJECT_*; 0: none */
	int verdict;		/* a map to verdicts: chains to jump to */
	int interval;
};

struct nft_chain {
	const char *name;
	const char *type;	/* NULL: not at a hook */
	uint32_t hook;
	int32_t priority;
};

int nft_open(struct nft *t, const char *table, struct err *e);
/* Sends it; the transaction is closed also after an error. */
int nft_commit(struct nft *t, struct err *e);
void nft_abort(struct nft *t);

void nft_table(struct nft *t, int add);
void nft_chain(struct nft *t, const struct nft_chain *c);
/* Removes it with its rules; nothing may refer to it any more. */
void nft_chain_remove(struct nft *t, const char *name);
void nft_set(struct nft *t, const struct nft_set *s, uint32_t id);

/* A rule: nft_rule(), expressions in order, nft_rule_end(). */
struct nftnl_rule *nft_rule(struct nft *t, const char *chain);
void nft_rule_end(struct nft *t, struct nftnl_rule *r);

/* Registers of four bytes, numbered from 0; a value takes as many as it needs. */
void nft_meta(struct nftnl_rule *r, uint32_t key, unsigned reg);
void nft_ct(struct nftnl_rule *r, uint32_t key, unsigned reg);
/* The source of a connection, NFT_CT_SRC_IP or NFT_CT_SRC_IP6, of its first packets (0) or of the answers (1). */
void nft_ct_source(struct nftnl_rule *r, uint32_t key, uint8_t direction, unsigned reg);
void nft_payload(struct nftnl_rule *r, uint32_t base, uint32_t offset, uint32_t len, unsigned reg);
void nft_fib_daddr_type(struct nftnl_rule *r, unsigned reg);
void nft_mask(struct nftnl_rule *r, unsigned reg, const void *mask, uint32_t len);
/* op: NFT_CMP_EQ, NFT_CMP_NEQ */
void nft_compare(struct nftnl_rule *r, uint32_t op, unsigned reg, const void *data, uint32_t len);
void nft_lookup(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg);
/* data_reg gets the value from the map. */
void nft_map(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg, unsigned data_reg);
/* The verdict that the map holds; without one the next rule is tried. */
void nft_verdict_map(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg);
/* Goes on when more than count connections are open, this one included; for packets that begin one. */
void nft_connections_over(struct nftnl_rule *r, uint32_t count);
/* Goes on for each packet beyond count a minute; a first burst of them is not counted. */
void nft_rate_over(struct nftnl_rule *r, uint64_t count, uint32_t burst);
/* Goes on for each packet beyond so many bytes a second; burst bytes more may pass at once. */
void nft_bytes_over(struct nftnl_rule *r, uint64_t rate, uint32_t burst);
/* A byte: 1 when the packet of IPv6 has an extension header of this type, at any place. */
void nft_has_header6(struct nftnl_rule *r, uint8_t type, unsigned reg);
/* Counts on the object from the map; for a quota: goes on only above it. */
void nft_object_map(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg);
/* NF_ACCEPT, NF_DROP, or NFT_GOTO and NFT_JUMP with a chain */
void nft_verdict(struct nftnl_rule *r, int verdict, const char *chain);
/* With a TCP reset, else with ICMP. */
void nft_reject(struct nftnl_rule *r, int reset);
void nft_masquerade(struct nftnl_rule *r);
/* Before the kernel looks for the packet's connection: it shall not. */
void nft_notrack(struct nftnl_rule *r);
/* family: NFPROTO_IPV4, NFPROTO_IPV6 */
void nft_dnat(struct nftnl_rule *r, uint32_t family, unsigned addr_reg, unsigned port_reg);

/* Elements; keys and data as registers hold them, each part padded to four bytes. */
struct nft_element {
	uint8_t key[32], key_end[32], data[32];
	uint32_t key_len, data_len;	/* data_len 0: none */
	int has_end, interval_end;
	const char *object;		/* NULL: none */
	const char *jump;		/* of a map to verdicts: the chain */
};

void nft_elements(struct nft *t, int add, const char *set, uint32_t id, const struct nft_element *list, size_t count);
void nft_counter(struct nft *t, int add, const char *name);
/* bytes 0: no limit. An existing one keeps its count. */
void nft_quota(struct nft *t, int add, const char *name, uint64_t bytes);

/* 1 when the chain is there, 0 when not. */
int nft_chain_stands(const char *table, const char *chain, struct err *e);
/*
 * 1 if the table exists and has that chain, 0 without a table; -1 with ERR_EXISTS if the table
 * belongs to another program.
 */
int nft_table_is_ours(const char *table, const char *mark, struct err *e);
/* Calls each for every element of a set. */
int nft_walk(const char *table, const char *set, void (*each)(void *ctx, const struct nft_element *el), void *ctx, struct err *e);

#endif
