/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/files/newfile.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"

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
