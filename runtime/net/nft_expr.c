/* SPDX-License-Identifier: Apache-2.0 */
/* The expressions that a rule is made of. */
#include <stdio.h>

#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <stdlib.h>

#include "runtime/net/nft.h"

#define REG(n) (NFT_REG32_00 + (n))

/* A rule with an expression less must never be sent: abort, as for every lack of memory in a constructor of libnftnl. */
static struct nftnl_expr *expression(const char *name)
{
	struct nftnl_expr *x = nftnl_expr_alloc(name);

	if (!x)
		abort();
	return x;
}

static void add(struct nftnl_rule *r, struct nftnl_expr *x)
{
	if (r)
		nftnl_rule_add_expr(r, x);
	else
		nftnl_expr_free(x);
}

void nft_meta(struct nftnl_rule *r, uint32_t key, unsigned reg)
{
	struct nftnl_expr *x = expression("meta");

	nftnl_expr_set_u32(x, NFTNL_EXPR_META_KEY, key);
	nftnl_expr_set_u32(x, NFTNL_EXPR_META_DREG, REG(reg));
	add(r, x);
}

void nft_ct(struct nftnl_rule *r, uint32_t key, unsigned reg)
{
	struct nftnl_expr *x = expression("ct");

	nftnl_expr_set_u32(x, NFTNL_EXPR_CT_KEY, key);
	nftnl_expr_set_u32(x, NFTNL_EXPR_CT_DREG, REG(reg));
	add(r, x);
}

void nft_ct_source(struct nftnl_rule *r, uint32_t key, uint8_t direction, unsigned reg)
{
	struct nftnl_expr *x = expression("ct");

	nftnl_expr_set_u32(x, NFTNL_EXPR_CT_KEY, key);
	nftnl_expr_set_u8(x, NFTNL_EXPR_CT_DIR, direction);
	nftnl_expr_set_u32(x, NFTNL_EXPR_CT_DREG, REG(reg));
	add(r, x);
}

void nft_payload(struct nftnl_rule *r, uint32_t base, uint32_t offset, uint32_t len, unsigned reg)
{
	struct nftnl_expr *x = expression("payload");

	nftnl_expr_set_u32(x, NFTNL_EXPR_PAYLOAD_BASE, base);
	nftnl_expr_set_u32(x, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
	nftnl_expr_set_u32(x, NFTNL_EXPR_PAYLOAD_LEN, len);
	nftnl_expr_set_u32(x, NFTNL_EXPR_PAYLOAD_DREG, REG(reg));
	add(r, x);
}

void nft_fib_daddr_type(struct nftnl_rule *r, unsigned reg)
{
	struct nftnl_expr *x = expression("fib");

	nftnl_expr_set_u32(x, NFTNL_EXPR_FIB_FLAGS, NFTA_FIB_F_DADDR);
	nftnl_expr_set_u32(x, NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
	nftnl_expr_set_u32(x, NFTNL_EXPR_FIB_DREG, REG(reg));
	add(r, x);
}

void nft_mask(struct nftnl_rule *r, unsigned reg, const void *mask, uint32_t len)
{
	static const uint8_t zero[16];
	struct nftnl_expr *x = expression("bitwise");

	nftnl_expr_set_u32(x, NFTNL_EXPR_BITWISE_SREG, REG(reg));
	nftnl_expr_set_u32(x, NFTNL_EXPR_BITWISE_DREG, REG(reg));
	nftnl_expr_set_u32(x, NFTNL_EXPR_BITWISE_OP, NFT_BITWISE_BOOL);
	nftnl_expr_set_u32(x, NFTNL_EXPR_BITWISE_LEN, len);
	nftnl_expr_set(x, NFTNL_EXPR_BITWISE_MASK, mask, len);
	nftnl_expr_set(x, NFTNL_EXPR_BITWISE_XOR, zero, len);
	add(r, x);
}

void nft_compare(struct nftnl_rule *r, uint32_t op, unsigned reg, const void *data, uint32_t len)
{
	struct nftnl_expr *x = expression("cmp");

	nftnl_expr_set_u32(x, NFTNL_EXPR_CMP_SREG, REG(reg));
	nftnl_expr_set_u32(x, NFTNL_EXPR_CMP_OP, op);
	nftnl_expr_set(x, NFTNL_EXPR_CMP_DATA, data, len);
	add(r, x);
}

static struct nftnl_expr *lookup(const char *set, uint32_t id, unsigned reg)
{
	struct nftnl_expr *x = expression("lookup");

	nftnl_expr_set_u32(x, NFTNL_EXPR_LOOKUP_SREG, REG(reg));
	nftnl_expr_set_str(x, NFTNL_EXPR_LOOKUP_SET, set);
	nftnl_expr_set_u32(x, NFTNL_EXPR_LOOKUP_SET_ID, id);
	return x;
}

void nft_lookup(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg)
{
	add(r, lookup(set, id, reg));
}

void nft_map(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg, unsigned data_reg)
{
	struct nftnl_expr *x = lookup(set, id, reg);

	nftnl_expr_set_u32(x, NFTNL_EXPR_LOOKUP_DREG, REG(data_reg));
	add(r, x);
}

void nft_verdict_map(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg)
{
	struct nftnl_expr *x = lookup(set, id, reg);

	nftnl_expr_set_u32(x, NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
	add(r, x);
}

void nft_connections_over(struct nftnl_rule *r, uint32_t count)
{
	struct nftnl_expr *x = expression("connlimit");

	nftnl_expr_set_u32(x, NFTNL_EXPR_CONNLIMIT_COUNT, count);
	nftnl_expr_set_u32(x, NFTNL_EXPR_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
	add(r, x);
}

static void limit(struct nftnl_rule *r, uint32_t type, uint64_t count, uint64_t seconds,
		  uint32_t burst)
{
	struct nftnl_expr *x = expression("limit");

	nftnl_expr_set_u64(x, NFTNL_EXPR_LIMIT_RATE, count);
	nftnl_expr_set_u64(x, NFTNL_EXPR_LIMIT_UNIT, seconds);
	nftnl_expr_set_u32(x, NFTNL_EXPR_LIMIT_BURST, burst);
	nftnl_expr_set_u32(x, NFTNL_EXPR_LIMIT_TYPE, type);
	nftnl_expr_set_u32(x, NFTNL_EXPR_LIMIT_FLAGS, NFT_LIMIT_F_INV);
	add(r, x);
}

void nft_rate_over(struct nftnl_rule *r, uint64_t count, uint32_t burst)
{
	limit(r, NFT_LIMIT_PKTS, count, 60, burst);
}

void nft_bytes_over(struct nftnl_rule *r, uint64_t rate, uint32_t burst)
{
	limit(r, NFT_LIMIT_PKT_BYTES, rate, 1, burst);
}

void nft_has_header6(struct nftnl_rule *r, uint8_t type, unsigned reg)
{
	struct nftnl_expr *x = expression("exthdr");

	nftnl_expr_set_u32(x, NFTNL_EXPR_EXTHDR_DREG, REG(reg));
	nftnl_expr_set_u8(x, NFTNL_EXPR_EXTHDR_TYPE, type);
	nftnl_expr_set_u32(x, NFTNL_EXPR_EXTHDR_OFFSET, 0);
	nftnl_expr_set_u32(x, NFTNL_EXPR_EXTHDR_LEN, 1);
	nftnl_expr_set_u32(x, NFTNL_EXPR_EXTHDR_FLAGS, NFT_EXTHDR_F_PRESENT);
	nftnl_expr_set_u32(x, NFTNL_EXPR_EXTHDR_OP, NFT_EXTHDR_OP_IPV6);
	add(r, x);
}

void nft_object_map(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg)
{
	struct nftnl_expr *x = expression("objref");

	nftnl_expr_set_u32(x, NFTNL_EXPR_OBJREF_SET_SREG, REG(reg));
	nftnl_expr_set_str(x, NFTNL_EXPR_OBJREF_SET_NAME, set);
	nftnl_expr_set_u32(x, NFTNL_EXPR_OBJREF_SET_ID, id);
	add(r, x);
}

void nft_verdict(struct nftnl_rule *r, int verdict, const char *chain)
{
	struct nftnl_expr *x = expression("immediate");

	nftnl_expr_set_u32(x, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	nftnl_expr_set_u32(x, NFTNL_EXPR_IMM_VERDICT, (uint32_t)verdict);
	if (chain)
		nftnl_expr_set_str(x, NFTNL_EXPR_IMM_CHAIN, chain);
	add(r, x);
}

void nft_reject(struct nftnl_rule *r, int reset)
{
	struct nftnl_expr *x = expression("reject");

	nftnl_expr_set_u32(x, NFTNL_EXPR_REJECT_TYPE, reset ? NFT_REJECT_TCP_RST : NFT_REJECT_ICMPX_UNREACH);
	nftnl_expr_set_u8(x, NFTNL_EXPR_REJECT_CODE, reset ? 0 : NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
	add(r, x);
}

void nft_notrack(struct nftnl_rule *r)
{
	add(r, expression("notrack"));
}

void nft_masquerade(struct nftnl_rule *r)
{
	add(r, expression("masq"));
}

void nft_dnat(struct nftnl_rule *r, uint32_t family, unsigned addr_reg, unsigned port_reg)
{
	struct nftnl_expr *x = expression("nat");

	nftnl_expr_set_u32(x, NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT);
	nftnl_expr_set_u32(x, NFTNL_EXPR_NAT_FAMILY, family);
	nftnl_expr_set_u32(x, NFTNL_EXPR_NAT_REG_ADDR_MIN, REG(addr_reg));
	nftnl_expr_set_u32(x, NFTNL_EXPR_NAT_REG_PROTO_MIN, REG(port_reg));
	add(r, x);
}
