/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/files/difftree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"

#define DEPTH_MAX 512
#define PATH_SIZE sizeof(((struct difftree *)0)->path)

static int is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int is_opaque(int fd)
{
	char v[2];

	return fgetxattr(fd, "trusted.overlay.opaque", v, sizeof(v)) == 1 && v[0] == 'y';
}

static int add(struct difftree *d, char kind, struct err *e)
{
	struct difftree_change *more;

	if (d->count == DIFFTREE_CHANGES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d changes", DIFFTREE_CHANGES_MAX);
	if (d->count == d->cap) {
		d->cap = d->cap ? 2 * d->cap : 256;
		more = reallocarray(d->list, d->cap, sizeof(*more));
		if (!more)
			return err_nomem(e);
		d->list = more;
	}
	d->list[d->count] = (struct difftree_change){ kind, strdup(d->path) };
	if (!d->list[d->count].path)
		return err_nomem(e);
	d->count++;
	return 0;
}

/* ---- the image ---- */

/* Path (absolute) in one layer: 1 found, 0 not here but perhaps below, -1 hidden from the layers below. */
static int in_layer(int layer, const char *path, struct stat *ret)
{
	char part[256];
	int at = fcntl(layer, F_DUPFD_CLOEXEC, 3), next, opaque = 0, result = 0;

	while (at >= 0 && *path) {
		size_t n = strcspn(++path, "/");

		if (n >= sizeof(part))
			break;
		memcpy(part, path, n);
		part[n] = '\0';
		path += n;
		if (fstatat(at, part, ret, AT_SYMLINK_NOFOLLOW) < 0) {
			result = opaque ? -1 : 0;
			break;
		}
		if (is_whiteout(ret) || (*path && !S_ISDIR(ret->st_mode))) {
			result = -1;
			break;
		}
		if (!*path) {
			result = 1;
			break;
		}
		next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		fd_close(&at);
		at = next;
		opaque |= at >= 0 && is_opaque(at);
	}
	fd_close(&at);
	return result;
}

static int in_image(const struct difftree *d, const char *path, struct stat *ret)
{
	int i, r = 0;

	for (i = 0; i < d->layers && r == 0; i++)
		r = in_layer(d->layer[i], path, ret);
	return r == 1;
}

int difftree_image_file(const struct difftree *d, const char *path)
{
	struct stat st;
	int i, r = 0;

	for (i = 0; i < d->layers && r == 0; i++)
		r = in_layer(d->layer[i], path, &st);
	if (r != 1 || !S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH))
		return -1;
	return path_open_beneath(d->layer[i - 1], path + 1,
				 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0);
}

struct names {
	char **list;
	size_t count;
};

static void names_release(struct names *n)
{
	while (n->count)
		free(n->list[--n->count]);
	free(n->list);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the names in a directory of one layer; takes over fd. */
static int add_names(int fd, struct names *n, struct err *e)
{
	DIR *dir = fdopendir(fd);
	struct dirent *de;
	char **more;
	int rc = 0;

	if (!dir) {
		close(fd);
		return err_sys(e, "list a directory of the image");
	}
	while (!rc && (de = readdir(dir))) {
		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, ".."))
			continue;
		more = n->count == DIFFTREE_CHANGES_MAX ? NULL : reallocarray(n->list, n->count + 1, sizeof(*more));
		if (more)
			n->list = more;
		if (!more || !(n->list[n->count] = strdup(de->d_name)))
			rc = err_nomem(e);
		else
			n->count++;
	}
	closedir(dir);
	return rc;
}

/* All names that the layers together have in a directory, some of which they may hide; sorted, each once. */
static int image_names(const struct difftree *d, const char *path, struct names *n, struct err *e)
{
	size_t i, kept = 0;
	int layer, fd;

	for (layer = 0; layer < d->layers; layer++) {
		fd = path_open_beneath(d->layer[layer], *path ? path + 1 : ".", O_RDONLY | O_DIRECTORY, 0);
		if (fd >= 0 && add_names(fd, n, e) < 0)
			return -1;
	}
	if (!n->count)
		return 0;
	qsort(n->list, n->count, sizeof(*n->list), by_name);
	for (i = 0; i < n->count; i++) {
		if (kept && !strcmp(n->list[kept - 1], n->list[i]))
			free(n->list[i]);
		else
			n->list[kept++] = n->list[i];
	}
	n->count = kept;
	return 0;
}

/* ---- what is what ---- */

/* What berth itself puts into the writable layer before anything runs. */
static int is_ours(const struct difftree *d, const struct stat *st, int empty)
{
	static const char *const files[] = { "/etc/hosts", "/etc/hostname", "/etc/resolv.conf" };
	static const char *const dirs[] = { "/proc", "/sys", "/dev", "/tmp", "/run", "/run/.berth",
		"/etc" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++)
		if (S_ISREG(st->st_mode) && !strcmp(d->path, files[i]))
			return 1;
	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (S_ISDIR(st->st_mode) && empty && !strcmp(d->path, dirs[i]))
			return 1;
	return S_ISDIR(st->st_mode) && empty && !strcmp(d->path, d->workdir);
}

/*
 * Where the directory of the writable layer at d->path has its part of the image:
 * 1 with ret, 0 when it has none.  from: its parent's, or NULL.  As in difftar.c.
 */
static int origin_of(const struct difftree *d, int fd, const char *name, const char *from, char ret[PATH_SIZE])
{
	char redirect[PATH_SIZE];
	ssize_t n = fgetxattr(fd, "trusted.overlay.redirect", redirect, sizeof(redirect) - 1);
	struct stat st;
	int len;

	if (n > 0 && redirect[0] == '/') {
		len = snprintf(ret, PATH_SIZE, "%.*s", (int)n, redirect);
	} else if (!from || (n <= 0 && is_opaque(fd))) {
		return 0;
	} else {
		redirect[n > 0 ? n : 0] = '\0';
		len = snprintf(ret, PATH_SIZE, "%s/%s", from, n > 0 ? redirect : name);
	}
	return len > 0 && (size_t)len < PATH_SIZE && in_image(d, ret, &st) && S_ISDIR(st.st_mode);
}

/* d->path gets name at its end; the length before.  0 when it does not fit. */
static int enter(struct difftree *d, const char *name, size_t *ret_len)
{
	size_t n = strlen(name);

	*ret_len = strlen(d->path);
	if (*ret_len + 1 + n >= sizeof(d->path))
		return 0;
	d->path[*ret_len] = '/';
	memcpy(d->path + *ret_len + 1, name, n + 1);
	return 1;
}

/* ---- walking ---- */

/*
 * The entries that a renamed directory brought along: d->path is new, from is its place in the
 * image.
 */
static int walk_image(struct difftree *d, int upper, const char *from, struct err *e);

static int look_at_image(struct difftree *d, const char *from, const char *name, struct err *e)
{
	autofree char *path = NULL;
	struct stat st, old;

	if (asprintf(&path, "%s/%s", from, name) < 0) {
		path = NULL;
		return err_nomem(e);
	}
	if (!in_image(d, path, &st))
		return 0;
	if (add(d, in_image(d, d->path, &old) ? 'C' : 'A', e) < 0)
		return -1;
	return S_ISDIR(st.st_mode) ? walk_image(d, -1, path, e) : 0;
}

static int walk_image(struct difftree *d, int upper, const char *from, struct err *e)
{
	struct names n = { 0 };
	struct stat st;
	size_t i, len;
	int rc = ++d->depth > DEPTH_MAX ? err_set(e, ERR_LIMIT, "more than %d directories within each other", DEPTH_MAX) :
					  image_names(d, from, &n, e);

	for (i = 0; !rc && i < n.count; i++) {
		/* the entry of the writable layer was reported already */
		if ((upper >= 0 && !fstatat(upper, n.list[i], &st, AT_SYMLINK_NOFOLLOW)) || !enter(d, n.list[i], &len))
			continue;
		rc = look_at_image(d, from, n.list[i], e);
		d->path[len] = '\0';
	}
	d->depth--;
	names_release(&n);
	return rc;
}

/* Another directory is at d->path now: reports entries of the image's that it lacks. */
static int walk_hidden(struct difftree *d, int upper, const char *from, struct err *e)
{
	struct names n = { 0 };
	struct stat st;
	size_t i, len;
	int rc = image_names(d, d->path, &n, e);

	for (i = 0; !rc && i < n.count; i++) {
		autofree char *theirs = NULL;
		int there = !fstatat(upper, n.list[i], &st, AT_SYMLINK_NOFOLLOW), hidden = there && is_whiteout(&st);

		if (from && !there && asprintf(&theirs, "%s/%s", from, n.list[i]) < 0) {
			theirs = NULL;
			rc = err_nomem(e);
			break;
		}
		if ((there && !hidden) || (theirs && in_image(d, theirs, &st)) || !enter(d, n.list[i], &len))
			continue;
		if (in_image(d, d->path, &st))
			rc = add(d, 'D', e);
		d->path[len] = '\0';
	}
	names_release(&n);
	return rc;
}

static int walk(struct difftree *d, int fd, const char *from, struct err *e);

/* A directory of the writable layer, at d->path; takes over fd. */
static int walk_dir(struct difftree *d, int fd, const char *name, const char *from, struct err *e)
{
	autofree char *origin = malloc(PATH_SIZE);
	struct stat st;
	int moved, rc = 0;

	if (!origin) {
		close(fd);
		return err_nomem(e);
	}
	if (!origin_of(d, fd, name, from, origin)) {
		free(origin);
		origin = NULL;
	}
	moved = !origin || strcmp(origin, d->path);
	if (moved && in_image(d, d->path, &st) && S_ISDIR(st.st_mode))
		rc = walk_hidden(d, fd, origin, e);
	if (!rc && origin && moved)
		rc = walk_image(d, fd, origin, e);
	if (!rc)
		return walk(d, fd, origin, e);
	close(fd);
	return rc;
}

static int look_at(struct difftree *d, int dirfd, const char *name, int is_in_place, const char *from, struct err *e)
{
	size_t before = d->count;
	struct stat st, old;
	int lower, next;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;	/* gone meanwhile */
	lower = in_image(d, d->path, &old);
	/* at another place than its own it hides an entry that was brought along */
	if (is_whiteout(&st))
		return lower && is_in_place ? add(d, 'D', e) : 0;
	if (!S_ISDIR(st.st_mode))
		return is_ours(d, &st, 0) ? 0 : add(d, lower ? 'C' : 'A', e);
	next = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (next < 0)
		return 0;
	if (walk_dir(d, next, name, from, e) < 0)
		return -1;
	if (is_ours(d, &st, d->count == before))
		return 0;
	if (!lower || !S_ISDIR(old.st_mode))
		return add(d, lower ? 'C' : 'A', e);
	/* copied up for an entry below it, or changed itself */
	return d->count > before || st.st_mode != old.st_mode ? add(d, 'C', e) : 0;
}

/* Takes over fd.  from: where the image has this directory's part, NULL when it is new. */
static int walk(struct difftree *d, int fd, const char *from, struct err *e)
{
	int is_in_place = from && !strcmp(from, d->path), r = 0;
	DIR *dir = fdopendir(fd);
	struct dirent *de;
	size_t len;

	if (!dir) {
		close(fd);
		return err_sys(e, "list %.200s", d->path);
	}
	if (++d->depth > DEPTH_MAX)
		r = err_set(e, ERR_LIMIT, "more than %d directories within each other", DEPTH_MAX);
	while (r == 0 && (de = readdir(dir))) {
		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, "..") || !enter(d, de->d_name, &len))
			continue;
		r = look_at(d, dirfd(dir), de->d_name, is_in_place, from, e);
		d->path[len] = '\0';
	}
	d->depth--;
	closedir(dir);
	return r;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct difftree_change *)a)->path, ((const struct difftree_change *)b)->path);
}

int difftree_compare(struct difftree *d, int upper, struct err *e)
{
	if (walk(d, upper, "", e) < 0)
		return -1;
	if (d->count)
		qsort(d->list, d->count, sizeof(*d->list), by_path);
	return 0;
}

void difftree_release(struct difftree *d)
{
	while (d->count)
		free(d->list[--d->count].path);
	free(d->list);
	d->list = NULL;
	d->cap = 0;
}
