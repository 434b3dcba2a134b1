/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S10 of SECURITY.md. */
#include "rootfs/layer/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <grp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

#if defined(__x86_64__)
#define CONFINE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define CONFINE_ARCH AUDIT_ARCH_AARCH64
#else
#error "confine.c needs the audit name of this architecture"
#endif

#if defined(__SANITIZE_ADDRESS__)
#define CONFINE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CONFINE_SANITIZED 1
#endif
#endif
#ifndef CONFINE_SANITIZED
#define CONFINE_SANITIZED 0
#endif

/* Newer than Debian 12's headers. */
#define ACCESS_FS_REFER (1ull << 13)
#define ACCESS_FS_TRUNCATE (1ull << 14)
#define ACCESS_FS_IOCTL_DEV (1ull << 15)
struct ruleset_v6 {
	uint64_t handled_access_fs, handled_access_net, scoped;
};

/* The calls needed to move bytes, allocate and end. */
static const unsigned int calls_filter[] = {
	__NR_read, __NR_write, __NR_readv, __NR_writev, __NR_close, __NR_fstat, __NR_lseek,
	__NR_brk, __NR_mmap, __NR_munmap, __NR_mremap, __NR_mprotect, __NR_madvise, __NR_futex,
	__NR_exit, __NR_exit_group, __NR_rt_sigreturn, __NR_rt_sigaction, __NR_rt_sigprocmask,
	__NR_clock_gettime, __NR_gettimeofday, __NR_getrandom, __NR_getpid, __NR_gettid, __NR_tgkill,
	__NR_sched_yield, __NR_restart_syscall, __NR_sigaltstack,
};

static const unsigned int calls_read[] = {
	__NR_openat, __NR_openat2, __NR_newfstatat, __NR_getdents64, __NR_readlinkat, __NR_pread64,
	__NR_fcntl, __NR_flistxattr, __NR_fgetxattr, __NR_getxattr, __NR_listxattr, __NR_dup,
	__NR_statx, __NR_fstatfs,
#ifdef __NR_time
	__NR_time,
#endif
};

static const unsigned int calls_write[] = {
	__NR_pwrite64, __NR_ftruncate, __NR_mkdirat, __NR_mknodat, __NR_symlinkat, __NR_linkat,
	__NR_unlinkat, __NR_fchmod, __NR_fchmodat, __NR_fchown, __NR_fchownat, __NR_utimensat,
	__NR_fsetxattr, __NR_renameat2, __NR_renameat,
};

static int close_others(const int *keep, size_t count, struct err *e)
{
	unsigned int from = 3;
	size_t i;

	if (count > 16)
		return err_set(e, ERR_INTERNAL, "confine: too many descriptors");
	for (;;) {	/* in rising order: close the gap before each */
		unsigned int next = ~0u;

		for (i = 0; i < count; i++)
			if (keep[i] >= 0 && (unsigned int)keep[i] >= from && (unsigned int)keep[i] < next)
				next = (unsigned int)keep[i];
		if (next != from && syscall(SYS_close_range, from, next == ~0u ? ~0u : next - 1, 0) < 0)
			return err_sys(e, "close descriptors");
		if (next == ~0u)
			return 0;
		from = next + 1;
	}
}

static int null_stdio(const int *keep, size_t count, struct err *e)
{
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	size_t i;
	int fd;

	if (null < 0)
		return err_sys(e, "open /dev/null");
	for (fd = 0; fd < 3; fd++) {
		for (i = 0; i < count && keep[i] != fd; i++)
			;
		if (i == count && dup2(null, fd) < 0)
			return err_sys(e, "replace descriptor %d", fd);
	}
	if (null < 3)
		take_fd(&null);
	return 0;
}

static int set_unpack_limits(uint64_t memory_bytes, struct err *e)
{
	const struct { int which; rlim_t value; } limits[] = {
		{ RLIMIT_CORE, 0 },
		{ RLIMIT_NOFILE, 1024 },
		{ RLIMIT_FSIZE, 21ull << 30 },
		{ RLIMIT_AS, memory_bytes },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(limits); i++) {
		struct rlimit rl;

		if (limits[i].which == RLIMIT_AS && CONFINE_SANITIZED)
			continue;
		if (getrlimit(limits[i].which, &rl) < 0)
			return err_sys(e, "read a resource limit");
		if (rl.rlim_max == RLIM_INFINITY || rl.rlim_max > limits[i].value)
			rl.rlim_max = limits[i].value;
		rl.rlim_cur = rl.rlim_max;
		if (setrlimit(limits[i].which, &rl) < 0)
			return err_sys(e, "set a resource limit");
	}
	return 0;
}

static int drop_caps(uint64_t allowed, struct err *e)
{
	struct __user_cap_header_struct hdr = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2] = { { 0 }, { 0 } };
	int cap;

	for (cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAPBSET_READ, cap) < 0)
			break;
		if (!(allowed >> cap & 1) && prctl(PR_CAPBSET_DROP, cap) < 0)
			return err_sys(e, "drop capability %d", cap);
	}
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capget, &hdr, data) < 0)
		return err_sys(e, "read capabilities");
	data[0].permitted &= (uint32_t)allowed;
	data[1].permitted &= (uint32_t)(allowed >> 32);
	data[0].effective = data[0].permitted;
	data[1].effective = data[1].permitted;
	data[0].inheritable = data[1].inheritable = 0;
	if (syscall(SYS_capset, &hdr, data) < 0)
		return err_sys(e, "drop capabilities");
	return 0;
}

static int landlock_layer(int root_fd, int also_fd, uint64_t rights, struct err *e)
{
	int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct ruleset_v6 rs = { .handled_access_fs = (1ull << 13) - 1 };
	struct landlock_path_beneath_attr rule = { .parent_fd = root_fd };
	autoclose int fd = -1;
	size_t size = 8;

	if (abi < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : err_sys(e, "ask for Landlock");
	if (abi >= 2)
		rs.handled_access_fs |= ACCESS_FS_REFER;
	else if (rights & ACCESS_FS_REFER)
		return 0;	/* the first version of Landlock forbids all hard links across directories */
	if (abi >= 3)
		rs.handled_access_fs |= ACCESS_FS_TRUNCATE;
	if (abi >= 4) {
		rs.handled_access_net = 3;	/* bind and connect */
		size = 16;
	}
	if (abi >= 5)
		rs.handled_access_fs |= ACCESS_FS_IOCTL_DEV;
	if (abi >= 6) {
		rs.scoped = 3;			/* abstract sockets and signals */
		size = 24;
	}
	fd = (int)syscall(SYS_landlock_create_ruleset, &rs, size, 0);
	if (fd < 0)
		return err_sys(e, "make a Landlock rule set");
	rule.allowed_access = rights & rs.handled_access_fs;
	if (root_fd >= 0 && syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_sys(e, "add a Landlock rule");
	rule.parent_fd = also_fd;
	if (also_fd >= 0 && syscall(SYS_landlock_add_rule, fd, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_sys(e, "add a Landlock rule");
	if (syscall(SYS_landlock_restrict_self, fd, 0) < 0)
		return err_sys(e, "apply Landlock");
	return 0;
}

static size_t add_layer_calls(struct sock_filter *f, size_t n, const unsigned int *calls, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
		f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	return n;
}

static int filter_layer_calls(enum confine_role role, struct err *e)
{
	struct sock_filter f[4 + 2 * (ARRAY_LEN(calls_filter) + ARRAY_LEN(calls_read) +
				     ARRAY_LEN(calls_write)) + 1];
	struct sock_fprog prog = { .filter = f };
	size_t n = 0;

	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CONFINE_ARCH, 1, 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	n = add_layer_calls(f, n, calls_filter, ARRAY_LEN(calls_filter));
	if (role != CONFINE_FILTER)
		n = add_layer_calls(f, n, calls_read, ARRAY_LEN(calls_read));
	if (role == CONFINE_WRITE)
		n = add_layer_calls(f, n, calls_write, ARRAY_LEN(calls_write));
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	prog.len = (unsigned short)n;
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0)
		return err_sys(e, "apply the system call filter");
	return 0;
}

/* Its ids have no meaning on the host; its rights count only in this namespace. */
static int enter_unpack_userns(int userns_fd, struct err *e)
{
	if (setns(userns_fd, CLONE_NEWUSER) < 0)
		return err_sys(e, "enter the user namespace for unpacking");
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(e, "take the ids of the user namespace");
	return 0;
}

int confine_child(const struct confine *c, struct err *e)
{
	static const uint64_t caps[] = {
		[CONFINE_FILTER] = 0,
		[CONFINE_WRITE] = 1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_FOWNER |
				  1ull << CAP_FSETID,
		[CONFINE_READ] = 1ull << CAP_DAC_READ_SEARCH,
	};
	static const uint64_t rights[] = {
		[CONFINE_FILTER] = 0,
		/* all rights but execute and making sockets and block devices; MAKE_CHAR is for whiteouts */
		[CONFINE_WRITE] = (((1ull << 13) - 1) & ~(LANDLOCK_ACCESS_FS_EXECUTE |
				  LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_BLOCK)) |
				  ACCESS_FS_REFER | ACCESS_FS_TRUNCATE,
		[CONFINE_READ] = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
	};
	const int has_root = c->role != CONFINE_FILTER;

	umask(0);
	if (null_stdio(c->keep, c->keep_count, e) < 0)
		return -1;
	if (c->userns_fd >= 0 && enter_unpack_userns(c->userns_fd, e) < 0)
		return -1;
	if (close_others(c->keep, c->keep_count, e) < 0)
		return -1;
	/* after the change of ids, which clears both */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
		return err_sys(e, "tie the unpacking process to its parent");
	if (getppid() != c->parent)	/* the parent died before the line above */
		return err_set(e, ERR_INTERNAL, "the importing process is gone");
	if (has_root) {
		if (unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC) < 0)
			return err_sys(e, "leave the host's namespaces");
		if (fchdir(c->root_fd) < 0 || chroot(".") < 0)
			return err_sys(e, "make the tree the root directory");
	}
	if (set_unpack_limits(c->memory_bytes, e) < 0 || drop_caps(caps[c->role], e) < 0)
		return -1;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	if (landlock_layer(has_root ? c->root_fd : -1, has_root ? c->also_fd : -1, rights[c->role], e) < 0)
		return -1;
	return filter_layer_calls(c->role, e);
}

/* ---- the user namespace ---- */

static int map_unpack_ids(pid_t pid, struct err *e)
{
	static const char *const files[] = { "uid_map", "gid_map" };
	char path[40], map[40];
	size_t i;

	snprintf(map, sizeof(map), "0 %u %u\n", CONFINE_IDS_FIRST, CONFINE_IDS);
	for (i = 0; i < ARRAY_LEN(files); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[i]);
		if (io_write_file(AT_FDCWD, path, map, e) < 0)
			return err_wrap(e, "map the ids for unpacking");
	}
	return 0;
}

int confine_userns(struct err *e)
{
	char path[40], c;
	int sync[2], fd = -1;
	pid_t pid, me = getpid();

	if (pipe2(sync, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	/* a process that only lends its namespace */
	pid = fork();
	if (!pid) {
		/* otherwise nothing would end this process */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != me || unshare(CLONE_NEWUSER) < 0 || write(sync[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(sync[1]);
	if (pid < 0) {
		err_sys(e, "fork");
	} else if (io_read_exact(sync[0], &c, 1) != 1) {
		err_set(e, ERR_UNSUPPORTED, "cannot make a user namespace for unpacking; hint: berth doctor shows why");
	} else if (!map_unpack_ids(pid, e)) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			err_sys(e, "open the user namespace for unpacking");
	}
	close(sync[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	return fd;
}

int confine_mount(int dir_fd, int userns_fd, struct err *e)
{
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
				.propagation = MS_PRIVATE, .userns_fd = (uint64_t)userns_fd };
	autoclose int mnt = open_tree(dir_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	int fd;

	if (mnt < 0)
		return err_sys(e, "copy the mount of the image store");
	if (mount_setattr(mnt, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		return errno == EINVAL || errno == EPERM ?
			err_code_sys(e, ERR_UNSUPPORTED, "map ids in the image store: its file system has no idmapped mounts in "
				     "this kernel; hint: set state_dir to a directory on ext4, xfs or btrfs") :
			err_sys(e, "map ids in the image store");
	fd = openat(mnt, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open the layer's directory") : fd;
}
