/* SPDX-License-Identifier: Apache-2.0 */
#include "seccomp/bpf.h"

#include <string.h>

void bpf_init(struct bpf_asm *a)
{
	memset(a, 0, sizeof(*a));
	a->labels = 1;	/* 0 is BPF_NEXT */
}

bpf_label bpf_new_label(struct bpf_asm *a)
{
	if (a->labels == BPF_LABEL_MAX) {
		a->overflow = 1;
		return BPF_NEXT;
	}
	a->position[a->labels] = BPF_INSN_MAX;
	return (bpf_label)a->labels++;
}

void bpf_place(struct bpf_asm *a, bpf_label l)
{
	a->position[l] = a->prog.len;
}

bpf_label bpf_ret_label(struct bpf_asm *a, uint32_t value)
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

static void emit(struct bpf_asm *a, uint16_t code, uint32_t k, bpf_label yes, bpf_label no)
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

void bpf_load(struct bpf_asm *a, uint32_t offset)
{
	emit(a, BPF_LD | BPF_W | BPF_ABS, offset, BPF_NEXT, BPF_NEXT);
}

void bpf_and(struct bpf_asm *a, uint32_t k)
{
	emit(a, BPF_ALU | BPF_AND | BPF_K, k, BPF_NEXT, BPF_NEXT);
}

void bpf_jump_if(struct bpf_asm *a, uint16_t op, uint32_t k, bpf_label yes, bpf_label no)
{
	emit(a, (uint16_t)(BPF_JMP | BPF_K | op), k, yes, no);
}

void bpf_jump(struct bpf_asm *a, bpf_label to)
{
	emit(a, BPF_JMP | BPF_JA, 0, to, BPF_NEXT);
}

/* Instructions between i and the label, or -1 when it is behind or was never placed. */
static int distance(const struct bpf_asm *a, unsigned i, bpf_label l)
{
	if (l == BPF_NEXT)
		return 0;
	if (a->position[l] >= a->prog.len || a->position[l] <= i)
		return -1;
	return (int)(a->position[l] - i - 1);
}

int bpf_finish(struct bpf_asm *a, struct err *e)
{
	unsigned i;
	int yes, no;

	for (i = 0; i < a->rets; i++) {
		bpf_place(a, a->ret[i].label);
		emit(a, BPF_RET | BPF_K, a->ret[i].value, BPF_NEXT, BPF_NEXT);
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
