/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox side of mounts.h: runs in the child, with all capabilities in
 * the sandbox's own user namespace and none on the host.  After pivot_into_root()
 * the host's files can no longer be named; only then are image paths resolved.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/newmount.h"
#include "runtime/sandbox/mounts.h"

#ifndef ST_NOSYMFOLLOW
#define ST_NOSYMFOLLOW 0x2000	/* statfs(2), Linux 5.10 */
#endif

/*
 * Closing a detached mount costs its closer an RCU grace period. Mounts that are attached to the
 * tree that we remove are removed all at once. On kernels where the layers were attached
 * elsewhere there is nothing left to move.
 */
static void shed_spares(const struct mountplan *p)
{
	size_t i;

	for (i = 0; i < p->spare_count; i++)
		(void)!move_mount(p->spare[i], "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH);
}

static int pivot_into_root(const struct mountplan *p, int root_mnt, struct err *e)
{
	struct stat root, top;

	/* no mount of ours may propagate to the host, and none of the host's may arrive (K21) */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "make the mount namespace private");
	shed_spares(p);
	/* /proc is only a place that every host has; the root is stacked on it and then pivoted to */
	if (move_mount(root_mnt, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(e, "attach the root file system");
	if (fchdir(root_mnt) < 0)
		return err_sys(e, "enter the root file system");
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return err_sys(e, "pivot_root");
	/* the old root is stacked on the new one: "." is still it */
	if (umount2(".", MNT_DETACH) < 0)
		return err_sys(e, "detach the host's root");
	/* were anything stacked on the root still, ".." of it would lead there */
	if (chdir("/..") < 0 || fstat(root_mnt, &root) < 0 || stat(".", &top) < 0)
		return err_sys(e, "enter /");
	if (top.st_dev != root.st_dev || top.st_ino != root.st_ino)
		return err_set(e, ERR_INTERNAL, "the host's root can be reached yet");
	return 0;
}

/* The mount point of op: made when missing; a file for a file, a directory for a directory. */
static int open_target(int root, const struct mount_op *op, struct err *e)
{
	struct stat st;
	char parent[4096];
	autoclose int dir = -1;
	const char *slash;
	int fd;

	if (op->kind != MOUNT_BIND || fstat(op->fd, &st) < 0 || S_ISDIR(st.st_mode))
		return path_mkdirs_in_root(root, op->target, 0755, 0, 0, e);
	slash = strrchr(op->target, '/');
	snprintf(parent, sizeof(parent), "%.*s", slash == op->target ? 1 : (int)(slash - op->target), op->target);
	dir = path_mkdirs_in_root(root, parent, 0755, 0, 0, e);
	if (dir < 0)
		return -1;
	fd = openat(dir, slash + 1, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	fd = openat(dir, slash + 1, O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return err_sys(e, "make mount point %s in the sandbox", op->target);
	return fd;
}

static int attach_prepared_mount(int root, const struct mount_op *op, int mnt, struct err *e)
{
	autoclose int target = mnt < 0 ? -1 : open_target(root, op, e);

	return target < 0 ? -1 : newmount_attach(mnt, target, op->target, e);
}

int mounts_limit_namespaces(int knobs_fd, size_t max, struct err *e)
{
	static const char *const knobs[] = {
		"user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time",
	};
	char text[24];
	size_t i;

	snprintf(text, sizeof(text), "%zu", max);
	for (i = 0; i < ARRAY_LEN(knobs); i++) {
		char path[64];
		autoclose int fd = -1;

		snprintf(path, sizeof(path), "max_%s_namespaces", knobs[i]);
		fd = openat(knobs_fd, path, O_RDWR | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT && !strcmp(knobs[i], "time"))
			continue;	/* before Linux 5.6 */
		if (fd < 0 || io_write_all(fd, text, strlen(text)) < 0)
			return err_sys(e, "forbid further %s namespaces", knobs[i]);
	}
	return 0;
}

/*
 * A user namespace may mount procfs only where one is fully visible already
 * (mount_too_revealing() in fs/namespace.c): on the host's tree, so before we
 * leave it.  Detached until /proc of the sandbox exists.
 */
static int make_proc(const struct mountplan *p, const struct spec *s, struct err *e)
{
	const struct newmount_opt hide = { "hidepid", "ptraceable" };
	size_t i;
	int mnt;

	for (i = 0; i < p->count; i++)
		if (p->ops[i].kind == MOUNT_PROC)
			break;
	if (i == p->count)
		return err_set(e, ERR_INTERNAL, "a mount plan without /proc");
	mnt = newmount_fs("proc", &hide, s->hide_pids ? 1 : 0, p->ops[i].attr, e);
	if (mnt < 0 && e->os_errno == EPERM)
		err_hint(e, "berth runs where parts of /proc are masked, as inside another container");
	return mnt;
}

static int mount_own(int root, const struct mount_op *op, const struct newmount_opt *opts, size_t n, struct err *e)
{
	const char *type = op->kind == MOUNT_DEVPTS ? "devpts" : op->kind == MOUNT_MQUEUE ? "mqueue" : "cgroup2";
	autoclose int mnt = newmount_fs(type, opts, n, op->attr, e);

	return attach_prepared_mount(root, op, mnt, e);
}

/* our own procfs holds no links, but the root is opened without following any */
static int open_plain(const char *path, struct err *e)
{
	int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT)
		return err_sys(e, "open %s in the sandbox", path);
	return fd;
}

/*
 * From here to the seals all paths are in our own procfs, tmpfs and masks, whose names are all
 * berth's. mount(2) by name is one call; descriptors need six.
 */
static int bind_rdonly(const struct mount_op *op, struct err *e)
{
	struct mount_attr attr = { .attr_set = op->attr };

	if (mount(op->target, op->target, NULL, MS_BIND, NULL) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "bind %s on itself", op->target);
	if (mount_setattr(AT_FDCWD, op->target, AT_SYMLINK_NOFOLLOW, &attr, sizeof(attr)) < 0)
		return err_sys(e, "make %s read-only", op->target);
	return 0;
}

/* The first mask of each kind gets the attributes; the others are binds of it and inherit them. */
struct masks {
	const char *file, *dir;
};

static int first_mask(const struct mount_op *op, const char *source, struct err *e)
{
	struct mount_attr attr = { .attr_set = op->attr };

	if (mount(source, op->target, NULL, MS_BIND, NULL) < 0)
		return -1;	/* errno says */
	if (mount_setattr(AT_FDCWD, op->target, AT_SYMLINK_NOFOLLOW, &attr, sizeof(attr)) < 0)
		return err_sys(e, "make the mask on %s read-only", op->target);
	return 0;
}

/*
 * A mask of the wrong kind is refused only after the kernel has made the mount,
 * and taking that back waits for an RCU grace period: so the plan says the kind.
 */
static int mask_sandbox_path(const struct mount_op *op, struct masks *m, struct err *e)
{
	int dir = S_ISDIR(op->mode), tries;

	for (tries = 0; tries < 2; tries++, dir = !dir) {
		const char **known = dir ? &m->dir : &m->file;
		const char *source = *known ? *known : dir ? "/dev/" MOUNTS_MASK_DIR : "/dev/" MOUNTS_MASK_FILE;

		e->code = ERR_NONE;
		if (*known ? mount(source, op->target, NULL, MS_BIND, NULL) == 0 : first_mask(op, source, e) == 0) {
			*known = *known ? *known : op->target;
			return 0;
		}
		if (e->code != ERR_NONE)
			return -1;
		if (errno == ENOENT)
			return 0;
		if (errno != ENOTDIR)
			break;
	}
	return err_sys(e, "mask %s", op->target);
}

static int cover_boot_id(const struct mount_op *op, struct err *e)
{
	e->code = ERR_NONE;
	if (first_mask(op, "/dev/" MOUNTS_BOOT_FILE, e) == 0)
		return 0;
	if (e->code != ERR_NONE)
		return -1;
	return errno == ENOENT ? 0 : err_sys(e, "cover %s", op->target);
}

static int seal(const struct mount_op *op, struct err *e)
{
	autoclose int fd = open_plain(op->target, e);

	if (fd < 0)
		return err_set(e, ERR_SYS, "%s of the sandbox is gone", op->target);
	if (!strcmp(op->target, "/dev") &&
	    (unlinkat(fd, MOUNTS_MASK_FILE, 0) < 0 || unlinkat(fd, MOUNTS_MASK_DIR, AT_REMOVEDIR) < 0 ||
	     unlinkat(fd, MOUNTS_BOOT_FILE, 0) < 0))
		return err_sys(e, "remove the masks' names");
	return newmount_attr(fd, 0, op->attr, e);
}

static int enter_one(int root, const struct mount_op *op, int proc_mnt, struct masks *masks, struct err *e)
{
	static const struct newmount_opt pts[] = {
		{ "ptmxmode", "0666" }, { "mode", "0620" }, { "gid", "5" }, { "max", "64" },
	};

	switch (op->kind) {
	case MOUNT_ROOT:
		return 0;	/* mounts_enter_root() */
	case MOUNT_PROC:
		return attach_prepared_mount(root, op, proc_mnt, e);
	case MOUNT_DEVPTS:
		return mount_own(root, op, pts, ARRAY_LEN(pts), e);
	case MOUNT_MQUEUE:
	case MOUNT_CGROUP:
		return mount_own(root, op, NULL, 0, e);
	case MOUNT_RDONLY:
		return bind_rdonly(op, e);
	case MOUNT_MASK:
		return mask_sandbox_path(op, masks, e);
	case MOUNT_BOOT:
		return cover_boot_id(op, e);
	case MOUNT_SEAL:
		return seal(op, e);
	default:
		return attach_prepared_mount(root, op, op->fd, e);
	}
}

/* Init makes it too, but cannot once the root is sealed. */
static int make_sandbox_workdir(int root, const struct spec *s, struct err *e)
{
	autoclose int dir = path_mkdirs_in_root(root, s->workdir, 0755, 0, 0, e);

	return dir < 0 ? -1 : 0;
}

/* Runs in the sandbox's mount namespace, in which its tenant may have changed anything. */
int mounts_take_place(int mnt_fd, const char *target, uint64_t attr, struct err *e)
{
	const char *slash = strrchr(target, '/');
	char parent[4096];
	struct statvfs st;
	autoclose int dir = -1, place = -1, now = -1;

	snprintf(parent, sizeof(parent), "%.*s", slash == target ? 1 : (int)(slash - target), target);
	dir = path_openat2(AT_FDCWD, parent, O_PATH | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (dir < 0 || fchdir(dir) < 0)
		return err_sys(e, "open %s of the sandbox", parent);
	if (umount2(slash + 1, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
		return err_sys(e, "take away the mount at %s", target);
	place = openat(dir, slash + 1, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (place < 0)
		return err_sys(e, "open %s of the sandbox", target);
	if (newmount_attach(mnt_fd, place, target, e) < 0)
		return -1;
	now = openat(dir, slash + 1, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (now < 0 || fstatvfs(now, &st) < 0)
		return err_sys(e, "read back the mount at %s", target);
	return mounts_check_flags(target, st.f_flag, attr, e);
}

int mounts_check_flags(const char *target, unsigned long flag, uint64_t attr, struct err *e)
{
	static const struct { uint64_t attr; unsigned long flag; const char *name; } flags[] = {
		{ MOUNT_ATTR_RDONLY, ST_RDONLY, "read-only" }, { MOUNT_ATTR_NOSUID, ST_NOSUID, "nosuid" },
		{ MOUNT_ATTR_NODEV, ST_NODEV, "nodev" }, { MOUNT_ATTR_NOEXEC, ST_NOEXEC, "noexec" },
		{ MOUNT_ATTR_NOSYMFOLLOW, ST_NOSYMFOLLOW, "nosymfollow" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(flags); i++)
		if (attr & flags[i].attr && !(flag & flags[i].flag))
			return err_set(e, ERR_INTERNAL, "the kernel does not report %s as %s", target, flags[i].name);
	return 0;
}

/*
 * What users of the sandbox other than its root may do in its own network namespace, where no port and no echo is
 * the host's: listen on ports below 1024; and, with a way out, ping without a right (icmp(7)).
 */
static int open_network_up(int proc_mnt, const struct spec *s, struct err *e)
{
	static const struct { const char *path, *value; int way_out; } switches[] = {
		{ "sys/net/ipv4/ip_unprivileged_port_start", "0", 0 },
		{ "sys/net/ipv4/ping_group_range", "0 65535", 1 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(switches) && s->network != NETWORK_HOST && s->network != NETWORK_JOINED; i++) {
		autoclose int fd = switches[i].way_out && s->network != NETWORK_BRIDGE ? -1 :
				   openat(proc_mnt, switches[i].path, O_WRONLY | O_CLOEXEC);

		if (fd >= 0 && write(fd, switches[i].value, strlen(switches[i].value)) < 0)
			return err_sys(e, "write /proc/%s of the sandbox", switches[i].path);
	}
	return 0;
}

int mounts_enter_root(const struct mountplan *p, const struct spec *s, int *ret_proc, int *ret_knobs, struct err *e)
{
	autoclose int proc_mnt = make_proc(p, s, e);
	autoclose int knobs = proc_mnt < 0 ? -1 : openat(proc_mnt, "sys/user", O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (proc_mnt < 0)
		return -1;
	if (knobs < 0)
		return err_sys(e, "open /proc/sys/user of the sandbox");
	if (open_network_up(proc_mnt, s, e) < 0)
		return -1;
	if (pivot_into_root(p, p->ops[0].fd, e) < 0)	/* the plan begins with it (mountplan_build()) */
		return -1;
	*ret_proc = take_fd(&proc_mnt);
	*ret_knobs = take_fd(&knobs);
	return 0;
}

int mounts_enter(struct handover *in, const struct spec *s, int proc_mnt, struct err *e)
{
	autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct mountplan *p = in->plan;
	struct masks masks = { 0 };
	size_t i;

	if (root < 0)
		return err_sys(e, "open / of the sandbox");
	for (i = 0; i < p->count; i++) {
		const struct mount_op *op = &p->ops[i];

		if (op->kind == MOUNT_SEAL && !strcmp(op->target, "/") && make_sandbox_workdir(root, s, e) < 0)
			return -1;
		while (mountplan_is_host_side(op->kind) && op->fd < 0)
			if (handover_receive_mounts(in, e) < 0)
				return -1;
		if (enter_one(root, op, proc_mnt, &masks, e) < 0)
			return err_wrap(e, "mount %s", op->target);
	}
	return 0;
}
