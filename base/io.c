/* SPDX-License-Identifier: Apache-2.0 */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

int io_write_all(int fd, const void *p, size_t n)
{
	const char *s = p;

	while (n) {
		ssize_t w = write(fd, s, n);

		if (w < 0) {
			if (errno == EINTR)
				continue;
			return -1;
		}
		s += w;
		n -= (size_t)w;
	}
	return 0;
}

int io_read_exact(int fd, void *p, size_t n)
{
	char *s = p;
	size_t got = 0;

	while (got < n) {
		ssize_t r = read(fd, s + got, n - got);

		if (r < 0) {
			if (errno == EINTR)
				continue;
			return -1;
		}
		if (r == 0) {
			if (!got)
				return 0;
			errno = EPIPE;
			return -1;
		}
		got += (size_t)r;
	}
	return 1;
}

int io_read_all(int fd, struct buf *b, const char *what, struct err *e)
{
	for (;;) {
		size_t room;
		ssize_t r;

		if (buf_reserve(b, b->len < b->max ? 1 : 0, e) < 0)
			return err_wrap(e, "%s", what);
		room = b->cap - b->len - 1;
		if (!room && b->len < b->max) {
			if (buf_reserve(b, b->max - b->len < 65536 ? b->max - b->len : 65536, e) < 0)
				return err_wrap(e, "%s", what);
			room = b->cap - b->len - 1;
		}
		if (b->len + room > b->max)
			room = b->max - b->len;
		if (!room) {	/* full: one more byte means too much */
			char extra;

			r = read(fd, &extra, 1);
			if (r > 0)
				return err_set(e, ERR_LIMIT, "%s: more than %zu bytes", what, b->max);
		} else {
			r = read(fd, b->data + b->len, room);
		}
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, "read %s", what);
		if (r == 0)
			return 0;
		b->len += (size_t)r;
		b->data[b->len] = '\0';
	}
}

int io_read_file(int dirfd, const char *path, struct buf *b, struct err *e)
{
	autoclose int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open %s", path);
	if (fstat(fd, &st) < 0)
		return err_sys(e, "stat %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is not a regular file", path);
	if (st.st_size > 0 && (uint64_t)st.st_size > b->max)
		return err_set(e, ERR_LIMIT, "%s: more than %zu bytes", path, b->max);
	if (st.st_size > 0 && buf_reserve(b, (size_t)st.st_size, e) < 0)
		return err_wrap(e, "%s", path);
	return io_read_all(fd, b, path, e);
}

int io_read_private(const char *path, struct buf *b, struct err *e)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return err_code_sys(e, ERR_CONFIG, "open %.200s", path);
	if (st.st_uid != 0 || st.st_mode & 077)
		return err_set(e, ERR_CONFIG, "%.200s may be read by others; hint: chown root, chmod 600", path);
	return io_read_file(AT_FDCWD, path, b, e);
}

int io_write_file(int dirfd, const char *path, const char *s, struct err *e)
{
	autoclose int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return err_sys(e, "open %s", path);
	if (io_write_all(fd, s, strlen(s)) < 0)
		return err_sys(e, "write '%s' to %s", s, path);
	return 0;
}

int io_replace_file(int dirfd, const char *name, const void *data, size_t n, mode_t mode,
		    int durable, struct err *e)
{
	char tmp[300];
	autoclose int fd = -1;

	/* the thread's id: two threads of berthd may replace one file at a time */
	if ((size_t)snprintf(tmp, sizeof(tmp), ".%s.%d.new", name, (int)syscall(SYS_gettid)) >=
	    sizeof(tmp))
		return err_set(e, ERR_INVALID, "name '%s' is too long", name);
	fd = openat(dirfd, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return err_sys(e, "create %s", tmp);
	if (io_write_all(fd, data, n) < 0 || (durable && fsync(fd) < 0) ||
	    renameat(dirfd, tmp, dirfd, name) < 0) {
		err_sys(e, "write %s", name);
		unlinkat(dirfd, tmp, 0);
		return -1;
	}
	if (durable == IO_DURABLE && fsync(dirfd) < 0)
		return err_sys(e, "fsync the directory of %s", name);
	return 0;
}

void io_allow_files(unsigned most)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < most && l.rlim_cur < l.rlim_max) {
		l.rlim_cur = l.rlim_max < most ? l.rlim_max : most;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}
