/* SPDX-License-Identifier: Apache-2.0 */
/* Objects as files below one directory; written aside, synced, renamed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/objects/storage.h"

#define PUT_TRIES 1000	/* each takes that another removes a directory in just that moment */

struct local_storage {
	struct storage base;
	int dir_fd;
};

static int storage_root(struct storage *st)
{
	return ((struct local_storage *)st)->dir_fd;
}

/* The directory of key, made if make; -1 with errno ENOENT without one. */
static int open_key_parent(int root, const char *key, int make, const char **ret_name)
{
	int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), next;
	char part[1024];

	*ret_name = key;
	while (fd >= 0 && strchr(*ret_name, '/')) {
		size_t n = strcspn(*ret_name, "/");

		snprintf(part, sizeof(part), "%.*s", (int)n, *ret_name);
		*ret_name += n + 1;
		next = path_open_beneath(fd, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
		if (next < 0 && errno == ENOENT && make && (!mkdirat(fd, part, 0700) || errno == EEXIST))
			next = path_open_beneath(fd, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
		fd_close(&fd);
		fd = next;
	}
	return fd;
}

/*
 * Under a name of this write first: two may write one key at once.  ERR_SYS with ENOENT when another has removed
 * the directory, which was empty, in between.
 */
static int put_once(int root, const char *key, const void *data, size_t n, struct err *e)
{
	const char *name;
	autoclose int dir = open_key_parent(root, key, 1, &name);
	uint64_t chance;
	char own[40];

	if (dir < 0)
		return err_sys(e, "make the directory of %.200s", key);
	if (getrandom(&chance, sizeof(chance), 0) != (ssize_t)sizeof(chance))
		return err_sys(e, "get random bytes");
	snprintf(own, sizeof(own), ".put-%016" PRIx64, chance);
	if (io_replace_file(dir, own, data, n, 0600, 1, e) < 0)
		return -1;
	if (renameat(dir, own, dir, name) < 0 || fsync(dir) < 0) {
		err_sys(e, "write %.200s", key);
		unlinkat(dir, own, 0);
		return -1;
	}
	return 0;
}

static int local_put(struct storage *st, const char *key, const void *data, size_t n, const char sha256[65], struct err *e)
{
	int tries = 0, r;

	(void)sha256;
	do
		r = put_once(storage_root(st), key, data, n, e);
	while (r < 0 && e->os_errno == ENOENT && ++tries < PUT_TRIES);
	return r;
}

static int local_get(struct storage *st, const char *key, struct buf *out, struct err *e)
{
	const char *name;
	autoclose int dir = open_key_parent(storage_root(st), key, 0, &name);

	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open the directory of %.200s", key);
	if (!path_has(dir, name))
		return errno == ENOENT ? 0 : err_sys(e, "look for %.200s", key);
	return io_read_file(dir, name, out, e) < 0 ? -1 : 1;
}

static int local_head(struct storage *st, const char *key, uint64_t *ret_size, struct err *e)
{
	const char *name;
	autoclose int dir = open_key_parent(storage_root(st), key, 0, &name);
	struct stat s;

	if (dir < 0 || fstatat(dir, name, &s, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "look at %.200s", key);
	if (!S_ISREG(s.st_mode))
		return 0;
	*ret_size = (uint64_t)s.st_size;
	return 1;
}

/* Directories that become empty go with their last file. */
static int local_del(struct storage *st, const char *key, struct err *e)
{
	char path[1024], *slash;
	const char *name;
	autoclose int dir = open_key_parent(storage_root(st), key, 0, &name);

	if (dir < 0 || unlinkat(dir, name, 0) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "remove %.200s", key);
	snprintf(path, sizeof(path), "%s", key);
	while ((slash = strrchr(path, '/'))) {
		*slash = '\0';
		if (unlinkat(storage_root(st), path, AT_REMOVEDIR) < 0)
			break;
	}
	return 0;
}

static int each_below(int dir_fd, const char *prefix, int depth, int (*each)(void *ctx, const char *key, struct err *e), void *ctx,
		      struct err *e)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		err_sys(e, "read a directory of the storage");
		fd_close(&fd);
		return -1;
	}
	while (r == 0 && (de = readdir(d))) {
		char key[2048];
		struct stat s;

		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, "..") || fstatat(dir_fd, de->d_name, &s, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		snprintf(key, sizeof(key), "%.1000s/%s", prefix, de->d_name);
		if (S_ISDIR(s.st_mode) && depth < 32) {
			autoclose int sub = openat(dir_fd, de->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			r = sub < 0 ? 0 : each_below(sub, key, depth + 1, each, ctx, e);
		} else if (S_ISREG(s.st_mode)) {
			r = each(ctx, key, e);
		}
	}
	closedir(d);
	return r;
}

static int local_each(struct storage *st, const char *prefix, int (*each)(void *ctx, const char *key, struct err *e), void *ctx,
		      struct err *e)
{
	autoclose int dir = path_open_beneath(storage_root(st), prefix, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);

	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open %.200s of the storage", prefix);
	return each_below(dir, prefix, 0, each, ctx, e);
}

static void local_close(struct storage *st)
{
	fd_close(&((struct local_storage *)st)->dir_fd);
	free(st);
}

static const struct storage_ops local_ops = {
	.name = "local", .put = local_put, .get = local_get, .head = local_head, .del = local_del, .each = local_each,
	.close = local_close,
};

int storage_local_open(struct storage **ret, const struct conf *c, struct err *e)
{
	struct local_storage *l = calloc(1, sizeof(*l));

	if (!l)
		return err_nomem(e);
	l->base.ops = &local_ops;
	l->dir_fd = path_open_private_dir(c->storage_url + 5, e);
	if (l->dir_fd < 0) {
		free(l);
		return -1;
	}
	*ret = &l->base;
	return 0;
}
