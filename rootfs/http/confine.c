/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S17 of SECURITY.md. */
#include "rootfs/http/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

#if defined(__x86_64__)
#define HTTP_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define HTTP_ARCH AUDIT_ARCH_AARCH64
#else
#error "httpconfine.c needs the audit name of this architecture"
#endif

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define NOBODY 65534
#define MEMORY_BYTES (1ull << 30)
#define DESCRIPTORS 256

/* Newer than Debian 12's headers. */
#define ACCESS_FS_REFER (1ull << 13)
#define ACCESS_FS_TRUNCATE (1ull << 14)
#define ACCESS_FS_IOCTL_DEV (1ull << 15)
#define ACCESS_NET_BIND (1ull << 0)
struct ruleset_v6 {
	uint64_t handled_access_fs, handled_access_net, scoped;
};

static const unsigned int calls[] = {
	__NR_read, __NR_write, __NR_readv, __NR_writev, __NR_pread64, __NR_pwrite64, __NR_close, __NR_fstat,
	__NR_newfstatat, __NR_statx, __NR_lseek, __NR_openat, __NR_readlinkat, __NR_getdents64, __NR_faccessat,
	__NR_faccessat2, __NR_fcntl, __NR_ioctl, __NR_dup, __NR_pipe2, __NR_eventfd2, __NR_fstatfs, __NR_statfs,
	__NR_getcwd,
	__NR_brk, __NR_mmap, __NR_munmap, __NR_mremap, __NR_mprotect, __NR_madvise, __NR_membarrier,
	__NR_futex, __NR_set_robust_list, __NR_rseq, __NR_exit, __NR_exit_group, __NR_sched_yield,
	__NR_sched_getaffinity, __NR_sched_getparam, __NR_sched_getscheduler,
	__NR_rt_sigreturn, __NR_rt_sigaction, __NR_rt_sigprocmask, __NR_sigaltstack, __NR_restart_syscall, __NR_tgkill,
	__NR_clock_gettime, __NR_clock_getres, __NR_clock_nanosleep, __NR_nanosleep, __NR_gettimeofday, __NR_getrandom,
	__NR_getpid, __NR_gettid, __NR_getuid, __NR_geteuid, __NR_getgid, __NR_getegid, __NR_uname, __NR_sysinfo,
	__NR_prlimit64, __NR_getrusage,
	__NR_socket, __NR_socketpair, __NR_connect, __NR_getsockopt, __NR_setsockopt, __NR_getsockname, __NR_getpeername,
	__NR_sendto, __NR_recvfrom, __NR_sendmsg, __NR_recvmsg, __NR_sendmmsg, __NR_recvmmsg, __NR_shutdown, __NR_bind,
	__NR_ppoll, __NR_pselect6, __NR_epoll_create1, __NR_epoll_ctl, __NR_epoll_pwait,
#ifdef __NR_open
	__NR_open, __NR_stat, __NR_lstat, __NR_access, __NR_readlink, __NR_poll, __NR_select, __NR_epoll_wait,
	__NR_time, __NR_getrlimit, __NR_pipe,
#endif
};

int http_confine_begin(int keep_fd, struct err *e)
{
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct rlimit core = { 0 }, files = { DESCRIPTORS, DESCRIPTORS }, memory = { MEMORY_BYTES, MEMORY_BYTES };
	int fd;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 || setrlimit(RLIMIT_CORE, &core) < 0)
		return err_sys(e, "tie the network process to its parent");
	if (null < 0)
		return err_sys(e, "open /dev/null");
	/* a sanitizer's report must be seen; else nothing from the network reaches the terminal */
	for (fd = 0; fd < (SANITIZED ? 2 : 3); fd++)
		if (fd != keep_fd && dup2(null, fd) < 0)
			return err_sys(e, "replace descriptor %d", fd);
	if (syscall(SYS_close_range, (unsigned int)keep_fd + 1, ~0u, 0) < 0)
		return err_sys(e, "close descriptors");
	if (null > keep_fd)
		take_fd(&null);
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 || (!SANITIZED && setrlimit(RLIMIT_AS, &memory) < 0))
		return err_sys(e, "set resource limits");
	return 0;
}

static int allow_reading(int rules, const char *path, int is_dir, struct err *e)
{
	struct landlock_path_beneath_attr rule = { .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE };
	autoclose int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open %s", path);
	if (is_dir)
		rule.allowed_access |= LANDLOCK_ACCESS_FS_READ_DIR;
	rule.parent_fd = fd;
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_sys(e, "add a Landlock rule for %s", path);
	return 0;
}

static int landlock_http(struct err *e)
{
	static const char *const dirs[] = { "/etc", "/usr", "/lib", "/lib64", "/run/systemd/resolve", "/run/resolvconf",
					    "/run/NetworkManager" };
	int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset_v6 rs = { .handled_access_fs = (1ull << 13) - 1 };
	autoclose int rules = -1;
	size_t size = 8, i;

	if (abi < 0)	/* the user id and the list of system calls bound the same accesses */
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : err_sys(e, "ask for Landlock");
	if (abi >= 2)
		rs.handled_access_fs |= ACCESS_FS_REFER;
	if (abi >= 3)
		rs.handled_access_fs |= ACCESS_FS_TRUNCATE;
	if (abi >= 4) {
		rs.handled_access_net = ACCESS_NET_BIND;
		size = 16;
	}
	if (abi >= 5)
		rs.handled_access_fs |= ACCESS_FS_IOCTL_DEV;
	if (abi >= 6) {
		rs.scoped = 3;
		size = 24;
	}
	rules = (int)syscall(SYS_landlock_create_ruleset, &rs, size, 0);
	if (rules < 0)
		return err_sys(e, "make a Landlock rule set");
	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (allow_reading(rules, dirs[i], 1, e) < 0)
			return -1;
	/* /etc/resolv.conf may be a link to anywhere */
	if (allow_reading(rules, "/etc/resolv.conf", 0, e) < 0 || allow_reading(rules, "/etc/hosts", 0, e) < 0)
		return -1;
	if (syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		return err_sys(e, "apply Landlock");
	return 0;
}

#define LOAD(field) (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what)
#define UNLESS(value, over) (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, over)

static int filter_http_calls(struct err *e)
{
	struct sock_filter f[16 + 2 * ARRAY_LEN(calls)];
	struct sock_fprog prog = { .filter = f };
	size_t n = 0, i;

	f[n++] = LOAD(arch);
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, HTTP_ARCH, 1, 0);
	f[n++] = RETURN(SECCOMP_RET_KILL_PROCESS);
	f[n++] = LOAD(nr);
	for (i = 0; i < ARRAY_LEN(calls); i++) {
		f[n++] = UNLESS(calls[i], 1);
		f[n++] = RETURN(SECCOMP_RET_ALLOW);
	}
	/*
	 * threads are allowed (libcurl resolves names in one), processes are not; clone3's flags
	 * cannot be seen
	 */
	f[n++] = UNLESS(__NR_clone3, 1);
	f[n++] = RETURN(SECCOMP_RET_ERRNO | ENOSYS);
	f[n++] = UNLESS(__NR_clone, 4);
	f[n++] = LOAD(args[0]);
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 2);
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x7e020000u | CLONE_NEWTIME, 1, 0);
	f[n++] = RETURN(SECCOMP_RET_ALLOW);
	f[n++] = RETURN(SECCOMP_RET_ERRNO | EPERM);
	prog.len = (unsigned short)n;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		return err_filter(e, "the system call filter", prog.len);
	return 0;
}

int http_confine_end(struct err *e)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	/* a process that stops being root loses its capabilities */
	if (!geteuid() && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
			   setresuid(NOBODY, NOBODY, NOBODY) < 0))
		return err_sys(e, "become nobody");
	/* the change of user reset both */
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_sys(e, "tie the network process to its parent");
	if (landlock_http(e) < 0)
		return -1;
	return filter_http_calls(e);
}
