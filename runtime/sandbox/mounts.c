/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of mounts.h: everything here runs in the supervisor, on operator-chosen paths only. */
#include "runtime/sandbox/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/newmount.h"
#include "runtime/kernel/procmask.h"
#include "runtime/kernel/userns.h"
#include "runtime/sandbox/hostimage.h"
#include "runtime/sandbox/writable.h"

void mounts_release(struct mountplan *p)
{
	size_t i;

	for (i = 0; i < p->count; i++)
		fd_close(&p->ops[i].fd);
	for (i = 0; i < p->spare_count; i++)
		fd_close(&p->spare[i]);
	p->spare_count = 0;
}

static int make_tmpfs(const struct mount_op *op, uint32_t owner_id, struct err *e)
{
	char size[32], inodes[32], mode[16], owner[16];
	const struct newmount_opt opts[] = {
		{ "size", size }, { "nr_inodes", inodes }, { "mode", mode }, { "uid", owner }, { "gid", owner },
		{ "source", "shm" },	/* as runc calls it, by which programs look for it; other mounts have none */
	};
	const size_t n = ARRAY_LEN(opts) - (strcmp(op->target, "/dev/shm") != 0);

	snprintf(size, sizeof(size), "%" PRIu64, op->size_bytes);
	snprintf(inodes, sizeof(inodes), "%" PRIu64, op->inodes);
	snprintf(mode, sizeof(mode), "%o", op->mode);
	snprintf(owner, sizeof(owner), "%u", owner_id);
	return newmount_fs("tmpfs", opts, n, op->attr, e);
}

/*
 * What only berth writes. The control directory is the host's root's, which the sandbox does not
 * map: every user there can read it, and none can write it.
 */
static const struct own_dir {
	enum mount_kind kind;
	const char *name;
	uint32_t mode;
	int is_hosts;
	uint64_t size_bytes, inodes;
} own_dirs[] = {
	{ MOUNT_DEV, "dev", 0755, 0, 64 << 10, 256 },
	{ MOUNT_SYS, "sys", 0555, 0, 64 << 10, 64 },
	{ MOUNT_CONTROL, "control", 0755, 1, 16 << 20, 256 },
};

static const struct own_dir *own_dir_of(enum mount_kind kind)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(own_dirs); i++)
		if (own_dirs[i].kind == kind)
			return &own_dirs[i];
	return NULL;
}

/*
 * Makes the one file system of own_dirs, and each mount as a copy of its directory: each file
 * system costs each memory cgroup of the host some memory, and its end some time. The copies are
 * made before the child has its first mounts, because it attaches the spare one, of which nothing
 * can be copied then (EINVAL), and takes it down with the host's root; the copies hold the file
 * system. Linux before 6.15 copies no part of a detached mount, and no copy is made.
 */
static int make_own_mounts(struct mountplan *p, const struct spec *s, struct err *e)
{
	static const struct newmount_opt opts[] = { { "size", "16512k" }, { "nr_inodes", "576" }, { "mode", "0755" } };
	const int own_fd = newmount_fs("tmpfs", opts, ARRAY_LEN(opts), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, e);
	size_t i;

	if (own_fd < 0)
		return -1;
	p->spare[p->spare_count++] = own_fd;
	for (i = 0; i < p->count; i++) {
		struct mount_op *op = &p->ops[i];
		const struct own_dir *d = own_dir_of(op->kind);
		const uint32_t owner = d && !d->is_hosts ? s->id_base : 0;

		if (!d)
			continue;
		if (mkdirat(own_fd, d->name, d->mode) < 0 || fchownat(own_fd, d->name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(e, "make the directory of %s", op->target);
		op->fd = newmount_clone(own_fd, d->name, 0, op->attr, e);
		if (op->fd < 0)
			return e->os_errno == EINVAL ? 0 : -1;
	}
	return 0;
}

/* The copy of its directory, or a file system of its own. */
static int take_own(struct mount_op *op, const struct spec *s, struct err *e)
{
	const struct own_dir *d = own_dir_of(op->kind);
	struct mount_op own = *op;

	if (op->fd >= 0)
		return take_fd(&op->fd);
	own.size_bytes = d->size_bytes;
	own.inodes = d->inodes;
	own.mode = d->mode;
	return make_tmpfs(&own, d->is_hosts ? 0 : s->id_base, e);
}

static const struct { const char *name; unsigned major, minor; } nodes[] = {
	{ "null", 1, 3 }, { "zero", 1, 5 }, { "full", 1, 7 }, { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
};

static const struct { const char *name, *target; } dev_links[] = {
	{ "fd", "/proc/self/fd" }, { "stdin", "/proc/self/fd/0" }, { "stdout", "/proc/self/fd/1" },
	{ "stderr", "/proc/self/fd/2" }, { "ptmx", "pts/ptmx" },
};

/*
 * Makes the directories above, which belong to the host's root: all in the sandbox can read them,
 * none can write them.
 */
static int make_above(int mnt, const char *rel, struct err *e)
{
	char path[256];
	size_t n;

	for (n = strcspn(rel, "/"); rel[n]; n += 1 + strcspn(rel + n + 1, "/")) {
		snprintf(path, sizeof(path), "%.*s", (int)n, rel);
		if (mkdirat(mnt, path, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "make /dev/%s", path);
	}
	return 0;
}

/* The requested names beside our own; spec_check() refuses a name of ours. */
static int make_sandbox_dev(int mnt, const struct spec *s, struct err *e)
{
	size_t i;

	for (i = 0; i < s->device_count; i++) {
		const struct spec_device *d = &s->devices[i];
		const char *rel = d->target + strlen("/dev/");

		if (make_above(mnt, rel, e) < 0)
			return -1;
		if (mknodat(mnt, rel, d->mode, d->rdev) < 0 ||
		    fchownat(mnt, rel, s->id_base + d->uid, s->id_base + d->gid,
			     AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(e, "make device node %s", d->target);
	}
	return 0;
}

/* A random UUID of version 4, as the kernel writes its own. */
static int make_boot_id(int dev, const struct spec *s, struct err *e)
{
	unsigned char b[16];
	char text[40];
	autoclose int fd = -1;
	int n;

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return err_sys(e, "get random bytes");
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	n = snprintf(text, sizeof(text), "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n", b[0], b[1], b[2],
		     b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
	fd = openat(dev, MOUNTS_BOOT_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd < 0 || fchown(fd, s->id_base, s->id_base) < 0 || io_write_all(fd, text, (size_t)n) < 0)
		return err_sys(e, "make the sandbox's boot id");
	return 0;
}

/*
 * Our own /dev, filled through its own descriptor: nothing of the image's /dev
 * takes part (E08).  The nodes are real, made by the host's root in a file
 * system of the initial user namespace; the device policy of the cgroup and
 * nodev on every other mount keep it at these.
 */
static int make_dev(struct mount_op *op, const struct spec *s, struct err *e)
{
	autoclose int mnt = take_own(op, s, e);
	size_t i;

	if (mnt < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(nodes); i++)
		/* sandbox_launch() has cleared the umask */
		if (mknodat(mnt, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)) < 0 ||
		    fchownat(mnt, nodes[i].name, s->id_base, s->id_base, AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(e, "make device node %s", nodes[i].name);
	for (i = 0; i < ARRAY_LEN(dev_links); i++)
		if (symlinkat(dev_links[i].target, mnt, dev_links[i].name) < 0)
			return err_sys(e, "make /dev/%s", dev_links[i].name);
	if (mkdirat(mnt, "pts", 0755) < 0 || mkdirat(mnt, "shm", 0755) < 0 || mkdirat(mnt, "mqueue", 0755) < 0)
		return err_sys(e, "make directories in /dev");
	if (make_sandbox_dev(mnt, s, e) < 0)
		return -1;
	/* the sources of the /proc masks; the child unlinks them once they are bound (E06) */
	if (mknodat(mnt, MOUNTS_MASK_FILE, S_IFREG | 0444, 0) < 0 || mkdirat(mnt, MOUNTS_MASK_DIR, 0555) < 0 ||
	    fchownat(mnt, MOUNTS_MASK_FILE, s->id_base, s->id_base, 0) < 0 ||
	    fchownat(mnt, MOUNTS_MASK_DIR, s->id_base, s->id_base, 0) < 0)
		return err_sys(e, "make the masks");
	return make_boot_id(mnt, s, e) < 0 ? -1 : take_fd(&mnt);
}

/* The few files of sysfs that programs read to count CPUs; no sysfs at all is mounted. */
static int make_sandbox_sys(struct mount_op *op, const struct spec *s, struct err *e)
{
	autoclose int mnt = take_own(op, s, e);

	if (mnt < 0 || sysfiles_make(mnt, e) < 0)
		return -1;
	return take_fd(&mnt);
}

/* The source's owner is the one id that is mapped: to the one of the sandbox that works there. */
static int map_bind_owner(const struct mount_op *op, int src, int mnt, uint32_t id_base, struct err *e)
{
	autoclose int ns = -1;
	struct stat st;

	if (fstat(src, &st) < 0)
		return err_sys(e, "look at mount source %s", op->source);
	ns = idmapns_one(st.st_uid, id_base + op->owner->owner_uid, st.st_gid,
			 id_base + op->owner->owner_gid, e);
	return ns < 0 ? -1 : newmount_idmap(mnt, 1, ns, op->source, e);
}

/* Opens the source that was judged: its descriptor, or its path as it was resolved. -1 with errno. */
static int open_planned_bind(const struct mount_op *op)
{
	if (op->source_fd >= 0)
		return fcntl(op->source_fd, F_DUPFD_CLOEXEC, 3);
	return path_openat2(AT_FDCWD, op->source, O_PATH | O_CLOEXEC, 0,
			    op->no_links ? RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS : 0);
}

static int clone_bind(const struct mount_op *op, uint32_t id_base, int userns_fd, struct err *e)
{
	autoclose int src = open_planned_bind(op);
	autoclose int mnt = -1;

	if (src < 0 && errno == ELOOP)
		return err_set(e, ERR_DENIED, "mount source %.200s leads through a symbolic link", op->source);
	if (src < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open mount source %s", op->source);
	/* recursive, as the operator's path may hold mounts; read-only and nosuid reach all of them */
	mnt = newmount_clone(src, "", 1, op->attr, e);
	if (mnt < 0)
		return err_wrap(e, "mount source %s", op->source);
	if (op->owner)
		return map_bind_owner(op, src, mnt, id_base, e) < 0 ? -1 : take_fd(&mnt);
	if (op->idmap && newmount_idmap(mnt, 1, userns_fd, op->source, e) < 0)
		return -1;
	return take_fd(&mnt);
}

/* Takes a volume's mount, not recursively: nothing is mounted in a volume. */
static int take_volume(const struct mount_op *op, int userns_fd, struct err *e)
{
	autoclose int mnt = -1;

	if (op->source_is_mount) {
		mnt = fcntl(op->source_fd, F_DUPFD_CLOEXEC, 3);
		if (mnt < 0)
			return err_sys(e, "take volume %s", op->source);
		if (newmount_attr(mnt, 0, op->attr, e) < 0)
			return err_wrap(e, "volume %s", op->source);
	} else {
		mnt = newmount_clone(op->source_fd, "", 0, op->attr, e);
		if (mnt < 0 && e->os_errno == EINVAL)
			return err_set(e, ERR_UNSUPPORTED, "sub= of volume %s, a file system of its "
				       "own, takes Linux 6.15", op->source);
		if (mnt < 0)
			return err_wrap(e, "volume %s", op->source);
	}
	return newmount_idmap(mnt, 0, userns_fd, op->source, e) < 0 ? -1 : take_fd(&mnt);
}

/*
 * Clones every source while we are still in the mount namespace they belong to.  The layers' clones are the
 * first spares: each would cost an RCU grace period to close, and the child takes them down with the host's root.
 */
static int clone_sources(struct mountplan *p, const struct spec *s, int userns_fd, struct err *e)
{
	size_t i;

	for (i = 0; i < s->layer_count; i++) {
		int mnt = newmount_clone(s->layer_fd[i], "", 0, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, e);

		if (mnt < 0)
			return -1;
		p->spare[p->spare_count++] = mnt;
		if (newmount_idmap(mnt, 0, userns_fd, "an image layer", e) < 0)
			return -1;
	}
	for (i = 0; i < p->count; i++) {
		struct mount_op *op = &p->ops[i];

		if (op->kind != MOUNT_BIND)
			continue;
		op->fd = op->is_volume ? take_volume(op, userns_fd, e) :
					      clone_bind(op, s->id_base, userns_fd, e);
		if (op->fd < 0)
			return -1;
	}
	return 0;
}

static int overlay(const int *layers, size_t n, int base_fd, int passing, const char *scratch,
		   uint64_t attr, struct err *e)
{
	autoclose int upper = -1, work = -1;
	int mnt;

	if (base_fd >= 0) {
		upper = openat(base_fd, "upper", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		work = openat(base_fd, "work", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (upper < 0 || work < 0)
			return err_sys(e, "open the writable layer");
	}
	mnt = newmount_overlay(layers, n, upper, work, passing, attr, e);
	if (mnt >= 0 || e->code != ERR_UNSUPPORTED)
		return mnt;
	fd_close(&upper);
	fd_close(&work);
	return newmount_overlay_attached(scratch, layers, n, base_fd, attr, e);
}

/* A layer that newmount_overlay_attached() can move: a detached copy of the directory. */
static int clone_dir(int fd, struct err *e)
{
	return newmount_clone(fd, "", 0, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, e);
}

/*
 * The host's directory seen through an overlay of its own with an empty second
 * layer: locks and leases on its files then stay within the sandbox (K18).  Not
 * idmapped: the sandbox reads what everybody on the host may read, no more.
 */
static int overlay_hostdir(struct mountplan *p, struct mount_op *op, int skeleton_fd, const char *scratch, struct err *e)
{
	autoclose int empty = openat(skeleton_fd, HOSTIMAGE_EMPTY_DIR, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autoclose int source = open(op->source, O_PATH | O_DIRECTORY | O_CLOEXEC);
	autoclose int first = -1, second = -1;

	if (empty < 0 || source < 0)
		return err_sys(e, "open %s", op->source);
	/* copies, as mountinfo names an attached layer by its path on the host (K15) */
	first = clone_dir(empty, e);
	second = first < 0 ? -1 : clone_dir(source, e);
	if (second < 0)
		return -1;
	op->fd = newmount_overlay((int[]){ first, second }, 2, -1, -1, 0, op->attr, e);
	if (op->fd < 0 && e->code == ERR_UNSUPPORTED)
		op->fd = newmount_overlay_attached(scratch, (int[]){ first, second }, 2, -1, op->attr, e);
	if (op->fd < 0)
		return err_wrap(e, "expose %s", op->source);
	p->spare[p->spare_count++] = take_fd(&first);
	p->spare[p->spare_count++] = take_fd(&second);
	return 0;
}

/* The child's report: as much as a pipe takes at once. */
static void swap_in_child(int mnt, const struct mount_op *op, int mntns_fd, int told) __attribute__((noreturn));
static void swap_in_child(int mnt, const struct mount_op *op, int mntns_fd, int told)
{
	struct err e = { 0 };

	if (setns(mntns_fd, CLONE_NEWNS) < 0)
		err_sys(&e, "enter the sandbox's mount namespace");
	else
		(void)mounts_take_place(mnt, op->target, op->attr, &e);
	_exit(io_write_all(told, &e, sizeof(e)) < 0);
}

int mounts_swap(const struct mountplan *p, const char *target, const char *source, int userns_fd, int mntns_fd, struct err *e)
{
	autoclose int mnt = -1, hear = -1;
	struct err told;
	int fds[2], got;
	size_t i;
	pid_t pid;

	for (i = 0; i < p->count; i++)
		if (p->ops[i].kind == MOUNT_BIND && !strcmp(p->ops[i].target, target))
			break;
	if (i == p->count)
		return err_set(e, ERR_NOT_FOUND, "nothing of the host is mounted at %.200s", target);
	mnt = clone_bind(&(struct mount_op){ .source = source, .source_fd = -1, .attr = p->ops[i].attr,
					     .idmap = p->ops[i].idmap }, 0, userns_fd, e);
	if (mnt < 0)
		return -1;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	hear = fds[0];
	/* a process has one mount namespace for all its threads, so a child enters the other one */
	pid = fork();
	if (pid == 0)
		swap_in_child(mnt, &p->ops[i], mntns_fd, fds[1]);
	close(fds[1]);
	if (pid < 0)
		return err_sys(e, "fork");
	got = io_read_exact(hear, &told, sizeof(told));
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (got != 1)
		return err_set(e, ERR_INTERNAL, "who mounted %.200s died", target);
	if (told.code != ERR_NONE) {
		*e = told;
		return -1;
	}
	return 0;
}

static int prepare_one(struct mountplan *p, struct mount_op *op, const struct spec *s, int base_fd,
		       const char *scratch, struct err *e)
{
	switch (op->kind) {
	case MOUNT_ROOT:
		op->fd = overlay(p->spare, s->layer_count, base_fd, s->passing, scratch, op->attr,
				 e);
		return op->fd < 0 ? err_wrap(e, "build the root file system") : 0;
	case MOUNT_DEV:
		op->fd = make_dev(op, s, e);
		return op->fd < 0 ? -1 : 0;
	case MOUNT_SYS:
		op->fd = make_sandbox_sys(op, s, e);
		return op->fd < 0 ? -1 : 0;
	case MOUNT_TMPFS:
		op->fd = make_tmpfs(op, s->id_base, e);
		return op->fd < 0 ? err_wrap(e, "mount %s", op->target) : 0;
	case MOUNT_CONTROL:
		op->fd = take_own(op, s, e);
		return op->fd < 0 ? err_wrap(e, "mount %s", op->target) : 0;
	case MOUNT_HOSTDIR:
		return overlay_hostdir(p, op, s->layer_fd[0], scratch, e);
	default:
		return 0;
	}
}

int mounts_prepare(struct mountplan *p, const struct spec *s, int userns_fd, int base_fd, const char *scratch,
		   int (*ready)(void *ctx, size_t end, struct err *e), void *ctx, struct err *e)
{
	size_t i, handed = 0;

	if (clone_sources(p, s, userns_fd, e) < 0 || make_own_mounts(p, s, e) < 0)
		return -1;
	for (i = 0; i < p->count; i++) {
		/* the child pivots to the root as soon as it is whole, and fills the masks' place when /dev is there */
		if ((p->ops[i].kind > MOUNT_HOSTDIR && !handed) || (i && p->ops[i - 1].kind == MOUNT_DEV)) {
			if (ready(ctx, i, e) < 0)
				return -1;
			handed = i;
		}
		if (prepare_one(p, &p->ops[i], s, base_fd, scratch, e) < 0)
			return -1;
	}
	return 0;
}
