/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S24 of SECURITY.md. */
#include "seccomp/watch.h"

#include <linux/audit.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/mem.h"
#include "seccomp/sysno.h"

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOW(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]))
#define HIGH(n) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]) + 4)
#define IS(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), (yes), (no))
#define RETURN(k) BPF_STMT(BPF_RET | BPF_K, (k))

/* Calls of another architecture are left to the filter below, which kills. */
int seccomp_watch(const struct seccomp_filter *under, uint64_t secret, uint32_t action,
		  struct sock_filter ret[SECCOMP_WATCH_MAX], struct err *e)
{
	const struct sock_filter watch[] = {
		/* 0 */ LOAD(arch),
		/* 1 */ IS(SYSNO_ARCH_NATIVE, 0, 14),
		/* 2 */ LOAD(nr),
		/* 3 */ IS(SYS_seccomp, 5, 0),
		/* 4 */ IS(SYS_prctl, 0, 11),
		/* 5 */ LOW(0),
		/* 6 */ IS(PR_SET_SECCOMP, 0, 9),
		/* 7 */ LOW(1),
		/* 8 */ IS(SECCOMP_MODE_FILTER, 6, 7),
		/* 9 */ LOW(0),
		/* 10 */ IS(SECCOMP_SET_MODE_FILTER, 0, 5),
		/* 11 */ LOW(3),
		/* 12 */ IS((uint32_t)secret, 0, 2),
		/* 13 */ HIGH(3),
		/* 14 */ IS((uint32_t)(secret >> 32), 1, 0),
		/* 15 */ RETURN(action),
	};
	const struct sock_filter allow = RETURN(SECCOMP_RET_ALLOW);
	const struct seccomp_filter all = { &allow, 1 };
	const struct seccomp_filter *f = under ? under : &all;

	if (ARRAY_LEN(watch) + f->len > SECCOMP_WATCH_MAX)
		return err_set(e, ERR_INTERNAL, "a filter of %u instructions cannot be watched",
			       f->len);
	memcpy(ret, watch, sizeof(watch));
	memcpy(ret + ARRAY_LEN(watch), f->insns, f->len * sizeof(*f->insns));
	return (int)(ARRAY_LEN(watch) + f->len);
}
