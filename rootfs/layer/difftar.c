/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/layer/difftar.h"

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
#include "rootfs/layer/layer.h"

#define MARKS_BYTES_MAX (64u << 20)
#define REDIRECT_MAX 4096

/* ---- the marks ---- */

void difftar_release(struct difftar_marks *m)
{
	while (m->count) {
		m->count--;
		free(m->list[m->count].path);
		free(m->list[m->count].redirect);
	}
	free(m->list);
	*m = (struct difftar_marks){ 0 };
}

static int add_mark(struct difftar_marks *m, const char *path, const char *redirect, int opaque, struct err *e)
{
	struct difftar_mark *more, *k;

	m->bytes += sizeof(*k) + strlen(path) + (redirect ? strlen(redirect) : 0);
	if (m->bytes > MARKS_BYTES_MAX)
		return err_set(e, ERR_LIMIT, "the sandbox made or renamed too many directories for one layer");
	if (m->count == m->cap) {
		m->cap = m->cap ? 2 * m->cap : 256;
		more = reallocarray(m->list, m->cap, sizeof(*more));
		if (!more)
			return err_nomem(e);
		m->list = more;
	}
	k = &m->list[m->count++];
	*k = (struct difftar_mark){ strdup(path), redirect ? strdup(redirect) : NULL, opaque };
	return !k->path || (redirect && !k->redirect) ? err_nomem(e) : 0;
}

static int mark_of(struct difftar_marks *m, int fd, const char *path, struct err *e)
{
	char value[REDIRECT_MAX + 1];
	ssize_t n = fgetxattr(fd, "trusted.overlay.opaque", value, sizeof(value));
	int opaque = n == 1 && value[0] == 'y';

	n = fgetxattr(fd, "trusted.overlay.redirect", value, REDIRECT_MAX);
	if (n < 0 && errno == ERANGE)
		return err_set(e, ERR_LIMIT, "'%.200s' was renamed from a path of more than %d bytes", path, REDIRECT_MAX);
	if (n <= 0)
		return opaque ? add_mark(m, path, NULL, 1, e) : 0;
	value[n] = '\0';
	return add_mark(m, path, value, opaque, e);
}

struct scan {
	struct difftar_marks *marks;
	char path[TREE_PATH_MAX + 8];
	int depth;
};

/* Takes over fd. */
static int scan_dir(struct scan *s, int fd, struct err *e)
{
	size_t len = strlen(s->path);
	DIR *dir = fdopendir(fd);
	struct dirent *d;
	int rc;

	if (!dir) {
		close(fd);
		return err_sys(e, "read directory '%.200s'", s->path);
	}
	rc = len ? mark_of(s->marks, dirfd(dir), s->path, e) : 0;
	if (++s->depth > TREE_COMPONENTS_MAX)
		rc = err_set(e, ERR_LIMIT, "directories nested deeper than %d", TREE_COMPONENTS_MAX);
	while (!rc && (d = readdir(dir))) {
		int sub;

		if (d->d_type != DT_DIR || !strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (len + 1 + strlen(d->d_name) > TREE_PATH_MAX) {
			rc = err_set(e, ERR_LIMIT, "a path is longer than %d bytes", TREE_PATH_MAX);
			break;
		}
		sub = openat(dirfd(dir), d->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub < 0)
			continue;	/* gone meanwhile */
		snprintf(s->path + len, sizeof(s->path) - len, "%s%s", len ? "/" : "", d->d_name);
		rc = scan_dir(s, sub, e);
		s->path[len] = '\0';
	}
	s->depth--;
	closedir(dir);
	return rc;
}

static int compare_mark_paths(const void *a, const void *b)
{
	return strcmp(((const struct difftar_mark *)a)->path, ((const struct difftar_mark *)b)->path);
}

int difftar_scan(int upper_fd, struct difftar_marks *ret, struct err *e)
{
	autofree struct scan *s = calloc(1, sizeof(*s));
	struct difftar_marks m = { 0 };
	int fd = openat(upper_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (!s || fd < 0) {
		fd_close(&fd);
		return s ? err_sys(e, "open the writable layer") : err_nomem(e);
	}
	s->marks = &m;
	if (scan_dir(s, fd, e) < 0) {
		difftar_release(&m);
		return -1;
	}
	if (m.count)
		qsort(m.list, m.count, sizeof(*m.list), compare_mark_paths);
	*ret = m;
	return 0;
}

static const struct difftar_mark *find_mark(const struct difftar_marks *m, const char *path)
{
	struct difftar_mark key = { .path = (char *)path };

	return m->count ? bsearch(&key, m->list, m->count, sizeof(*m->list), compare_mark_paths) : NULL;
}

/* ---- writing ---- */

struct diff {
	const struct difftar *d;
	struct tarstream *t;
	struct tarout out;
};

static int is_diff_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* Returns the type of the image's entry at path, 0 for none. */
static mode_t lower_type(const struct diff *x, const char *path, struct stat *ret)
{
	autoclose int fd = path_open_beneath(x->d->lower_fd, path, O_PATH | O_NOFOLLOW, 0);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	if (ret)
		*ret = st;
	return st.st_mode & S_IFMT;
}

static int open_lower(const struct diff *x, const char *path)
{
	return path_open_beneath(x->d->lower_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY, 0);
}

/* The seed files of writable.c count as changes only once they differ from what we made. */
static const char *const seed_files[] = { "etc/hosts", "etc/hostname", "etc/resolv.conf" };
static const char *const seed_mounts[] = { "proc", "sys", "dev", "tmp", "run", "run/.berth" };

static int is_among(const char *path, const char *const *list, size_t n)
{
	while (n)
		if (!strcmp(path, list[--n]))
			return 1;
	return 0;
}

static int is_empty_seed_dir(int fd)
{
	char **names = NULL;
	struct err ignored;
	size_t n = 0;

	if (tarout_names(fd, "", 1, &names, &n, &ignored) < 0)
		return 0;
	tarout_free_names(names, n);
	return n == 0;
}

static int has_only_seeds(int fd)
{
	char **names = NULL, path[300];
	struct err ignored;
	size_t n = 0, i, ours = 0;

	if (tarout_names(fd, "", ARRAY_LEN(seed_files), &names, &n, &ignored) < 0)
		return 0;
	for (i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "etc/%s", names[i]);
		ours += (size_t)is_among(path, seed_files, ARRAY_LEN(seed_files));
	}
	tarout_free_names(names, n);
	return ours == n;
}

/*
 * Tells whether berth made the directory; returns 1 if it must be left out as a whole. ret_entry:
 * the directory gets an entry of its own.
 */
static int is_seeded_dir(const struct diff *x, const char *path, int fd, const struct stat *st, int *ret_entry)
{
	int in_image = lower_type(x, path, NULL) == S_IFDIR;

	*ret_entry = 1;
	if (is_among(path, seed_mounts, ARRAY_LEN(seed_mounts)))
		return is_empty_seed_dir(fd);
	if (!strcmp(path, "etc")) {
		/* we make it with 0755 of root; an unchanged one keeps the image's own values */
		*ret_entry = !in_image || (st->st_mode & 07777) != 0755 || st->st_uid != x->d->id_base ||
			     st->st_gid != x->d->id_base;
		return !in_image && has_only_seeds(fd);
	}
	return !in_image && x->d->workdir[0] == '/' && !strcmp(path, x->d->workdir + 1) && is_empty_seed_dir(fd);
}

static int put_marker(struct diff *x, const char *dir, const char *prefix, const char *name, struct err *e)
{
	char path[TREE_PATH_MAX + 300], saved[TREE_PATH_MAX + 8];
	int r;

	if (strlen(prefix) + strlen(name) > TREE_NAME_MAX)
		return err_set(e, ERR_LIMIT, "the name '%.60s...' is too long for a whiteout", name);
	snprintf(path, sizeof(path), "%s%s%s%s", dir, *dir ? "/" : "", prefix, name);
	memcpy(saved, x->t->path, sizeof(saved));
	r = strlen(path) > TREE_PATH_MAX ? err_set(e, ERR_LIMIT, "a path is longer than %d bytes", TREE_PATH_MAX) :
					   tarstream_bytes(x->t, path, S_IFREG, "", 0, e);
	memcpy(x->t->path, saved, sizeof(saved));
	return r;
}

/*
 * Finds the image directory that corresponds to this directory; "": it has none. from: the image
 * directory of its parent.
 */
static void find_upper_origin(const struct diff *x, const char *path, const char *name, const char *from, char ret[TREE_PATH_MAX + 1])
{
	const struct difftar_mark *m = find_mark(x->d->marks, path);
	int n;

	ret[0] = '\0';
	if (m && m->redirect)
		n = m->redirect[0] == '/' ? snprintf(ret, TREE_PATH_MAX + 1, "%s", m->redirect + 1) :
		    from ? snprintf(ret, TREE_PATH_MAX + 1, "%s%s%s", from, *from ? "/" : "", m->redirect) : 0;
	else if ((m && m->opaque) || !from)
		return;
	else
		n = snprintf(ret, TREE_PATH_MAX + 1, "%s%s%s", from, *from ? "/" : "", name);
	if (n > TREE_PATH_MAX || lower_type(x, ret, NULL) != S_IFDIR)
		ret[0] = '\0';
}

static int put_upper_content(struct diff *x, int fd, const char *from, int depth, struct err *e);

static int is_opaque_diff(const struct diff *x, const char *path)
{
	const struct difftar_mark *m = find_mark(x->d->marks, path);

	return m && m->opaque;
}

static int put_upper_dir(struct diff *x, int fd, const struct stat *st, const char *name, const char *from, int depth, struct err *e)
{
	autofree char *origin = malloc(TREE_PATH_MAX + 1), *path = strdup(x->t->path);
	int entry, hides;

	if (!origin || !path)
		return err_nomem(e);
	if (is_seeded_dir(x, path, fd, st, &entry))
		return 0;
	find_upper_origin(x, path, name, from, origin);
	if (entry && tarstream_dir(x->t, fd, NULL, e) < 0)
		return -1;
	/* something else lies in its place in the image */
	hides = x->d->lower_fd < 0 ?
			is_opaque_diff(x, path) :
			strcmp(origin, path) && lower_type(x, path, NULL) == S_IFDIR;
	if (hides && put_marker(x, path, ".wh..wh..", "opq", e) < 0)
		return -1;
	return put_upper_content(x, fd, *origin ? origin : NULL, depth + 1, e);
}

/* Writes one name of the writable layer; x->t->path is its path. from: the image directory of its parent. */
static int put_one(struct diff *x, int dir_fd, const char *dir, const char *name, const char *from, int depth, struct err *e)
{
	autoclose int fd = -1;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_sys(e, "look at '%.200s'", x->t->path);
	if (is_diff_whiteout(&st))	/* elsewhere the directory is written in full */
		return x->d->lower_fd < 0 ||
				       (from && !strcmp(from, dir) &&
					lower_type(x, x->t->path, NULL)) ?
			       put_marker(x, dir, ".wh.", name, e) :
			       0;
	if (!S_ISDIR(st.st_mode)) {
		if (S_ISREG(st.st_mode) && is_among(x->t->path, seed_files, ARRAY_LEN(seed_files)))
			return 0;
		return tarout_one(&x->out, dir_fd, name, depth, e);
	}
	if (!strncmp(name, ".wh.", 4)) {
		x->out.st.skipped++;
		return 0;
	}
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open directory '%.200s'", x->t->path) : put_upper_dir(x, fd, &st, name, from, depth, e);
}

/*
 * Writes what a renamed directory brought from its old place without an entry in the writable
 * layer.
 */
static int put_from_image(struct diff *x, int low_fd, int fd, const char *name, int depth, struct err *e)
{
	const uint32_t ids = x->t->id_count;
	struct stat st;
	int r;

	if (!fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	x->t->id_count = 0;	/* the image's files already have the image's owners */
	r = tarout_one(&x->out, low_fd, name, depth, e);
	x->t->id_count = ids;
	return r;
}

struct names {
	char **list;
	size_t count;
};

/* Writes what is in the directory fd of the writable layer, which comes from `from` in the image (NULL: is new). */
static int put_upper_content(struct diff *x, int fd, const char *from, int depth, struct err *e)
{
	autofree char *dir = strdup(x->t->path);
	size_t len = strlen(x->t->path), i;
	struct names upper = { 0 }, lower = { 0 };
	autoclose int low_fd = -1;
	int rc = 0;

	if (!dir)
		return err_nomem(e);
	if (depth > TREE_COMPONENTS_MAX)
		return err_set(e, ERR_LIMIT, "directories nested deeper than %d", TREE_COMPONENTS_MAX);
	if (tarout_names(fd, dir, LAYER_ENTRIES_MAX - x->t->entries, &upper.list, &upper.count, e) < 0)
		return -1;
	for (i = 0; !rc && i < upper.count; i++) {
		rc = tarout_enter(x->t, upper.list[i], e);
		if (!rc)
			rc = put_one(x, fd, dir, upper.list[i], from, depth, e);
		x->t->path[len] = '\0';
	}
	tarout_free_names(upper.list, upper.count);
	if (rc || !from || !strcmp(from, dir))
		return rc;
	low_fd = open_lower(x, from);
	if (low_fd < 0)
		return err_sys(e, "open '%.200s' of the image", from);
	if (tarout_names(low_fd, from, LAYER_ENTRIES_MAX - x->t->entries, &lower.list, &lower.count, e) < 0)
		return -1;
	for (i = 0; !rc && i < lower.count; i++) {
		rc = tarout_enter(x->t, lower.list[i], e);
		if (!rc)
			rc = put_from_image(x, low_fd, fd, lower.list[i], depth, e);
		x->t->path[len] = '\0';
	}
	tarout_free_names(lower.list, lower.count);
	return rc;
}

int difftar_check_renamed(const struct difftar_marks *m, struct err *e)
{
	size_t i;

	for (i = 0; i < m->count; i++)
		if (m->list[i].redirect)
			return err_set(e, ERR_UNSUPPORTED,
				       "the directory '%.120s' came from the host, or the "
				       "directory that the sandbox was made from, by a rename, and "
				       "its files are not the sandbox's; hint: copy it with cp -r "
				       "in the sandbox and remove it",
				       m->list[i].path);
	return 0;
}

int difftar_write(const struct difftar *d, int out_fd, struct tarout_stats *ret, struct err *e)
{
	autofree struct tarstream *t = calloc(1, sizeof(*t));
	struct diff x = { .d = d, .t = t, .out = { .t = t, .keep_fifos = 1 } };
	int rc;

	if (!t)
		return err_nomem(e);
	rc = tarstream_open(t, out_fd, d->compression, e);
	t->id_base = d->id_base;
	t->id_count = d->id_count;
	t->max_bytes = d->max_bytes;
	if (!rc)
		rc = put_upper_content(&x, d->upper_fd, "", 0, e);
	if (!rc)
		rc = tarstream_close(t, e);
	x.out.st.entries = t->entries;
	if (!rc)
		*ret = x.out.st;
	tarstream_release(t);
	return rc;
}
