/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prepares a writable layer for another host: as a file, and with the ids of another range.
 *
 * Its owners are ids of the host, in inodes, in file capabilities (their root id) and in access
 * lists. Ranges differ by a multiple of 65,536, so a changed id is not in the old range any
 * more. Nothing is changed twice, neither a hard link nor the part that an interrupted attempt
 * finished.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/treewalk.h"
#include "runtime/kernel/blankfs.h"
#include "runtime/kernel/newmount.h"
#include "runtime/kernel/treecopy.h"
#include "runtime/sandbox/writable.h"

#define PART WRITABLE_FILE ".part"
#define GONE WRITABLE_DIR ".gone"
#define IN_HAND "trusted.berth.shift"	/* an attribute that no payload can write: user_namespaces(7) */
#define XATTR_BYTES 65536
/* the limit of table entries if the file system reports none */
#define FILES_MAX (UINT64_C(1) << 22)
#define ACL_USER 2
#define ACL_GROUP 8

struct shift {
	uint32_t from, to;
};

static uint32_t shifted(const struct shift *s, uint32_t id)
{
	return id >= s->from && id - s->from < SPEC_IDS ? id - s->from + s->to : id;
}

static uint32_t get_le32(const unsigned char *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_le32(unsigned char *p, uint32_t v)
{
	int i;

	for (i = 0; i < 4; i++)
		p[i] = (unsigned char)(v >> (8 * i));
}

/* struct vfs_ns_cap_data of revision 3: the uid of the root it is of, last. */
static void shift_caps(const struct shift *s, unsigned char *v, size_t n)
{
	if (n == XATTR_CAPS_SZ_3 && (get_le32(v) & VFS_CAP_REVISION_MASK) == VFS_CAP_REVISION_3)
		put_le32(v + n - 4, shifted(s, get_le32(v + n - 4)));
}

/* struct posix_acl_xattr_header, then entries of 16 bits tag, 16 bits rights, 32 bits id. */
static void shift_acl(const struct shift *s, unsigned char *v, size_t n)
{
	size_t i;

	for (i = 4; i + 8 <= n; i += 8)
		if (v[i] == ACL_USER || v[i] == ACL_GROUP)
			put_le32(v + i + 4, shifted(s, get_le32(v + i + 4)));
}

static const struct {
	const char *name;
	void (*shift)(const struct shift *s, unsigned char *v, size_t n);
} attrs[] = {
	{ "security.capability", shift_caps },
	{ "system.posix_acl_access", shift_acl },
	{ "system.posix_acl_default", shift_acl },
};

/*
 * chown(2) takes set-id bits and capabilities away.  They are noted at the file before, so that a later try can give them back
 * when this one is cut short in between.
 */
struct rights {
	unsigned char bytes[4 + XATTR_CAPS_SZ_3];	/* the mode, and the capabilities if there are any */
	size_t len;
};

static int note_rights(struct rights *r, const char *path, const char *name, const struct stat *st, const unsigned char *caps, size_t n,
		       struct err *e)
{
	if (n > sizeof(r->bytes) - 4)
		return err_set(e, ERR_CORRUPT, "the capabilities of %.200s are too long", name);
	put_le32(r->bytes, st->st_mode & 07777);
	if (n)
		memcpy(r->bytes + 4, caps, n);
	r->len = 4 + n;
	/* a layer that is full leaves as it came, if nothing kills us in between */
	return lsetxattr(path, IN_HAND, r->bytes, r->len, 0) < 0 && errno != ENOSPC && errno != EDQUOT ?
	       err_sys(e, "note the rights of %.200s", name) : 0;
}

static int give_back_rights(const struct rights *r, const char *path, int dir_fd, const char *name, struct err *e)
{
	if (fchmodat(dir_fd, name, get_le32(r->bytes) & 07777, 0) < 0)
		return err_sys(e, "give %.200s its mode", name);
	if (r->len > 4 && lsetxattr(path, attrs[0].name, r->bytes + 4, r->len - 4, 0) < 0)
		return err_sys(e, "give %.200s its capabilities", name);
	return lremovexattr(path, IN_HAND) < 0 && errno != ENODATA ? err_sys(e, "drop what was noted of %.200s", name) : 0;
}

/* Handles a file that has its owner already: what an interrupted attempt did not restore. */
static int give_back_noted(const char *path, int dir_fd, const char *name, struct err *e)
{
	struct rights r;
	ssize_t n = lgetxattr(path, IN_HAND, r.bytes, sizeof(r.bytes));

	if (n < 0)
		return errno == ENODATA ? 0 : err_sys(e, "read what was noted of %.200s", name);
	if (n < 4)
		return err_set(e, ERR_CORRUPT, "what was noted of %.200s is too short", name);
	r.len = (size_t)n;
	return give_back_rights(&r, path, dir_fd, name, e);
}

/* Writes the bytes of an attribute with other ids to value; 0: the file has no such attribute. */
static ssize_t read_shifted(const struct shift *s, const char *path, size_t which, unsigned char **ret, const char *name, struct err *e)
{
	ssize_t n = lgetxattr(path, attrs[which].name, NULL, 0);
	autofree unsigned char *value = NULL;

	if (n <= 0 || n > XATTR_BYTES)
		return 0;
	value = malloc((size_t)n);
	if (!value)
		return err_nomem(e);
	n = lgetxattr(path, attrs[which].name, value, (size_t)n);
	if (n < 0)
		return err_sys(e, "read %s of %.200s", attrs[which].name, name);
	attrs[which].shift(s, value, (size_t)n);
	*ret = value;
	value = NULL;
	return n;
}

/* Access lists name ids, and take nothing away. */
static int shift_lists(const struct shift *s, const char *path, const char *name, struct err *e)
{
	size_t i;

	for (i = 1; i < ARRAY_LEN(attrs); i++) {
		autofree unsigned char *value = NULL;
		ssize_t n = read_shifted(s, path, i, &value, name, e);

		if (n < 0)
			return -1;
		if (n > 0 && lsetxattr(path, attrs[i].name, value, (size_t)n, 0) < 0)
			return err_sys(e, "write %s of %.200s", attrs[i].name, name);
	}
	return 0;
}

/* The owner comes last of all that tells whether it was done: a try cut short does it again. */
static int shift_one(void *ctx, int dir_fd, const char *name, const struct stat *st, struct err *e)
{
	const struct shift *s = ctx;
	const int loses = !S_ISLNK(st->st_mode) && !S_ISDIR(st->st_mode);
	uint32_t uid = shifted(s, st->st_uid), gid = shifted(s, st->st_gid);
	autofree unsigned char *caps = NULL;
	struct rights rights = { .len = 0 };
	char path[300 + 64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%.300s", dir_fd, name);
	if (uid == st->st_uid && gid == st->st_gid)
		return loses ? give_back_noted(path, dir_fd, name, e) : 0;
	n = loses ? read_shifted(s, path, 0, &caps, name, e) : 0;
	if (n < 0 || shift_lists(s, path, name, e) < 0)
		return -1;
	if (loses && (n > 0 || st->st_mode & (S_ISUID | S_ISGID)) && note_rights(&rights, path, name, st, caps, (size_t)n, e) < 0)
		return -1;
	if (fchownat(dir_fd, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "give %.200s its owner", name);
	return rights.len ? give_back_rights(&rights, path, dir_fd, name, e) : 0;
}

int writable_shift(int dirfd, uint32_t from, uint32_t to, struct err *e)
{
	static const struct treewalk all = { shift_one, shift_one, NULL };
	struct shift s = { .from = from, .to = to };
	uint32_t disk = from, was = from;
	int shown;
	autoclose int mnt = -1, top = -1;

	if (from == to)
		return 0;
	if (from % SPEC_IDS || to % SPEC_IDS)
		return err_set(e, ERR_INTERNAL, "id ranges that are not multiples of %u", SPEC_IDS);
	/* the copies that its checkpoints are must go on to fit to it */
	shown = writable_ids(dirfd, &disk, &was, e);
	if (shown || path_has(dirfd, "checkpoints"))
		return shown < 0 ? -1 : writable_set_ids(dirfd, shown ? disk : from, to, 0, e);
	mnt = writable_open(dirfd, e);
	if (mnt < 0 || treewalk(mnt, &all, &s, e) < 0)
		return mnt < 0 && e->code == ERR_NOT_FOUND ? 0 : -1;
	top = openat(mnt, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return top < 0 || syncfs(top) < 0 ? err_sys(e, "write the writable layer") : 0;
}

/* The project's limits in its file system, and some room more for the tables of the new one. */
static int make_moved_file(int dirfd, const struct statfs *st, struct err *e)
{
	uint64_t used = st->f_files > st->f_ffree ? (uint64_t)(st->f_files - st->f_ffree) : 0, files = (uint64_t)st->f_files, bytes;
	autoclose int fd = -1;

	if (files > FILES_MAX)
		files = used < FILES_MAX ? FILES_MAX : used;
	/* a large attribute is a file to ext4 */
	files = files * 2 + 64;
	/*
	 * room for a hard link meanwhile; and other file systems than ext4 may keep small
	 * directories and links in the inode
	 */
	bytes = (uint64_t)st->f_blocks * (uint64_t)st->f_bsize + files * 256 + used * (st->f_type == EXT4_SUPER_MAGIC ? 64 : 4096) +
		(16u << 20);
	fd = openat(dirfd, PART, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)(bytes & ~UINT64_C(4095))) < 0)
		return err_sys(e, "make the file of the writable layer");
	return blankfs_make_roomy(fd, files, e) < 0 ? -1 : take_fd(&fd);
}

/* The kernel copies: mkfs.ext4 -d is the host's root over names of the sandbox's, and writes past its heap at 1,016 levels. */
static int make_moved_image(int dirfd, struct err *e)
{
	autoclose int dir = openat(dirfd, WRITABLE_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd = -1, mnt = -1;
	struct statfs st;

	if (dir < 0 || fstatfs(dir, &st) < 0)
		return err_sys(e, "measure the writable layer");
	fd = make_moved_file(dirfd, &st, e);
	if (fd < 0)
		return -1;
	mnt = writable_mount(fd, e);
	if (mnt < 0)
		return -1;
	if (treecopy(dir, mnt, e) < 0)
		return err_wrap(e, "copy the writable layer to a file");
	/* clean and on disk from here on, even if another process holds the mount for a moment */
	if (newmount_fs_readonly(mnt, e) < 0)
		return -1;
	fd_close(&mnt);
	return fsync(fd) < 0 || renameat(dirfd, PART, dirfd, WRITABLE_FILE) < 0 || fsync(dirfd) < 0 ?
	       err_sys(e, "keep the file of the writable layer") : 0;
}

int writable_drop_rest(int dirfd, struct err *e)
{
	if (unlinkat(dirfd, PART, 0) < 0 && errno != ENOENT)
		return err_sys(e, "remove " PART);
	return path_remove_tree(dirfd, GONE, e);
}

int writable_to_file(int dirfd, struct err *e)
{
	if (writable_drop_rest(dirfd, e) < 0)
		return -1;
	if (!path_has(dirfd, WRITABLE_DIR))
		return errno == ENOENT ? 0 : err_sys(e, "look at the writable layer");
	if (make_moved_image(dirfd, e) < 0) {
		unlinkat(dirfd, PART, 0);
		return -1;
	}
	/* under its name half of it would be the layer, if it is cut short */
	if (renameat(dirfd, WRITABLE_DIR, dirfd, GONE) < 0 || fsync(dirfd) < 0)
		return err_sys(e, "put the directory of the writable layer aside");
	return path_remove_tree(dirfd, GONE, e);
}
