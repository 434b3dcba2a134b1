/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks S6 of SECURITY.md. */
/* The built-in profiles as the kernel sees them: loaded in a child, asked by real calls. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "seccomp/seccomp.h"

#ifndef SYS_clone3
#define SYS_clone3 435
#endif

struct call {
	const char *what;
	long nr, a[6];
	int want;	/* errno, or 0: anything but the filter's answers EPERM and ENOSYS */
};

/* The filter's errno must show where the kernel's own would be another. */
static const struct call standard_calls[] = {
	{ "io_uring_setup", 425, { 1 }, ENOSYS },
	{ "io_uring_enter", 426, { -1 }, ENOSYS },
	{ "clone3", SYS_clone3, { 0 }, ENOSYS },
	{ "clone3 that would do", SYS_clone3, { 1, 64 }, ENOSYS },
	{ "futex_requeue", 456, { 0 }, ENOSYS },
	{ "statmount", 457, { 0 }, ENOSYS },
	{ "listmount", 458, { 0 }, ENOSYS },
	{ "number of tomorrow", 600, { 0 }, ENOSYS },
	{ "unshare(0)", SYS_unshare, { 0 }, EPERM },
	{ "unshare(NEWUSER)", SYS_unshare, { CLONE_NEWUSER }, EPERM },
	{ "setns", SYS_setns, { -1 }, EPERM },
	{ "clone(NEWUSER)", SYS_clone, { CLONE_NEWUSER | SIGCHLD }, EPERM },
	{ "keyctl", SYS_keyctl, { 0 }, EPERM },
	{ "add_key", SYS_add_key, { 0 }, EPERM },
	{ "bpf", SYS_bpf, { -1 }, EPERM },
	{ "mount", SYS_mount, { 0 }, EPERM },
	{ "ptrace", SYS_ptrace, { 0x4206, -1 }, EPERM },
	{ "process_vm_readv", SYS_process_vm_readv, { -1 }, EPERM },
	{ "kcmp", SYS_kcmp, { -1 }, EPERM },
	{ "vmsplice", SYS_vmsplice, { -1 }, EPERM },
	{ "userfaultfd", SYS_userfaultfd, { -1 }, EPERM },
	{ "personality(NO_RANDOMIZE)", SYS_personality, { 0x40000 }, EPERM },
	{ "personality(query)", SYS_personality, { 0xffffffff }, 0 },
	{ "socket(ALG)", SYS_socket, { 38, SOCK_SEQPACKET, 0 }, EAFNOSUPPORT },
	{ "socket(VSOCK)", SYS_socket, { 40, SOCK_STREAM, 0 }, EAFNOSUPPORT },
	{ "socket(PACKET)", SYS_socket, { AF_PACKET, SOCK_RAW, 0 }, EAFNOSUPPORT },
	{ "socket(INET, RAW)", SYS_socket, { AF_INET, SOCK_RAW, 1 }, EPERM },
	{ "socket(NETLINK_AUDIT)", SYS_socket, { AF_NETLINK, SOCK_RAW, 9 }, EAFNOSUPPORT },
	{ "socket(TCP)", SYS_socket, { AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0 }, 0 },
	{ "socket(NETLINK_ROUTE)", SYS_socket, { AF_NETLINK, SOCK_RAW, 0 }, 0 },
	{ "socketpair(TIPC)", SYS_socketpair, { 30, SOCK_STREAM, 0 }, EAFNOSUPPORT },
	{ "setsockopt(TCP_ULP)", SYS_setsockopt, { -1, IPPROTO_TCP, 31 }, EPERM },
	{ "setsockopt(IPT)", SYS_setsockopt, { -1, 0, 64 }, EPERM },
	{ "setsockopt(IPV6_TCLASS)", SYS_setsockopt, { -1, IPPROTO_IPV6, 67 }, EBADF },
	{ "ioctl(TIOCSTI)", SYS_ioctl, { -1, 0x5412 }, EIO },
	{ "ioctl(TIOCSTI, high bit)", SYS_ioctl, { -1, 0x100005412 }, EIO },
	{ "ioctl(TCGETS)", SYS_ioctl, { -1, 0x5401 }, EBADF },
	{ "futex(CMP_REQUEUE_PI)", SYS_futex, { 0, 12 }, ENOSYS },
	{ "futex(WAIT_REQUEUE_PI)", SYS_futex, { 0, 11 | 128 }, ENOSYS },
	{ "mknodat(CHR)", SYS_mknodat, { -1, 0, S_IFCHR }, EPERM },
	{ "prctl(SET_MM)", SYS_prctl, { 35, 999 }, EPERM },
	{ "splice", SYS_splice, { -1, 0, -1, 0, 1 }, EBADF },
	{ "landlock_create_ruleset", 444, { 0, 0, 1 }, 0 },
};

static const struct call dev_calls[] = {
	{ "ptrace", SYS_ptrace, { 0x4206, 0x7ffffff }, ESRCH },
	{ "process_vm_readv", SYS_process_vm_readv, { 0x7ffffff, 1, 0, 1 }, 0 },
	{ "kcmp", SYS_kcmp, { 0x7ffffff, 0x7ffffff }, ESRCH },
	{ "personality(NO_RANDOMIZE)", SYS_personality, { 0x40000 }, 0 },
	{ "unshare(0)", SYS_unshare, { 0 }, EPERM },
	{ "pidfd_getfd", 438, { -1 }, EPERM },
};

static const struct call strict_calls[] = {
	{ "splice", SYS_splice, { -1, 0, -1, 0, 1 }, EPERM },
	{ "tee", SYS_tee, { -1, -1, 1 }, EPERM },
	{ "socket(TCP)", SYS_socket, { AF_INET, SOCK_STREAM, 0 }, EAFNOSUPPORT },
	{ "socket(NETLINK_ROUTE)", SYS_socket, { AF_NETLINK, SOCK_RAW, 0 }, EAFNOSUPPORT },
	{ "socket(UNIX)", SYS_socket, { AF_UNIX, SOCK_STREAM, 0 }, 0 },
};

static int install(const char *profile)
{
	const struct seccomp_profile *p = seccomp_builtin(profile);
	struct sock_fprog a = { p->a.len, (struct sock_filter *)p->a.insns };
	struct sock_fprog b = { p->b.len, (struct sock_filter *)p->b.insns };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &a) < 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &b);
}

/* Makes the calls in a filtered child, which sends back their errnos. */
static void check_calls(const char *profile, const struct call *calls, size_t n)
{
	int *got = mmap(NULL, n * sizeof(*got), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	size_t i;
	pid_t pid;

	cr_assert_neq(got, MAP_FAILED);
	pid = fork();
	if (pid == 0) {
		if (install(profile) < 0)
			_exit(100);
		for (i = 0; i < n; i++) {
			const long *a = calls[i].a;

			errno = 0;
			got[i] = syscall(calls[i].nr, a[0], a[1], a[2], a[3], a[4], a[5]) < 0 ? errno : 0;
		}
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child ended with %#x", status);
	for (i = 0; i < n; i++)
		if (calls[i].want)
			cr_expect_eq(got[i], calls[i].want, "%s %s: %s", profile, calls[i].what, strerror(got[i]));
		else
			cr_expect(got[i] != EPERM && got[i] != ENOSYS && got[i] != EAFNOSUPPORT, "%s %s: %s",
				  profile, calls[i].what, strerror(got[i]));
	munmap(got, n * sizeof(*got));
}

Test(seccomp_install, K01_to_K12_standard_answers_real_calls)
{
	check_calls("standard", standard_calls, ARRAY_LEN(standard_calls));
}

Test(seccomp_install, dev_opens_tracing_and_no_more)
{
	check_calls("dev", dev_calls, ARRAY_LEN(dev_calls));
}

Test(seccomp_install, strict_closes_splice_and_the_network)
{
	check_calls("strict", strict_calls, ARRAY_LEN(strict_calls));
}

/* The signal that ended a child running fn under the profile, or none; 0 when it exited. */
static int death(const char *profile, void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (profile && install(profile) < 0)
			_exit(100);
		fn();
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

#ifdef __x86_64__
static void call_i386(void)
{
	long r;

	/* getpid in the i386 table */
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory", "r8", "r9", "r10", "r11");
}

static void call_x32(void)
{
	syscall(0x40000000 | SYS_getpid);
}

Test(seccomp_install, K10_i386_and_x32_calls_kill)
{
	static const char *const profiles[] = { "strict", "standard", "dev" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(profiles); i++)
		cr_expect_eq(death(profiles[i], call_x32), SIGSYS, "%s", profiles[i]);
	if (death(NULL, call_i386) != 0)
		cr_skip_test("this kernel has no i386 calls");
	for (i = 0; i < ARRAY_LEN(profiles); i++)
		cr_expect_eq(death(profiles[i], call_i386), SIGSYS, "%s", profiles[i]);
}
#endif

static void *thread_body(void *arg)
{
	return arg;
}

/* What programs do all day; a missing call would end in a signal or a non-zero status. */
static void live(void)
{
	int fds[2], status;
	pthread_t t;
	char c = 0;
	pid_t pid;

	if (pthread_create(&t, NULL, thread_body, NULL) || pthread_join(t, NULL) || pipe(fds) < 0)
		abort();
	pid = fork();
	if (pid == 0)
		_exit(write(fds[1], "x", 1) == 1 ? 0 : 1);
	if (pid < 0 || read(fds[0], &c, 1) != 1 || c != 'x' || waitpid(pid, &status, 0) != pid || status)
		abort();
	if (!freopen("/dev/null", "r", stdin) || system("true | cat >/dev/null"))
		abort();
}

Test(seccomp_install, threads_forks_and_shells_live_under_every_profile)
{
	cr_expect_eq(death("strict", live), 0);
	cr_expect_eq(death("standard", live), 0);
	cr_expect_eq(death("dev", live), 0);
}
