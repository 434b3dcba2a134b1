/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks S24 of SECURITY.md. */
/* What is handed to the supervisor, by simulation: the loads of further filters, and nothing else. */
#include <criterion/criterion.h>
#include <linux/audit.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "runtime/sandbox/filterwatch.h"
#include "seccomp/sysno.h"
#include "seccomp/watch.h"

#define SECRET 0x123456789abcdef0u
#define ASKED SECCOMP_RET_USER_NOTIF

static struct sock_filter insns[SECCOMP_WATCH_MAX];

static struct seccomp_profile watching(const struct seccomp_filter *under)
{
	struct err e;
	int n = seccomp_watch(under, SECRET, ASKED, insns, &e);

	cr_assert_gt(n, 0);
	return (struct seccomp_profile){ "watch", { insns, (unsigned short)n }, { NULL, 0 } };
}

static uint32_t answer(const struct seccomp_profile *p, long nr, uint64_t a0, uint64_t a1, uint64_t a3)
{
	const uint64_t args[6] = { a0, a1, 0x1000, a3, 0, 0 };

	return seccomp_simulate(p, SYSNO_ARCH_NATIVE, (int)nr, args);
}

Test(watch, each_way_to_load_a_filter_is_asked_for)
{
	const struct seccomp_profile p = watching(NULL);

	cr_assert_eq(answer(&p, SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0), ASKED);
	cr_assert_eq(answer(&p, SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, 0), ASKED);
	/* the kernel takes 32 bits of the operation */
	cr_assert_eq(answer(&p, SYS_seccomp, SECCOMP_SET_MODE_FILTER | 7ull << 32, 0, 0), ASKED);
	cr_assert_eq(answer(&p, SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0), ASKED);
	cr_assert_eq(answer(&p, SYS_prctl, PR_SET_SECCOMP | 7ull << 32, SECCOMP_MODE_FILTER, 0), ASKED);
	/* only seccomp(2) knows the secret */
	cr_assert_eq(answer(&p, SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, SECRET), ASKED);
}

Test(watch, only_the_whole_secret_passes)
{
	const struct seccomp_profile p = watching(NULL);
	int bit;

	cr_assert_eq(answer(&p, SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, SECRET), SECCOMP_RET_ALLOW);
	for (bit = 0; bit < 64; bit++)
		cr_assert_eq(answer(&p, SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, SECRET ^ 1ull << bit), ASKED);
}

Test(watch, other_calls_go_on_to_the_filter_below)
{
	const struct sock_filter stop[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 77) };
	const struct seccomp_filter below = { stop, 1 };
	const struct seccomp_profile p = watching(&below);
	int nr;

	for (nr = 0; nr < 600; nr++)
		cr_assert_eq(answer(&p, nr, 99, 0, 0), SECCOMP_RET_ERRNO | 77, "call %d", nr);
	cr_assert_eq(answer(&p, SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, 0), SECCOMP_RET_ERRNO | 77);
	cr_assert_eq(answer(&p, SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0), SECCOMP_RET_ERRNO | 77);
	cr_assert_eq(answer(&p, SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0), SECCOMP_RET_ERRNO | 77);
}

Test(watch, another_architecture_is_left_to_the_filter_below)
{
	const struct seccomp_profile p = watching(&seccomp_builtin("init")->b);
	const uint64_t args[6] = { SECCOMP_SET_MODE_FILTER };

	cr_assert_eq(seccomp_simulate(&p, AUDIT_ARCH_I386, SYS_seccomp, args), SECCOMP_RET_KILL_PROCESS);
}

Test(watch, a_filter_that_is_too_long_is_refused)
{
	const struct seccomp_filter long_one = { insns, SECCOMP_WATCH_MAX };
	struct sock_filter out[SECCOMP_WATCH_MAX];
	struct err e;

	cr_assert_eq(seccomp_watch(&long_one, SECRET, ASKED, out, &e), -1);
	cr_assert_eq(e.code, ERR_INTERNAL);
}

Test(watch, a_sandbox_has_a_sixty_fourth_of_the_hosts_limit)
{
	cr_assert_eq(filterwatch_max(528482304), 63);
	cr_assert_eq(filterwatch_max(1ull << 34), 2048);
	cr_assert_eq(filterwatch_max(1 << 20), 16);
	cr_assert_eq(filterwatch_max(0), 64);
	cr_assert_eq(filterwatch_max(UINT64_MAX), 4096);
}
