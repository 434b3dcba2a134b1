/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S10 of SECURITY.md. */
#include "rootfs/layer/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "rootfs/store/notes.h"
#include "rootfs/store/tree.h"

#define LAYER_ENTRY_BYTES 4096

/* ---- counting against the limits ---- */

/* Counts a layer against its own limits and those of its maker. */

int layer_budget_take(struct layer_budget *b, uint64_t bytes, struct err *e)
{
	uint64_t left;

	if (!b)
		return 0;
	left = atomic_load(&b->left);
	do {
		if (left < bytes)
			return err_set(e, ERR_LIMIT, "the image is more than its tenant may have; "
				       "hint: remove others, or [tenant] own_image_bytes in "
				       "berth.toml");
	} while (!atomic_compare_exchange_weak(&b->left, &left, left - bytes));
	return 0;
}

/* Charges the bytes that count in the budget only. */
static int layer_charge(const struct layer_limits *limits, struct layer_stats *st, uint64_t bytes,
			struct err *e)
{
	st->charged += bytes;
	return layer_budget_take(limits->budget, bytes, e);
}

/*
 * Counts an entry, or bytes of one, before they are made: ERR_LIMIT if that is more than limits
 * allow, by their own figures or by their budget, in which each name, with its inode, counts for 4
 * KiB. progress may be NULL.
 */
static int layer_count_entry(const struct layer_limits *limits, struct layer_progress *progress,
			     struct layer_stats *st, struct err *e)
{
	if (++st->entries > limits->entries)
		return err_set(e, ERR_LIMIT, "the layer has more than %llu entries",
			       (unsigned long long)limits->entries);
	if (progress)
		atomic_store_explicit(&progress->entries, st->entries, memory_order_relaxed);
	return layer_charge(limits, st, LAYER_ENTRY_BYTES, e);
}

static int layer_count_bytes(const struct layer_limits *limits, struct layer_progress *progress,
			     struct layer_stats *st, uint64_t bytes, struct err *e)
{
	st->bytes += bytes;
	if (st->bytes > limits->bytes)
		return err_set(e, ERR_LIMIT, "the layer holds more than %llu bytes",
			       (unsigned long long)limits->bytes);
	if (progress)
		atomic_store_explicit(&progress->bytes, st->bytes, memory_order_relaxed);
	return layer_charge(limits, st, bytes, e);
}

/* ---- from the archive to the tree ---- */

#define CHUNK (256u << 10)
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"
#define WHITEOUT_META ".wh..wh."
#define XATTRS_MAX 256
#define XATTR_VALUE_MAX 65536

struct layer {
	struct archive *a;
	int in_fd;
	unsigned char *chunk;
	struct tree tree;
	struct notes *notes;
	int has_lower;
	const struct layer_limits *limits;
	struct layer_progress *progress;
	int forget;		/* the cached parent may be stale */
	struct layer_stats st;
};

/* One entry, checked; its data is not yet read from the archive. */
struct item {
	struct archive_entry *ae;
	char path[TREE_PATH_MAX + 1];
	mode_t type;
	mode_t mode;		/* permission bits, with setuid, setgid, sticky */
	uid_t uid;
	gid_t gid;
	struct timespec times[2];
	uint64_t size;
	int parent_fd;		/* borrowed from the tree */
	const char *name;
};

static int archive_failed(struct layer *l, const char *doing, struct err *e)
{
	const char *why = archive_error_string(l->a);

	return err_set(e, ERR_CORRUPT, "%s: %.300s", doing, why ? why : "malformed archive");
}

static la_ssize_t read_cb(struct archive *a, void *ctx, const void **ret)
{
	struct layer *l = ctx;
	ssize_t r;

	do
		r = read(l->in_fd, l->chunk, CHUNK);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		archive_set_error(a, errno, "read the stream: %s", strerror(errno));
	*ret = l->chunk;
	return r;
}

static uint32_t clamp_id(struct layer *l, int64_t id)
{
	if (id <= LAYER_ID_MAX)
		return (uint32_t)id;
	l->st.ids_clamped++;
	return LAYER_ID_NOBODY;
}

static int read_archive_item(struct layer *l, struct archive_entry *ae, struct item *it, struct err *e)
{
	const char *path = archive_entry_pathname(ae);
	int64_t uid = archive_entry_uid(ae), gid = archive_entry_gid(ae), size = archive_entry_size(ae);

	if (!path)
		path = archive_entry_pathname_utf8(ae);
	if (!path || !*path)
		return err_set(e, ERR_CORRUPT, "an entry has no name");
	if (tree_clean_path(path, it->path, e) < 0)
		return -1;
	it->ae = ae;
	it->type = archive_entry_filetype(ae);
	it->mode = archive_entry_perm(ae) & 07777;
	if (uid < 0 || gid < 0)
		return err_set(e, ERR_CORRUPT, "'%.200s' has a negative owner", it->path);
	it->uid = clamp_id(l, uid);
	it->gid = clamp_id(l, gid);
	if (uid > LAYER_ID_MAX)
		it->mode &= ~(mode_t)S_ISUID;
	if (gid > LAYER_ID_MAX)
		it->mode &= ~(mode_t)S_ISGID;
	it->times[0].tv_nsec = UTIME_OMIT;
	it->times[1].tv_sec = archive_entry_mtime(ae);
	it->times[1].tv_nsec = archive_entry_mtime_nsec(ae);
	if (it->times[1].tv_nsec < 0 || it->times[1].tv_nsec > 999999999)
		it->times[1].tv_nsec = 0;
	if (it->type == AE_IFREG && !archive_entry_hardlink(ae)) {
		if (size < 0 || (uint64_t)size > l->limits->bytes)
			return err_set(e, size < 0 ? ERR_CORRUPT : ERR_LIMIT, "'%.200s' has an impossible size", it->path);
		it->size = (uint64_t)size;
	}
	return 0;
}

/* Removes the existing entry with the item's name. Returns its type, 0 for nothing. */
static int clear_name(struct layer *l, const struct item *it, mode_t *ret_type, struct err *e)
{
	struct stat st;

	*ret_type = 0;
	if (fstatat(it->parent_fd, it->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "look at '%.200s'", it->path);
	*ret_type = st.st_mode & S_IFMT;
	/* the cached parent may lie below it; it->parent_fd is in use until the entry is done */
	if (!S_ISREG(st.st_mode))
		l->forget = 1;
	if (!S_ISDIR(st.st_mode))
		return unlinkat(it->parent_fd, it->name, 0) < 0 ? err_sys(e, "replace '%.200s'", it->path) : 0;
	return path_remove_tree(it->parent_fd, it->name, e);
}

static int set_xattrs(struct layer *l, const struct item *it, int fd, struct err *e)
{
	const char *name;
	const void *value;
	size_t size;
	int seen = 0;

	archive_entry_xattr_reset(it->ae);
	while (archive_entry_xattr_next(it->ae, &name, &value, &size) == ARCHIVE_OK) {
		if (++seen > XATTRS_MAX)
			return err_set(e, ERR_LIMIT, "'%.200s' has too many extended attributes", it->path);
		if (!name || strncmp(name, "user.", 5) || !strncmp(name, "user.overlay.", 13) ||
		    strlen(name) > 255 || size > XATTR_VALUE_MAX || fd < 0) {
			l->st.xattrs_dropped++;
			continue;
		}
		if (layer_charge(l->limits, &l->st, size, e) < 0)
			return -1;
		if (fsetxattr(fd, name, value, size, 0) < 0) {
			if (errno != ENOTSUP && errno != ENOSPC && errno != E2BIG && errno != EDQUOT)
				return err_sys(e, "set attribute %.100s of '%.200s'", name, it->path);
			l->st.xattrs_dropped++;
		}
	}
	return 0;
}

static int has_xattrs(const struct item *it)
{
	return archive_entry_xattr_count(it->ae) > 0;
}

/* ---- regular files ---- */

static int write_blocks(struct layer *l, const struct item *it, int fd, struct err *e)
{
	uint64_t end = 0;
	la_int64_t off;
	const void *p;
	size_t n;
	int r;

	while ((r = archive_read_data_block(l->a, &p, &n, &off)) != ARCHIVE_EOF) {
		if (r < ARCHIVE_WARN || off < 0 || (uint64_t)off > l->limits->bytes)
			return archive_failed(l, it->path, e);
		if (!n)
			continue;
		if ((uint64_t)off != end && lseek(fd, off, SEEK_SET) < 0)
			return err_sys(e, "seek in '%.200s'", it->path);
		if (layer_count_bytes(l->limits, l->progress, &l->st, n, e) < 0)
			return -1;
		if (io_write_all(fd, p, n) < 0)
			return err_sys(e, "write '%.200s'", it->path);
		end = (uint64_t)off + n;
		if (end > l->limits->bytes)
			return err_set(e, ERR_LIMIT, "the layer holds more than %llu bytes",
				       (unsigned long long)l->limits->bytes);
	}
	/* a hole at the end; never a cut, a sparse map may say less than the size */
	if (end < it->size && ftruncate(fd, (off_t)it->size) < 0)
		return err_sys(e, "size '%.200s'", it->path);
	return 0;
}

static int apply_file(struct layer *l, struct item *it, struct err *e)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	autoclose int fd = openat(it->parent_fd, it->name, flags, it->mode & 0777);
	mode_t had;

	if (fd < 0 && errno == EEXIST) {
		if (clear_name(l, it, &had, e) < 0)
			return -1;
		fd = openat(it->parent_fd, it->name, flags, it->mode & 0777);
	}
	if (fd < 0)
		return err_sys(e, "make file '%.200s'", it->path);
	if (it->size && write_blocks(l, it, fd, e) < 0)
		return -1;
	if ((it->uid || it->gid) && fchown(fd, it->uid, it->gid) < 0)
		return err_sys(e, "give '%.200s' its owner", it->path);
	if (has_xattrs(it) && set_xattrs(l, it, fd, e) < 0)
		return -1;
	/* after the owner and the data, which both clear setuid */
	if ((it->mode & 07000) && fchmod(fd, it->mode) < 0)
		return err_sys(e, "give '%.200s' its mode", it->path);
	if (futimens(fd, it->times) < 0)
		return err_sys(e, "give '%.200s' its time", it->path);
	return 0;
}

/* ---- everything else ---- */

static int apply_dir(struct layer *l, struct item *it, struct err *e)
{
	struct stat st;
	mode_t had = 0;

	if (mkdirat(it->parent_fd, it->name, it->mode) < 0) {
		if (errno != EEXIST || fstatat(it->parent_fd, it->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(e, "make directory '%.200s'", it->path);
		if (!S_ISDIR(st.st_mode)) {
			if (clear_name(l, it, &had, e) < 0)
				return -1;
			if (mkdirat(it->parent_fd, it->name, it->mode) < 0)
				return err_sys(e, "make directory '%.200s'", it->path);
		} else if (fchmodat(it->parent_fd, it->name, it->mode, 0) < 0) {
			return err_sys(e, "give '%.200s' its mode", it->path);
		}
		/* also when it had another owner before */
		if (fchownat(it->parent_fd, it->name, it->uid, it->gid, AT_SYMLINK_NOFOLLOW) < 0)
			return err_sys(e, "give '%.200s' its owner", it->path);
	} else if ((it->uid || it->gid) &&
		   fchownat(it->parent_fd, it->name, it->uid, it->gid, AT_SYMLINK_NOFOLLOW) < 0) {
		return err_sys(e, "give '%.200s' its owner", it->path);
	}
	/* mkdir ignores these bits; the lines above made sure that the entry is a directory */
	if ((it->mode & 07000) && fchmodat(it->parent_fd, it->name, it->mode, 0) < 0)
		return err_sys(e, "give '%.200s' its mode", it->path);
	if (has_xattrs(it)) {
		autoclose int fd = openat(it->parent_fd, it->name,
					  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0)
			return err_sys(e, "open directory '%.200s'", it->path);
		if (set_xattrs(l, it, fd, e) < 0)
			return -1;
	}
	/* removed below and made again by this layer: the directory below must not show through */
	if (S_ISCHR(had) && notes_add(l->notes, NOTE_OPAQUE, it->path, 0, 0, e) < 0)
		return -1;
	return notes_add(l->notes, NOTE_TIME, it->path, it->times[1].tv_sec, (uint32_t)it->times[1].tv_nsec, e);
}

static int apply_root(struct layer *l, struct item *it, struct err *e)
{
	if (it->type != AE_IFDIR || archive_entry_hardlink(it->ae))
		return err_set(e, ERR_CORRUPT, "the archive's root is not a directory");
	if (fchown(l->tree.root_fd, it->uid, it->gid) < 0)
		return err_sys(e, "give the root directory its owner");
	/* the mode stays 0755: 0700 or 0 would lock the sandbox out of itself (I31) */
	return notes_add(l->notes, NOTE_TIME, ".", it->times[1].tv_sec, (uint32_t)it->times[1].tv_nsec, e);
}

static int apply_symlink(struct layer *l, struct item *it, struct err *e)
{
	const char *target = archive_entry_symlink(it->ae);
	mode_t had;

	if (!target)
		target = archive_entry_symlink_utf8(it->ae);
	if (!target || !*target || strlen(target) >= TREE_PATH_MAX)
		return err_set(e, ERR_CORRUPT, "symbolic link '%.200s' has no target, or its target is "
						 "too long", it->path);
	if (symlinkat(target, it->parent_fd, it->name) < 0) {
		if (errno != EEXIST)
			return err_sys(e, "make symbolic link '%.200s'", it->path);
		if (clear_name(l, it, &had, e) < 0)
			return -1;
		if (symlinkat(target, it->parent_fd, it->name) < 0)
			return err_sys(e, "make symbolic link '%.200s'", it->path);
	}
	if ((it->uid || it->gid) &&
	    fchownat(it->parent_fd, it->name, it->uid, it->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "give '%.200s' its owner", it->path);
	if (has_xattrs(it) && set_xattrs(l, it, -1, e) < 0)
		return -1;
	if (utimensat(it->parent_fd, it->name, it->times, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "give '%.200s' its time", it->path);
	return 0;
}

static int apply_hardlink(struct layer *l, struct item *it, const char *target, struct err *e)
{
	char path[TREE_PATH_MAX + 1];
	struct stat to, from;
	struct tree other;
	const char *name;
	mode_t had;
	int fd, rc = -1;

	if (tree_clean_path(target, path, e) < 0)
		return -1;
	tree_init(&other, l->tree.root_fd);	/* the parent of it stays cached in l->tree */
	if (!*path) {
		err_set(e, ERR_CORRUPT, "'%.200s' is a hard link to the root", it->path);
		goto done;
	}
	if (tree_parent(&other, path, 0, &fd, &name, e) < 0)
		goto done;
	if (fstatat(fd, name, &to, AT_SYMLINK_NOFOLLOW) < 0) {
		err_code_sys(e, ERR_CORRUPT, "'%.200s' is a hard link to '%.200s'", it->path, path);
		goto done;
	}
	if (!S_ISREG(to.st_mode) && !S_ISLNK(to.st_mode) && !S_ISFIFO(to.st_mode)) {
		err_set(e, ERR_CORRUPT, "'%.200s' is a hard link to something that is not a file", it->path);
		goto done;
	}
	/* a link to itself, or one listed twice, is done already; removing it would lose the file */
	if (!fstatat(it->parent_fd, it->name, &from, AT_SYMLINK_NOFOLLOW) &&
	    from.st_dev == to.st_dev && from.st_ino == to.st_ino) {
		rc = 0;
		goto done;
	}
	rc = linkat(fd, name, it->parent_fd, it->name, 0);
	if (rc < 0 && errno == EEXIST && !clear_name(l, it, &had, e))
		rc = linkat(fd, name, it->parent_fd, it->name, 0);
	if (rc < 0)
		err_sys(e, "make hard link '%.200s'", it->path);
done:
	tree_release(&other);
	return rc;
}

static int apply_fifo(struct layer *l, struct item *it, struct err *e)
{
	mode_t had;

	if (clear_name(l, it, &had, e) < 0)
		return -1;
	if (mknodat(it->parent_fd, it->name, S_IFIFO | (it->mode & 0777), 0) < 0 ||
	    fchownat(it->parent_fd, it->name, it->uid, it->gid, AT_SYMLINK_NOFOLLOW) < 0 ||
	    utimensat(it->parent_fd, it->name, it->times, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "make FIFO '%.200s'", it->path);
	return 0;
}

/* ---- whiteouts: OCI image-spec, layer.md ---- */

static int apply_opaque(struct layer *l, struct item *it, struct err *e)
{
	char dir[TREE_PATH_MAX + 1];
	size_t len = it->name == it->path ? 0 : (size_t)(it->name - it->path - 1);

	l->st.whiteouts++;
	if (!l->has_lower)
		return 0;
	memcpy(dir, it->path, len);
	dir[len] = '\0';
	return notes_add(l->notes, NOTE_OPAQUE, len ? dir : ".", 0, 0, e);
}

static int apply_whiteout(struct layer *l, struct item *it, struct err *e)
{
	const char *victim = it->name + strlen(WHITEOUT);
	char path[TREE_PATH_MAX + 1];
	size_t dir = (size_t)(it->name - it->path), len = strlen(victim);
	struct stat st;

	if (!strcmp(it->name, OPAQUE))
		return apply_opaque(l, it, e);
	if (!strncmp(it->name, WHITEOUT_META, strlen(WHITEOUT_META)))
		return 0;	/* aufs bookkeeping */
	if (!*victim || !strcmp(victim, ".") || !strcmp(victim, ".."))
		return err_set(e, ERR_CORRUPT, "whiteout '%.200s' names nothing that can be removed", it->path);
	l->st.whiteouts++;
	if (!l->has_lower)
		return 0;
	if (!mknodat(it->parent_fd, victim, S_IFCHR, makedev(0, 0)))
		return 0;
	if (errno != EEXIST || fstatat(it->parent_fd, victim, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "make whiteout '%.200s'", it->path);
	/* a whiteout is about the layers below; entries of this layer stay */
	if (!S_ISDIR(st.st_mode))
		return 0;
	memcpy(path, it->path, dir);
	memcpy(path + dir, victim, len + 1);
	return notes_add(l->notes, NOTE_OPAQUE, path, 0, 0, e);
}

/* ---- the loop ---- */

static int apply_entry(struct layer *l, struct item *it, struct err *e)
{
	const char *slash = strrchr(it->path, '/'), *link = archive_entry_hardlink(it->ae);
	int white = !strncmp(slash ? slash + 1 : it->path, WHITEOUT, strlen(WHITEOUT));

	if (!*it->path)
		return apply_root(l, it, e);
	if (tree_parent(&l->tree, it->path, TREE_MAKE | (white ? TREE_STRICT : 0),
			&it->parent_fd, &it->name, e) < 0)
		return -1;
	if (white)
		return apply_whiteout(l, it, e);
	if (!link)
		link = archive_entry_hardlink_utf8(it->ae);
	if (link)
		return apply_hardlink(l, it, link, e);
	switch (it->type) {
	case AE_IFREG:
		return apply_file(l, it, e);
	case AE_IFDIR:
		return apply_dir(l, it, e);
	case AE_IFLNK:
		return apply_symlink(l, it, e);
	case AE_IFIFO:
		return apply_fifo(l, it, e);
	case AE_IFCHR:
	case AE_IFBLK:
	case AE_IFSOCK:
		l->st.devices_skipped++;
		return 0;
	default:
		return err_set(e, ERR_CORRUPT, "'%.200s' is of an unknown kind", it->path);
	}
}

static int made_parent(void *ctx, const char *path, struct err *e)
{
	struct layer *l = ctx;

	if (layer_charge(l->limits, &l->st, LAYER_ENTRY_BYTES, e) < 0)
		return -1;
	/* this time is the mark by which the parent process knows that no entry came */
	return notes_add(l->notes, NOTE_IMPLIED, path, LAYER_IMPLIED_SEC, LAYER_IMPLIED_NSEC, e);
}

static int apply_time(void *ctx, const struct note *n, struct err *e)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { n->sec, n->nsec } };
	struct layer *l = ctx;
	const char *name;
	int fd;

	if (n->kind == NOTE_OPAQUE)
		return 0;
	if (!strcmp(n->path, "."))
		return futimens(l->tree.root_fd, times) < 0 ? err_sys(e, "set the time of the root") : 0;
	/* the directory is gone or replaced since, or was reached through a link that is: nothing to set */
	if (tree_parent(&l->tree, n->path, 0, &fd, &name, NULL) < 0)
		return 0;
	if (utimensat(fd, name, times, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT)
		return err_sys(e, "give '%.200s' its time", n->path);
	return 0;
}

static int apply_all(struct layer *l, struct item *it, struct err *e)
{
	struct archive_entry *ae;
	int r;

	while ((r = archive_read_next_header(l->a, &ae)) != ARCHIVE_EOF) {
		if (r < ARCHIVE_WARN)
			return archive_failed(l, "read the archive", e);
		if (layer_count_entry(l->limits, l->progress, &l->st, e) < 0)
			return -1;
		it->size = 0;
		if (read_archive_item(l, ae, it, e) < 0 || apply_entry(l, it, e) < 0)
			return -1;
		if (l->forget)
			tree_forget(&l->tree);
		l->forget = 0;
	}
	return 0;
}

/* The digest covers the bytes after the end mark, so we must read them all. */
static int drain_layer(struct layer *l, struct err *e)
{
	ssize_t r;

	do
		r = read(l->in_fd, l->chunk, CHUNK);
	while (r > 0 || (r < 0 && errno == EINTR));
	return r < 0 ? err_sys(e, "read the rest of the stream") : 0;
}

static int open_archive(struct layer *l, struct err *e)
{
	l->a = archive_read_new();
	if (!l->a || archive_read_support_format_tar(l->a) != ARCHIVE_OK ||
	    archive_read_support_format_empty(l->a) != ARCHIVE_OK)
		return err_nomem(e);
	if (archive_read_open2(l->a, l, NULL, read_cb, NULL, NULL) != ARCHIVE_OK)
		return archive_failed(l, "open the archive", e);
	return 0;
}

int layer_apply(int in_fd, int root_fd, int notes_fd, int has_lower, const struct layer_limits *limits,
		struct layer_progress *progress, struct layer_stats *ret_stats, struct err *e)
{
	autofree struct item *it = calloc(1, sizeof(*it));
	autofree struct notes *notes = calloc(1, sizeof(*notes));
	autofree unsigned char *chunk = malloc(CHUNK);
	struct layer l = { .in_fd = in_fd, .chunk = chunk, .notes = notes, .has_lower = has_lower,
			   .limits = limits, .progress = progress };
	int rc = -1;

	if (!it || !notes || !chunk)
		return err_nomem(e);
	notes_init(notes, notes_fd);
	tree_init(&l.tree, root_fd);
	l.tree.made = made_parent;
	l.tree.ctx = &l;
	if (fchmod(root_fd, 0755) < 0) {
		err_sys(e, "open up the root directory");
		goto done;
	}
	/* most archives have an entry for the root, which then counts */
	if (made_parent(&l, ".", e) < 0)
		goto done;
	if (open_archive(&l, e) < 0 || apply_all(&l, it, e) < 0 || drain_layer(&l, e) < 0 ||
	    notes_flush(notes, e) < 0)
		goto done;
	tree_forget(&l.tree);
	if (notes_replay(notes_fd, apply_time, &l, e) < 0)
		goto done;
	*ret_stats = l.st;
	rc = 0;
done:
	archive_read_free(l.a);
	tree_release(&l.tree);
	return rc;
}
