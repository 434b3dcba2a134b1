/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/write.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/fileop/stream.h"
#include "runtime/fileop/tar.h"

int write_path_error(struct err *e, const char *what, const char *path)
{
	return err_code_sys(e, errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_SYS, "%s %.300s", what, path);
}

static int not_regular(struct err *e, const char *path, mode_t mode)
{
	return err_set(e, ERR_INVALID, "%.300s is a %s, not a regular file", path, S_ISDIR(mode) ? "directory" :
		       S_ISFIFO(mode) ? "FIFO" : S_ISSOCK(mode) ? "socket" : "device");
}

/* Looks at the file first: opening a FIFO or device would already affect its other end. */
int write_open_regular(const char *path, int flags, struct stat *st, struct err *e)
{
	int fd;

	if (!stat(path, st) && !S_ISREG(st->st_mode))
		return not_regular(e, path, st->st_mode);
	fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);
	if (fd < 0)
		return write_path_error(e, "open", path);
	if (fstat(fd, st) < 0 || !S_ISREG(st->st_mode)) {
		close(fd);
		return not_regular(e, path, st->st_mode);
	}
	return fd;
}

int write_make_dirs(const char *path, uint32_t mode, int parents_only, struct takeback *made, struct err *e)
{
	char part[PATH_MAX];
	size_t i, n = strlen(path);

	if (n >= sizeof(part))
		return err_set(e, ERR_INVALID, "the path is too long");
	while (n > 1 && path[n - 1] == '/')
		n--;
	for (i = 1; i <= n; i++) {
		int last = i == n;
		struct stat st;

		if ((path[i] != '/' && !last) || (last && parents_only))
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (!mkdir(part, last ? mode : 0755)) {
			if (made)
				takeback_note(made, TAKEBACK_DIR, 0, part);
			if (last && chmod(part, mode) < 0)
				return write_path_error(e, "set the mode of", part);
			continue;
		}
		if (errno != EEXIST)
			return write_path_error(e, "make directory", part);
		if (stat(part, &st) < 0 || !S_ISDIR(st.st_mode)) {
			errno = ENOTDIR;
			return write_path_error(e, "make directory", part);
		}
	}
	return 0;
}

int write_append(const char *path, char *room, uint64_t *ret_bytes, uint64_t *ret_size, struct err *e)
{
	struct stat before, after;
	autoclose int fd = write_open_regular(path, O_WRONLY | O_APPEND | O_CREAT, &before, e);

	if (fd < 0 || stream_pump(0, fd, UINT64_MAX, room, ret_bytes, e) < 0)
		return -1;
	if (fsync(fd) < 0 || fstat(fd, &after) < 0)
		return err_sys(e, "write %.300s", path);
	*ret_size = (uint64_t)after.st_size;
	return 0;
}

static int set_attributes(int fd, const char *name, char *const *attributes, struct err *e)
{
	for (; *attributes; attributes++) {
		const char *value = strchr(*attributes, '=');
		char key[256];

		if (!value || (size_t)(value - *attributes) >= sizeof(key))
			return err_set(e, ERR_INVALID, "the name of an attribute is malformed or too long");
		snprintf(key, sizeof(key), "%.*s", (int)(value - *attributes), *attributes);
		if (!xattrs_is_kept(key))
			return err_set(e, ERR_INVALID, "the attribute %.80s is not a user's", key);
		if (fsetxattr(fd, key, value + 1, strlen(value + 1), 0) < 0)
			return err_sys(e, "set the attribute %.80s of %.300s", key, name);
	}
	return 0;
}

/* Fills the new file from stdin. */
static int fill_written_file(int fd, const char *name, uint32_t mode, const struct stat *old, char *const *attributes,
	char *room, uint64_t *ret_bytes, struct err *e)
{
	struct stat st;

	if (stream_pump(0, fd, UINT64_MAX, room, ret_bytes, e) < 0)
		return -1;
	if (set_attributes(fd, name, attributes, e) < 0)
		return -1;
	if (old && fchown(fd, old->st_uid, old->st_gid) < 0 && errno != EPERM)
		return write_path_error(e, "give its owner to", name);
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "write %.300s", name);
	if ((uint64_t)st.st_size != *ret_bytes)
		return err_set(e, ERR_BUSY, "%.300s has %lld bytes, not the %llu that were "
			"written: another process changes it", name,
			       (long long)st.st_size, (unsigned long long)*ret_bytes);
	return 0;
}

/*
 * Writes the file without a name until it is whole, if the file system can: a killed process leaves
 * nothing.
 */
static int fill_and_rename(int dir, const char *temp, const char *name, uint32_t mode, const struct stat *old,
			   char *const *attributes, char *room, uint64_t *ret_bytes, struct err *e)
{
	autoclose int fd = openat(dir, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	int named = fd < 0;
	char proc[32];

	if (named)
		fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return write_path_error(e, "create", name);
	if (fill_written_file(fd, name, mode, old, attributes, room, ret_bytes, e) < 0)
		return -1;
	if (!named && linkat(AT_FDCWD, path_of_fd(fd, proc), dir, temp, AT_SYMLINK_FOLLOW) < 0)
		return write_path_error(e, "name", name);
	return renameat(dir, temp, dir, name) < 0 ? write_path_error(e, "replace", name) : 0;
}

/* Finds the file that path leads to: links at its end are followed, as in a plain write. */
static int real_path(const char *path, char out[PATH_MAX], struct stat *old, int *ret_exists, struct err *e)
{
	*ret_exists = !stat(path, old);
	if (*ret_exists) {
		if (!S_ISREG(old->st_mode))
			return not_regular(e, path, old->st_mode);
		if (!realpath(path, out))
			return write_path_error(e, "resolve", path);
		return 0;
	}
	if (errno != ENOENT)
		return write_path_error(e, "resolve", path);
	if (!lstat(path, old))
		return err_set(e, ERR_NOT_FOUND, "%.300s is a symbolic link that leads nowhere", path);
	if (strlen(path) >= PATH_MAX || !path[0] || path[strlen(path) - 1] == '/')
		return err_set(e, ERR_INVALID, "%.300s cannot be the name of a file", path);
	strcpy(out, path);
	return 0;
}

int write_replace(const char *path, const char *mode_text, char *const *attributes, char *room, uint64_t *ret_bytes, struct err *e)
{
	char target[PATH_MAX], temp[40], *slash;
	uint32_t mode;
	struct stat old;
	struct timespec t;
	autoclose int dir = -1;
	int exists, r;

	if (real_path(path, target, &old, &exists, e) < 0)
		return -1;
	mode = mode_text[0] ? (uint32_t)strtoul(mode_text, NULL, 8) : exists ? old.st_mode & 07777 : 0644;
	slash = strrchr(target, '/');
	if (slash)
		*slash = '\0';
	dir = open(!slash ? "." : slash == target ? "/" : target, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return write_path_error(e, "open the directory of", path);
	clock_gettime(CLOCK_MONOTONIC, &t);
	snprintf(temp, sizeof(temp), "%s%llx%x", exists ? WRITE_TEMP_OLD : WRITE_TEMP_NEW,
		 (unsigned long long)t.tv_nsec * 0x9E3779B1ULL, (unsigned)getpid());
	r = fill_and_rename(dir, temp, slash ? slash + 1 : target, mode, exists ? &old : NULL, attributes, room, ret_bytes, e);
	if (r < 0)
		unlinkat(dir, temp, 0);
	return r;
}
