/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libnftnl/chain.h>
#include <libnftnl/expr.h>
#include <libnftnl/object.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define FAMILY NFPROTO_INET

static const struct { uint8_t type, len; } types[] = {
	{ NFT_T_IPV4, 4 }, { NFT_T_IPV6, 16 }, { NFT_T_ETHER, 6 }, { NFT_T_PROTO, 1 }, { NFT_T_SERVICE, 2 },
};

/* ---- the transaction --------------------------------------------------------------------- */

static struct nlmsghdr *frame(struct nl *n, uint16_t type)
{
	struct nlmsghdr *nlh = nl_begin(n, type, 0, "change the rules of nftables");
	struct nfgenmsg *g;

	if (!nlh)
		return NULL;
	g = mnl_nlmsg_put_extra_header(nlh, sizeof(*g));
	g->nfgen_family = AF_UNSPEC;
	g->version = NFNETLINK_V0;
	g->res_id = htons(NFNL_SUBSYS_NFTABLES);
	nl_end(n, nlh);
	return nlh;
}

int nft_open(struct nft *t, const char *table, struct err *e)
{
	*t = (struct nft){ .table = table, .nl = nl_open(NETLINK_NETFILTER, e) };
	if (!t->nl)
		return -1;
	t->failed = !frame(t->nl, NFNL_MSG_BATCH_BEGIN);
	return 0;
}

void nft_abort(struct nft *t)
{
	nl_close(t->nl);
	t->nl = NULL;
}

/* Says what to do when the kernel has no nftables, or not all of it. */
static int hint_lacking_nft(struct err *e)
{
	if (e->os_errno == EOPNOTSUPP || e->os_errno == EPROTONOSUPPORT || e->os_errno == EAFNOSUPPORT) {
		e->code = ERR_UNSUPPORTED;
		err_hint(e, "this kernel lacks nftables or a part of it: modprobe nf_tables nft_ct nft_nat nft_masq nft_fib_inet "
			 "nft_reject_inet nft_quota nft_connlimit; berth doctor tells, and --network egress needs none of it");
	}
	return -1;
}

int nft_commit(struct nft *t, struct err *e)
{
	int r;

	if (!t->failed)
		t->failed = !frame(t->nl, NFNL_MSG_BATCH_END);
	r = t->failed ? err_set(e, ERR_LIMIT, "too many rules for one transaction of nftables") : nl_send(t->nl, e);
	nft_abort(t);
	return r < 0 ? hint_lacking_nft(e) : 0;
}

static struct nlmsghdr *begin_nft_message(struct nft *t, int type, uint16_t flags, const char *what, const char *name)
{
	struct nlmsghdr *nlh = t->failed ? NULL : nl_begin(t->nl, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), NLM_F_ACK | flags,
							   "%s %.40s of nftables", what, name);
	struct nfgenmsg *g;

	if (!nlh) {
		t->failed = 1;
		return NULL;
	}
	g = mnl_nlmsg_put_extra_header(nlh, sizeof(*g));
	g->nfgen_family = FAMILY;
	g->version = NFNETLINK_V0;
	g->res_id = 0;
	return nlh;
}

/* ---- tables, chains, sets ------------------------------------------------------------------ */

void nft_table(struct nft *t, int add)
{
	struct nftnl_table *x = nftnl_table_alloc();
	struct nlmsghdr *nlh = begin_nft_message(t, add ? NFT_MSG_NEWTABLE : NFT_MSG_DELTABLE, add ? NLM_F_CREATE : 0, add ? "make the table" :
				     "remove the table", t->table);

	if (!x)
		t->failed = 1;
	if (!x || !nlh)
		return;
	nftnl_table_set_str(x, NFTNL_TABLE_NAME, t->table);
	nftnl_table_nlmsg_build_payload(nlh, x);
	nl_end(t->nl, nlh);
	nftnl_table_free(x);
}

void nft_chain(struct nft *t, const struct nft_chain *c)
{
	struct nftnl_chain *x = nftnl_chain_alloc();
	struct nlmsghdr *nlh = begin_nft_message(t, NFT_MSG_NEWCHAIN, NLM_F_CREATE, "make the chain", c->name);

	if (!x)
		t->failed = 1;
	if (!x || !nlh)
		return;
	nftnl_chain_set_str(x, NFTNL_CHAIN_TABLE, t->table);
	nftnl_chain_set_str(x, NFTNL_CHAIN_NAME, c->name);
	if (c->type) {
		nftnl_chain_set_str(x, NFTNL_CHAIN_TYPE, c->type);
		nftnl_chain_set_u32(x, NFTNL_CHAIN_HOOKNUM, c->hook);
		nftnl_chain_set_s32(x, NFTNL_CHAIN_PRIO, c->priority);
		nftnl_chain_set_u32(x, NFTNL_CHAIN_POLICY, NF_ACCEPT);
	}
	nftnl_chain_nlmsg_build_payload(nlh, x);
	nl_end(t->nl, nlh);
	nftnl_chain_free(x);
}

void nft_chain_remove(struct nft *t, const char *name)
{
	struct nftnl_chain *x = nftnl_chain_alloc();
	struct nlmsghdr *nlh = begin_nft_message(t, NFT_MSG_DELCHAIN, 0, "remove the chain", name);

	if (!x)
		t->failed = 1;
	if (!x || !nlh)
		return;
	nftnl_chain_set_str(x, NFTNL_CHAIN_TABLE, t->table);
	nftnl_chain_set_str(x, NFTNL_CHAIN_NAME, name);
	nftnl_chain_nlmsg_build_payload(nlh, x);
	nl_end(t->nl, nlh);
	nftnl_chain_free(x);
}

static uint8_t type_len(uint8_t type)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(types); i++)
		if (types[i].type == type)
			return types[i].len;
	return 0;
}

/* The length of a concatenation in registers, its type as nft(8) names it, and the parts' lengths. */
static uint32_t concat(const uint8_t *list, size_t n, uint32_t *ret_type, uint8_t *parts, uint32_t *ret_count)
{
	uint32_t len = 0, type = 0, count = 0;
	size_t i;

	for (i = 0; i < n && list[i]; i++) {
		uint8_t one = type_len(list[i]);

		parts[count++] = one;
		len += (one + 3U) & ~3U;
		type = type << 6 | list[i];
	}
	if (count == 1)
		len = parts[0];
	*ret_type = type;
	*ret_count = count;
	return len;
}

void nft_set(struct nft *t, const struct nft_set *s, uint32_t id)
{
	struct nftnl_set *x = nftnl_set_alloc();
	struct nlmsghdr *nlh = begin_nft_message(t, NFT_MSG_NEWSET, NLM_F_CREATE, "make the set", s->name);
	uint32_t flags = s->interval ? NFT_SET_INTERVAL : 0, type, count, len;
	uint8_t parts[4];

	if (!x)
		t->failed = 1;
	if (!x || !nlh)
		return;
	nftnl_set_set_str(x, NFTNL_SET_TABLE, t->table);
	nftnl_set_set_str(x, NFTNL_SET_NAME, s->name);
	nftnl_set_set_u32(x, NFTNL_SET_FAMILY, FAMILY);
	nftnl_set_set_u32(x, NFTNL_SET_ID, id);
	if (s->data[0]) {
		len = concat(s->data, ARRAY_LEN(s->data), &type, parts, &count);
		nftnl_set_set_u32(x, NFTNL_SET_DATA_TYPE, type);
		nftnl_set_set_u32(x, NFTNL_SET_DATA_LEN, len);
		flags |= NFT_SET_MAP;
	}
	if (s->verdict) {
		nftnl_set_set_u32(x, NFTNL_SET_DATA_TYPE, NFT_DATA_VERDICT);
		nftnl_set_set_u32(x, NFTNL_SET_DATA_LEN, sizeof(uint32_t));
		flags |= NFT_SET_MAP;
	}
	if (s->object) {
		nftnl_set_set_u32(x, NFTNL_SET_OBJ_TYPE, s->object);
		flags |= NFT_SET_OBJECT;
	}
	len = concat(s->key, ARRAY_LEN(s->key), &type, parts, &count);
	nftnl_set_set_u32(x, NFTNL_SET_KEY_TYPE, type);
	nftnl_set_set_u32(x, NFTNL_SET_KEY_LEN, len);
	if (count > 1 && s->interval) {
		nftnl_set_set_data(x, NFTNL_SET_DESC_CONCAT, parts, count);
		flags |= NFT_SET_CONCAT;
	}
	nftnl_set_set_u32(x, NFTNL_SET_FLAGS, flags);
	nftnl_set_nlmsg_build_payload(nlh, x);
	nl_end(t->nl, nlh);
	nftnl_set_free(x);
}

/* ---- rules ------------------------------------------------------------------------------------ */

struct nftnl_rule *nft_rule(struct nft *t, const char *chain)
{
	struct nftnl_rule *r = nftnl_rule_alloc();

	if (!r) {
		t->failed = 1;
		return NULL;
	}
	nftnl_rule_set_u32(r, NFTNL_RULE_FAMILY, FAMILY);
	nftnl_rule_set_str(r, NFTNL_RULE_TABLE, t->table);
	nftnl_rule_set_str(r, NFTNL_RULE_CHAIN, chain);
	return r;
}

void nft_rule_end(struct nft *t, struct nftnl_rule *r)
{
	struct nlmsghdr *nlh;

	if (!r)
		return;
	nlh = begin_nft_message(t, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, "add a rule to", nftnl_rule_get_str(r, NFTNL_RULE_CHAIN));
	if (nlh) {
		nftnl_rule_nlmsg_build_payload(nlh, r);
		nl_end(t->nl, nlh);
	}
	nftnl_rule_free(r);
}

/* ---- elements and objects --------------------------------------------------------------------- */

static struct nftnl_set_elem *element(const struct nft_element *el)
{
	struct nftnl_set_elem *x = nftnl_set_elem_alloc();

	if (!x)
		abort();
	nftnl_set_elem_set(x, NFTNL_SET_ELEM_KEY, el->key, el->key_len);
	if (el->has_end)
		nftnl_set_elem_set(x, NFTNL_SET_ELEM_KEY_END, el->key_end, el->key_len);
	if (el->data_len)
		nftnl_set_elem_set(x, NFTNL_SET_ELEM_DATA, el->data, el->data_len);
	if (el->interval_end)
		nftnl_set_elem_set_u32(x, NFTNL_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
	if (el->jump) {
		nftnl_set_elem_set_u32(x, NFTNL_SET_ELEM_VERDICT, (uint32_t)NFT_JUMP);
		nftnl_set_elem_set_str(x, NFTNL_SET_ELEM_CHAIN, el->jump);
	}
	if (el->object)
		nftnl_set_elem_set_str(x, NFTNL_SET_ELEM_OBJREF, el->object);
	return x;
}

void nft_elements(struct nft *t, int adds, const char *set, uint32_t id, const struct nft_element *list, size_t count)
{
	struct nftnl_set *x;
	struct nlmsghdr *nlh;
	size_t i;

	if (!count)
		return;
	x = nftnl_set_alloc();
	nlh = begin_nft_message(t, adds ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM, adds ? NLM_F_CREATE | NLM_F_EXCL : 0,
		    adds ? "add to the set" : "remove from the set", set);
	if (!x)
		t->failed = 1;
	if (!x || !nlh)
		return;
	nftnl_set_set_str(x, NFTNL_SET_TABLE, t->table);
	nftnl_set_set_str(x, NFTNL_SET_NAME, set);
	if (id)
		nftnl_set_set_u32(x, NFTNL_SET_ID, id);
	for (i = 0; i < count; i++)
		nftnl_set_elem_add(x, element(&list[i]));
	nftnl_set_elems_nlmsg_build_payload(nlh, x);
	nl_end(t->nl, nlh);
	nftnl_set_free(x);
}

static void object(struct nft *t, int adds, const char *name, uint32_t type, uint64_t bytes)
{
	struct nftnl_obj *x = nftnl_obj_alloc();
	struct nlmsghdr *nlh = begin_nft_message(t, adds ? NFT_MSG_NEWOBJ : NFT_MSG_DELOBJ, adds ? NLM_F_CREATE : 0,
				     adds ? "make the object" : "remove the object", name);

	if (!x)
		t->failed = 1;
	if (!x || !nlh)
		return;
	nftnl_obj_set_str(x, NFTNL_OBJ_TABLE, t->table);
	nftnl_obj_set_str(x, NFTNL_OBJ_NAME, name);
	nftnl_obj_set_u32(x, NFTNL_OBJ_TYPE, type);
	if (adds && type == NFT_OBJECT_QUOTA) {
		nftnl_obj_set_u64(x, NFTNL_OBJ_QUOTA_BYTES, bytes ? bytes : (uint64_t)INT64_MAX);
		nftnl_obj_set_u32(x, NFTNL_OBJ_QUOTA_FLAGS, NFT_QUOTA_F_INV);
	} else if (adds) {
		nftnl_obj_set_u64(x, NFTNL_OBJ_CTR_BYTES, 0);
	}
	nftnl_obj_nlmsg_build_payload(nlh, x);
	nl_end(t->nl, nlh);
	nftnl_obj_free(x);
}

void nft_counter(struct nft *t, int adds, const char *name)
{
	object(t, adds, name, NFT_OBJECT_COUNTER, 0);
}

void nft_quota(struct nft *t, int adds, const char *name, uint64_t bytes)
{
	object(t, adds, name, NFT_OBJECT_QUOTA, bytes);
}

/* ---- reading ------------------------------------------------------------------------------------- */

static int found(const struct nlmsghdr *nlh, void *ctx)
{
	(void)nlh;
	*(int *)ctx = 1;
	return MNL_CB_OK;
}

static int nft_chain_exists(struct nl *n, const char *table, const char *chain, struct err *e)
{
	char buf[1024];
	struct nlmsghdr *nlh = nftnl_nlmsg_build_hdr(buf, chain ? NFT_MSG_GETCHAIN : NFT_MSG_GETTABLE, FAMILY, NLM_F_ACK, 0);
	int there = 0, r;

	mnl_attr_put_strz(nlh, chain ? NFTA_CHAIN_TABLE : NFTA_TABLE_NAME, table);
	if (chain)
		mnl_attr_put_strz(nlh, NFTA_CHAIN_NAME, chain);
	r = nl_query(n, nlh, found, &there, "look for the table of nftables", e);
	return r < 0 && e->os_errno == ENOENT ? 0 : r < 0 ? -1 : there;
}

int nft_chain_stands(const char *table, const char *chain, struct err *e)
{
	struct nl *n = nl_open(NETLINK_NETFILTER, e);
	int r = n ? nft_chain_exists(n, table, chain, e) : -1;

	nl_close(n);
	return r;
}

int nft_table_is_ours(const char *table, const char *mark, struct err *e)
{
	struct nl *n = nl_open(NETLINK_NETFILTER, e);
	int r = n ? nft_chain_exists(n, table, NULL, e) : -1;

	if (r == 1)
		r = nft_chain_exists(n, table, mark, e);
	else if (r == 0)
		goto out;
	if (r == 0)
		r = err_set(e, ERR_EXISTS, "the table inet %s of nftables is not of this version of berth; hint: end its sandboxes, then "
			    "nft delete table inet %s", table, table);
out:
	nl_close(n);
	return r < 0 ? hint_lacking_nft(e) : r;
}

struct walk {
	void (*each)(void *ctx, const struct nft_element *el);
	void *ctx;
};

static int walk_one(struct nftnl_set_elem *x, void *ctx)
{
	const struct walk *w = ctx;
	struct nft_element el = { 0 };
	const void *p;
	uint32_t len;

	p = nftnl_set_elem_get(x, NFTNL_SET_ELEM_KEY, &len);
	if (!p || len > sizeof(el.key))
		return 0;
	memcpy(el.key, p, len);
	el.key_len = len;
	p = nftnl_set_elem_is_set(x, NFTNL_SET_ELEM_KEY_END) ? nftnl_set_elem_get(x, NFTNL_SET_ELEM_KEY_END, &len) : NULL;
	if (p && len <= sizeof(el.key_end)) {
		memcpy(el.key_end, p, len);
		el.has_end = 1;
	}
	p = nftnl_set_elem_is_set(x, NFTNL_SET_ELEM_DATA) ? nftnl_set_elem_get(x, NFTNL_SET_ELEM_DATA, &len) : NULL;
	if (p && len <= sizeof(el.data)) {
		memcpy(el.data, p, len);
		el.data_len = len;
	}
	w->each(w->ctx, &el);
	return 0;
}

static int take_elements(const struct nlmsghdr *nlh, void *ctx)
{
	struct nftnl_set *x = nftnl_set_alloc();

	if (!x)
		return MNL_CB_ERROR;
	if (nftnl_set_elems_nlmsg_parse(nlh, x) == 0)
		nftnl_set_elem_foreach(x, walk_one, ctx);
	nftnl_set_free(x);
	return MNL_CB_OK;
}

int nft_walk(const char *table, const char *set, void (*each)(void *ctx, const struct nft_element *el), void *ctx, struct err *e)
{
	struct nl *n = nl_open(NETLINK_NETFILTER, e);
	struct walk w = { each, ctx };
	char buf[1024];
	struct nlmsghdr *nlh;
	int r;

	if (!n)
		return -1;
	nlh = nftnl_nlmsg_build_hdr(buf, NFT_MSG_GETSETELEM, FAMILY, NLM_F_DUMP, 0);
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_TABLE, table);
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_SET, set);
	r = nl_query(n, nlh, take_elements, &w, "list a set of nftables", e);
	nl_close(n);
	return r;
}

/* ---- expressions of a rule ---- */

/* The expressions that a rule is made of. */

#define REG(n) (NFT_REG32_00 + (n))

/* A rule with an expression less must never be sent: abort, as for every lack of memory in a constructor of libnftnl. */
static struct nftnl_expr *expression(const char *name)
{
	struct nftnl_expr *x = nftnl_expr_alloc(name);

	if (!x)
		abort();
	return x;
}

static void add_nft_expr(struct nftnl_rule *r, struct nftnl_expr *x)
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
	add_nft_expr(r, x);
}

void nft_ct(struct nftnl_rule *r, uint32_t key, unsigned reg)
{
	struct nftnl_expr *x = expression("ct");

	nftnl_expr_set_u32(x, NFTNL_EXPR_CT_KEY, key);
	nftnl_expr_set_u32(x, NFTNL_EXPR_CT_DREG, REG(reg));
	add_nft_expr(r, x);
}

void nft_ct_source(struct nftnl_rule *r, uint32_t key, uint8_t direction, unsigned reg)
{
	struct nftnl_expr *x = expression("ct");

	nftnl_expr_set_u32(x, NFTNL_EXPR_CT_KEY, key);
	nftnl_expr_set_u8(x, NFTNL_EXPR_CT_DIR, direction);
	nftnl_expr_set_u32(x, NFTNL_EXPR_CT_DREG, REG(reg));
	add_nft_expr(r, x);
}

void nft_payload(struct nftnl_rule *r, uint32_t base, uint32_t offset, uint32_t len, unsigned reg)
{
	struct nftnl_expr *x = expression("payload");

	nftnl_expr_set_u32(x, NFTNL_EXPR_PAYLOAD_BASE, base);
	nftnl_expr_set_u32(x, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
	nftnl_expr_set_u32(x, NFTNL_EXPR_PAYLOAD_LEN, len);
	nftnl_expr_set_u32(x, NFTNL_EXPR_PAYLOAD_DREG, REG(reg));
	add_nft_expr(r, x);
}

void nft_fib_daddr_type(struct nftnl_rule *r, unsigned reg)
{
	struct nftnl_expr *x = expression("fib");

	nftnl_expr_set_u32(x, NFTNL_EXPR_FIB_FLAGS, NFTA_FIB_F_DADDR);
	nftnl_expr_set_u32(x, NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
	nftnl_expr_set_u32(x, NFTNL_EXPR_FIB_DREG, REG(reg));
	add_nft_expr(r, x);
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
	add_nft_expr(r, x);
}

void nft_compare(struct nftnl_rule *r, uint32_t op, unsigned reg, const void *data, uint32_t len)
{
	struct nftnl_expr *x = expression("cmp");

	nftnl_expr_set_u32(x, NFTNL_EXPR_CMP_SREG, REG(reg));
	nftnl_expr_set_u32(x, NFTNL_EXPR_CMP_OP, op);
	nftnl_expr_set(x, NFTNL_EXPR_CMP_DATA, data, len);
	add_nft_expr(r, x);
}

static struct nftnl_expr *new_nft_lookup(const char *set, uint32_t id, unsigned reg)
{
	struct nftnl_expr *x = expression("lookup");

	nftnl_expr_set_u32(x, NFTNL_EXPR_LOOKUP_SREG, REG(reg));
	nftnl_expr_set_str(x, NFTNL_EXPR_LOOKUP_SET, set);
	nftnl_expr_set_u32(x, NFTNL_EXPR_LOOKUP_SET_ID, id);
	return x;
}

void nft_lookup(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg)
{
	add_nft_expr(r, new_nft_lookup(set, id, reg));
}

void nft_map(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg, unsigned data_reg)
{
	struct nftnl_expr *x = new_nft_lookup(set, id, reg);

	nftnl_expr_set_u32(x, NFTNL_EXPR_LOOKUP_DREG, REG(data_reg));
	add_nft_expr(r, x);
}

void nft_verdict_map(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg)
{
	struct nftnl_expr *x = new_nft_lookup(set, id, reg);

	nftnl_expr_set_u32(x, NFTNL_EXPR_LOOKUP_DREG, NFT_REG_VERDICT);
	add_nft_expr(r, x);
}

void nft_connections_over(struct nftnl_rule *r, uint32_t count)
{
	struct nftnl_expr *x = expression("connlimit");

	nftnl_expr_set_u32(x, NFTNL_EXPR_CONNLIMIT_COUNT, count);
	nftnl_expr_set_u32(x, NFTNL_EXPR_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
	add_nft_expr(r, x);
}

static void add_nft_limit(struct nftnl_rule *r, uint32_t type, uint64_t count, uint64_t seconds,
		  uint32_t burst)
{
	struct nftnl_expr *x = expression("limit");

	nftnl_expr_set_u64(x, NFTNL_EXPR_LIMIT_RATE, count);
	nftnl_expr_set_u64(x, NFTNL_EXPR_LIMIT_UNIT, seconds);
	nftnl_expr_set_u32(x, NFTNL_EXPR_LIMIT_BURST, burst);
	nftnl_expr_set_u32(x, NFTNL_EXPR_LIMIT_TYPE, type);
	nftnl_expr_set_u32(x, NFTNL_EXPR_LIMIT_FLAGS, NFT_LIMIT_F_INV);
	add_nft_expr(r, x);
}

void nft_rate_over(struct nftnl_rule *r, uint64_t count, uint32_t burst)
{
	add_nft_limit(r, NFT_LIMIT_PKTS, count, 60, burst);
}

void nft_bytes_over(struct nftnl_rule *r, uint64_t rate, uint32_t burst)
{
	add_nft_limit(r, NFT_LIMIT_PKT_BYTES, rate, 1, burst);
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
	add_nft_expr(r, x);
}

void nft_object_map(struct nftnl_rule *r, const char *set, uint32_t id, unsigned reg)
{
	struct nftnl_expr *x = expression("objref");

	nftnl_expr_set_u32(x, NFTNL_EXPR_OBJREF_SET_SREG, REG(reg));
	nftnl_expr_set_str(x, NFTNL_EXPR_OBJREF_SET_NAME, set);
	nftnl_expr_set_u32(x, NFTNL_EXPR_OBJREF_SET_ID, id);
	add_nft_expr(r, x);
}

void nft_verdict(struct nftnl_rule *r, int verdict, const char *chain)
{
	struct nftnl_expr *x = expression("immediate");

	nftnl_expr_set_u32(x, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	nftnl_expr_set_u32(x, NFTNL_EXPR_IMM_VERDICT, (uint32_t)verdict);
	if (chain)
		nftnl_expr_set_str(x, NFTNL_EXPR_IMM_CHAIN, chain);
	add_nft_expr(r, x);
}

void nft_reject(struct nftnl_rule *r, int reset)
{
	struct nftnl_expr *x = expression("reject");

	nftnl_expr_set_u32(x, NFTNL_EXPR_REJECT_TYPE, reset ? NFT_REJECT_TCP_RST : NFT_REJECT_ICMPX_UNREACH);
	nftnl_expr_set_u8(x, NFTNL_EXPR_REJECT_CODE, reset ? 0 : NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
	add_nft_expr(r, x);
}

void nft_notrack(struct nftnl_rule *r)
{
	add_nft_expr(r, expression("notrack"));
}

void nft_masquerade(struct nftnl_rule *r)
{
	add_nft_expr(r, expression("masq"));
}

void nft_dnat(struct nftnl_rule *r, uint32_t family, unsigned addr_reg, unsigned port_reg)
{
	struct nftnl_expr *x = expression("nat");

	nftnl_expr_set_u32(x, NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT);
	nftnl_expr_set_u32(x, NFTNL_EXPR_NAT_FAMILY, family);
	nftnl_expr_set_u32(x, NFTNL_EXPR_NAT_REG_ADDR_MIN, REG(addr_reg));
	nftnl_expr_set_u32(x, NFTNL_EXPR_NAT_REG_PROTO_MIN, REG(port_reg));
	add_nft_expr(r, x);
}
