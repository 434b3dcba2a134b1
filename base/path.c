/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* One prefix of the path: there already, or made in its parent and then opened. */
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
 * Depth-first with an explicit chain of ".." opens, so that a hostile depth
 * costs neither stack nor descriptors: we hold only the current directory and
 * come back by openat("..") checked against the recorded inode.
 */
struct tree_level {
	dev_t dev;
	ino_t ino;
};

static int is_dots(const char *n)
{
	return n[0] == '.' && (!n[1] || (n[1] == '.' && !n[2]));
}

/* Empties dir of everything but subdirectories that hold something; returns the
 * name of the first such subdirectory in sub, or sub[0] = 0 when dir is empty. */
static int empty_dir(int fd, char sub[256], struct err *e)
{
	autoclose int dup_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *d;
	DIR *dir;

	sub[0] = '\0';
	if (dup_fd < 0)
		return err_sys(e, "open a directory to remove");
	dir = fdopendir(dup_fd);
	if (!dir)
		return err_sys(e, "read a directory to remove");
	take_fd(&dup_fd);
	while (errno = 0, (d = readdir(dir))) {
		if (is_dots(d->d_name))
			continue;
		if (d->d_type != DT_DIR && !unlinkat(fd, d->d_name, 0))
			continue;
		if (!unlinkat(fd, d->d_name, AT_REMOVEDIR) || errno == ENOENT)
			continue;
		if (errno == ENOTDIR && (!unlinkat(fd, d->d_name, 0) || errno == ENOENT))
			continue;
		if (errno != ENOTEMPTY && errno != EEXIST) {
			err_sys(e, "remove %s", d->d_name);
			closedir(dir);
			return -1;
		}
		if (!sub[0])
			snprintf(sub, 256, "%s", d->d_name);
	}
	closedir(dir);
	return 0;
}

static int remove_levels(int fd, dev_t dev, struct tree_level *levels, struct err *e)
{
	size_t depth = 0;
	char sub[256];
	struct stat st;
	int next;

	for (;;) {
		if (empty_dir(fd, sub, e) < 0)
			goto fail;
		if (!sub[0]) {
			if (!depth) {
				close(fd);
				return 0;
			}
			next = openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			depth--;
			if (next < 0 || fstat(next, &st) < 0 || st.st_dev != levels[depth].dev ||
			    st.st_ino != levels[depth].ino) {
				err_set(e, ERR_CORRUPT, "a directory moved while it was being removed");
				fd_close(&next);
				goto fail;
			}
		} else {
			if (depth == PATH_TREE_DEPTH) {
				err_set(e, ERR_LIMIT, "directories nested deeper than %d", PATH_TREE_DEPTH);
				goto fail;
			}
			if (fstat(fd, &st) < 0)
				goto sys;
			levels[depth].dev = st.st_dev;
			levels[depth].ino = st.st_ino;
			depth++;
			next = openat(fd, sub, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (next < 0 || fstat(next, &st) < 0)
				goto sys;
			if (st.st_dev != dev) {
				err_set(e, ERR_BUSY, "%s is a mount point", sub);
				fd_close(&next);
				goto fail;
			}
		}
		close(fd);
		fd = next;
	}
sys:
	err_sys(e, "enter %s to remove it", sub);
fail:
	close(fd);
	return -1;
}

int path_remove_tree(int dirfd, const char *name, struct err *e)
{
	autofree struct tree_level *levels = NULL;
	struct stat st;
	int fd;

	if (!unlinkat(dirfd, name, AT_REMOVEDIR) || errno == ENOENT)
		return 0;
	if (errno == ENOTDIR)
		return !unlinkat(dirfd, name, 0) || errno == ENOENT ? 0 : err_sys(e, "remove %s", name);
	if (errno != ENOTEMPTY && errno != EEXIST)
		return err_sys(e, "remove %s", name);
	levels = calloc(PATH_TREE_DEPTH, sizeof(*levels));
	if (!levels)
		return err_nomem(e);
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open %s to remove it", name);
	if (fstat(fd, &st) < 0) {
		close(fd);
		return err_sys(e, "stat %s", name);
	}
	if (remove_levels(fd, st.st_dev, levels, e) < 0)
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

/* getdents64(2) */
struct entry {
	uint64_t ino;
	int64_t off;
	uint16_t len;
	uint8_t type;
	char name[];
};

int path_each_entry(int dirfd, int (*each)(void *ctx, const char *name), void *ctx, int *ret_failed)
{
	_Alignas(struct entry) char list[2048];
	long n, at;
	int r = 0;

	while (r == 0 && (n = syscall(SYS_getdents64, dirfd, list, sizeof(list))) != 0) {
		if (n < 0) {
			*ret_failed = 1;
			return 0;
		}
		for (at = 0; r == 0 && at < n;) {
			const struct entry *d = (const struct entry *)(const void *)(list + at);

			at += d->len;
			if (strcmp(d->name, ".") && strcmp(d->name, ".."))
				r = each(ctx, d->name);
		}
	}
	return r;
}

int path_open_private_dir(const char *path, struct err *e)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	autoclose int fd = open(path, flags);
	struct stat st;

	if (fd < 0 && errno == ENOENT) {
		if (mkdir(path, 0700) < 0 && errno != EEXIST) {
			if (errno != ENOENT)
				return err_sys(e, "make directory %s", path);
			if (mkdir_parents(path, e) < 0)
				return -1;
			if (mkdir(path, 0700) < 0 && errno != EEXIST)
				return err_sys(e, "make directory %s", path);
		}
		fd = open(path, flags);
	}
	if (fd < 0)
		return err_code_sys(e, errno == ELOOP || errno == ENOTDIR ? ERR_DENIED : ERR_SYS,
				    "open directory %s", path);
	if (fstat(fd, &st) < 0)
		return err_sys(e, "stat %s", path);
	if (st.st_uid != geteuid() || (st.st_mode & 077))
		return err_set(e, ERR_DENIED, "%s has owner %u and mode %04o, which others could use "
			       "against us; hint: chown root and chmod 0700 it, or remove it",
			       path, (unsigned)st.st_uid, (unsigned)(st.st_mode & 07777));
	return take_fd(&fd);
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
