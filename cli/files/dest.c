/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/files/dest.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"

static int open_whole(struct dest *d, struct err *e)
{
	const char *slash = strrchr(d->path, '/'), *name = slash ? slash + 1 : d->path;
	char dir[4096];

	if (snprintf(dir, sizeof(dir), "%.*s", (int)(name - d->path), d->path) >= (int)sizeof(dir))
		return err_set(e, ERR_INVALID, "the path is too long");
	if (!name[0])
		return err_set(e, ERR_INVALID, "%.300s names no file; hint: FILE without / at its end", d->path);
	d->file.dirfd = open(slash ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->file.dirfd < 0 || path_file_make(&d->file, d->file.dirfd, name, 0600) < 0) {
		err_sys(e, "make %.300s", d->path);
		fd_close(&d->file.dirfd);
		return -1;
	}
	d->fd = d->file.fd;
	return 0;
}

int dest_open(struct dest *d, const char *path, const char *hint, struct err *e)
{
	struct stat st;

	*d = (struct dest){ .fd = -1, .path = path, .file = { .fd = -1, .dirfd = -1 } };
	if (!strcmp(path, "-")) {
		if (isatty(STDOUT_FILENO))
			return err_set(e, ERR_USAGE, "stdout is a terminal; hint: %s", hint);
		d->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		return d->fd < 0 ? err_sys(e, "use standard output") : 0;
	}
	if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
		if (S_ISDIR(st.st_mode))
			return err_set(e, ERR_INVALID, "%.300s is a directory; hint: name a file", path);
		d->fd = open(path, O_WRONLY | O_CLOEXEC);
		return d->fd < 0 ? err_sys(e, "open %.300s", path) : 0;
	}
	return open_whole(d, e);
}

int dest_close(struct dest *d, int rc, struct err *e)
{
	if (d->file.fd < 0) {
		fd_close(&d->fd);
		return rc;
	}
	if (!rc && path_file_publish(&d->file) < 0)
		rc = err_sys(e, "put %.300s in its place", d->path);
	path_file_close(&d->file);
	fd_close(&d->file.dirfd);
	return rc;
}

/* ---- a file that did not exist ---- */

int newfile_open(const char *path, const char *what, struct err *e)
{
	char copy[4096];
	int fd;

	if (!strcmp(path, "-")) {
		if (!isatty(STDOUT_FILENO))
			return STDOUT_FILENO;
		err_set(e, ERR_USAGE, "the file of %s is not for a terminal", what);
		return err_hint(e, "-o FILE");
	}
	if (strlen(path) >= sizeof(copy))
		return err_set(e, ERR_INVALID, "the name of the file is too long");
	if (path_has(AT_FDCWD, path)) {
		err_set(e, ERR_EXISTS, "%.200s exists", path);
		return err_hint(e, "another -o, or remove it");
	}
	snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	return fd < 0 ? err_sys(e, "make %.200s", path) : fd;
}

int newfile_name(int fd, const char *path, struct err *e)
{
	char proc[32];

	if (fd == STDOUT_FILENO)
		return 0;
	if (fsync(fd) < 0 ||
	    linkat(AT_FDCWD, path_of_fd(fd, proc), AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
		return err_sys(e, "name %.200s", path);
	return 0;
}

void newfile_close(int *fd)
{
	if (*fd != STDOUT_FILENO)
		fd_close(fd);
}
