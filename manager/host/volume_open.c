/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a volume for use: its lock, its mount, its first content. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/getdents.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/volume.h"
#include "runtime/kernel/loopdev.h"
#include "runtime/kernel/quota.h"

#define SEEDING "seeding"
#define TRIES 256

void volume_close(struct volume *v)
{
	fd_close(&v->root_fd);
	fd_close(&v->dir_fd);
}

/* ---- its file system ---- */

/* The locked directory of a volume in top; ret->root_fd is its top. */
static int volume_mount(struct volume *v, struct err *e)
{
	autoclose int file = openat(v->dir_fd, "image", O_RDWR | O_NOFOLLOW | O_CLOEXEC),
		      data = -1;

	if (file >= 0) {
		v->root_fd = loopdev_mount_shared(v->dir_fd, file, "ext4", e);
		v->is_mount = v->root_fd >= 0;
		return v->is_mount ? 0 : -1;
	}
	if (errno != ENOENT)
		return err_sys(e, "open the file of a volume");
	data = openat(v->dir_fd, "data", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (data < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_CORRUPT : ERR_SYS,
				    "open the directory of a volume");
	/* mounted without prjquota since: the volume would no longer be limited */
	if (quota_check(data, e) < 0)
		return -1;
	v->root_fd = take_fd(&data);
	return 0;
}

/* ---- its content ---- */

/* Whether nothing is in it; -1 with errno. */
static int is_empty(int root)
{
	autoclose int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(struct getdents) char list[2048];
	long n, at;

	if (fd < 0)
		return -1;
	while ((n = getdents_read(fd, list, sizeof(list))) > 0)
		for (at = 0; at < n;)
			if (!getdents_dots(getdents_next(list, &at)->name))
				return 0;
	return n < 0 ? -1 : 1;
}

struct emptying {
	int root;
	struct err *e;
};

static int remove_one(void *ctx, const char *name)
{
	const struct emptying *x = ctx;

	return path_remove_tree(x->root, name, x->e);
}

static int empty(int root, struct err *e)
{
	struct emptying x = { root, e };
	autoclose int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = 0;

	if (fd < 0)
		return err_sys(e, "open a volume");
	if (path_each_entry(fd, remove_one, &x, &failed) < 0 && !failed)
		return -1;
	return failed ? err_sys(e, "read a volume") : 0;
}

/* For a caller that holds the lock exclusively. */
static int fill(struct volume *v, volume_seed *seed, void *ctx, struct err *e)
{
	int half = path_has(v->dir_fd, SEEDING), none, result;
	struct err ignored;
	autoclose int note = -1, root = -1;

	if (half && empty(v->root_fd, e) < 0)
		return -1;
	none = half ? 1 : is_empty(v->root_fd);
	if (none < 0)
		return err_sys(e, "look whether a volume is empty");
	if (!none)
		return 0;
	note = openat(v->dir_fd, SEEDING, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	root = openat(v->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (note < 0 || root < 0 || fsync(v->dir_fd) < 0)
		return err_sys(e, "begin to fill a volume");
	result = seed(ctx, root, e);
	if (result < 0)
		empty(root, &ignored);
	/* on disk before it counts as complete */
	else if (syncfs(root) < 0)
		result = err_sys(e, "write a volume");
	if (result == 0 && (unlinkat(v->dir_fd, SEEDING, 0) < 0 || fsync(v->dir_fd) < 0))
		result = err_sys(e, "complete a volume");
	return result;
}

/* ---- opening ---- */

/* Whether the locked directory still has that name. */
static int is_current(int top, const char *key, int dir)
{
	struct stat by_name, locked;

	return fstatat(top, key, &by_name, AT_SYMLINK_NOFOLLOW) == 0 && fstat(dir, &locked) == 0 &&
	       by_name.st_dev == locked.st_dev && by_name.st_ino == locked.st_ino;
}

static int lock_dir(int dir, int how, struct err *e)
{
	while (flock(dir, how) < 0)
		if (errno != EINTR)
			return errno == EWOULDBLOCK ?
				       err_set(e, ERR_BUSY, "the volume is in use") :
				       err_sys(e, "lock a volume");
	return 0;
}

/* 1: it was removed meanwhile, or the process that filled it has died. */
static int open_existing(int top, const char *key, volume_seed *seed, void *ctx, struct volume *v,
			 struct err *e)
{
	int alone;

	v->dir_fd = openat(top, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (v->dir_fd < 0)
		return errno == ENOENT ? 1 : err_sys(e, "open volume %s", key);
	/* waits for a process that fills it */
	alone = seed && lock_dir(v->dir_fd, LOCK_EX | LOCK_NB, e) == 0;
	if (!alone && lock_dir(v->dir_fd, LOCK_SH, e) < 0)
		return -1;
	if (!is_current(top, key, v->dir_fd))
		return 1;
	/*
	 * the process that we waited for died half-way: another try takes the lock, or waits for
	 * its holder
	 */
	if (seed && !alone && path_has(v->dir_fd, SEEDING))
		return 1;
	volume_thaw_left(v->dir_fd);
	if (volume_mount(v, e) < 0 || (alone && fill(v, seed, ctx, e) < 0))
		return err_wrap(e, "volume %s", key);
	/* between the shared and the exclusive lock we have none */
	if (alone && lock_dir(v->dir_fd, LOCK_SH, e) < 0)
		return -1;
	return !is_current(top, key, v->dir_fd);
}

/* A record that cannot be read is of a newer berth, or damaged: then nothing is mounted. */
static int check(struct registry *r, const struct volume_wish *w, const char *key, struct err *e)
{
	autojson json_t *record = volume_load(r, key, e), *made = NULL;

	if (record)
		return 0;
	if (e->code != ERR_NOT_FOUND || (volume_create(r, w, e) < 0 && e->code != ERR_EXISTS))
		return -1;
	made = volume_load(r, key, e);
	return made ? 0 : -1;
}

int volume_open(struct registry *r, const struct volume_wish *w, volume_seed *seed, void *ctx,
		struct volume *ret, struct err *e)
{
	struct volume v = VOLUME_INIT;
	char key[VOLUME_KEY_MAX];
	autoclose int top = -1;
	int tries, got = 1;

	if (volume_key(w->name, w->tenant, key, e) < 0 || (top = volume_top(r, e)) < 0)
		return -1;
	for (tries = 0; got > 0 && tries < TRIES; tries++) {
		volume_close(&v);
		got = check(r, w, key, e);
		if (got == 0)
			got = open_existing(top, key, seed, ctx, &v, e);
	}
	if (got == 0) {
		*ret = v;
		return 0;
	}
	volume_close(&v);
	return got < 0 ? -1 :
			 err_set(e, ERR_BUSY,
				 "volume %s is removed, or left half-filled, again and again",
				 w->name);
}
