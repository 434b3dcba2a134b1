/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/cgroup_backends.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

int cgroup_dir(const char *root, const char *parent, const char *name, int make, struct err *e)
{
	char path[256];
	int fd, tries;

	snprintf(path, sizeof(path), "%s/%s/%s", root, parent, name);
	/* the parent may be missing, and gc may remove an empty one at any time */
	for (tries = 0; make && mkdir(path, 0755) < 0; tries++) {
		char above[256];

		if (errno != ENOENT || tries == 8)
			return err_code_sys(e, errno == EEXIST ? ERR_EXISTS : ERR_SYS, "make cgroup %s", path);
		snprintf(above, sizeof(above), "%s/%s", root, parent);
		if (mkdir(above, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "make cgroup %s", above);
	}
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open cgroup %s", path);
		if (make)
			rmdir(path);
	}
	return fd;
}

/*
 * Our own cgroups nest at most two deep; the sandbox cannot have made any (its view is
 * read-only).
 */
static int remove_below(const char *path, int depth, struct err *e)
{
	struct dirent *d;
	DIR *dir;

	if (!rmdir(path) || errno == ENOENT)
		return 0;
	if ((errno != EBUSY && errno != ENOTEMPTY) || depth == 0)
		return err_code_sys(e, errno == EBUSY ? ERR_BUSY : ERR_SYS, "remove cgroup %s", path);
	dir = opendir(path);
	if (!dir)
		return err_sys(e, "open cgroup %s", path);
	while ((d = readdir(dir))) {
		char sub[512];

		if (d->d_type != DT_DIR || d->d_name[0] == '.')
			continue;
		snprintf(sub, sizeof(sub), "%s/%s", path, d->d_name);
		if (remove_below(sub, depth - 1, e) < 0) {
			closedir(dir);
			return -1;
		}
	}
	closedir(dir);
	if (rmdir(path) < 0 && errno != ENOENT)
		return err_code_sys(e, errno == EBUSY ? ERR_BUSY : ERR_SYS, "remove cgroup %s", path);
	return 0;
}

int cgroup_rmdir(const char *root, const char *parent, const char *name, struct err *e)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s/%s", root, parent, name);
	return remove_below(path, 3, e);
}

void cgroup_each_process(int dirfd, void (*each)(void *ctx, pid_t pid), void *ctx)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	autoclose int fd = openat(dirfd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	struct err ignored;
	char *p, *end;

	if (fd < 0 || io_read_all(fd, &b, "cgroup.procs", &ignored) < 0 || !b.len)
		return;
	for (p = b.data; *p; p = *end ? end + 1 : end) {
		long pid = strtol(p, &end, 10);

		if (end == p)
			break;
		/* one of another pid namespace is 0 */
		if (pid > 0)
			each(ctx, (pid_t)pid);
	}
}
