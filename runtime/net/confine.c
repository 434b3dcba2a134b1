/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S14 of SECURITY.md. */
#include "runtime/net/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/landlock.h"

#define CONNECTIONS_FILES 900	/* 256 connections of two, and the resolver's; or 128 published ports and 64 peers */
#define MEMORY_MAX (256UL << 20)

/*
 * Makes an ended process's directory of /proc the root: it is empty for good, and holds no mount.
 */
static int empty_root(struct err *e)
{
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_FS | SIGCHLD, NULL, NULL, NULL, NULL);
	int status;

	if (pid == 0)
		_exit(chroot("/proc/self/fdinfo") < 0 || chdir("/") < 0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return err_sys(e, "enter an empty root directory");
	if (status)
		return err_set(e, ERR_INTERNAL, "enter an empty root directory");
	return 0;
}

static int limit_helper_resources(const struct confine_as *how, struct err *e)
{
	const struct { int what; rlim_t v; } limits[] = {
		{ RLIMIT_CORE, 0 }, { RLIMIT_NOFILE, how->files }, { RLIMIT_NPROC, 0 }, { RLIMIT_MEMLOCK, 0 },
#ifndef __SANITIZE_ADDRESS__
		{ RLIMIT_AS, how->memory_bytes },
#endif
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(limits); i++) {
		struct rlimit l = { limits[i].v, limits[i].v };

		if (setrlimit((__rlimit_resource_t)limits[i].what, &l) < 0)
			return err_sys(e, "limit the proxy's resources");
	}
	return 0;
}

/* The calls of the loop, the resolver and the allocator; every other call fails with EPERM. */
static const int allowed[] = {
	SCMP_SYS(read), SCMP_SYS(write), SCMP_SYS(readv), SCMP_SYS(writev), SCMP_SYS(recvfrom), SCMP_SYS(sendto), SCMP_SYS(recvmsg),
	SCMP_SYS(sendmsg), SCMP_SYS(close), SCMP_SYS(shutdown), SCMP_SYS(accept4),
	SCMP_SYS(setsockopt), SCMP_SYS(getsockopt), SCMP_SYS(getsockname), SCMP_SYS(getpeername), SCMP_SYS(fcntl),
	SCMP_SYS(epoll_wait), SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_ctl), SCMP_SYS(poll), SCMP_SYS(ppoll),
	SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday), SCMP_SYS(time), SCMP_SYS(getrandom), SCMP_SYS(brk), SCMP_SYS(mmap),
	SCMP_SYS(munmap), SCMP_SYS(mremap), SCMP_SYS(madvise), SCMP_SYS(fstat), SCMP_SYS(newfstatat), SCMP_SYS(lseek),
	SCMP_SYS(ftruncate), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigprocmask), SCMP_SYS(futex), SCMP_SYS(getpid),
	SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(restart_syscall), SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(ioctl),
};

static const int allowed_sockets[] = { SCMP_SYS(connect), SCMP_SYS(bind) };

static int filter(const struct confine_as *how, struct err *e)
{
	static const int families[] = { AF_INET, AF_INET6 };
	scmp_filter_ctx c = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	size_t i;
	int r = c ? 0 : -ENOMEM;

	for (i = 0; r == 0 && i < ARRAY_LEN(allowed); i++)
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, allowed[i], 0);
	for (i = 0; r == 0 && !how->no_sockets && i < ARRAY_LEN(allowed_sockets); i++)
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, allowed_sockets[i], 0);
	for (i = 0; r == 0 && !how->no_sockets && i < ARRAY_LEN(families); i++)
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]));
	/* no memory can become code */
	if (r == 0)
		r = seccomp_rule_add(c, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, 4, 0));
	if (r == 0)
		r = seccomp_load(c);
	seccomp_release(c);
	if (r < 0) {
		errno = -r;
		return err_filter(e, "the proxy's seccomp filter", 0);
	}
	/* read back: a call that is not in the list */
	if (syscall(SYS_getuid) != -1 || errno != EPERM)
		return err_set(e, ERR_INTERNAL, "the proxy is not confined: its filter refuses nothing");
	return 0;
}

static int read_back(uid_t uid, struct err *e)
{
	uid_t r, eff, saved;
	int fd;

	/* no file of the host can be opened, no process started, no capability used */
	if (getresuid(&r, &eff, &saved) < 0 || r != uid || eff != uid || saved != uid || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return err_set(e, ERR_INTERNAL, "the proxy is not confined: its ids or no_new_privs do not read back");
	fd = open("/etc", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fd = open("/proc", O_RDONLY | O_CLOEXEC);
	if (fd >= 0 || setresuid(0, 0, 0) == 0)
		return err_set(e, ERR_INTERNAL, "the proxy is not confined: it reaches the host's files or ids");
	return 0;
}

int confine(uid_t uid, pid_t parent, struct err *e)
{
	return confine_how(&(struct confine_as){ .uid = uid, .files = CONNECTIONS_FILES, .memory_bytes = MEMORY_MAX }, parent, e);
}

int confine_how(const struct confine_as *how, pid_t parent, struct err *e)
{
	const uid_t uid = how->uid;

	if (empty_root(e) < 0 || limit_helper_resources(how, e) < 0)
		return -1;
	if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
		return err_sys(e, "take the id %u", uid);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
		return err_sys(e, "give up privileges");
	/* cleared by the change of ids, so not earlier; then the parent may be gone already */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		return err_set(e, ERR_INTERNAL, "tie the proxy to its supervisor");
	if (landlock_seal(e) < 0 || read_back(uid, e) < 0)
		return -1;
	return filter(how, e);
}
