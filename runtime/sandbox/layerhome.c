/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox/layerhome.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/kernel/loopdev.h"

#define POOL "../../" LAYERHOME_POOL /* seen from a sandbox's directory */
#define ID_MAX 64
#define SPARE_BYTES (32u << 20) /* bytes that a new sandbox leaves free */

int layerhome_mount(int pool_fd, struct err *e)
{
	autoclose int file = openat(pool_fd, LAYERHOME_IMAGE, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	int mnt;

	if (file < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "the pool's file is gone");
	if (file < 0)
		return err_sys(e, "open the pool's file");
	mnt = loopdev_mount_shared(pool_fd, file, "xfs", e);
	return mnt < 0 ? err_wrap(e, "mount the pool") : mnt;
}

/* Returns 1 with the directory's name in the pool, 0 if it is in none, -1. */
static int read_pool_mark(int box_fd, char id[ID_MAX + 1], struct err *e)
{
	autobuf struct buf b = BUF_INIT(ID_MAX);
	struct err why = { 0 };

	if (io_read_file(box_fd, LAYERHOME_MARK, &b, &why) < 0) {
		if (why.code == ERR_NOT_FOUND || why.os_errno == ENOENT)
			return 0;
		*e = why;
		return -1;
	}
	snprintf(id, ID_MAX + 1, "%.*s", (int)b.len, b.data ? b.data : "");
	return path_is_name(id) ? 1 :
				  err_set(e, ERR_CORRUPT,
					  "the file " LAYERHOME_MARK " of a sandbox is damaged");
}

/* The top of the pool; -1. */
static int open_pool(int box_fd, struct err *e)
{
	autoclose int pool = openat(box_fd, POOL, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (pool < 0)
		return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "the pool is gone") :
					 err_sys(e, "open the pool");
	return layerhome_mount(pool, e);
}

int layerhome_is_pool(int box_fd)
{
	return path_has(box_fd, LAYERHOME_MARK);
}

int layerhome_open(int box_fd, struct err *e)
{
	char id[ID_MAX + 1];
	const int marked = read_pool_mark(box_fd, id, e);
	autoclose int top = -1;
	int fd;

	if (marked < 0)
		return -1;
	if (marked) {
		top = open_pool(box_fd, e);
		if (top < 0)
			return err_wrap(e, "the layer of the sandbox is in the pool");
	}
	fd = openat(marked ? top : box_fd, marked ? id : ".",
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open the directory of a writable layer") : fd;
}

int layerhome_open_beside(int box_fd, int home_fd, struct err *e)
{
	char id[ID_MAX + 1], path[ID_MAX + 4];
	const int marked = read_pool_mark(box_fd, id, e);
	int fd;

	if (marked <= 0)
		return marked < 0 ? -1 : layerhome_open(box_fd, e);
	snprintf(path, sizeof(path), "../%s", id);
	fd = openat(home_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open the directory of a writable layer") : fd;
}

/* ---- a new one --------------------------------------------------------------------- */

static int check_pool_room(int top, struct err *e)
{
	struct statvfs fs;

	if (fstatvfs(top, &fs) < 0)
		return err_sys(e, "measure the pool");
	return (uint64_t)fs.f_bavail * fs.f_frsize >= SPARE_BYTES ?
		       0 :
		       err_set(e, ERR_FULL,
			       "the pool of writable layers is full; hint: berth checkpoint rm and "
			       "berth rm make room, and berth system df shows what uses it");
}

static int take_pool_place(int box_fd, int pool_fd, const char *id, struct err *e)
{
	autoclose int top = layerhome_mount(pool_fd, e), dir = -1;

	if (top < 0 || check_pool_room(top, e) < 0)
		return -1;
	dir = path_make_dir(top, id, e);
	if (dir < 0)
		return err_wrap(e, "make a directory in the pool");
	return fsync(dir) < 0 ? err_sys(e, "write the pool") :
				io_replace_file(box_fd, LAYERHOME_MARK, id, strlen(id), 0600,
						IO_DURABLE_DATA, e);
}

int layerhome_choose(int box_fd, const char *id, struct err *e)
{
	autoclose int pool = openat(box_fd, POOL, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (pool < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open the pool");
	if (path_has(box_fd, LAYERHOME_MARK))
		return 0;
	while (flock(pool, LOCK_SH) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the pool");
	/* it may have been removed meanwhile */
	return path_has(pool, LAYERHOME_IMAGE) ? take_pool_place(box_fd, pool, id, e) : 0;
}

/* ---- the end of one ------------------------------------------------------------------ */

int layerhome_remove(int box_fd, struct err *e)
{
	char id[ID_MAX + 1];
	const int marked = read_pool_mark(box_fd, id, e);
	autoclose int top = marked > 0 ? open_pool(box_fd, e) : -1;

	if (marked <= 0)
		return marked;
	/* with the pool all in it is gone */
	if (top < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	return path_remove_tree(top, id, e);
}

struct bringing {
	int from, to;
	struct err *e;
};

static int bring_one(void *ctx, const char *name)
{
	const struct bringing *b = ctx;
	autoclose int from = openat(b->from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), to = -1;
	struct stat st;

	if (from < 0 || fstat(from, &st) < 0)
		return err_sys(b->e, "open %s in the pool", name);
	if (!S_ISREG(st.st_mode))
		return 0;
	to = openat(b->to, name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return err_sys(b->e, "make %s", name);
	if (fileclone(from, to, NULL, NULL, b->e) < 0)
		return -1;
	return fsync(to) < 0 ? err_sys(b->e, "write %s", name) : 0;
}

static int bring_dir(int from, int to, struct err *e)
{
	struct bringing b = { from, to, e };
	int failed = 0;

	if (path_each_entry(from, bring_one, &b, &failed) < 0 && !failed)
		return -1;
	return failed || fsync(to) < 0 ? err_sys(e, "bring a writable layer out of the pool") : 0;
}

static int bring_checkpoints(int home, int box_fd, struct err *e)
{
	autoclose int from = openat(home, "checkpoints", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclose int to = -1;

	if (from < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open the checkpoints in the pool");
	to = path_make_dir(box_fd, "checkpoints", e);
	return to < 0 ? -1 : bring_dir(from, to, e);
}

/* Moves the layers. Moved files count only once the mark is gone; until then the move is repeated. */
int layerhome_bring_back(int box_fd, struct err *e)
{
	autoclose int home = -1, top = -1;
	char id[ID_MAX + 1];
	int marked = read_pool_mark(box_fd, id, e);

	if (marked <= 0)
		return marked;
	home = layerhome_open(box_fd, e);
	top = home < 0 ? -1 : open_pool(box_fd, e);
	if (top < 0 || bring_dir(home, box_fd, e) < 0 || bring_checkpoints(home, box_fd, e) < 0)
		return -1;
	if (unlinkat(box_fd, LAYERHOME_MARK, 0) < 0 || fsync(box_fd) < 0)
		return err_sys(e, "bring a writable layer out of the pool");
	return path_remove_tree(top, id, e);
}
