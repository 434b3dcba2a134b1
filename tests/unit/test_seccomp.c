/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks S6, S24, S50 of SECURITY.md. */
/*
 * The built-in profiles, call by call and argument by argument, by simulation.
 * The expectations are written here by hand, not taken from seccomp/policy.c.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "seccomp/compile.h"
#include "seccomp/policy.h"
#include "seccomp/seccomp.h"
#include "seccomp/sysno.h"

#define ALLOWED SECCOMP_RET_ALLOW
#define ERRNO_OF(n) (SECCOMP_RET_ERRNO | (n))
#define KILLED SECCOMP_RET_KILL_PROCESS
#define NR_LAST 600

/* SECURITY-NOTES 2.2, "Denied on x86-64" */
static const char denied[] =
	" _sysctl acct add_key adjtimex afs_syscall bpf chroot clock_adjtime clock_settime create_module"
	" delete_module fanotify_init fanotify_mark finit_module fsconfig fsmount fsopen fspick"
	" get_kernel_syms get_mempolicy getpmsg init_module ioperm iopl kcmp kexec_file_load kexec_load"
	" keyctl lookup_dcookie lsm_get_self_attr lsm_list_modules lsm_set_self_attr map_shadow_stack"
	" mbind memfd_secret migrate_pages modify_ldt mount mount_setattr move_mount move_pages"
	" name_to_handle_at nfsservctl open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root"
	" process_madvise process_vm_readv process_vm_writev ptrace putpmsg query_module quotactl"
	" quotactl_fd reboot remap_file_pages request_key security set_mempolicy set_mempolicy_home_node"
	" setdomainname sethostname setns settimeofday swapoff swapon sysfs syslog tuxcall umount2 unshare"
	" uselib userfaultfd ustat vhangup vmsplice vserver ";
static const char absent[] =
	" clone3 futex_requeue io_uring_enter io_uring_register io_uring_setup listmount statmount ";
static const char dev_allows[] = " kcmp process_vm_readv process_vm_writev ptrace ";
/* Since then: one fs.aio-max-nr for the whole host (K18). */
static const char absent_but_for_dev[] = " io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents ";
static const char strict_denies[] = " splice tee ";
/* Layers, and the root of a RUN: in the user namespace of a build. */
static const char builder_allows[] =
	" chroot fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree pivot_root setdomainname"
	" sethostname umount2 unshare ";

/* Newer than Debian 12's libseccomp; the same on every architecture. */
static const struct {
	int nr;
	const char *name;
} newer[] = {
	{ 451, "cachestat" }, { 452, "fchmodat2" }, { 453, "map_shadow_stack" }, { 454, "futex_wake" },
	{ 455, "futex_wait" }, { 456, "futex_requeue" }, { 457, "statmount" }, { 458, "listmount" },
	{ 459, "lsm_get_self_attr" }, { 460, "lsm_set_self_attr" }, { 461, "lsm_list_modules" },
	{ 462, "mseal" }, { 463, "setxattrat" }, { 464, "getxattrat" }, { 465, "listxattrat" },
	{ 466, "removexattrat" },
};

static const uint64_t zeros[6];

static int listed(const char *list, const char *name)
{
	char word[80];

	snprintf(word, sizeof(word), " %.64s ", name);
	return strstr(list, word) != NULL;
}

/* The kernel's name for a number; NULL when none is assigned. */
static const char *name_of(uint32_t arch, int nr, char buf[64])
{
	char *s;
	size_t i;

	for (i = 0; i < ARRAY_LEN(newer); i++)
		if (newer[i].nr == nr)
			return newer[i].name;
	if (arch == AUDIT_ARCH_X86_64 && nr == 335)
		return "uretprobe";
	if (arch == AUDIT_ARCH_X86_64 && nr == 336) /* Linux 6.18, which passes both by every filter */
		return "uprobe";
	if (nr > 466)
		return NULL;
	s = seccomp_syscall_resolve_num_arch(arch, nr);
	if (!s)
		return NULL;
	snprintf(buf, 64, "%s", s);
	free(s);
	return buf;
}

/* What section 2.2 says of a call whose arguments are all 0. */
static uint32_t expected(const char *profile, const char *name)
{
	if (name && strcmp(profile, "init") == 0 && strcmp(name, "clone3") == 0)
		return ALLOWED;
	if (!name || listed(absent, name))
		return ERRNO_OF(ENOSYS);
	if ((strcmp(profile, "dev") == 0 || strcmp(profile, "init") == 0) && listed(dev_allows, name))
		return ALLOWED;
	if (strcmp(profile, "dev") != 0 && strcmp(profile, "init") != 0 && listed(absent_but_for_dev, name))
		return ERRNO_OF(ENOSYS);
	if (strcmp(profile, "builder") == 0 && listed(builder_allows, name))
		return ALLOWED;
	if (strcmp(profile, "strict") == 0 && listed(strict_denies, name))
		return ERRNO_OF(EPERM);
	if (listed(denied, name))
		return ERRNO_OF(EPERM);
	if (strcmp(name, "socket") == 0 || strcmp(name, "socketpair") == 0)
		return ERRNO_OF(EAFNOSUPPORT);	/* family 0 */
	return ALLOWED;
}

static uint32_t native(const char *profile, const char *call, uint64_t a0, uint64_t a1, uint64_t a2)
{
	const uint64_t args[6] = { a0, a1, a2, 0, 0, 0 };
	int nr = sysno_resolve(SYSNO_ARCH_NATIVE, call);

	cr_assert_geq(nr, 0, "%s has no number", call);
	return seccomp_simulate(seccomp_builtin(profile), SYSNO_ARCH_NATIVE, nr, args);
}

/* The profiles a payload can have; "init" is berth's own. */
#define PAYLOAD_PROFILES 3
/* All but "nosetid", which only ever comes on top of another. */
#define FULL_PROFILES 4
/* In policy_profiles: buildah's, which is checked apart. */
#define BUILDER_PROFILE 6

/* For every one of them: expect(call, args) == want. */
#define FOR_ALL(call, a0, a1, a2, want) \
	do { \
		for (size_t p_ = 0; p_ < PAYLOAD_PROFILES; p_++) \
			cr_expect_eq(native(policy_profiles[p_].name, call, a0, a1, a2), want, \
				     "%s: %s(%#lx, %#lx, %#lx) answers %#x, not %#x", policy_profiles[p_].name, \
				     call, (unsigned long)(a0), (unsigned long)(a1), (unsigned long)(a2), \
				     native(policy_profiles[p_].name, call, a0, a1, a2), want); \
	} while (0)

static void check_every_number(uint32_t arch)
{
	static struct bpf_program a, b;
	struct err e = { 0 };
	uint32_t want, got;
	const char *name;
	char buf[64];
	size_t p;
	int nr;

	for (p = 0; p <= BUILDER_PROFILE; p++) {
		if (p >= FULL_PROFILES && p != BUILDER_PROFILE)
			continue;
		cr_assert_eq(compile_policy(COMPILE_A, policy_profiles[p].bit, arch, &a, &e), 0, "%s", e.msg);
		cr_assert_eq(compile_policy(COMPILE_B, policy_profiles[p].bit, arch, &b, &e), 0, "%s", e.msg);
		const struct seccomp_profile prof = { "", { a.insn, a.len }, { b.insn, b.len } };

		for (nr = 0; nr <= NR_LAST; nr++) {
			name = name_of(arch, nr, buf);
			want = expected(policy_profiles[p].name, name);
			got = seccomp_simulate(&prof, arch, nr, zeros);
			cr_expect_eq(got, want, "%s arch %#x: %s (%d) answers %#x, not %#x",
				     policy_profiles[p].name, arch, name ? name : "unassigned", nr, got, want);
		}
	}
}

Test(seccomp, every_number_answers_as_the_notes_say_on_x86_64)
{
	check_every_number(AUDIT_ARCH_X86_64);
}

Test(seccomp, every_number_answers_as_the_notes_say_on_aarch64)
{
	check_every_number(AUDIT_ARCH_AARCH64);
}

Test(seccomp, the_lists_above_have_the_length_the_notes_give)
{
	size_t i, words = 0;

	for (i = 1; denied[i]; i++)
		words += denied[i] == ' ';
	for (i = 1; absent[i]; i++)
		words += absent[i] == ' ';
	cr_assert_eq(words, 86);
}

#if defined(__x86_64__)
Test(seccomp, standard_lets_288_of_380_numbers_through)
{
	const uint64_t unix_family[6] = { AF_UNIX };
	int nr, allowed = 0, known = 0;
	char buf[64];

	for (nr = 0; nr <= 466; nr++) {
		const uint64_t *args = nr == 41 || nr == 53 ? unix_family : zeros;

		known += name_of(AUDIT_ARCH_X86_64, nr, buf) != NULL;
		allowed += seccomp_simulate(seccomp_builtin("standard"), AUDIT_ARCH_X86_64, nr, args) == ALLOWED;
	}
	cr_expect_eq(known, 380, "%d", known);
	cr_expect_eq(allowed, 288, "%d", allowed);
}

Test(seccomp, K01_a_builder_makes_the_namespaces_of_a_RUN_and_no_other)
{
	static const uint64_t own[] = { 0x20000, 0x04000000, 0x08000000, 0x20000000 }, /* mnt uts ipc pid */
		others[] = { 0x02000000, 0x10000000, 0x40000000 };			/* cgroup user net */
	size_t i;

	for (i = 0; i < ARRAY_LEN(own); i++) {
		cr_expect_eq(native("builder", "unshare", own[i], 0, 0), ALLOWED);
		cr_expect_eq(native("builder", "clone", own[i] | SIGCHLD, 0, 0), ALLOWED);
	}
	for (i = 0; i < ARRAY_LEN(others); i++) {
		cr_expect_eq(native("builder", "unshare", others[i] | own[0], 0, 0), ERRNO_OF(EPERM));
		cr_expect_eq(native("builder", "clone", others[i] | SIGCHLD, 0, 0), ERRNO_OF(EPERM));
	}
	cr_expect_eq(native("builder", "unshare", 0x80, 0, 0), ERRNO_OF(EPERM));	/* time */
	cr_expect_eq(native("builder", "setns", 3, 0x20000, 0), ERRNO_OF(EPERM));
	cr_expect_eq(native("builder", "clone3", 0, 0, 0), ERRNO_OF(ENOSYS));
	/* a whiteout, and no other device */
	cr_expect_eq(native("builder", "mknod", 0, S_IFCHR, 0), ALLOWED);
	cr_expect_eq(native("builder", "mknod", 0, S_IFCHR, 0x103), ERRNO_OF(EPERM));
	cr_expect_eq(native("builder", "mknod", 0, S_IFBLK, 0), ERRNO_OF(EPERM));
	for (i = 0; i < PAYLOAD_PROFILES; i++)
		cr_expect_eq(native(policy_profiles[i].name, "mknod", 0, S_IFCHR, 0), ERRNO_OF(EPERM));
	cr_expect_null(seccomp_named("builder"));
}

Test(seccomp, D02_no_huge_pages)
{
	FOR_ALL("memfd_create", 0, 4, 0, ERRNO_OF(ENOMEM));
	FOR_ALL("memfd_create", 0, 1, 0, ALLOWED);
	FOR_ALL("shmget", 0, 0, 04600, ERRNO_OF(ENOMEM));
	FOR_ALL("shmget", 0, 0, 01600, ALLOWED);
}

Test(seccomp, x32_numbers_kill_and_minus_one_does_not)
{
	const struct seccomp_profile *p = seccomp_builtin("standard");
	int nr;

	for (nr = 0; nr <= NR_LAST; nr++)
		cr_expect_eq(seccomp_simulate(p, AUDIT_ARCH_X86_64, nr | 0x40000000, zeros), KILLED, "%d", nr);
	cr_expect_eq(seccomp_simulate(p, AUDIT_ARCH_X86_64, 0x7fffffff, zeros), KILLED);
	cr_expect_eq(seccomp_simulate(p, AUDIT_ARCH_X86_64, (int)0x80000000, zeros), KILLED);
	cr_expect_eq(seccomp_simulate(p, AUDIT_ARCH_X86_64, -1, zeros), ERRNO_OF(ENOSYS));
	cr_expect_eq(seccomp_simulate(p, AUDIT_ARCH_X86_64, 0x3fffffff, zeros), ERRNO_OF(ENOSYS));
}
#endif

Test(seccomp, each_filter_alone_kills_other_architectures)
{
	static const uint32_t others[] = { AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_RISCV64, 0, UINT32_MAX,
					   SYSNO_ARCH_NATIVE == AUDIT_ARCH_X86_64 ? AUDIT_ARCH_AARCH64
										  : AUDIT_ARCH_X86_64 };
	size_t i, p;
	int nr;

	for (p = 0; p < FULL_PROFILES; p++) {
		const struct seccomp_profile *both = seccomp_builtin(policy_profiles[p].name);
		const struct seccomp_profile only_a = { "a", both->a, { 0 } }, only_b = { "b", { 0 }, both->b };

		for (i = 0; i < ARRAY_LEN(others); i++)
			for (nr = 0; nr <= NR_LAST; nr++) {
				cr_assert_eq(seccomp_simulate(&only_a, others[i], nr, zeros), KILLED);
				cr_assert_eq(seccomp_simulate(&only_b, others[i], nr, zeros), KILLED);
			}
	}
}

Test(seccomp, K11_terminal_ioctls_fail_whatever_the_high_bits)
{
	static const uint32_t bad[] = { 0x5412, 0x541C, 0x541D, 0x5423 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		FOR_ALL("ioctl", 0, bad[i], 0, ERRNO_OF(EIO));
		FOR_ALL("ioctl", 0, bad[i] | 0x100000000, 0, ERRNO_OF(EIO));
		FOR_ALL("ioctl", 0, bad[i] | 0xffffffff00000000, 0, ERRNO_OF(EIO));
	}
	FOR_ALL("ioctl", 0, 0x5413, 0, ALLOWED);	/* TIOCGWINSZ */
	FOR_ALL("ioctl", 0x5412, 0x5401, 0x5412, ALLOWED);
}

Test(seccomp, K01_clone_makes_no_namespace)
{
	static const uint32_t namespaces[] = { 0x20000, 0x02000000, 0x04000000, 0x08000000,
					       0x10000000, 0x20000000, 0x40000000 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(namespaces); i++) {
		FOR_ALL("clone", namespaces[i] | 17, 0, 0, ERRNO_OF(EPERM));
		FOR_ALL("clone", namespaces[i] | 0xdead00000000, 0, 0, ERRNO_OF(EPERM));
	}
	FOR_ALL("clone", 0x7E020000, 0, 0, ERRNO_OF(EPERM));
	FOR_ALL("clone", 0x3d0f00, 0, 0, ALLOWED);	/* pthread_create */
	FOR_ALL("clone", 0x1200011, 0, 0, ALLOWED);	/* fork */
	FOR_ALL("clone", 0x4111, 0x7E020000, 0, ALLOWED);	/* posix_spawn */
}

Test(seccomp, K01_clone3_fails_in_filter_a_alone)
{
	const struct seccomp_profile *standard = seccomp_builtin("standard");
	const struct seccomp_profile a = { "a", standard->a, { 0 } };

	cr_assert_eq(seccomp_simulate(&a, SYSNO_ARCH_NATIVE, 435, zeros), ERRNO_OF(ENOSYS));
}

Test(seccomp, K06_futex_requeue_pi_is_absent)
{
	unsigned op;

	for (op = 0; op < 0x200; op++)
		FOR_ALL("futex", 0, op, 0, (op & 0x7f) == 11 || (op & 0x7f) == 12 ? ERRNO_OF(ENOSYS) : ALLOWED);
	FOR_ALL("futex", 0, 0x10000008bUL, 0, ERRNO_OF(ENOSYS));
}

Test(seccomp, K05_socket_options_that_reach_ktls_xtables_and_bpf_fail)
{
	unsigned opt;

	for (opt = 0; opt < 300; opt++) {
		FOR_ALL("setsockopt", 3, 6, opt, opt == 31 ? ERRNO_OF(EPERM) : ALLOWED);
		FOR_ALL("setsockopt", 3, 0, opt, opt >= 64 ? ERRNO_OF(EPERM) : ALLOWED);
		/* 66 to 78 are IPV6_RECVTCLASS, IPV6_TCLASS ... IPV6_FREEBIND: ssh and ping use them */
		FOR_ALL("setsockopt", 3, 41, opt,
			opt == 64 || opt == 65 || opt > 78 ? ERRNO_OF(EPERM) : ALLOWED);
		/* SO_ATTACH_FILTER, _BPF, _REUSEPORT_CBPF, _REUSEPORT_EBPF; 27 takes a filter away */
		FOR_ALL("setsockopt", 3, 1, opt,
			opt == 26 || (opt >= 50 && opt <= 52) ? ERRNO_OF(EPERM) : ALLOWED);
		FOR_ALL("setsockopt", 3, 263, opt, opt == 22 ? ERRNO_OF(EPERM) : ALLOWED);
		FOR_ALL("setsockopt", 3, 17, opt, ALLOWED);
	}
	FOR_ALL("setsockopt", 3, 0x100000006, 0x10000001f, ERRNO_OF(EPERM));
}

Test(seccomp, D11_no_filter_outlives_its_task_by_a_listener)
{
	unsigned flags;

	for (flags = 0; flags < 64; flags++)
		FOR_ALL("seccomp", 1, flags, 0, flags & 8 ? ERRNO_OF(EINVAL) : ALLOWED);
	FOR_ALL("seccomp", 0x100000001, 0x100000008, 0, ERRNO_OF(EINVAL));
	FOR_ALL("seccomp", 2, 8, 0, ALLOWED);	/* SECCOMP_GET_ACTION_AVAIL */
}

Test(seccomp, D11_tun_and_ppp_take_no_filter)
{
	FOR_ALL("ioctl", 3, 0x401054d5, 0, ERRNO_OF(EPERM));
	FOR_ALL("ioctl", 3, 0x40107446, 0, ERRNO_OF(EPERM));
	FOR_ALL("ioctl", 3, 0x40107447, 0, ERRNO_OF(EPERM));
	FOR_ALL("ioctl", 3, 0x401054d6, 0, ALLOWED);
}

Test(seccomp, K09_personality_keeps_randomisation_except_in_dev)
{
	static const uint64_t ok[] = { 0, 8, 0x20000, 0x20008, 0xffffffff, 0x100000000 };
	static const uint32_t never[] = { 1, 9, 0x400000, 0x440000, 0x100000, 0x0200000, 0x8000000 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(ok); i++)
		FOR_ALL("personality", ok[i], 0, 0, ALLOWED);
	for (i = 0; i < ARRAY_LEN(never); i++)
		FOR_ALL("personality", never[i], 0, 0, ERRNO_OF(EPERM));
	cr_expect_eq(native("strict", "personality", 0x40000, 0, 0), ERRNO_OF(EPERM));
	cr_expect_eq(native("standard", "personality", 0x40000, 0, 0), ERRNO_OF(EPERM));
	cr_expect_eq(native("dev", "personality", 0x40000, 0, 0), ALLOWED);
	cr_expect_eq(native("dev", "personality", 0x40008, 0, 0), ALLOWED);
}

Test(seccomp, K12_mknod_makes_no_devices)
{
	static const uint32_t ok[] = { 0, S_IFREG, S_IFIFO, S_IFSOCK };
	uint32_t type, want;
	size_t i;

	for (type = 0; type <= S_IFMT; type += 0x1000) {
		for (want = ERRNO_OF(EPERM), i = 0; i < ARRAY_LEN(ok); i++)
			if (ok[i] == type)
				want = ALLOWED;
#ifdef __x86_64__
		FOR_ALL("mknod", 0, type | 0644, S_IFBLK, want);
#endif
		FOR_ALL("mknodat", S_IFBLK, S_IFREG, type | 06777, want);
		FOR_ALL("mknodat", 0, 0, type | 0x100000000, want);
	}
}

Test(seccomp, K12_a_rename_leaves_no_device_node)
{
	static const struct {
		uint64_t flags;
		uint32_t want;
	} t[] = {
		{ 0, ALLOWED }, { 1, ALLOWED }, { 2, ALLOWED }, { 4, ERRNO_OF(EPERM) }, { 5, ERRNO_OF(EPERM) }, { 7, ERRNO_OF(EPERM) },
		{ 0xffffffff, ERRNO_OF(EPERM) }, { 0x100000004, ERRNO_OF(EPERM) }, { 0x400000000, ALLOWED }, { 8, ALLOWED },
	};
	int nr = sysno_resolve(SYSNO_ARCH_NATIVE, "renameat2");
	size_t i, p;

	for (p = 0; p < FULL_PROFILES; p++)
		for (i = 0; i < ARRAY_LEN(t); i++) {
			const uint64_t args[6] = { 4, 4, 4, 4, t[i].flags, 4 };

			cr_expect_eq(seccomp_simulate(seccomp_builtin(policy_profiles[p].name), SYSNO_ARCH_NATIVE, nr, args), t[i].want,
				     "%s, flags %lx", policy_profiles[p].name, (unsigned long)t[i].flags);
		}
}

Test(seccomp, K09_prctl_set_mm_fails)
{
	unsigned option;

	for (option = 0; option < 80; option++)
		FOR_ALL("prctl", option, 0, 0, option == 35 ? ERRNO_OF(EPERM) : ALLOWED);
	FOR_ALL("prctl", 0x100000023, 0, 0, ERRNO_OF(EPERM));
}

/* K04, written out; type is without flags */
static int socket_allowed(int strict, unsigned family, unsigned type, unsigned protocol)
{
	if (family == AF_UNIX)
		return 1;
	if (strict)
		return 0;
	if (family == AF_INET || family == AF_INET6)
		return (type == SOCK_STREAM && (protocol == 0 || protocol == 6)) ||
		       (type == SOCK_DGRAM && (protocol == 0 || protocol == 17 || protocol == 1 || protocol == 58));
	return family == AF_NETLINK && protocol == 0;
}

/* The kernel's own answer without CAP_NET_RAW, on which programs such as busybox's ping fall back. */
static int raw_refused(int strict, const char *call, unsigned family, unsigned type)
{
	return !strict && strcmp(call, "socket") == 0 && (family == AF_INET || family == AF_INET6) && type == SOCK_RAW;
}

Test(seccomp, K04_only_the_listed_sockets_exist)
{
	static const unsigned protocols[] = { 0, 1, 2, 6, 9, 12, 16, 17, 33, 50, 58, 132, 136, 255, 262 };
	static const char *const calls[] = { "socket", "socketpair" };
	unsigned family, type;
	size_t p, i, c;
	uint32_t want, got;

	for (p = 0; p < FULL_PROFILES; p++)
		for (c = 0; c < ARRAY_LEN(calls); c++)
			for (family = 0; family < 64; family++)
				for (type = 0; type < 12; type++)
					for (i = 0; i < ARRAY_LEN(protocols); i++) {
						want = socket_allowed(p == 0, family, type, protocols[i]) ? ALLOWED :
						       raw_refused(p == 0, calls[c], family, type) ? ERRNO_OF(EPERM) :
												     ERRNO_OF(EAFNOSUPPORT);
						got = native(policy_profiles[p].name, calls[c],
							     family | (family == 2 ? 0x700000000 : 0),
							     type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocols[i]);
						cr_expect_eq(got, want, "%s %s(%u, %u, %u): %#x",
							     policy_profiles[p].name, calls[c], family, type,
							     protocols[i], got);
					}
}

Test(seccomp, built_in_profiles_are_what_the_table_compiles_to)
{
	static struct bpf_program a, b;
	struct err e = { 0 };
	size_t p;

	for (p = 0; p < FULL_PROFILES; p++) {
		const struct seccomp_profile *s = seccomp_builtin(policy_profiles[p].name);

		cr_assert_not_null(s);
		cr_assert_eq(compile_policy(COMPILE_A, policy_profiles[p].bit, SYSNO_ARCH_NATIVE, &a, &e), 0);
		cr_assert_eq(compile_policy(COMPILE_B, policy_profiles[p].bit, SYSNO_ARCH_NATIVE, &b, &e), 0);
		cr_assert_eq(s->a.len, a.len);
		cr_assert_eq(s->b.len, b.len);
		cr_assert_eq(memcmp(s->a.insns, a.insn, a.len * sizeof(*a.insn)), 0);
		cr_assert_eq(memcmp(s->b.insns, b.insn, b.len * sizeof(*b.insn)), 0);
	}
	cr_assert_null(seccomp_builtin("unconfined"));
	cr_assert_null(seccomp_builtin(""));
}

Test(seccomp, rules_name_every_call_with_a_reason_and_agree_with_the_filter)
{
	static struct seccomp_rule_info r[1024];
	size_t n, i, p;
	uint32_t got;
	int nr;

	for (p = 0; p < FULL_PROFILES; p++) {
		n = seccomp_rules(policy_profiles[p].name, r, ARRAY_LEN(r));
		cr_assert(n > 300 && n < ARRAY_LEN(r));
		cr_assert_eq(seccomp_rules(policy_profiles[p].name, NULL, 0), n);
		for (i = 0; i < n; i++) {
			cr_assert(*r[i].syscall && *r[i].action && *r[i].reason);
			nr = sysno_resolve(SYSNO_ARCH_NATIVE, r[i].syscall);
			/* the first row without a condition is the only one, or arguments decide */
			if (nr < 0 || *r[i].condition || (i && strcmp(r[i - 1].syscall, r[i].syscall) == 0))
				continue;
			got = seccomp_simulate(seccomp_builtin(policy_profiles[p].name), SYSNO_ARCH_NATIVE, nr, zeros);
			if (strcmp(r[i].action, "allow") == 0)
				cr_expect(got == ALLOWED, "%s", r[i].syscall);
			else if (strcmp(r[i].action, "EAFNOSUPPORT") != 0 && strcmp(r[i].syscall, "mknod") != 0 &&
				 strcmp(r[i].syscall, "mknodat") != 0)
				cr_expect(got != ALLOWED, "%s", r[i].syscall);
		}
	}
	cr_assert_eq(seccomp_rules("none", r, ARRAY_LEN(r)), 0);
}

Test(seccomp, conditions_read_as_the_tests_do)
{
	static struct seccomp_rule_info r[1024];
	size_t n = seccomp_rules("standard", r, ARRAY_LEN(r)), i, found = 0;

	for (i = 0; i < n; i++) {
		found += strcmp(r[i].syscall, "clone") == 0 &&
			 strcmp(r[i].condition, "flags has any bit of 0x7e020000") == 0;
		found += strcmp(r[i].syscall, "socket") == 0 &&
			 strcmp(r[i].condition, "family is 2 or 10, type & 0xf is 1, protocol is 0 or 6") == 0;
		found += strcmp(r[i].syscall, "setsockopt") == 0 &&
			 strcmp(r[i].condition, "level is 0, option >= 64") == 0;
	}
	cr_assert_eq(found, 3);
}

Test(seccomp, the_stricter_filter_wins_and_the_later_breaks_ties)
{
	static const struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	static const struct sock_filter e1[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1) };
	static const struct sock_filter e2[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 2) };
	static const struct sock_filter thread[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD) };
	static const struct sock_filter process[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS) };
	static const struct sock_filter endless[] = { BPF_JUMP(BPF_JMP | BPF_JA, 0xffffffff, 0, 0) };
#define PAIR(x, y) (&(struct seccomp_profile){ "", { x, ARRAY_LEN(x) }, { y, ARRAY_LEN(y) } })
	cr_expect_eq(seccomp_simulate(PAIR(allow, e1), 0, 0, zeros), ERRNO_OF(1));
	cr_expect_eq(seccomp_simulate(PAIR(e1, allow), 0, 0, zeros), ERRNO_OF(1));
	cr_expect_eq(seccomp_simulate(PAIR(e1, e2), 0, 0, zeros), ERRNO_OF(2));
	cr_expect_eq(seccomp_simulate(PAIR(thread, e2), 0, 0, zeros), SECCOMP_RET_KILL_THREAD);
	cr_expect_eq(seccomp_simulate(PAIR(thread, process), 0, 0, zeros), KILLED);
	cr_expect_eq(seccomp_simulate(PAIR(allow, endless), 0, 0, zeros), KILLED);
	cr_expect_eq(seccomp_simulate(&(struct seccomp_profile){ 0 }, 0, 0, zeros), ALLOWED);
}

/* Filter a of a profile alone: of those that come alone or on top, b is never loaded. */
static uint32_t filter_a(const char *profile, const char *call, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
	static const struct sock_filter allow = { BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW };
	struct seccomp_profile p = *seccomp_builtin(profile);
	const uint64_t args[6] = { a0, a1, a2, a3, 0, 0 };

	p.b = (struct seccomp_filter){ &allow, 1 };
	return seccomp_simulate(&p, SYSNO_ARCH_NATIVE, sysno_resolve(SYSNO_ARCH_NATIVE, call), args);
}

static uint32_t nosetid(const char *call, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
	return filter_a("nosetid", call, a0, a1, a2, a3);
}

Test(seccomp, S56_a_keeper_loses_what_no_verb_needs)
{
	static const char *const ours[] = { "init", "nosetid", "keeper", "builder" };
	static const char *const keeps[] = { "read", "execve", "clone3", "mount", "setns", "open_tree", "move_mount", "umount2",
					     "ioctl", "openat", "kill", "seccomp", "prctl", "unshare", "quotactl_fd" };
	static const char *const lost[] = { "init_module", "kexec_load", "iopl", "modify_ldt", "swapon", "settimeofday", "reboot",
					    "ptrace", "process_vm_writev", "pidfd_getfd", "bpf", "perf_event_open", "keyctl",
					    "open_by_handle_at", "personality", "pivot_root" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(ours); i++)
		cr_expect_null(seccomp_named(ours[i]), "%s can be chosen", ours[i]);
	for (i = 0; i < ARRAY_LEN(lost); i++)
		if (sysno_resolve(SYSNO_ARCH_NATIVE, lost[i]) >= 0)	/* iopl is x86's */
			cr_expect_eq(filter_a("keeper", lost[i], 0, 0, 0, 0), ERRNO_OF(EPERM), "%s", lost[i]);
	for (i = 0; i < ARRAY_LEN(keeps); i++)
		cr_expect_eq(filter_a("keeper", keeps[i], 0, 0, 0, 0), ALLOWED, "%s", keeps[i]);
	cr_expect_eq(filter_a("keeper", "mknodat", 3, 0, S_IFCHR | 0666, 0), ERRNO_OF(EPERM));
	cr_expect_eq(filter_a("keeper", "mknodat", 3, 0, S_IFREG | 0666, 0), ALLOWED);
	cr_expect_eq(filter_a("keeper", "mmap", 0, 1, PROT_WRITE | PROT_EXEC, 0), ERRNO_OF(EPERM));
	cr_expect_eq(filter_a("keeper", "mmap", 0, 1, PROT_READ | PROT_EXEC, 0), ALLOWED, "a child's libraries");
	cr_expect_eq(filter_a("keeper", "socket", AF_PACKET, SOCK_RAW, 0, 0), ERRNO_OF(EAFNOSUPPORT));
	cr_expect_eq(filter_a("keeper", "socket", AF_NETLINK, SOCK_RAW, 0, 0), ALLOWED);
}

Test(seccomp, K16_nosetid_refuses_set_id_bits_and_nothing_else)
{
	cr_expect_eq(nosetid("fchmod", 3, 04755, 0, 0), ERRNO_OF(EPERM));
	cr_expect_eq(nosetid("fchmodat", 3, 0, 02755, 0), ERRNO_OF(EPERM));
	cr_expect_eq(nosetid("mkdirat", 3, 0, 02755, 0), ERRNO_OF(EPERM));
	cr_expect_eq(nosetid("openat", 3, 0, O_CREAT | O_WRONLY, 04755), ERRNO_OF(EPERM));
	cr_expect_eq(nosetid("openat", 3, 0, O_TMPFILE | O_WRONLY, 04755), ERRNO_OF(EPERM));
	cr_expect_eq(nosetid("openat2", 3, 0, 0, 0), ERRNO_OF(ENOSYS));
	cr_expect_eq(nosetid("fchmod", 3, 01777, 0, 0), ALLOWED);
	cr_expect_eq(nosetid("openat", 3, 0, O_RDONLY | O_DIRECTORY, 04755), ALLOWED, "without O_CREAT the mode is not a mode");
	cr_expect_eq(nosetid("openat", 3, 0, O_CREAT, 0644), ALLOWED);
	cr_expect_eq(nosetid("read", 0, 04000, 04000, 0), ALLOWED);
}
