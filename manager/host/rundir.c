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

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"

#define SPARE "spare"	/* below run_dir */
#define RECORD "record.json"
#define VOID ' '	/* all that a record holds that says nothing; no record starts so */

static int is_other(void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, RECORD) != 0;
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
	/* for a moment a sweep may look whether somebody holds it (sweep.c) */
	while (flock(c->dir_fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock sandbox %s", c->id);
	return 0;
}

/* The text over what a record held, in one write: spaces are left where that was longer. */
static int fill(int fd, off_t old_size, const void *text, size_t n)
{
	char padded[4096];
	size_t size = (size_t)old_size > n ? (size_t)old_size : n;

	if (size > sizeof(padded))
		return ftruncate(fd, 0) < 0 ? -1 : io_write_all(fd, text, n);
	memcpy(padded, text, n);
	memset(padded + n, VOID, size - n);
	return io_write_all(fd, padded, size);
}

int rundir_record(const struct claim *c, const void *text, size_t n, struct err *e)
{
	autoclose int fd = openat(c->dir_fd, RECORD, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct stat st;
	char first = VOID;

	if (fd < 0 || fstat(fd, &st) < 0 || pread(fd, &first, 1, 0) < 0)
		return err_sys(e, "record sandbox %s", c->id);
	if (first != VOID)	/* of this sandbox: it is to be the old one or the new one, whoever reads */
		return io_replace_file(c->dir_fd, RECORD, text, n, 0600, 0, e);
	return fill(fd, st.st_size, text, n) < 0 ? err_sys(e, "record sandbox %s", c->id) : 0;
}

/* Nothing of it stays: it tells of a command. */
static int void_record(int dirfd)
{
	autoclose int fd = openat(dirfd, RECORD, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	return fstat(fd, &st) < 0 ? -1 : fill(fd, st.st_size, "", 0);
}

int rundir_put(struct registry *r, const struct claim *c, struct err *e)
{
	if (c->dir_fd >= 0 && void_record(c->dir_fd) == 0 && !lseek(c->dir_fd, 0, SEEK_SET) && is_clean(c->dir_fd) &&
	    !renameat2(r->sandboxes_fd, c->id, r->run_fd, SPARE, RENAME_NOREPLACE))
		return 0;
	return path_remove_tree(r->sandboxes_fd, c->id, e);
}
