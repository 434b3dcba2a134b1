/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S2 and S8 of SECURITY.md. */
#include "runtime/sandbox/writable.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "base/program.h"
#include "runtime/kernel/blankfs.h"
#include "runtime/kernel/loopdev.h"
#include "runtime/kernel/newmount.h"
#include "runtime/kernel/quota.h"
#include "runtime/kernel/userns.h"
#include "runtime/sandbox/layerhome.h"

int writable_memory(const struct spec *s, struct err *e)
{
	char size[32], inodes[32];
	const struct newmount_opt opts[] = {
		{ "size", size }, { "nr_inodes", inodes }, { "mode", "0700" },
	};
	int fd;

	snprintf(size, sizeof(size), "%" PRIu64, s->disk_bytes);
	snprintf(inodes, sizeof(inodes), "%" PRIu64, s->disk_inodes);
	fd = newmount_fs("tmpfs", opts, ARRAY_LEN(opts), MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, e);
	return fd < 0 ? err_wrap(e, "make the writable layer") : fd;
}

static int make_layer_file(const struct spec *s, int dirfd, const char *name, struct err *e)
{
	autoclose int fd = name ? openat(dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600) :
				  openat(dirfd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, "create the file of the writable layer");
	if (ftruncate(fd, (off_t)(s->disk_bytes & ~4095ULL)) < 0) {
		if (errno == EFBIG)
			err_set(e, ERR_INVALID, "a disk of %" PRIu64 " bytes is more than a file of this host's file system can be; "
				"hint: a smaller --disk", s->disk_bytes);
		else
			err_sys(e, "size the file of the writable layer");
		if (name)
			unlinkat(dirfd, name, 0);
		return -1;
	}
	return take_fd(&fd);
}

static int mount_file(int file, int passing, struct err *e)
{
	autoclose int loop = loopdev_attach(file, NULL, e);
	int mnt = loop < 0 ? -1 : passing ? loopdev_mount_passing(loop, e) : loopdev_mount(loop, e);

	return mnt < 0 ? err_wrap(e, "mount the writable layer") : mnt;
}

int writable_mount(int file, struct err *e)
{
	return mount_file(file, 0, e);
}

/*
 * The kernel does not recognise the file system; a missing loop device, for example, is another
 * error.
 */
static int is_damaged(const struct err *e)
{
	return e->os_errno == EINVAL || e->os_errno == EUCLEAN || e->os_errno == EBADMSG || e->os_errno == EIO;
}

/* Makes a new one; leaves nothing on failure. */
static int new_file(const struct spec *s, int dirfd, const char *name, int models_fd, struct err *e)
{
	/* the limit is an upper one: of a small disk the tables, of 256 bytes each, take no more than a quarter */
	const uint64_t inodes = s->disk_inodes < s->disk_bytes / 1024 ? s->disk_inodes : s->disk_bytes / 1024;
	autoclose int file = make_layer_file(s, dirfd, name, e);
	int mnt = -1, copied;

	if (file < 0)
		return -1;
	copied = blankfs_make(file, inodes, models_fd, s->passing, e);
	if (copied >= 0)
		mnt = mount_file(file, s->passing, e);
	if (mnt < 0 && copied > 0 && is_damaged(e) && blankfs_remake(file, inodes, models_fd, e) == 0)
		mnt = mount_file(file, s->passing, e);
	if (mnt < 0 && name)
		unlinkat(dirfd, name, 0);
	return mnt;
}

int writable_file(const struct spec *s, int dirfd, const char *name, int models_fd, struct err *e)
{
	autoclose int file = name ? openat(dirfd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;

	if (!name || (file < 0 && errno == ENOENT))
		return new_file(s, dirfd, name, models_fd, e);
	return file < 0 ? err_sys(e, "open the file of the writable layer") :
			  mount_file(file, s->passing, e);
}

/* A mount of the directory alone: it has its own flags, and older kernels can move it (newmount.h). */
static int mount_dir(int dirfd, struct err *e)
{
	int mnt = newmount_clone(dirfd, WRITABLE_DIR, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, e);

	return mnt < 0 ? err_wrap(e, "mount the writable layer") : mnt;
}

static int make_quota_layer(const struct spec *s, int dirfd, struct err *e)
{
	autoclose int fd = -1;

	/* first, as a directory that is made and removed costs ext4 a search for an inode */
	if (quota_check(dirfd, e) < 0)
		return -1;
	if (mkdirat(dirfd, WRITABLE_DIR, 0700) < 0)
		return err_sys(e, "make the directory of the writable layer");
	fd = openat(dirfd, WRITABLE_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* no other sandbox has this range of ids, so none has this project */
	if (fd >= 0 && quota_limit(fd, s->project ? s->project : s->id_base, s->disk_bytes,
				   s->disk_inodes, e) == 0)
		return mount_dir(dirfd, e);
	if (fd < 0)
		err_sys(e, "open the directory of the writable layer");
	unlinkat(dirfd, WRITABLE_DIR, AT_REMOVEDIR);
	return -1;
}

static int open_kept_layer(int dirfd, int passing, struct err *e)
{
	autoclose int home = -1, file = -1;

	if (path_has(dirfd, WRITABLE_DIR)) {
		autoclose int fd = openat(dirfd, WRITABLE_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		/* mounted without prjquota since: the layer would no longer be limited */
		if (fd < 0)
			return err_sys(e, "open the directory of the writable layer");
		return quota_check(fd, e) < 0 ? err_wrap(e, "the writable layer") : mount_dir(dirfd, e);
	}
	home = layerhome_open(dirfd, e);
	if (home < 0)
		return -1;
	file = openat(home, WRITABLE_FILE, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (file < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open the writable layer");
	return writable_map(dirfd, mount_file(file, passing, e), e);
}

int writable_open(int dirfd, struct err *e)
{
	return open_kept_layer(dirfd, 0, e);
}

int writable_lasting(const struct spec *s, int dirfd, int models_fd, struct err *e)
{
	autoclose int home = -1;
	struct err why;
	int mnt;

	if (path_has(dirfd, WRITABLE_DIR))
		return writable_drop_rest(dirfd, e) < 0 ? -1 : open_kept_layer(dirfd, s->passing, e);
	if (!path_has(dirfd, WRITABLE_FILE) && layerhome_choose(dirfd, s->id, e) < 0)
		return -1;
	home = layerhome_open(dirfd, e);
	if (home < 0)
		return -1;
	if (!path_has(home, WRITABLE_FILE)) {
		mnt = make_quota_layer(s, home, &why);
		if (mnt >= 0)
			return mnt;
		if (why.code != ERR_UNSUPPORTED) {
			*e = why;
			return -1;
		}
	} else if (writable_drop_rest(dirfd, e) < 0) {
		return -1;
	}
	return writable_map(dirfd, writable_file(s, home, WRITABLE_FILE, models_fd, e), e);
}

/*
 * A name and a block each, for what overlayfs and we make at a start: held back so that a sandbox that fills its layer starts
 * again.  Overlayfs takes three; the files of /etc were perhaps removed, and have one whiteout for all.
 */
enum { SPARES = 8, ENOUGH = 16 * SPARES };

static const char *spare_name(char name[16], int i)
{
	snprintf(name, 16, "spare.%d", i);
	return name;
}

static void drop_spares(int base_fd)
{
	struct statfs st;
	char name[16];
	int i;

	/* the host has run on since the last start, so what that did not sync is there */
	unlinkat(base_fd, "work/" NEWMOUNT_UNSYNCED "/dirty", 0);
	unlinkat(base_fd, "work/" NEWMOUNT_UNSYNCED, AT_REMOVEDIR);
	/* to free blocks the kernel reads bitmaps that it does not have just after the mount */
	if (fstatfs(base_fd, &st) == 0 && st.f_bavail >= ENOUGH && st.f_ffree >= ENOUGH)
		return;
	for (i = 0; i < SPARES; i++)
		unlinkat(base_fd, spare_name(name, i), 0);
}

void writable_hold_spares(int base_fd)
{
	static const char block[4096];
	char name[16];
	int i;

	for (i = 0; i < SPARES; i++) {
		autoclose int fd = openat(base_fd, spare_name(name, i), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

		if (fd < 0 && errno == EEXIST)
			continue; /* the file was not used */
		if (fd < 0 || io_write_all(fd, block, sizeof(block)) < 0)
			return;
	}
}

struct seed_dir {
	const char *name;
	mode_t mode;
};

/* Directories on which berth mounts; the modes show only until the mount covers them. */
static const struct seed_dir seed_dirs[] = {
	{ "proc", 0555 }, { "sys", 0555 }, { "dev", 0755 }, { "tmp", 01777 }, { "run", 0755 }, { "etc", 0755 },
};

/*
 * Writes a seed file. fresh: no process was in the layer before us. Otherwise a file that the
 * sandbox put in this place is removed without being opened, because this process still has the
 * rights of the host's root. A directory in its place stays: the sandbox may do that.
 */
static int seed_file(int etc, int fresh, const char *name, const char *text, const struct spec *s, struct err *e)
{
	autoclose int fd = -1;

	if (!fresh && unlinkat(etc, name, 0) < 0 && errno != ENOENT)
		return errno == EISDIR ? 0 : err_sys(e, "remove the old /etc/%s of the sandbox", name);
	fd = openat(etc, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd < 0 || (!fresh && fchmod(fd, 0644) < 0) || fchown(fd, s->id_base, s->id_base) < 0 ||
	    io_write_all(fd, text, strlen(text)) < 0)
		return err_sys(e, "write /etc/%s of the sandbox", name);
	return 0;
}

static int seed_etc(int upper, int fresh, const struct spec *s, struct err *e)
{
	autobuf struct buf resolv = BUF_INIT(1 << 16), hosts = BUF_INIT(1 << 16);
	autoclose int etc = openat(upper, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char text[512], names[SPEC_HOST_NAMES];

	if (etc < 0 && !fresh && (errno == ENOTDIR || errno == ELOOP))
		return 0;	/* the sandbox has put a link, a file or nothing in its place */
	if (etc < 0)
		return err_sys(e, "open /etc of the sandbox");
	if (buf_addf(&hosts, e, "127.0.0.1\tlocalhost %s\n::1\tlocalhost ip6-localhost "
		     "ip6-loopback\n%s", spec_host_names(s, names), s->hosts ? s->hosts : "") < 0 ||
	    seed_file(etc, fresh, "hosts", hosts.data, s, e) < 0)
		return -1;
	snprintf(text, sizeof(text), "%s\n", s->hostname);
	if (seed_file(etc, fresh, "hostname", text, s, e) < 0)
		return -1;
	if (s->network == NETWORK_HOST) {
		autoclose int fd = open("/etc/resolv.conf", O_RDONLY | O_CLOEXEC | O_NONBLOCK);

		if (fd >= 0 && io_read_all(fd, &resolv, "/etc/resolv.conf", e) < 0)
			return -1;
	}
	return seed_file(etc, fresh, "resolv.conf", resolv.data ? resolv.data : "", s, e);
}

static int open_empty(int dirfd, uint32_t id_base, struct err *e)
{
	int fd;

	if (mkdirat(dirfd, "empty", 0755) < 0 && errno != EEXIST)
		return err_sys(e, "make an empty layer");
	fd = openat(dirfd, "empty", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (fchown(fd, id_base, id_base) < 0 || fchmod(fd, 0755) < 0))
		fd_close(&fd);
	if (unlinkat(dirfd, "empty", AT_REMOVEDIR) < 0 || fd < 0) {
		err_sys(e, "open an empty layer");
		fd_close(&fd);
	}
	return fd;
}

int writable_upper(int dirfd, uint32_t id_base, int *ret_base_fd, struct err *e)
{
	autoclose int base = writable_open(dirfd, e);
	int fd;

	if (base < 0 && e->code != ERR_NOT_FOUND)
		return -1;
	fd = base < 0 ? open_empty(dirfd, id_base, e) :
			openat(base, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return base < 0 ? -1 : err_sys(e, "open the writable layer");
	*ret_base_fd = base < 0 ? -1 : take_fd(&base);
	return fd;
}

int writable_seed(const struct spec *s, int base_fd, struct err *e)
{
	int fresh = mkdirat(base_fd, "upper", 0755) == 0;
	autoclose int upper = -1;
	size_t i;

	/* sandbox_launch() has cleared the umask, so files get the given mode */
	if ((!fresh && errno != EEXIST) || (mkdirat(base_fd, "work", 0700) < 0 && errno != EEXIST))
		return err_sys(e, "make the writable layer's directories");
	if (!fresh)
		drop_spares(base_fd);
	upper = openat(base_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (upper < 0 || fchown(upper, s->id_base, s->id_base) < 0 || (!fresh && fchmod(upper, 0755) < 0))
		return err_sys(e, "give the writable layer its owner");
	for (i = 0; i < ARRAY_LEN(seed_dirs); i++) {
		const struct seed_dir *d = &seed_dirs[i];

		if (mkdirat(upper, d->name, d->mode) < 0) {
			if (errno == EEXIST)
				continue;	/* a later start of the same sandbox */
			return err_sys(e, "make /%s of the sandbox", d->name);
		}
		if (fchownat(upper, d->name, s->id_base, s->id_base, AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(e, "give /%s of the sandbox its owner", d->name);
	}
	return seed_etc(upper, fresh, s, e);
}

/*
 * The space that a disk file system may leave unused when it refuses a write: up to 1.9 MiB on
 * ext4 with writes of 4 MiB and more (Linux 6.18), nothing on tmpfs.
 */
static uint64_t unused_when_full(const struct statfs *st)
{
	const uint64_t blocks = (2u << 20) / (uint64_t)st->f_bsize, part = (uint64_t)st->f_blocks / 16;

	if (st->f_type == TMPFS_MAGIC)
		return 0;
	return blocks < part ? blocks : part;
}

int writable_full(int base_fd, int *ret_full, struct err *e)
{
	struct statfs st;

	if (fstatfs(base_fd, &st) < 0)
		return err_sys(e, "measure the writable layer");
	*ret_full = st.f_bavail <= unused_when_full(&st) || st.f_ffree == 0;
	return 0;
}

int writable_is_host_full(int dirfd)
{
	struct statfs st;

	/* not f_bfree: ext4 keeps some of it for its own use, and refuses a write before */
	return fstatfs(dirfd, &st) == 0 && st.f_type != TMPFS_MAGIC &&
	       (uint64_t)st.f_bavail <= unused_when_full(&st);
}

int writable_tell_host_full(const char *dir, struct err *e)
{
	const struct err why = *e;

	if ((why.os_errno != ENOSPC && why.os_errno != EDQUOT) || strstr(why.msg, "hint: "))
		return -1;
	return err_set(e, ERR_FULL, "%.300s: the file system of %.100s is full; hint: berth prune or berth rm makes room", why.msg, dir);
}

uint64_t writable_errors(int base_fd)
{
	char device[24];

	if (loopdev_name(base_fd, device, sizeof(device)) < 0)
		return 0;
	return loopdev_ext4_number(device, "errors_count") + loopdev_ext4_number(device, "warning_count");
}

#define SUPERBLOCK 1024		/* ext4(5): s_magic and s_error_count, little-endian */
#define SUPERBLOCK_MAGIC 0x38
#define SUPERBLOCK_ERRORS 0x194

uint64_t writable_errors_noted(int dirfd)
{
	struct err ignored;
	autoclose int home = layerhome_open(dirfd, &ignored);
	autoclose int fd = home < 0 ? -1 : openat(home, WRITABLE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	uint16_t magic;
	uint32_t n;

	if (fd < 0 || pread(fd, &magic, sizeof(magic), SUPERBLOCK + SUPERBLOCK_MAGIC) != (ssize_t)sizeof(magic) ||
	    le16toh(magic) != EXT4_SUPER_MAGIC || pread(fd, &n, sizeof(n), SUPERBLOCK + SUPERBLOCK_ERRORS) != (ssize_t)sizeof(n))
		return 0;
	return le32toh(n);
}

/* ---- the ids of the layer ---- */

/*
 * The layer of a fork, whose files have owners of another range of ids than its sandbox.
 *
 * Changing each file's owner would take time for every file. Instead the mount of the layer maps
 * one range to the other (mount_setattr(2), MOUNT_ATTR_IDMAP), and the file "layer-ids" beside it
 * says which: "FROM TO".
 */

#define IDS "layer-ids"

static int parse_layer_ids(const char *text, uint32_t *ret, struct err *e)
{
	uint64_t v;

	if (num_u64(text, IDS, SPEC_IDS, UINT32_MAX, &v, e) < 0 || v % SPEC_IDS)
		return err_set(e, ERR_CORRUPT, "the file " IDS " of a sandbox is damaged");
	*ret = (uint32_t)v;
	return 0;
}

int writable_ids(int dirfd, uint32_t *ret_from, uint32_t *ret_to, struct err *e)
{
	autobuf struct buf b = BUF_INIT(64);
	struct err why = { 0 };
	char *blank;

	if (io_read_file(dirfd, IDS, &b, &why) < 0) {
		if (why.code == ERR_NOT_FOUND)
			return 0;
		*e = why;
		return -1;
	}
	if (buf_add(&b, "", 1, e) < 0)
		return -1;
	blank = strchr(b.data, ' ');
	if (!blank)
		return err_set(e, ERR_CORRUPT, "the file " IDS " of a sandbox is damaged");
	*blank = '\0';
	return parse_layer_ids(b.data, ret_from, e) < 0 || parse_layer_ids(blank + 1, ret_to, e) < 0 ? -1 : 1;
}

int writable_set_ids(int dirfd, uint32_t from, uint32_t to, int is_new, struct err *e)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%u %u", from, to);

	return io_replace_file(dirfd, IDS, text, (size_t)n, 0600,
			       is_new ? IO_DURABLE_DATA : IO_DURABLE, e);
}

int writable_map(int dirfd, int mnt_fd, struct err *e)
{
	autoclose int mnt = mnt_fd, ns = -1;
	uint32_t from = 0, to = 0;
	int has = mnt < 0 ? 0 : writable_ids(dirfd, &from, &to, e);

	if (mnt < 0 || has < 0)
		return -1;
	if (!has || from == to)
		return take_fd(&mnt);
	ns = idmapns_range(from, to, SPEC_IDS, e);
	if (ns < 0 || newmount_idmap(mnt, 0, ns, "the writable layer", e) < 0)
		return -1;
	return take_fd(&mnt);
}
