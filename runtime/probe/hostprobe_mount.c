/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Probes of file systems and mounts.  All mounts are detached or in a mount
 * namespace of the probe: they are gone with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/newmount.h"
#include "runtime/kernel/quota.h"
#include "runtime/probe/hostprobe.h"
#include "runtime/sandbox/writable.h"

/* Always directories; mount points only in mount namespaces of the probe's own. */
#define PLACE "/dev"
#define SCRATCH "/sys"

static const char *fs_name(int fd, char buf[24])
{
	static const struct { unsigned long magic; const char *name; } known[] = {
		{ 0xef53, "ext4" }, { 0x58465342, "xfs" }, { 0x9123683e, "btrfs" }, { 0x01021994, "tmpfs" },
		{ 0x794c7630, "overlayfs" }, { 0x2fc12fc1, "zfs" }, { 0xf2f52010, "f2fs" }, { 0x6969, "nfs" },
		{ 0x65735546, "fuse" }, { 0x01021997, "9p" },
	};
	struct statfs st;
	size_t i;

	if (fstatfs(fd, &st) < 0)
		return "unknown";
	for (i = 0; i < ARRAY_LEN(known); i++)
		if ((unsigned long)st.f_type == known[i].magic)
			return known[i].name;
	snprintf(buf, 24, "type 0x%lx", (unsigned long)st.f_type);
	return buf;
}

void host_probe_state_dir(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	char path[4096], name[24];
	autoclose int fd = host_state_dir(p, path, sizeof(path));
	struct statvfs st;
	uint64_t free_mib;

	(void)probe;
	if (fd < 0 || fstatvfs(fd, &st) < 0) {
		host_errno(f, "open it");
		return;
	}
	free_mib = (uint64_t)st.f_bavail * st.f_frsize >> 20;
	if (st.f_flag & ST_RDONLY) {
		host_say(f, HOST_MISSING, "%.150s is on a read-only file system", path);
		snprintf(f->effect, sizeof(f->effect), "refuses to run; set state_dir in berth.toml");
	} else if (faccessat(fd, "", W_OK, AT_EACCESS | AT_EMPTY_PATH) < 0) {
		host_errno(f, "write there");
		snprintf(f->effect, sizeof(f->effect), "refuses to run; set state_dir in berth.toml");
	} else if (st.f_flag & ST_NOEXEC) {
		host_say(f, HOST_LIMITED, "%.150s is mounted noexec", path);
	} else {
		host_say(f, free_mib < 64 ? HOST_LIMITED : HOST_OK, "%.150s%s on %s, %" PRIu64 " MiB free", p->state_dir,
			 strcmp(path, p->state_dir) ? " (not there yet)" : "", fs_name(fd, name), free_mib);
		if (free_mib < 64)
			snprintf(f->effect, sizeof(f->effect), "fails imports and writable layers on file for lack of space");
	}
}

/* A detached tmpfs with an empty directory of that name. */
static int tmpfs_with(const char *a, const char *b, struct host_finding *f)
{
	const struct newmount_opt size = { "size", "64k" };
	struct err e;
	autoclose int fd = newmount_fs("tmpfs", &size, 1, 0, &e);

	if (fd < 0) {
		host_err(f, &e);
		return -1;
	}
	if (mkdirat(fd, a, 0755) < 0 || (b && mkdirat(fd, b, 0755) < 0)) {
		host_errno(f, "make a directory on tmpfs");
		return -1;
	}
	return take_fd(&fd);
}

/*
 * As the probe above, attached in a mount namespace of our own: kernels before 6.15 copy no part
 * of a detached mount.
 */
static int tmpfs_attached(const char *a, struct host_finding *f)
{
	autoclose int fd = -1;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		host_errno(f, "make a mount namespace");
		return -1;
	}
	fd = tmpfs_with(a, NULL, f);
	if (fd >= 0 && move_mount(fd, "", AT_FDCWD, PLACE, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
		host_errno(f, "attach a tmpfs");
		return -1;
	}
	return take_fd(&fd);
}

/* Writes through the overlay and finds the file in the upper layer. */
static int overlay_works(int mnt, int base, struct host_finding *f)
{
	autoclose int file = openat(mnt, "probe", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (file < 0 || faccessat(base, "upper/probe", F_OK, 0) < 0) {
		host_errno(f, "write through an overlay");
		return -1;
	}
	return 0;
}

void host_probe_overlay(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	autoclose int lower = tmpfs_attached("layer", f), base = -1, layer = -1, upper = -1, work = -1, mnt = -1;
	struct err e;

	(void)p, (void)probe;
	if (lower < 0)
		return;
	base = tmpfs_with("upper", "work", f);
	if (base < 0)
		return;
	layer = newmount_clone(lower, "layer", 0, MOUNT_ATTR_RDONLY, &e);
	if (layer < 0) {
		host_err(f, &e);
		return;
	}
	upper = openat(base, "upper", O_PATH | O_DIRECTORY | O_CLOEXEC);
	work = openat(base, "work", O_PATH | O_DIRECTORY | O_CLOEXEC);
	mnt = newmount_overlay(&layer, 1, upper, work, 0, 0, &e);
	if (mnt >= 0) {
		if (overlay_works(mnt, base, f) == 0)
			host_say(f, HOST_OK, "made of detached layers, by descriptor");
		return;
	}
	fd_close(&upper);
	fd_close(&work);
	mnt = newmount_overlay_attached(SCRATCH, &layer, 1, base, 0, &e);
	if (mnt < 0) {
		host_err(f, &e);
		snprintf(f->effect, sizeof(f->effect), "refuses to run");
	} else if (overlay_works(mnt, base, f) == 0) {
		host_say(f, HOST_LIMITED, "not of detached layers, which is of Linux 6.15");
	}
}

/* A mount of fd's directory, mapped as a sandbox's layer is. */
void host_probe_idmap(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	char path[4096] = "tmpfs", name[24];
	autoclose int dir = probe->arg ? tmpfs_attached("d", f) : host_state_dir(p, path, sizeof(path));
	autoclose int mnt = -1;
	struct host_inner in;
	struct stat st;
	struct err e;

	if (dir < 0) {
		if (!probe->arg)
			host_errno(f, "open the state directory");
		return;
	}
	mnt = newmount_clone(dir, probe->arg ? "d" : "", 0, MOUNT_ATTR_RDONLY, &e);
	if (mnt < 0) {
		host_err(f, &e);
		return;
	}
	if (host_inner_start(&in, p, CLONE_NEWUSER, NULL, f) < 0)
		return;
	if (newmount_idmap(mnt, 0, in.userns_fd, path, &e) < 0)
		host_err(f, &e);
	else if (fstat(mnt, &st) < 0)
		host_errno(f, "read through the mapped mount");
	else if (st.st_uid < p->id_base)
		host_say(f, HOST_MISSING, "the mount is mapped, but its owner still shows as %u", (unsigned)st.st_uid);
	else
		host_say(f, HOST_OK, "%s: owners show as the sandbox's ids", probe->arg ? "tmpfs" : fs_name(dir, name));
	host_inner_end(&in);
}

static void mount_proc(struct host_finding *f)
{
	autoclose int mnt = -1, mqueue = -1;
	struct err e;

	mnt = newmount_fs("proc", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC, &e);
	mqueue = mnt < 0 ? -1 : newmount_fs("mqueue", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &e);
	if (mqueue < 0)
		host_err(f, &e);
	else
		host_say(f, HOST_OK, "proc and mqueue mounted");
}

void host_probe_mount_in_userns(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	struct host_inner in;

	(void)probe;
	if (host_inner_start(&in, p, CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC, mount_proc, f) == 0)
		host_inner_end(&in);
}

static void mount_devpts(struct host_finding *f)
{
	const struct newmount_opt opts[] = { { "ptmxmode", "0666" }, { "mode", "0620" }, { "max", "4" } };
	autoclose int mnt = -1, master = -1;
	int unlock = 0;
	struct err e;

	mnt = newmount_fs("devpts", opts, ARRAY_LEN(opts), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &e);
	if (mnt < 0) {
		host_err(f, &e);
		return;
	}
	master = openat(mnt, "ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		host_errno(f, "open a terminal of the new instance");
	else
		host_say(f, HOST_OK, "an instance of its own, a terminal opened");
}

void host_probe_devpts(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	struct host_inner in;

	(void)probe;
	if (host_inner_start(&in, p, CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS, mount_devpts, f) == 0)
		host_inner_end(&in);
}

/* The number of the loop device that a free one would get, and whether asking made it. */
static int next_loop(int *ret_is_new)
{
	autoclose int ctl = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	char path[64];
	int i, n;

	if (ctl < 0)
		return -1;
	for (i = 0; i < 4096; i++) {	/* the kernel hands out the lowest */
		snprintf(path, sizeof(path), "/sys/block/loop%d", i);
		if (access(path, F_OK) < 0)
			break;
	}
	n = ioctl(ctl, LOOP_CTL_GET_FREE);
	*ret_is_new = n >= i;
	return n;
}

static void remove_loop(int n)
{
	autoclose int ctl = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int tries;

	/* the device is detached once its last mount is gone, which the kernel does a little later */
	for (tries = 0; ctl >= 0 && tries < 200 && ioctl(ctl, LOOP_CTL_REMOVE, n) < 0 && errno == EBUSY; tries++)
		usleep(5000);
}

void host_probe_loop(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	struct spec s = { .disk_bytes = 8 << 20, .disk_inodes = 256, .id_base = p->id_base };
	char path[4096];
	autoclose int where = host_state_dir(p, path, sizeof(path));
	autoclose int dir = where < 0 ? -1 : openat(where, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int n, mnt, is_new = 0;
	struct err e;

	(void)probe;
	if (dir < 0) {
		host_errno(f, "open the state directory");
		return;
	}
	n = next_loop(&is_new);
	mnt = writable_file(&s, dir, NULL, -1, &e);
	if (mnt < 0) {
		host_err(f, &e);
	} else {
		host_say(f, HOST_OK, "mkfs.ext4, a loop device and an ext4 of 8 MiB on an unnamed file");
		close(mnt);
	}
	if (n >= 0 && is_new)
		remove_loop(n);
}

/* Tells whether lasting writable layers can be plain directories with a limit. */
void host_probe_quota(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	char path[4096], name[24];
	autoclose int where = host_state_dir(p, path, sizeof(path));
	autoclose int fd = where < 0 ? -1 : openat(where, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err e;

	(void)probe;
	if (fd < 0)
		host_errno(f, "open the state directory");
	else if (quota_check(fd, &e) < 0)
		host_err(f, &e);
	else
		host_say(f, HOST_OK, "%s enforces them: lasting writable layers are directories", fs_name(fd, name));
}
