/* SPDX-License-Identifier: Apache-2.0 */
#include "seccomp/compile.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "seccomp/policy.h"
#include "seccomp/sysno.h"

/* ---- an assembler of classic BPF ---- */

/*
 * A small assembler of classic BPF for seccomp: forward labels, shared
 * return instructions.
 *
 * Emitting never fails; an overflow is remembered and bpf_finish() reports it.
 */

#define BPF_LABEL_MAX 512
#define BPF_RET_MAX 8

/* A position in the program; BPF_NEXT is the instruction that follows. */
typedef uint16_t bpf_label;
#define BPF_NEXT ((bpf_label)0)

struct bpf_asm {
	struct bpf_program prog;
	struct {
		bpf_label yes, no;
	} target[BPF_INSN_MAX];
	uint16_t position[BPF_LABEL_MAX];	/* BPF_INSN_MAX: not placed yet */
	unsigned labels;
	struct {
		uint32_t value;
		bpf_label label;
	} ret[BPF_RET_MAX];
	unsigned rets;
	int overflow;
};

static void bpf_init(struct bpf_asm *a)
{
	memset(a, 0, sizeof(*a));
	a->labels = 1;	/* 0 is BPF_NEXT */
}

static bpf_label bpf_new_label(struct bpf_asm *a)
{
	if (a->labels == BPF_LABEL_MAX) {
		a->overflow = 1;
		return BPF_NEXT;
	}
	a->position[a->labels] = BPF_INSN_MAX;
	return (bpf_label)a->labels++;
}

/* The label stands for the next instruction emitted. */
static void bpf_place(struct bpf_asm *a, bpf_label l)
{
	a->position[l] = a->prog.len;
}

/* The label of a "return value", made once and placed by bpf_finish(). */
static bpf_label bpf_ret_label(struct bpf_asm *a, uint32_t value)
{
	unsigned i;

	for (i = 0; i < a->rets; i++)
		if (a->ret[i].value == value)
			return a->ret[i].label;
	if (a->rets == BPF_RET_MAX) {
		a->overflow = 1;
		return BPF_NEXT;
	}
	a->ret[i].value = value;
	a->ret[i].label = bpf_new_label(a);
	a->rets++;
	return a->ret[i].label;
}

static void emit_instruction(struct bpf_asm *a, uint16_t code, uint32_t k, bpf_label yes, bpf_label no)
{
	if (a->prog.len == BPF_INSN_MAX) {
		a->overflow = 1;
		return;
	}
	a->prog.insn[a->prog.len] = (struct sock_filter){ .code = code, .k = k };
	a->target[a->prog.len].yes = yes;
	a->target[a->prog.len].no = no;
	a->prog.len++;
}

/* offset is into struct seccomp_data */
static void bpf_load(struct bpf_asm *a, uint32_t offset)
{
	emit_instruction(a, BPF_LD | BPF_W | BPF_ABS, offset, BPF_NEXT, BPF_NEXT);
}

static void bpf_and(struct bpf_asm *a, uint32_t k)
{
	emit_instruction(a, BPF_ALU | BPF_AND | BPF_K, k, BPF_NEXT, BPF_NEXT);
}

/* op is BPF_JEQ, BPF_JGE, BPF_JGT or BPF_JSET */
static void bpf_jump_if(struct bpf_asm *a, uint16_t op, uint32_t k, bpf_label yes, bpf_label no)
{
	emit_instruction(a, (uint16_t)(BPF_JMP | BPF_K | op), k, yes, no);
}

static void bpf_jump(struct bpf_asm *a, bpf_label to)
{
	emit_instruction(a, BPF_JMP | BPF_JA, 0, to, BPF_NEXT);
}

/*
 * Returns the number of instructions between i and the label, or -1 if the label is behind or was
 * never placed.
 */
static int distance(const struct bpf_asm *a, unsigned i, bpf_label l)
{
	if (l == BPF_NEXT)
		return 0;
	if (a->position[l] >= a->prog.len || a->position[l] <= i)
		return -1;
	return (int)(a->position[l] - i - 1);
}

/* Places the returns and resolves the jumps; ERR_INTERNAL when the program is too long for them. */
static int bpf_finish(struct bpf_asm *a, struct err *e)
{
	unsigned i;
	int yes, no;

	for (i = 0; i < a->rets; i++) {
		bpf_place(a, a->ret[i].label);
		emit_instruction(a, BPF_RET | BPF_K, a->ret[i].value, BPF_NEXT, BPF_NEXT);
	}
	if (a->overflow)
		return err_set(e, ERR_INTERNAL, "seccomp filter: more than %d instructions or %d labels",
			       BPF_INSN_MAX, BPF_LABEL_MAX);
	for (i = 0; i < a->prog.len; i++) {
		struct sock_filter *f = &a->prog.insn[i];

		if (BPF_CLASS(f->code) != BPF_JMP)
			continue;
		yes = distance(a, i, a->target[i].yes);
		no = distance(a, i, a->target[i].no);
		if (yes < 0 || no < 0)
			return err_set(e, ERR_INTERNAL, "seccomp filter: jump at %u goes back", i);
		if (BPF_OP(f->code) == BPF_JA) {
			f->k = (uint32_t)yes;
			continue;
		}
		if (yes > UINT8_MAX || no > UINT8_MAX)
			return err_set(e, ERR_INTERNAL, "seccomp filter: jump at %u is too far", i);
		f->jt = (uint8_t)yes;
		f->jf = (uint8_t)no;
	}
	return 0;
}

/* ---- the policy to two filters ---- */

#define X32_BIT 0x40000000U
#define SEGMENT_MAX 192
/* The kernel walks the filter once for each number below this when it is loaded. */
#define KERNEL_NUMBERS 470
/*
 * Calls that both filters let pass without reading an argument are answered
 * from a bitmap afterwards (kernel/seccomp.c, seccomp_cache_prepare); only the
 * argument-tested ones run the program, so their paths are worth more.
 */
#define WEIGHT_TESTED 16

/* The profile's answer for one number. */
struct verdict {
	uint32_t action;	/* of filter b */
	uint8_t tested;		/* rows of filter a decide the number */
};

/* Numbers from start to the next segment's start have one answer. */
struct segment {
	uint32_t start;
	bpf_label leaf;
	unsigned weight;
};

struct compiler {
	struct bpf_asm bpf;
	unsigned profile;
	uint32_t arch;
	struct verdict verdict[SYSNO_MAX];
	bpf_label block[SYSNO_MAX];	/* labels of filter a's rows, for numbers that are tested */
	struct segment seg[SEGMENT_MAX];
	unsigned segs;
	unsigned cost[SEGMENT_MAX][SEGMENT_MAX];
	uint8_t split[SEGMENT_MAX][SEGMENT_MAX];
};

static int rule_names(const struct policy_rule *r, uint32_t arch, int nr)
{
	size_t i;

	for (i = 0; r->names[i]; i++)
		if (sysno_resolve(arch, r->names[i]) == nr)
			return 1;
	return 0;
}

/*
 * The answer for each number: filter b allows a call if any row of it does, and filter a decides
 * which row applies.
 */
static int collect_verdicts(struct compiler *c, struct err *e)
{
	uint8_t decided[SYSNO_MAX] = { 0 };
	size_t i, j;
	int nr;

	for (nr = 0; nr < SYSNO_MAX; nr++)
		c->verdict[nr] = (struct verdict){ .action = POLICY_UNKNOWN };
	for (i = 0; i < policy_rule_count; i++) {
		const struct policy_rule *r = &policy_rules[i];

		if (!(r->profiles & c->profile))
			continue;
		for (j = 0; r->names[j]; j++) {
			nr = sysno_resolve(c->arch, r->names[j]);
			if (nr < 0)
				continue;
			if (decided[nr])
				return err_set(e, ERR_INTERNAL, "seccomp policy: a row for %s can never match",
					       r->names[j]);
			decided[nr] = !r->test[0].what;
			c->verdict[nr].tested |= r->in_a;
			if (c->verdict[nr].action != SECCOMP_RET_ALLOW)
				c->verdict[nr].action = r->action;
		}
	}
	return 0;
}

static int add_segment(struct compiler *c, uint32_t start, bpf_label leaf, unsigned weight, struct err *e)
{
	if (c->segs && c->seg[c->segs - 1].leaf == leaf) {
		c->seg[c->segs - 1].weight += weight;
		return 0;
	}
	if (c->segs == SEGMENT_MAX)
		return err_set(e, ERR_INTERNAL, "seccomp policy: more than %d ranges", SEGMENT_MAX);
	c->seg[c->segs++] = (struct segment){ start, leaf, weight };
	return 0;
}

static int make_segments(struct compiler *c, enum compile_which which, struct err *e)
{
	uint32_t rest = which == COMPILE_A ? SECCOMP_RET_ALLOW : POLICY_UNKNOWN;
	unsigned weight;
	bpf_label leaf;
	uint32_t nr;

	for (nr = 0; nr < SYSNO_MAX; nr++) {
		const struct verdict *v = &c->verdict[nr];

		if (which == COMPILE_B)
			leaf = bpf_ret_label(&c->bpf, v->action);
		else if (v->tested)
			leaf = c->block[nr] = bpf_new_label(&c->bpf);
		else
			leaf = bpf_ret_label(&c->bpf, SECCOMP_RET_ALLOW);
		weight = (nr < KERNEL_NUMBERS) + (v->tested ? WEIGHT_TESTED : 0);
		if (add_segment(c, nr, leaf, weight, e) < 0)
			return -1;
	}
	if (add_segment(c, SYSNO_MAX, bpf_ret_label(&c->bpf, rest), 0, e) < 0)
		return -1;
	/* x32 calls carry the x86-64 audit value and this bit; -1 is what a tracer sets to skip a call */
	if (c->arch == AUDIT_ARCH_X86_64 &&
	    (add_segment(c, X32_BIT, bpf_ret_label(&c->bpf, POLICY_BAD_ARCH), 0, e) < 0 ||
	     add_segment(c, UINT32_MAX, bpf_ret_label(&c->bpf, rest), 0, e) < 0))
		return -1;
	return 0;
}

/* The search tree with the least weighted depth (Knuth's dynamic programme). */
static void plan_tree(struct compiler *c)
{
	unsigned lo, hi, mid, width, sum, k;

	for (lo = 0; lo < c->segs; lo++)
		c->cost[lo][lo] = 0;
	for (width = 2; width <= c->segs; width++)
		for (lo = 0; lo + width <= c->segs; lo++) {
			hi = lo + width - 1;
			for (sum = 0, k = lo; k <= hi; k++)
				sum += c->seg[k].weight;
			c->cost[lo][hi] = UINT32_MAX;
			for (mid = lo + 1; mid <= hi; mid++) {
				k = c->cost[lo][mid - 1] + c->cost[mid][hi] + sum;
				if (k < c->cost[lo][hi]) {
					c->cost[lo][hi] = k;
					c->split[lo][hi] = (uint8_t)mid;
				}
			}
		}
}

/* Emits the comparisons that tell segments lo to hi apart; recursion is as deep as the tree. */
static void emit_tree(struct compiler *c, unsigned lo, unsigned hi)
{
	unsigned mid = c->split[lo][hi];
	bpf_label left, right;

	if (lo == hi)
		return;
	left = lo == mid - 1 ? c->seg[lo].leaf : BPF_NEXT;
	right = mid == hi ? c->seg[hi].leaf : left == BPF_NEXT ? bpf_new_label(&c->bpf) : BPF_NEXT;
	bpf_jump_if(&c->bpf, BPF_JGE, c->seg[mid].start, right, left);
	emit_tree(c, lo, mid - 1);
	if (mid != hi && right != BPF_NEXT)
		bpf_place(&c->bpf, right);
	emit_tree(c, mid, hi);
}

/* Emits one test; it jumps to no on failure, to yes on success. */
static void emit_test(struct compiler *c, const struct policy_test *t, bpf_label yes, bpf_label no)
{
	unsigned i;

	/* the low half; both architectures are little-endian */
	bpf_load(&c->bpf, (uint32_t)(offsetof(struct seccomp_data, args) + 8 * t->arg));
	if (t->op == POLICY_ANY_BIT) {
		bpf_jump_if(&c->bpf, BPF_JSET, t->mask, yes, no);
		return;
	}
	if (t->mask != UINT32_MAX)
		bpf_and(&c->bpf, t->mask);
	if (t->op == POLICY_AT_LEAST) {
		bpf_jump_if(&c->bpf, BPF_JGE, t->value[0], yes, no);
		return;
	}
	if (yes == BPF_NEXT && t->count > 1) {
		yes = bpf_new_label(&c->bpf);
		for (i = 0; i + 1 < t->count; i++)
			bpf_jump_if(&c->bpf, BPF_JEQ, t->value[i], yes, BPF_NEXT);
		bpf_jump_if(&c->bpf, BPF_JEQ, t->value[i], BPF_NEXT, no);
		bpf_place(&c->bpf, yes);
		return;
	}
	for (i = 0; i < t->count; i++)
		bpf_jump_if(&c->bpf, BPF_JEQ, t->value[i], yes, i + 1 < t->count ? BPF_NEXT : no);
}

/* Emits the rows of one call, in order, each ending in its action or falling to the next. */
static void emit_rows(struct compiler *c, int nr)
{
	bpf_label next, action;
	size_t i;
	unsigned t;

	bpf_place(&c->bpf, c->block[nr]);
	for (i = 0; i < policy_rule_count; i++) {
		const struct policy_rule *r = &policy_rules[i];

		if (!(r->profiles & c->profile) || !rule_names(r, c->arch, nr))
			continue;
		action = bpf_ret_label(&c->bpf, r->action);
		if (!r->test[0].what) {
			bpf_jump(&c->bpf, action);
			return;
		}
		next = bpf_new_label(&c->bpf);
		for (t = 0; t < POLICY_TEST_MAX && r->test[t].what; t++)
			emit_test(c, &r->test[t],
				  t + 1 < POLICY_TEST_MAX && r->test[t + 1].what ? BPF_NEXT : action, next);
		bpf_place(&c->bpf, next);
	}
	/* no row decided: filter a allows what it does not deny */
	bpf_jump(&c->bpf, bpf_ret_label(&c->bpf, SECCOMP_RET_ALLOW));
}

int compile_policy(enum compile_which which, unsigned profile, uint32_t arch,
		   struct bpf_program *ret_prog, struct err *e)
{
	autofree struct compiler *c = calloc(1, sizeof(*c));
	int nr;

	if (!c)
		return err_nomem(e);
	c->profile = profile;
	c->arch = arch;
	bpf_init(&c->bpf);
	if (collect_verdicts(c, e) < 0 || make_segments(c, which, e) < 0)
		return -1;
	plan_tree(c);
	bpf_load(&c->bpf, offsetof(struct seccomp_data, arch));
	bpf_jump_if(&c->bpf, BPF_JEQ, arch, BPF_NEXT, bpf_ret_label(&c->bpf, POLICY_BAD_ARCH));
	bpf_load(&c->bpf, offsetof(struct seccomp_data, nr));
	emit_tree(c, 0, c->segs - 1);
	for (nr = 0; which == COMPILE_A && nr < SYSNO_MAX; nr++)
		if (c->verdict[nr].tested)
			emit_rows(c, nr);
	if (bpf_finish(&c->bpf, e) < 0)
		return -1;
	*ret_prog = c->bpf.prog;
	return 0;
}
