/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile - the policy table to BPF, when berth is built.
 *
 * libseccomp is not used: its rules are a set and ours are tried in order, which its
 * deny-by-argument filters cannot express. Besides, one comparison per range of equal answers gives
 * filter b of `standard` 82 instructions (6 for read, 8 for futex); libseccomp 2.5.4 makes it 479
 * (15) as a binary tree and 384 (6, futex 208) as a list. Loading, where the kernel walks the
 * filter for every number, takes 40 microseconds instead of 121 and 272 (6.18, JIT on).
 */
#ifndef BERTH_SECCOMP_COMPILE_H
#define BERTH_SECCOMP_COMPILE_H

#include <linux/filter.h>
#include <stdint.h>

#include "base/err.h"

#define BPF_INSN_MAX 1024

struct bpf_program {
	struct sock_filter insn[BPF_INSN_MAX];
	unsigned short len;
};

enum compile_which {
	COMPILE_A,	/* filter a: deny by argument, pass the rest */
	COMPILE_B,	/* filter b: an allow-list by number */
};

/*
 * Compiles the rows of one profile (enum policy_profile) for arch, an
 * AUDIT_ARCH_* value of which x86_64 and aarch64 are known.  ERR_INTERNAL when
 * the table is wrong: a row after one that always decides, or a program too long.
 */
int compile_policy(enum compile_which which, unsigned profile, uint32_t arch,
		   struct bpf_program *ret_prog, struct err *e);

#endif
