/* SPDX-License-Identifier: Apache-2.0 */
/* simulate - the kernel's interpreter for classic BPF, as far as seccomp_check_filter() admits it. */
#include "seccomp/seccomp.h"

#include <linux/seccomp.h>
#include <string.h>

struct machine {
	uint32_t a, x, mem[BPF_MEMWORDS];
};

/* Returns 0, or -1 on an operation the kernel would not load. */
static int alu(struct machine *m, const struct sock_filter *f)
{
	uint32_t v = BPF_SRC(f->code) == BPF_X ? m->x : f->k;

	switch (BPF_OP(f->code)) {
	case BPF_ADD:
		m->a += v;
		return 0;
	case BPF_SUB:
		m->a -= v;
		return 0;
	case BPF_MUL:
		m->a *= v;
		return 0;
	case BPF_DIV:
		m->a = v ? m->a / v : 0;
		return v || BPF_SRC(f->code) == BPF_X ? 0 : -1;
	case BPF_AND:
		m->a &= v;
		return 0;
	case BPF_OR:
		m->a |= v;
		return 0;
	case BPF_XOR:
		m->a ^= v;
		return 0;
	case BPF_LSH:
		m->a = v < 32 ? m->a << v : 0;
		return 0;
	case BPF_RSH:
		m->a = v < 32 ? m->a >> v : 0;
		return 0;
	case BPF_NEG:
		m->a = -m->a;
		return 0;
	}
	return -1;
}

static int jump(const struct machine *m, const struct sock_filter *f, uint32_t *ret_skip)
{
	uint32_t v = BPF_SRC(f->code) == BPF_X ? m->x : f->k;
	int taken;

	switch (BPF_OP(f->code)) {
	case BPF_JA:
		*ret_skip = f->k;
		return 0;
	case BPF_JEQ:
		taken = m->a == v;
		break;
	case BPF_JGT:
		taken = m->a > v;
		break;
	case BPF_JGE:
		taken = m->a >= v;
		break;
	case BPF_JSET:
		taken = (m->a & v) != 0;
		break;
	default:
		return -1;
	}
	*ret_skip = taken ? f->jt : f->jf;
	return 0;
}

static int simulate_load(struct machine *m, const struct sock_filter *f, const struct seccomp_data *d)
{
	uint32_t *to = BPF_CLASS(f->code) == BPF_LD ? &m->a : &m->x;

	if (BPF_SIZE(f->code) != BPF_W)
		return -1;
	switch (BPF_MODE(f->code)) {
	case BPF_ABS:
		if (to != &m->a || f->k % 4 || f->k > sizeof(*d) - 4)
			return -1;
		memcpy(to, (const char *)d + f->k, 4);
		return 0;
	case BPF_LEN:
		*to = sizeof(*d);
		return 0;
	case BPF_IMM:
		*to = f->k;
		return 0;
	case BPF_MEM:
		if (f->k >= BPF_MEMWORDS)
			return -1;
		*to = m->mem[f->k];
		return 0;
	}
	return -1;
}

static int simulate_store(struct machine *m, const struct sock_filter *f)
{
	if (f->k >= BPF_MEMWORDS)
		return -1;
	m->mem[f->k] = BPF_CLASS(f->code) == BPF_ST ? m->a : m->x;
	return 0;
}

/* Runs one filter. Jumps only go forward, so it ends. */
static uint32_t simulate_filter(const struct seccomp_filter *filter, const struct seccomp_data *d)
{
	struct machine m = { 0 };
	uint32_t pc = 0, skip;
	int bad = 0;

	if (filter->len == 0)
		return SECCOMP_RET_ALLOW;
	for (; !bad && pc < filter->len; pc += 1 + skip) {
		const struct sock_filter *f = &filter->insns[pc];

		skip = 0;
		switch (BPF_CLASS(f->code)) {
		case BPF_LD:
		case BPF_LDX:
			bad = simulate_load(&m, f, d);
			break;
		case BPF_ST:
		case BPF_STX:
			bad = simulate_store(&m, f);
			break;
		case BPF_ALU:
			bad = alu(&m, f);
			break;
		case BPF_JMP:
			bad = jump(&m, f, &skip);
			if (skip >= (uint32_t)(filter->len - pc))
				bad = -1;
			break;
		case BPF_RET:
			return BPF_RVAL(f->code) == BPF_A ? m.a : f->k;
		case BPF_MISC:
			if (BPF_MISCOP(f->code) == BPF_TAX)
				m.x = m.a;
			else
				m.a = m.x;
			break;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

/* The kernel's order: kill process, kill thread, trap, errno, notify, trace, log, allow. */
static int32_t simulated_answer_rank(uint32_t answer)
{
	return (int32_t)(answer & SECCOMP_RET_ACTION_FULL);
}

uint32_t seccomp_simulate(const struct seccomp_profile *p, uint32_t arch, int nr,
			  const uint64_t args[6])
{
	struct seccomp_data d = { .nr = nr, .arch = arch };
	uint32_t a, b;

	memcpy(d.args, args, sizeof(d.args));
	a = simulate_filter(&p->a, &d);
	b = simulate_filter(&p->b, &d);
	/* of two equally strict answers, the data of the later filter applies */
	return simulated_answer_rank(a) < simulated_answer_rank(b) ? a : b;
}
