/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/files/dest.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

int dest_open(struct dest *d, const char *path, const char *hint, struct err *e)
{
	struct stat st;

	*d = (struct dest){ .fd = -1, .path = path };
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
	if (snprintf(d->tmp, sizeof(d->tmp), "%s.berth-%d", path, (int)getpid()) >= (int)sizeof(d->tmp))
		return err_set(e, ERR_INVALID, "the path is too long");
	d->fd = open(d->tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (d->fd < 0) {
		err_sys(e, "make %.300s", path);
		d->tmp[0] = '\0';
		return -1;
	}
	return 0;
}

int dest_close(struct dest *d, int rc, struct err *e)
{
	if (!rc && d->tmp[0] && fsync(d->fd) < 0)
		rc = err_sys(e, "write %.300s to disk", d->path);
	if (!rc && d->tmp[0] && rename(d->tmp, d->path) < 0)
		rc = err_sys(e, "put %.300s in its place", d->path);
	if (rc < 0 && d->tmp[0])
		unlink(d->tmp);
	fd_close(&d->fd);
	return rc;
}
