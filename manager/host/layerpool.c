/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/layerpool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/program.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/sandbox/layerhome.h"
#include "runtime/sandbox/writable.h"

#define NEW LAYERHOME_POOL ".new"
#define LOST 8
#define LEFT_BYTES (256ULL << 20) /* bytes that the state directory's file system keeps free */
#define MKFS "/sbin/mkfs.xfs"

/* ---- making --------------------------------------------------------------------------- */

static int check_new_pool(struct registry *r, uint64_t bytes, struct err *e)
{
	struct statvfs fs;
	uint64_t has;

	if (path_has(r->state_fd, LAYERHOME_POOL "/" LAYERHOME_IMAGE))
		return err_set(e, ERR_EXISTS, "this host has a pool; hint: berth system df");
	if (access(MKFS, X_OK) < 0)
		return err_set(e, ERR_UNSUPPORTED,
			       MKFS " is missing, which makes the pool's file system; "
				    "hint: apt-get install xfsprogs");
	if (fstatvfs(r->state_fd, &fs) < 0)
		return err_sys(e, "measure the state directory's file system");
	has = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (has >= bytes + LEFT_BYTES)
		return 0;
	return err_set(
		e, ERR_FULL,
		"a pool of %llu MiB leaves less than %llu MiB of the %llu MiB that the state "
		"directory's file system has free; hint: a smaller --size",
		(unsigned long long)(bytes >> 20), LEFT_BYTES >> 20,
		(unsigned long long)(has >> 20));
}

static int make_pool_file(int dir, uint64_t bytes, struct err *e)
{
	autoclose int fd = openat(dir, LAYERHOME_IMAGE,
				  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int failed;

	if (fd < 0)
		return err_sys(e, "make the pool's file");
	/* allocate all blocks now, so that the pool cannot run out of them later */
	do
		failed = fallocate(fd, 0, 0, (off_t)bytes);
	while (failed < 0 && errno == EINTR);
	if (failed < 0)
		return errno == ENOSPC ?
			       err_code_sys(e, ERR_FULL, "allocate the pool's file") :
		       errno == EFBIG || errno == EOPNOTSUPP ?
			       err_code_sys(e, ERR_UNSUPPORTED, "allocate the pool's file") :
			       err_sys(e, "allocate the pool's file");
	return take_fd(&fd);
}

static int format_pool(int dir, uint64_t bytes, struct err *e)
{
	/* -K: a discard would give the blocks back; 4096 is the sector of our loop devices */
	static const char *const argv[] = { "mkfs.xfs",
					    "-q",
					    "-f",
					    "-K",
					    "-s",
					    "size=4096",
					    "-m",
					    "crc=1,reflink=1",
					    "-L",
					    "berth-pool",
					    "/proc/self/fd/3",
					    NULL };
	autoclose int fd = make_pool_file(dir, bytes, e);
	int status;

	if (fd < 0 || process_run(MKFS, argv, fd, &status, e) < 0)
		return -1;
	if (status)
		return err_set(e, ERR_UNSUPPORTED, "mkfs.xfs failed with status %d", status);
	return fsync(fd) < 0 ? err_sys(e, "write the pool's file") : 0;
}

/* Tries the pool with the kernel's own XFS, before anything relies on it. */
static int try_pool(int dir, struct err *e)
{
	autoclose int top = layerhome_mount(dir, e);
	int shares = top < 0 ? -1 : fileclone_shares(top, e);

	if (top < 0)
		return e->code == ERR_SYS ? (e->code = ERR_UNSUPPORTED, -1) : -1;
	return shares < 0 ? -1 :
	       shares     ? 0 :
			    err_set(e, ERR_UNSUPPORTED, "this kernel's XFS has no reflinks");
}

static int lock_pool_alone(int fd, struct err *e)
{
	while (flock(fd, LOCK_EX | LOCK_NB) < 0)
		if (errno != EINTR)
			return err_set(e, ERR_BUSY,
				       "the pool is being made, used or removed by another "
				       "command; hint: try again");
	return 0;
}

int layerpool_create(struct registry *r, uint64_t bytes, struct err *e)
{
	autoclose int dir = -1;
	struct err ignored;
	int result;

	bytes &= ~UINT64_C(4095);
	if (check_new_pool(r, bytes, e) < 0)
		return -1;
	dir = path_make_dir(r->state_fd, NEW, e);
	if (dir < 0 || lock_pool_alone(dir, e) < 0)
		return -1;
	unlinkat(dir, LAYERHOME_IMAGE, 0); /* left by a creation that was killed */
	result = format_pool(dir, bytes, e);
	if (result == 0)
		result = try_pool(dir, e);
	/* an empty directory, left by a removal that was killed */
	if (result == 0 && path_has(r->state_fd, LAYERHOME_POOL))
		result = path_remove_tree(r->state_fd, LAYERHOME_POOL, e);
	if (result == 0 &&
	    (fsync(dir) < 0 ||
	     renameat2(r->state_fd, NEW, r->state_fd, LAYERHOME_POOL, RENAME_NOREPLACE) < 0 ||
	     fsync(r->state_fd) < 0))
		result = err_sys(e, "name the pool");
	if (result < 0)
		path_remove_tree(r->state_fd, NEW, &ignored);
	return result;
}

/* ---- looking --------------------------------------------------------------------------- */

/* Opens the pool's directory; -1 with ERR_NOT_FOUND. */
static int open_pool_dir(int state_fd, struct err *e)
{
	autoclose int dir =
		openat(state_fd, LAYERHOME_POOL, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0 && errno != ENOENT)
		return err_sys(e, "open the pool");
	if (dir < 0 || !path_has(dir, LAYERHOME_IMAGE))
		return err_set(e, ERR_NOT_FOUND,
			       "this host has no pool; hint: berth system pool create --size 20g");
	return take_fd(&dir);
}

static int count_pool_layer(void *ctx, const char *name)
{
	(void)name;
	++*(unsigned *)ctx;
	return 0;
}

json_t *layerpool_describe(int state_fd, struct err *e)
{
	autoclose int dir = open_pool_dir(state_fd, e), top = -1;
	unsigned count = 0;
	struct statvfs fs;
	json_t *ret;

	if (dir < 0)
		return NULL;
	top = layerhome_mount(dir, e);
	if (top < 0 || registry_each(top, count_pool_layer, &count, e) < 0)
		return NULL;
	if (fstatvfs(top, &fs) < 0) {
		err_sys(e, "measure the pool");
		return NULL;
	}
	ret = json_pack("{s:I,s:I,s:I,s:i}", "size_bytes", (json_int_t)(fs.f_blocks * fs.f_frsize),
			"used_bytes", (json_int_t)((fs.f_blocks - fs.f_bfree) * fs.f_frsize),
			"free_bytes", (json_int_t)(fs.f_bavail * fs.f_frsize), "sandboxes",
			(int)count);
	if (!ret)
		err_nomem(e);
	return ret;
}

void layerpool_hold(struct registry *r, int box_fd)
{
	autoclose int dir = -1;
	struct err ignored; /* the command that needs the layer reports the error */

	if (r->pool_fd >= 0 || !layerhome_is_pool(box_fd))
		return;
	dir = open_pool_dir(r->state_fd, &ignored);
	if (dir >= 0)
		r->pool_fd = layerhome_mount(dir, &ignored);
}

int layerpool_way(int state_fd, enum layerpool_way *ret, struct err *e)
{
	int shares;

	if (path_has(state_fd, LAYERHOME_POOL "/" LAYERHOME_IMAGE)) {
		*ret = LAYERPOOL_POOL;
		return 0;
	}
	shares = fileclone_shares(state_fd, e);
	*ret = shares > 0 ? LAYERPOOL_REFLINK : LAYERPOOL_EXTENTS;
	return shares < 0 ? -1 : 0;
}

uint64_t layerpool_layer_bytes(int kept_fd, const char *id)
{
	autoclose int box = openat(kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct err ignored;
	autoclose int home = box < 0 ? -1 : layerhome_open(box, &ignored);
	autoclose int dir = home < 0 ? -1 : openat(home, WRITABLE_DIR, O_RDONLY | O_DIRECTORY |
						   O_NOFOLLOW | O_CLOEXEC);
	struct statvfs fs;
	struct stat st;

	/* a directory has a project quota, of which the kernel reports what is left */
	if (dir >= 0 && fstatvfs(dir, &fs) == 0)
		return (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
	return home >= 0 && !fstatat(home, WRITABLE_FILE, &st, AT_SYMLINK_NOFOLLOW) &&
			       S_ISREG(st.st_mode) ?
		       (uint64_t)st.st_blocks * 512 :
		       0;
}

/* ---- removing --------------------------------------------------------------------------- */

struct lost {
	const struct registry *r;
	char names[LOST][65];
	unsigned count, kept;
	char first[65]; /* the first of those that are not lost */
};

static int look_for_lost(void *ctx, const char *name)
{
	struct lost *l = ctx;

	if (path_has(l->r->kept_fd, name)) {
		if (!l->kept++)
			snprintf(l->first, sizeof(l->first), "%s", name);
	} else if (l->count < LOST) {
		snprintf(l->names[l->count++], sizeof(l->names[0]), "%s", name);
	}
	return 0;
}

/* Clears the layers of sandboxes that are gone. *ret describes the others. */
static int clear_lost(const struct registry *r, int top, struct lost *ret, unsigned *ret_cleared,
		      struct err *e)
{
	unsigned i;

	do {
		*ret = (struct lost){ .r = r };
		if (registry_each(top, look_for_lost, ret, e) < 0)
			return -1;
		for (i = 0; i < ret->count; i++)
			if (path_remove_tree(top, ret->names[i], e) < 0)
				return -1;
		*ret_cleared += ret->count;
	} while (ret->count == LOST);
	return 0;
}

static int check_empty(const struct registry *r, int dir, struct err *e)
{
	autoclose int top = layerhome_mount(dir, e);
	unsigned cleared = 0;
	struct lost l;

	if (top < 0 || clear_lost(r, top, &l, &cleared, e) < 0)
		return -1;
	return !l.kept ? 0 :
			 err_set(e, ERR_BUSY,
				 "%u sandbox%s in the pool, such as %s; hint: berth rm %s", l.kept,
				 l.kept == 1 ? " has its layer" : "es have their layers", l.first,
				 l.first);
}

int layerpool_remove(struct registry *r, struct err *e)
{
	autoclose int dir = open_pool_dir(r->state_fd, e);

	if (dir < 0 || lock_pool_alone(dir, e) < 0 || check_empty(r, dir, e) < 0)
		return -1;
	/* without the image there is no pool, even if the directory is left */
	if (unlinkat(dir, LAYERHOME_IMAGE, 0) < 0 || fsync(dir) < 0)
		return err_sys(e, "remove the pool's file");
	return path_remove_tree(r->state_fd, LAYERHOME_POOL, e);
}

int layerpool_gc(struct registry *r, unsigned *ret_cleared, struct err *e)
{
	autoclose int new =
		openat(r->state_fd, NEW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autoclose int dir = -1, top = -1;
	struct lost l;

	*ret_cleared = 0;
	if (new >= 0 && lock_pool_alone(new, e) == 0 && path_remove_tree(r->state_fd, NEW, e) < 0)
		return -1;
	dir = open_pool_dir(r->state_fd, e);
	if (dir < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	top = layerhome_mount(dir, e);
	return top < 0 ? -1 : clear_lost(r, top, &l, ret_cleared, e);
}
