/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpf - a small assembler of classic BPF for seccomp: forward labels, shared
 * return instructions.
 *
 * Emitting never fails; an overflow is remembered and bpf_finish() reports it.
 */
#ifndef BERTH_SECCOMP_BPF_H
#define BERTH_SECCOMP_BPF_H

#include <linux/filter.h>
#include <stdint.h>

#include "base/err.h"

#define BPF_INSN_MAX 1024
#define BPF_LABEL_MAX 512
#define BPF_RET_MAX 8

/* A position in the program; BPF_NEXT is the instruction that follows. */
typedef uint16_t bpf_label;
#define BPF_NEXT ((bpf_label)0)

struct bpf_program {
	struct sock_filter insn[BPF_INSN_MAX];
	unsigned short len;
};

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

void bpf_init(struct bpf_asm *a);
bpf_label bpf_new_label(struct bpf_asm *a);
/* The label stands for the next instruction emitted. */
void bpf_place(struct bpf_asm *a, bpf_label l);
/* The label of a "return value", made once and placed by bpf_finish(). */
bpf_label bpf_ret_label(struct bpf_asm *a, uint32_t value);
/* offset is into struct seccomp_data */
void bpf_load(struct bpf_asm *a, uint32_t offset);
void bpf_and(struct bpf_asm *a, uint32_t k);
/* op is BPF_JEQ, BPF_JGE, BPF_JGT or BPF_JSET */
void bpf_jump_if(struct bpf_asm *a, uint16_t op, uint32_t k, bpf_label yes, bpf_label no);
void bpf_jump(struct bpf_asm *a, bpf_label to);
/* Places the returns and resolves the jumps; ERR_INTERNAL when the program is too long for them. */
int bpf_finish(struct bpf_asm *a, struct err *e);

#endif
