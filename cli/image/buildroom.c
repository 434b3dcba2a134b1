/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S50 of SECURITY.md. */
/*
 * Theory of operation.  The caller makes a user namespace that maps the range of ids of the
 * build's sandbox, and a copy of the context through it.  be_outer(), root of the host, joins the
 * sandbox's cgroups and network, leaves the other namespaces and waits.  be_first(), pid 1 of the
 * new pid namespace, makes the root, then enters the user namespace and becomes its root, and gives up
 * what a build does not need: from there on no process of the build has rights on the host, and
 * what buildah reads is hostile.  The mounts are copied to a mount namespace of that user
 * namespace, which locks them (mount_namespaces(7)).
 */
#include "cli/image/buildroom.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/newmount.h"
#include "runtime/kernel/procmask.h"
#include "runtime/kernel/rlimits.h"
#include "runtime/kernel/userns.h"
#include "seccomp/seccomp.h"

#define FAILED 125

static int set_read_only(const char *path, int on)
{
	struct mount_attr a = {.attr_set = on ? MOUNT_ATTR_RDONLY : 0,
			       .attr_clr = on ? 0 : MOUNT_ATTR_RDONLY};

	return (int)syscall(SYS_mount_setattr, AT_FDCWD, path, AT_RECURSIVE, &a, sizeof(a));
}

static int attach_room_mount(int mount_fd, const char *place, struct err *e)
{
	autoclose int target = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (target < 0)
		return err_sys(e, "open %s", place);
	return newmount_attach(mount_fd, target, place, e);
}

static int mount_tmpfs(const char *where, unsigned long flags, const char *data, struct err *e)
{
	return mount("tmpfs", where, "tmpfs", MS_NOSUID | MS_NODEV | flags, data) < 0 ?
		       err_sys(e, "mount %s", where) :
		       0;
}

/* ---- the root that buildah sees --------------------------------------------------------------
 *
 * buildah 1.28 follows links of a base image outside of it (CVE-2024-1753), so what a Dockerfile
 * mounts may be any file that buildah sees: it sees programs, and no files of the host's users.
 */

/* A copy of a symbolic link, or the file or directory itself, at the same path in the new root. */
static int show_in_room(const char *root, const char *path, struct err *e)
{
	char target[PATH_MAX], link[256];
	struct stat st;
	ssize_t n;
	int fd;

	if (snprintf(target, sizeof(target), "%s%s", root, path) >= (int)sizeof(target))
		return err_set(e, ERR_LIMIT, "the path %.200s is too long", path);
	n = readlink(path, link, sizeof(link) - 1);
	if (n > 0 && strncmp(path, "/etc/", 5) != 0) { /* those lead into what is not shown */
		link[n] = '\0';
		return symlink(link, target) < 0 ? err_sys(e, "make the link %s", target) : 0;
	}
	if (stat(path, &st) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "look at %s", path);
	if (S_ISDIR(st.st_mode)) {
		if (mkdir(target, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "make %s", target);
	} else {
		fd = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
		if (fd < 0)
			return err_sys(e, "make %s", target);
		close(fd);
	}
	return mount(path, target, NULL, MS_BIND | MS_REC, NULL) < 0 ?
		       err_sys(e, "mount %s", target) :
		       0;
}

static int make_room_dirs(const char *root, const char *path, struct err *e)
{
	autoclose int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclose int made = fd < 0 ? -1 :
				      path_mkdirs_in_root(fd, path, 0755, (uid_t)-1, (gid_t)-1, e);

	return fd < 0 ? err_sys(e, "open %s", root) : made < 0 ? -1 : 0;
}

/* A directory of the host at another path: its own may lie where the room has directories of its own, as /tmp. */
static int show_at(const char *root, const char *path, const char *as, struct err *e)
{
	char target[PATH_MAX];

	if (make_room_dirs(root, as, e) < 0)
		return -1;
	if (snprintf(target, sizeof(target), "%s%s", root, as) >= (int)sizeof(target))
		return err_set(e, ERR_LIMIT, "the path %.200s is too long", root);
	return mount(path, target, NULL, MS_BIND | MS_REC, NULL) < 0 ? err_sys(e, "mount %s", target) : 0;
}

static int make_room_sys(const char *root, struct err *e)
{
	autoclose int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclose int sys = fd < 0 ? -1 : openat(fd, "sys", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return sys < 0 ? err_sys(e, "open %s/sys", root) : sysfiles_make(sys, e);
}

static int show_all(const struct buildroom *r, struct err *e)
{
	static const char *const dirs[] = {"/dev", "/etc/ssl", "/run/build", "/tmp", "/root",
					   "/sys", "/var/cache", "/var/tmp"};
	static const char *const paths[] = {
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc",
		"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
		"/dev/tty", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf",
		"/etc/nsswitch.conf", "/etc/ssl/certs",
		"/etc/ld.so.cache"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (make_room_dirs(r->hidden, dirs[i], e) < 0)
			return -1;
	for (i = 0; i < ARRAY_LEN(paths); i++)
		if (show_in_room(r->hidden, paths[i], e) < 0)
			return -1;
	if (make_room_sys(r->hidden, e) < 0)
		return -1;
	return show_at(r->hidden, r->programs, BUILDROOM_PROGRAMS, e);
}

/* Makes the tmpfs at the state directory the root, which hides that directory, too. */
static int make_root(const struct buildroom *r, struct err *e)
{
	if (mount_tmpfs(r->hidden, 0, "size=20m,mode=755", e) < 0 || show_all(r, e) < 0)
		return -1;
	if (chdir(r->hidden) < 0)
		return err_sys(e, "enter the root of a build");
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(e, "pivot_root");
	return umount2(".", MNT_DETACH) < 0 || chdir("/") < 0 ?
		       err_sys(e, "leave the root of the host") :
		       0;
}

/* What is seen of the host is read-only; the caller's mounts stay as they are. */
static int furnish(const struct buildroom *r, struct err *e)
{
	static const char *const temporary[] = {"/var/tmp", "/tmp", "/var/cache"};
	size_t i;

	umask(022);
	if (mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "make the mounts private");
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return err_sys(e, "mount /proc");
	if (set_read_only("/", 1) < 0)
		return err_sys(e, "make the host read-only");
	/* a user namespace mounts no procfs with more rights than the one that it sees */
	if (set_read_only("/proc", 0) < 0)
		return err_sys(e, "make /proc writable");
	if (make_root(r, e) < 0 || attach_room_mount(r->root_fd, BUILDROOM_PLACE, e) < 0 ||
	    (r->context_fd >= 0 && attach_room_mount(r->context_fd, BUILDROOM_PLACE "/context", e) < 0))
		return -1;
	for (i = 0; i < ARRAY_LEN(temporary); i++)
		if (mount(BUILDROOM_PLACE "/tmp", temporary[i], NULL, MS_BIND, NULL) < 0)
			return err_sys(e, "mount %s", temporary[i]);
	return chdir(BUILDROOM_PLACE) < 0 ? err_sys(e, "enter " BUILDROOM_PLACE) : 0;
}

/* ---- the end of the host's rights -------------------------------------------------------- */

/*
 * What buildah needs: owners, modes and links of files, mounts, and to lay all of it down for a
 * RUN.  All of it counts in the user namespace of the build alone.
 */
static const uint64_t builder_caps = 1ULL << CAP_CHOWN | 1ULL << CAP_DAC_OVERRIDE | 1ULL << CAP_DAC_READ_SEARCH |
				     1ULL << CAP_FOWNER | 1ULL << CAP_FSETID | 1ULL << CAP_KILL | 1ULL << CAP_SETGID |
				     1ULL << CAP_SETUID | 1ULL << CAP_SETPCAP | 1ULL << CAP_NET_BIND_SERVICE |
				     1ULL << CAP_SYS_CHROOT | 1ULL << CAP_SYS_ADMIN | 1ULL << CAP_MKNOD |
				     1ULL << CAP_SETFCAP;

static int enter_builder_userns(const struct buildroom *r, struct err *e)
{
	if (setns(r->userns_fd, CLONE_NEWUSER) < 0)
		return err_sys(e, "enter the user namespace of a build");
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return err_sys(e, "take the ids of a build");
	/* cleared by the change of ids; and /proc/self is this process's own only while it is dumpable */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
		return err_sys(e, "tie a build to its maker");
	/* here and not before: berthd has no CAP_SYS_TIME on the host (manager/host/rights.h) */
	if (timens_unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS) < 0)
		return err_sys(e, "make the namespaces of a build");
	if (timens_zero(e) < 0)
		return -1;
	/* our memory is a copy of the host's root's */
	if (prctl(PR_SET_DUMPABLE, 0) < 0)
		return err_sys(e, "close a build's memory");
	if (setsid() < 0 && errno != EPERM)
		return err_sys(e, "start a session");
	return syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS ?
		       err_sys(e, "make a session keyring") :
		       0;
}

/* Of a RUN, and of buildah's helpers, a few at once; a filter is the second wall. */
static int limit_namespaces(struct err *e)
{
	static const struct {
		const char *kind, *max;
	} knobs[] = {{"user", "0"}, {"net", "0"},  {"cgroup", "0"}, {"time", "0"},
		     {"mnt", "256"}, {"pid", "64"}, {"ipc", "64"},   {"uts", "64"}};
	size_t i;

	for (i = 0; i < ARRAY_LEN(knobs); i++) {
		char path[64];
		autoclose int fd = -1;

		snprintf(path, sizeof(path), "/proc/sys/user/max_%s_namespaces", knobs[i].kind);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT && !strcmp(knobs[i].kind, "time"))
			continue; /* before Linux 5.6 */
		if (fd < 0 || io_write_all(fd, knobs[i].max, strlen(knobs[i].max)) < 0)
			return err_sys(e, "limit the %s namespaces of a build", knobs[i].kind);
	}
	return 0;
}

static int limit_builder_resources(struct err *e)
{
	struct rlimits l;
	int i;

	rlimits_default(&l);
	if (rlimits_fit(&l, 0, e) < 0)
		return -1;
	for (i = 0; i < RLIMITS_COUNT; i++) {
		const struct rlimit one = {l.v[i].soft, l.v[i].hard};

		if (l.set >> i & 1 && setrlimit(i, &one) < 0)
			return err_sys(e, "set the limit %s", rlimits_name((unsigned)i));
	}
	return 0;
}

static int drop_builder_capabilities(struct err *e)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2];
	unsigned i;

	for (i = 0; i < 64; i++)
		if (!(builder_caps >> i & 1) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0 && errno != EINVAL)
			return err_sys(e, "drop capability %u", i);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 || syscall(SYS_capget, &h, d) < 0)
		return err_sys(e, "read capabilities");
	for (i = 0; i < 2; i++) {
		d[i].inheritable = 0;
		d[i].permitted &= (uint32_t)(builder_caps >> (32 * i));
		d[i].effective = d[i].permitted;
	}
	return syscall(SYS_capset, &h, d) < 0 ? err_sys(e, "drop capabilities") : 0;
}

static int load_builder_filters(struct err *e)
{
	const struct seccomp_profile *p = seccomp_builtin("builder");
	const struct seccomp_filter *const filters[] = {&p->a, &p->b};
	size_t i;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	for (i = 0; i < ARRAY_LEN(filters); i++) {
		const struct sock_fprog prog = {filters[i]->len, (struct sock_filter *)(size_t)filters[i]->insns};

		if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
			return err_filter(e, "the filter of a build", filters[i]->len);
	}
	return 0;
}

static int confine_builder(const struct buildroom *r, struct err *e)
{
	if (enter_builder_userns(r, e) < 0 || limit_namespaces(e) < 0 || limit_builder_resources(e) < 0)
		return -1;
	if (syscall(SYS_close_range, 3, ~0U, 0) < 0)
		return err_sys(e, "close descriptors");
	return drop_builder_capabilities(e) < 0 ? -1 : load_builder_filters(e);
}

/* ---- processes ----------------------------------------------------------------------------- */

/* The first process of the new pid namespace; errors go where the output goes. */
static void be_first(const struct buildroom *r, const struct buildroom_task *t) __attribute__((noreturn));
static void be_first(const struct buildroom *r, const struct buildroom_task *t)
{
	int status = FAILED;
	struct err e;
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(t->in_fd, 0) < 0 || dup2(t->out_fd, 1) < 0 || dup2(t->out_fd, 2) < 0)
		_exit(FAILED);
	if (furnish(r, &e) < 0 || confine_builder(r, &e) < 0) {
		dprintf(2, "%s\n", e.msg);
		_exit(FAILED);
	}
	pid = fork();
	if (pid == 0) {
		if (t->run)
			_exit(t->run(t->ctx));
		execve(t->program, t->argv, t->env);
		dprintf(2, "start %s: %s\n", t->program, strerror(errno));
		_exit(errno == ENOENT ? 127 : FAILED);
	}
	/* it has orphans to wait for, too */
	while (pid > 0) {
		pid_t ended = waitpid(-1, &status, 0);

		if (ended == pid || (ended < 0 && errno != EINTR))
			break;
	}
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : FAILED);
}

/* The leaf where it has a directory, else the sandbox's own. */
static int join_build_cgroups(const struct buildroom *r, struct err *e)
{
	int i;

	for (i = 0; i < CGROUP_V1_COUNT; i++) {
		const int fd = r->leaf->v1_fd[i] >= 0 ? r->leaf->v1_fd[i] : r->cgroup->v1_fd[i];

		if (fd >= 0 && cgroup_write(fd, "tasks", "0") < 0)
			return err_sys(e, "join the cgroups of a build");
	}
	return cgroup_write(r->leaf->v2_fd, "cgroup.procs", "0") < 0 ? err_sys(e, "join the cgroup of a build") : 0;
}

/* The cgroup namespace stays the host's, not the build's: whoever owns one can mount the host's trees of cgroup v1. */
static int leave_host_namespaces(const struct buildroom *r, struct err *e)
{
	const int flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

	return setns(r->net_fd, CLONE_NEWNET) < 0 || unshare(flags) < 0 ?
		       err_sys(e, "make namespaces for a build") :
		       0;
}

static void be_outer(const struct buildroom *r, const struct buildroom_task *t) __attribute__((noreturn));
static void be_outer(const struct buildroom *r, const struct buildroom_task *t)
{
	int status = 0;
	struct err e;
	pid_t inner;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (join_build_cgroups(r, &e) < 0 || leave_host_namespaces(r, &e) < 0) {
		dprintf(t->out_fd, "%s\n", e.msg);
		_exit(FAILED);
	}
	inner = fork();
	if (inner == 0)
		be_first(r, t);
	/* the ends of pipes above all: what is in there waits for the end of its input */
	syscall(SYS_close_range, 3, ~0U, 0);
	while (inner > 0 && waitpid(inner, &status, 0) < 0 && errno == EINTR)
		;
	_exit(inner > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : FAILED);
}

/* A copy of the context in which its owners are the build's. */
static int copy_context(const struct buildroom *r, struct err *e)
{
	autoclose int copy = newmount_clone(r->context_fd, "", 0, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, e);

	if (copy < 0 || newmount_idmap(copy, 0, r->userns_fd, "the context", e) < 0)
		return copy < 0 ? -1 : err_hint(e, "send it as an archive: tar -c . | berth build -");
	return take_fd(&copy);
}

pid_t buildroom_start(const struct buildroom *r, const struct buildroom_task *t, struct err *e)
{
	autoclose int root = r->is_mount ? -1 : newmount_clone(r->root_fd, "", 0, 0, e);
	autoclose int context = r->context_fd < 0 ? -1 : copy_context(r, e);
	struct buildroom inside = *r;
	pid_t pid;

	if ((!r->is_mount && root < 0) || (r->context_fd >= 0 && context < 0))
		return -1;
	inside.root_fd = r->is_mount ? r->root_fd : root;
	if (r->is_mapped && newmount_idmap(inside.root_fd, 0, r->userns_fd, "the steps of builds", e) < 0)
		return -1;
	inside.context_fd = context;
	pid = fork();
	if (pid == 0)
		be_outer(&inside, t);
	return pid < 0 ? err_sys(e, "fork") : pid;
}
