/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/getdents.h"
#include "base/mem.h"

int path_openat2(int dirfd, const char *path, uint64_t flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC,
		.mode = flags & (O_CREAT | __O_TMPFILE) ? mode : 0,
		.resolve = resolve,
	};
	int i, fd;

	for (i = 0; i < 64; i++) {
		fd = (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			return fd;
	}
	return -1;
}

int path_open_subdir(int dirfd, const char *name, int flags)
{
	int fd;

	flags |= O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	fd = path_openat2(dirfd, name, (uint64_t)flags, 0, RESOLVE_BENEATH | RESOLVE_NO_XDEV);
	return fd < 0 && errno == ENOSYS ? openat(dirfd, name, flags) : fd;
}

int path_open_above(int fd, int flags, dev_t dev, ino_t ino)
{
	autoclose int up = openat(fd, "..", flags | O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (up < 0 || fstat(up, &st) < 0)
		return -1;
	if (st.st_dev != dev || st.st_ino != ino) {
		errno = ESTALE;
		return -1;
	}
	return take_fd(&up);
}

int path_has(int dirfd, const char *name)
{
	struct stat st;

	return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int path_open_in_root(int dirfd, const char *path, int flags, mode_t mode)
{
	return path_openat2(dirfd, path, (uint64_t)flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int path_open_beneath(int dirfd, const char *path, int flags, mode_t mode)
{
	return path_openat2(dirfd, path, (uint64_t)flags, mode,
			    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* Opens one prefix of the path; a missing directory is made in its parent first. */
static int mkdir_prefix(int rootfd, const char *prefix, mode_t mode, uid_t uid, gid_t gid,
			struct err *e)
{
	const int flags = O_PATH | O_DIRECTORY;
	char parent[4096];
	autoclose int pfd = -1;
	const char *slash, *name;
	int fd;

	fd = path_open_in_root(rootfd, prefix, flags, 0);
	if (fd >= 0)
		return fd;
	if (errno != ENOENT)
		return err_code_sys(e, errno == ENOTDIR || errno == ELOOP ? ERR_INVALID : ERR_SYS,
				    "open directory %s in the sandbox", prefix);
	slash = strrchr(prefix, '/');
	name = slash ? slash + 1 : prefix;
	snprintf(parent, sizeof(parent), "%.*s", slash && slash != prefix ? (int)(slash - prefix) : 1,
		 slash ? prefix : "/");
	pfd = path_open_in_root(rootfd, slash == prefix ? "/" : parent, flags, 0);
	if (pfd < 0)
		return err_sys(e, "open the parent of %s in the sandbox", prefix);
	if (mkdirat(pfd, name, mode) < 0) {
		if (errno != EEXIST)
			return err_sys(e, "make directory %s in the sandbox", prefix);
	} else if (uid != (uid_t)-1 && fchownat(pfd, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0) {
		return err_sys(e, "give directory %s in the sandbox its owner", prefix);
	}
	/* a dangling symlink ends here: EEXIST above, ENOTDIR or ELOOP now */
	fd = openat(pfd, name, flags | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_code_sys(e, ERR_INVALID, "%s in the sandbox is not a directory", prefix);
	return fd;
}

int path_mkdirs_in_root(int rootfd, const char *path, mode_t mode, uid_t uid, gid_t gid,
			struct err *e)
{
	char prefix[4096];
	size_t len = strlen(path), i;
	int fd;

	if (path[0] != '/' || len >= sizeof(prefix))
		return err_set(e, ERR_INVALID, "path '%.200s' must be absolute and shorter than 4096 bytes", path);
	fd = path_open_in_root(rootfd, path, O_PATH | O_DIRECTORY, 0);
	if (fd >= 0)
		return fd;
	fd = -1;
	for (i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		if (path[i - 1] == '/')
			continue;
		memcpy(prefix, path, i);
		prefix[i] = '\0';
		fd_close(&fd);
		fd = mkdir_prefix(rootfd, prefix, mode, uid, gid, e);
		if (fd < 0)
			return -1;
	}
	if (fd < 0)
		fd = path_open_in_root(rootfd, "/", O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return err_sys(e, "open / in the sandbox");
	return fd;
}

/*
 * Depth-first with an explicit chain of ".." opens, so that a hostile depth costs neither stack
 * nor descriptors. We hold only the current directory, and return by openat("..") checked
 * against the recorded inode. We read a directory until we find a few subdirectories that are
 * not empty, empty those, and read the rest from the start. So a name is not looked at once for
 * each of its neighbours.
 */
struct level {
	dev_t dev;
	ino_t ino;
	char *names;	/* non-empty subdirectories, each ended by a NUL; NULL: none */
	uint32_t len, at;	/* at: the offset of the current name, or of the next */
};

enum {
	NAMES_MAX = 16 << 10,	/* bytes of one directory */
	NAMES_ALL_MAX = 8 << 20,	/* for all levels together; past it, one name a directory */
	REFILLED_MAX = 1000,	/* refilled directories; more of them mean that another process works
				 * against us */
	NOT_THERE = -2,
};

struct removal {
	struct level *levels;	/* depth + 1 of them are in use */
	size_t depth, room, held;
	dev_t dev;
	unsigned refilled;
};

/* Returns 1 for a directory that is not empty, 0 if it is gone. */
static int remove_entry(int fd, const struct dirent *d)
{
	if (d->d_type != DT_DIR && !unlinkat(fd, d->d_name, 0))
		return 0;
	if (!unlinkat(fd, d->d_name, AT_REMOVEDIR) || errno == ENOENT)
		return 0;
	if (errno == ENOTDIR && (!unlinkat(fd, d->d_name, 0) || errno == ENOENT))
		return 0;
	return errno == ENOTEMPTY || errno == EEXIST ? 1 : -1;
}

static void drop_names(struct removal *r, struct level *l)
{
	r->held -= l->len;
	free(l->names);
	l->names = NULL;
	l->len = l->at = 0;
}

/* Returns 1 if there is no room for another name. */
static int keep_name(struct removal *r, struct level *l, const char *name, struct err *e)
{
	size_t n = strlen(name) + 1;
	int alone = r->held >= NAMES_ALL_MAX;

	if (!l->names) {
		l->names = malloc(alone ? n : NAMES_MAX);
		if (!l->names)
			return err_nomem(e);
	}
	memcpy(l->names + l->len, name, n);
	l->len += (uint32_t)n;
	r->held += n;
	return alone || l->len + NAME_MAX + 1 > NAMES_MAX;
}

/*
 * Removes the empty entries of the directory, and keeps the names of some of the others: none if
 * it is now empty.
 */
static int empty_dir(int fd, struct removal *r, struct level *l, struct err *e)
{
	autoclose int dup_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = dup_fd < 0 ? NULL : fdopendir(dup_fd);
	struct dirent *d;
	int full = 0, holds;

	if (!dir)
		return err_sys(e, "read a directory to remove");
	take_fd(&dup_fd);
	while (full == 0 && (errno = 0, d = readdir(dir))) {
		holds = getdents_dots(d->d_name) ? 0 : remove_entry(fd, d);
		if (holds < 0)
			full = errno == EBUSY ? err_set(e, ERR_BUSY, "%s is a mount point", d->d_name) : err_sys(e, "remove %s", d->d_name);
		else if (holds)
			full = keep_name(r, l, d->d_name, e);
	}
	if (full == 0 && errno)
		full = err_sys(e, "read a directory to remove");
	if (l->names) {
		/* most directories have a few names; the total counts them */
		char *less = realloc(l->names, l->len);

		l->names = less ? less : l->names;
	}
	closedir(dir);
	return full < 0 ? -1 : 0;
}

static void skip_name(struct level *l)
{
	l->at += (uint32_t)strlen(l->names + l->at) + 1;
}

/*
 * Goes down into the next name. Returns the descriptor, or NOT_THERE if it is not a directory
 * any more.
 */
static int removal_go_down(struct removal *r, int fd, struct err *e)
{
	const char *name = r->levels[r->depth].names + r->levels[r->depth].at;
	autoclose int next = path_open_subdir(fd, name, 0);
	struct level *more;
	struct stat st;

	if (next < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return NOT_THERE;
	if (next < 0 ? errno != EXDEV : fstat(next, &st) < 0)
		return err_sys(e, "enter %s to remove it", name);
	if (next < 0 || st.st_dev != r->dev)
		return err_set(e, ERR_BUSY, "%s is a mount point", name);
	if (r->depth + 1 == r->room) {
		more = realloc(r->levels, 2 * r->room * sizeof(*more));
		if (!more)
			return err_nomem(e);
		r->levels = more;
		r->room *= 2;
	}
	r->levels[++r->depth] = (struct level){ .dev = st.st_dev, .ino = st.st_ino };
	return take_fd(&next);
}

/* Goes back up from an empty directory, and removes it. */
static int removal_go_up(struct removal *r, int fd, struct err *e)
{
	struct level *l = &r->levels[--r->depth];
	autoclose int next = path_open_above(fd, 0, l->dev, l->ino);
	const char *name = l->names + l->at;

	if (next < 0)
		return errno == ESTALE ? err_set(e, ERR_BUSY, "a directory moved while it was being removed") :
		       err_sys(e, "go back up in a directory to remove");
	if (unlinkat(next, name, AT_REMOVEDIR) < 0 && errno != ENOENT && errno != ENOTDIR &&
	    ((errno != ENOTEMPTY && errno != EEXIST) || ++r->refilled > REFILLED_MAX))
		return err_sys(e, "remove %s", name);
	skip_name(l);
	return take_fd(&next);
}

/* Takes fd, the directory at the top. */
static int remove_levels(int fd, struct removal *r, struct err *e)
{
	for (;;) {
		struct level *l = &r->levels[r->depth];
		int next;

		if (l->at == l->len) {
			drop_names(r, l);
			if (empty_dir(fd, r, l, e) < 0)
				break;
		}
		if (!l->len && !r->depth) {
			close(fd);
			return 0;
		}
		next = l->len ? removal_go_down(r, fd, e) : removal_go_up(r, fd, e);
		if (next == NOT_THERE) {
			skip_name(l);
			continue;
		}
		if (next < 0)
			break;
		close(fd);
		fd = next;
	}
	close(fd);
	return -1;
}

int path_remove_tree(int dirfd, const char *name, struct err *e)
{
	struct removal r = { .room = 64 };
	struct stat st;
	int fd, result;

	if (!unlinkat(dirfd, name, AT_REMOVEDIR) || errno == ENOENT)
		return 0;
	if (errno == ENOTDIR)
		return !unlinkat(dirfd, name, 0) || errno == ENOENT ? 0 : err_sys(e, "remove %s", name);
	if (errno != ENOTEMPTY && errno != EEXIST)
		return err_sys(e, "remove %s", name);
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open %s to remove it", name);
	if (fstat(fd, &st) < 0) {
		close(fd);
		return err_sys(e, "stat %s", name);
	}
	r.levels = malloc(r.room * sizeof(*r.levels));
	if (!r.levels) {
		close(fd);
		return err_nomem(e);
	}
	r.levels[0] = (struct level){ .dev = st.st_dev, .ino = st.st_ino };
	r.dev = st.st_dev;
	result = remove_levels(fd, &r, e);
	do
		drop_names(&r, &r.levels[r.depth]);
	while (r.depth--);
	free(r.levels);
	if (result < 0)
		return err_wrap(e, "remove %s", name);
	if (unlinkat(dirfd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(e, "remove %s", name);
	return 0;
}

static int mkdir_parents(const char *path, struct err *e)
{
	char prefix[4096];
	size_t i, len = strlen(path);

	if (len >= sizeof(prefix))
		return err_set(e, ERR_INVALID, "path '%.100s...' is too long", path);
	for (i = 1; i < len; i++) {
		if (path[i] != '/')
			continue;
		memcpy(prefix, path, i);
		prefix[i] = '\0';
		if (mkdir(prefix, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "make directory %s", prefix);
	}
	return 0;
}

int path_each_entry(int dirfd, int (*each)(void *ctx, const char *name), void *ctx, int *ret_failed)
{
	_Alignas(struct getdents) char list[2048];
	long n, at;
	int r = 0;

	while (r == 0 && (n = getdents_read(dirfd, list, sizeof(list))) != 0) {
		if (n < 0) {
			*ret_failed = 1;
			return 0;
		}
		for (at = 0; r == 0 && at < n;) {
			const struct getdents *d = getdents_next(list, &at);

			if (!getdents_dots(d->name))
				r = each(ctx, d->name);
		}
	}
	return r;
}

#define PRIVATE_DIR (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* errno says why. */
static int cannot_open_dir(const char *path, struct err *e)
{
	return err_code_sys(e, errno == ELOOP || errno == ENOTDIR ? ERR_DENIED : ERR_SYS, "open directory %s", path);
}

static int check_private(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "stat %s", path);
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return err_set(e, ERR_DENIED, "%s has owner %u and mode %04o, which others could use "
			       "against us; hint: chown root and chmod 0700 it, or remove it",
			       path, (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777));
	return 0;
}

int path_open_private_dir(const char *path, struct err *e)
{
	autoclose int fd = open(path, PRIVATE_DIR);

	if (fd < 0 && errno == ENOENT) {
		if (mkdir(path, 0700) < 0 && errno != EEXIST) {
			if (errno != ENOENT)
				return err_sys(e, "make directory %s", path);
			if (mkdir_parents(path, e) < 0)
				return -1;
			if (mkdir(path, 0700) < 0 && errno != EEXIST)
				return err_sys(e, "make directory %s", path);
		}
		fd = open(path, PRIVATE_DIR);
	}
	if (fd < 0)
		return cannot_open_dir(path, e);
	return check_private(fd, path, e) < 0 ? -1 : take_fd(&fd);
}

int path_check_private_dir(const char *path, struct err *e)
{
	autoclose int fd = open(path, PRIVATE_DIR);
	char above[4096];
	struct stat st;

	if (fd >= 0)
		return check_private(fd, path, e) < 0 ? -1 : 1;
	if (errno != ENOENT)
		return cannot_open_dir(path, e);
	if (snprintf(above, sizeof(above), "%s", path) >= (int)sizeof(above))
		return err_set(e, ERR_INVALID, "path '%.100s...' is too long", path);
	/* missing directories are made below the first one that exists */
	do
		*strrchr(above, '/') = '\0';
	while (above[0] && stat(above, &st) < 0 && errno == ENOENT);
	if (!above[0])
		return 0;
	if (stat(above, &st) < 0 || access(above, W_OK | X_OK) < 0)
		return err_sys(e, "make directory %s in %s", path, above);
	return S_ISDIR(st.st_mode) ? 0 : err_set(e, ERR_DENIED, "make directory %s: %s is not a directory", path, above);
}

const char *path_of_fd(int fd, char buf[32])
{
	snprintf(buf, 32, "/proc/self/fd/%d", fd);
	return buf;
}

int path_is_name(const char *s)
{
	size_t i;

	for (i = 0; s[i]; i++) {
		int alnum = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= '0' && s[i] <= '9');

		if (i == 64 || (!alnum && (i == 0 || !strchr("_.-", s[i]))))
			return 0;
	}
	return i > 0;
}

int path_make_dir(int dirfd, const char *name, struct err *e)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT) {
		if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST)
			return err_sys(e, "make directory %s", name);
		fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	return fd < 0 ? err_sys(e, "open directory %s", name) : fd;
}

/* ---- a file that appears whole --------------------------------------------------------------- */

/* False when the name would be too long. */
static int name_meanwhile(const struct path_file *f, char ret[NAME_MAX + 1])
{
	return snprintf(ret, NAME_MAX + 1, "%s.berth-%d", f->name, (int)getpid()) <= NAME_MAX;
}

int path_file_make(struct path_file *f, int dirfd, const char *name, mode_t mode)
{
	char tmp[NAME_MAX + 1];

	*f = (struct path_file){ .fd = openat(dirfd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, mode), .dirfd = dirfd, .name = name };
	if (f->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT) && name_meanwhile(f, tmp)) {
		f->fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		f->has_name = f->fd >= 0;
	}
	return f->fd < 0 ? -1 : 0;
}

int path_file_publish(struct path_file *f)
{
	char own[32], tmp[NAME_MAX + 1];
	int r;

	if (fsync(f->fd) < 0)
		return -1;
	path_of_fd(f->fd, own);
	if (!f->has_name && linkat(AT_FDCWD, own, f->dirfd, f->name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	if (!f->has_name && errno != EEXIST)
		return -1;
	/* a link cannot replace a file, but a rename can */
	if (!name_meanwhile(f, tmp)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (!f->has_name && linkat(AT_FDCWD, own, f->dirfd, tmp, AT_SYMLINK_FOLLOW) < 0)
		return -1;
	f->has_name = 1;
	r = renameat(f->dirfd, tmp, f->dirfd, f->name);
	f->has_name = r < 0;
	return r;
}

void path_file_close(struct path_file *f)
{
	char tmp[NAME_MAX + 1];

	if (f->has_name && name_meanwhile(f, tmp))
		unlinkat(f->dirfd, tmp, 0);
	f->has_name = 0;
	fd_close(&f->fd);
}
