/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S11 of SECURITY.md. */
#include "manager/host/rundir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/record.h"

#define SPARE "spare"	/* below run_dir */

static int is_other(void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, RECORD_FILE) != 0;
}

/* A directory at its start: nothing in it but perhaps a record, which says nothing yet or no more. */
static int is_clean(int dirfd)
{
	int failed = 0;

	return path_each_entry(dirfd, is_other, NULL, &failed) == 0 && !failed;
}

static int take_spare(struct registry *r, struct claim *c)
{
	autoclose int fd = openat(r->run_fd, SPARE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || !is_clean(fd) ||
	    renameat2(r->run_fd, SPARE, r->sandboxes_fd, c->id, RENAME_NOREPLACE) < 0)
		return -1;
	c->dir_fd = take_fd(&fd);
	return 0;
}

int rundir_take(struct registry *r, struct claim *c, struct err *e)
{
	if (take_spare(r, c) == 0)
		return 0;
	if (mkdirat(r->sandboxes_fd, c->id, 0700) < 0)
		return err_code_sys(e, errno == EEXIST ? ERR_EXISTS : ERR_SYS, "record sandbox %s", c->id);
	c->dir_fd = openat(r->sandboxes_fd, c->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (c->dir_fd < 0)
		return err_sys(e, "open the record of sandbox %s", c->id);
	/* a sweep may hold it for a moment to test the lock (sweep.c) */
	while (flock(c->dir_fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock sandbox %s", c->id);
	return 0;
}

int rundir_put(struct registry *r, const struct claim *c, struct err *e)
{
	if (c->dir_fd >= 0 && record_void(c->dir_fd) == 0 && !lseek(c->dir_fd, 0, SEEK_SET) && is_clean(c->dir_fd) &&
	    !renameat2(r->sandboxes_fd, c->id, r->run_fd, SPARE, RENAME_NOREPLACE))
		return 0;
	return path_remove_tree(r->sandboxes_fd, c->id, e);
}
