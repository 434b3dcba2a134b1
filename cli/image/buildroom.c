/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/buildroom.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/newmount.h"

#define FAILED 125

static int set_read_only(const char *path, int on)
{
	struct mount_attr a = {.attr_set = on ? MOUNT_ATTR_RDONLY : 0,
			       .attr_clr = on ? 0 : MOUNT_ATTR_RDONLY};

	return (int)syscall(SYS_mount_setattr, AT_FDCWD, path, AT_RECURSIVE, &a, sizeof(a));
}

static int attach(int mount_fd, const char *place, struct err *e)
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
static int show(const char *root, const char *path, struct err *e)
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

static int make_dirs(const char *root, const char *path, struct err *e)
{
	autoclose int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclose int made = fd < 0 ? -1 :
				      path_mkdirs_in_root(fd, path, 0755, (uid_t)-1, (gid_t)-1, e);

	return fd < 0 ? err_sys(e, "open %s", root) : made < 0 ? -1 : 0;
}

static int show_all(const struct buildroom *r, struct err *e)
{
	static const char *const dirs[] = {"/dev", "/etc/ssl", "/run/build", "/tmp", "/root",
					   "/var/cache", "/var/tmp"};
	static const char *const paths[] = {
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/proc",
		"/sys", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
		"/dev/tty", "/etc/passwd", "/etc/group", "/etc/hosts", "/etc/resolv.conf",
		"/etc/nsswitch.conf", "/etc/ssl/certs",
		"/etc/ld.so.cache"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (make_dirs(r->hidden, dirs[i], e) < 0)
			return -1;
	for (i = 0; i < ARRAY_LEN(paths); i++)
		if (show(r->hidden, paths[i], e) < 0)
			return -1;
	if (!strncmp(r->programs, "/usr/", 5))
		return 0;
	return make_dirs(r->hidden, r->programs, e) < 0 ? -1 : show(r->hidden, r->programs, e);
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
	static const char *const writable[] = {"/proc", "/sys/fs/cgroup"};
	size_t i;

	if (mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "make the mounts private");
	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return err_sys(e, "mount /proc");
	if (set_read_only("/", 1) < 0)
		return err_sys(e, "make the host read-only");
	for (i = 0; i < ARRAY_LEN(writable); i++)
		if (set_read_only(writable[i], 0) < 0)
			return err_sys(e, "make %s writable", writable[i]);
	if (make_root(r, e) < 0 || attach(r->root_fd, BUILDROOM_PLACE, e) < 0 ||
	    (r->context_fd >= 0 && attach(r->context_fd, BUILDROOM_PLACE "/context", e) < 0))
		return -1;
	/* buildah keeps large files in /var/tmp */
	if (mount(BUILDROOM_PLACE "/tmp", "/var/tmp", NULL, MS_BIND, NULL) < 0)
		return err_sys(e, "mount /var/tmp");
	return chdir(BUILDROOM_PLACE) < 0 ? err_sys(e, "enter " BUILDROOM_PLACE) : 0;
}

/* The first process of the new pid namespace; errors go where the output goes. */
static void be_first(const struct buildroom *r, const char *program, char *const *argv,
		     char *const *env, int out_fd) __attribute__((noreturn));
static void be_first(const struct buildroom *r, const char *program, char *const *argv,
		     char *const *env, int out_fd)
{
	int null = open("/dev/null", O_RDONLY);
	int status = FAILED;
	struct err e;
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(out_fd, 1) < 0 || dup2(out_fd, 2) < 0)
		_exit(FAILED);
	if (furnish(r, &e) < 0) {
		dprintf(2, "%s\n", e.msg);
		_exit(FAILED);
	}
	pid = fork();
	if (pid == 0) {
		execve(program, argv, env);
		dprintf(2, "start %s: %s\n", program, strerror(errno));
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

static void be_outer(const struct buildroom *r, const char *program, char *const *argv,
		     char *const *env, int out_fd) __attribute__((noreturn));
static void be_outer(const struct buildroom *r, const char *program, char *const *argv,
		     char *const *env, int out_fd)
{
	int status = 0;
	pid_t inner;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setns(r->net_fd, CLONE_NEWNET) < 0 ||
	    unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS) < 0) {
		dprintf(out_fd, "make namespaces for a build: %s\n", strerror(errno));
		_exit(FAILED);
	}
	inner = fork();
	if (inner == 0)
		be_first(r, program, argv, env, out_fd);
	close(out_fd);
	while (inner > 0 && waitpid(inner, &status, 0) < 0 && errno == EINTR)
		;
	_exit(inner > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : FAILED);
}

pid_t buildroom_start(const struct buildroom *r, const char *program, char *const *argv,
		      char *const *env, int out_fd, struct err *e)
{
	autoclose int root = r->is_mount ? -1 : newmount_clone(r->root_fd, "", 0, 0, e);
	autoclose int context =
		r->context_fd < 0 ? -1 : newmount_clone(r->context_fd, "", 0, MOUNT_ATTR_RDONLY, e);
	struct buildroom inside = *r;
	pid_t pid;

	if ((!r->is_mount && root < 0) || (r->context_fd >= 0 && context < 0))
		return -1;
	inside.root_fd = r->is_mount ? r->root_fd : root;
	inside.context_fd = context;
	pid = fork();
	if (pid == 0)
		be_outer(&inside, program, argv, env, out_fd);
	return pid < 0 ? err_sys(e, "fork") : pid;
}
