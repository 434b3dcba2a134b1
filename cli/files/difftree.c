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

#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/files/linediff.h"
#include "manager/keeper/fileclient.h"

/* ---- one layer against the image ---- */

#define DEPTH_MAX 512
#define PATH_SIZE sizeof(((struct difftree *)0)->path)

static int is_overlay_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int is_overlay_opaque(int fd)
{
	char v[2];

	return fgetxattr(fd, "trusted.overlay.opaque", v, sizeof(v)) == 1 && v[0] == 'y';
}

static int add_tree_change(struct difftree *d, char kind, struct err *e)
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
static int find_in_image_layer(int layer, const char *path, struct stat *ret)
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
		if (is_overlay_whiteout(ret) || (*path && !S_ISDIR(ret->st_mode))) {
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
		opaque |= at >= 0 && is_overlay_opaque(at);
	}
	fd_close(&at);
	return result;
}

static int in_image(const struct difftree *d, const char *path, struct stat *ret)
{
	int i, r = 0;

	for (i = 0; i < d->layers && r == 0; i++)
		r = find_in_image_layer(d->layer[i], path, ret);
	return r == 1;
}

int difftree_image_file(const struct difftree *d, const char *path)
{
	struct stat st;
	int i, r = 0;

	for (i = 0; i < d->layers && r == 0; i++)
		r = find_in_image_layer(d->layer[i], path, &st);
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

static int compare_image_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the names in a directory of one layer; takes over fd. */
static int add_dir_names(int fd, struct names *n, struct err *e)
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
		if (fd >= 0 && add_dir_names(fd, n, e) < 0)
			return -1;
	}
	if (!n->count)
		return 0;
	qsort(n->list, n->count, sizeof(*n->list), compare_image_names);
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
static int is_put_there_by_berth(const struct difftree *d, const struct stat *st, int empty)
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
static int overlay_origin_of(const struct difftree *d, int fd, const char *name, const char *from, char ret[PATH_SIZE])
{
	char redirect[PATH_SIZE];
	ssize_t n = fgetxattr(fd, "trusted.overlay.redirect", redirect, sizeof(redirect) - 1);
	struct stat st;
	int len;

	if (n > 0 && redirect[0] == '/') {
		len = snprintf(ret, PATH_SIZE, "%.*s", (int)n, redirect);
	} else if (!from || (n <= 0 && is_overlay_opaque(fd))) {
		return 0;
	} else {
		redirect[n > 0 ? n : 0] = '\0';
		len = snprintf(ret, PATH_SIZE, "%s/%s", from, n > 0 ? redirect : name);
	}
	return len > 0 && (size_t)len < PATH_SIZE && in_image(d, ret, &st) && S_ISDIR(st.st_mode);
}

/* d->path gets name at its end; the length before.  0 when it does not fit. */
static int enter_tree_dir(struct difftree *d, const char *name, size_t *ret_len)
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
	if (add_tree_change(d, in_image(d, d->path, &old) ? 'C' : 'A', e) < 0)
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
		if ((upper >= 0 && !fstatat(upper, n.list[i], &st, AT_SYMLINK_NOFOLLOW)) || !enter_tree_dir(d, n.list[i], &len))
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
		int there = !fstatat(upper, n.list[i], &st, AT_SYMLINK_NOFOLLOW), hidden = there && is_overlay_whiteout(&st);

		if (from && !there && asprintf(&theirs, "%s/%s", from, n.list[i]) < 0) {
			theirs = NULL;
			rc = err_nomem(e);
			break;
		}
		if ((there && !hidden) || (theirs && in_image(d, theirs, &st)) || !enter_tree_dir(d, n.list[i], &len))
			continue;
		if (in_image(d, d->path, &st))
			rc = add_tree_change(d, 'D', e);
		d->path[len] = '\0';
	}
	names_release(&n);
	return rc;
}

static int walk_upper(struct difftree *d, int fd, const char *from, struct err *e);

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
	if (!overlay_origin_of(d, fd, name, from, origin)) {
		free(origin);
		origin = NULL;
	}
	moved = !origin || strcmp(origin, d->path);
	if (moved && in_image(d, d->path, &st) && S_ISDIR(st.st_mode))
		rc = walk_hidden(d, fd, origin, e);
	if (!rc && origin && moved)
		rc = walk_image(d, fd, origin, e);
	if (!rc)
		return walk_upper(d, fd, origin, e);
	close(fd);
	return rc;
}

static int look_at_upper(struct difftree *d, int dirfd, const char *name, int is_in_place, const char *from, struct err *e)
{
	size_t before = d->count;
	struct stat st, old;
	int lower, next;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;	/* gone meanwhile */
	lower = in_image(d, d->path, &old);
	/* at another place than its own it hides an entry that was brought along */
	if (is_overlay_whiteout(&st))
		return lower && is_in_place ? add_tree_change(d, 'D', e) : 0;
	if (!S_ISDIR(st.st_mode))
		return is_put_there_by_berth(d, &st, 0) ? 0 : add_tree_change(d, lower ? 'C' : 'A', e);
	next = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (next < 0)
		return 0;
	if (walk_dir(d, next, name, from, e) < 0)
		return -1;
	if (is_put_there_by_berth(d, &st, d->count == before))
		return 0;
	if (!lower || !S_ISDIR(old.st_mode))
		return add_tree_change(d, lower ? 'C' : 'A', e);
	/* copied up for an entry below it, or changed itself */
	return d->count > before || st.st_mode != old.st_mode ? add_tree_change(d, 'C', e) : 0;
}

/* Takes over fd.  from: where the image has this directory's part, NULL when it is new. */
static int walk_upper(struct difftree *d, int fd, const char *from, struct err *e)
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
		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, "..") || !enter_tree_dir(d, de->d_name, &len))
			continue;
		r = look_at_upper(d, dirfd(dir), de->d_name, is_in_place, from, e);
		d->path[len] = '\0';
	}
	d->depth--;
	closedir(dir);
	return r;
}

static int compare_change_paths(const void *a, const void *b)
{
	return strcmp(((const struct difftree_change *)a)->path, ((const struct difftree_change *)b)->path);
}

int difftree_compare(struct difftree *d, int upper, struct err *e)
{
	if (walk_upper(d, upper, "", e) < 0)
		return -1;
	if (d->count)
		qsort(d->list, d->count, sizeof(*d->list), compare_change_paths);
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

/* ---- two layers of one sandbox ---- */

#define PIECE 65536

struct view {
	const struct difflayers *l;
	const struct diffview *how;
	struct difftree a, b; /* what each layer changed of the image */
	json_t *changes;
	size_t patched; /* bytes of all patches */
};

/* ---- a path in both ---------------------------------------------------------------- */

static int find_in_upper(int upper, const char *path, struct stat *ret)
{
	int fd = path_open_beneath(upper, path + 1, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);

	if (fd >= 0 && fstat(fd, ret) < 0)
		fd_close(&fd);
	return fd;
}

static int open_upper_file(int upper, const char *path)
{
	return path_open_beneath(upper, path + 1, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
				 0);
}

static int same_diff_target(int a, int b)
{
	char x[4096], y[4096];
	const ssize_t n = readlinkat(a, "", x, sizeof(x)), m = readlinkat(b, "", y, sizeof(y));

	return n >= 0 && n == m && !memcmp(x, y, (size_t)n);
}

/* Where there is data at `at` or behind it; the end of a file that has none there, and no data. */
static off_t data_at(int fd, off_t at, off_t end)
{
	const off_t found = lseek(fd, at, SEEK_DATA);

	return found >= 0 ? found : errno == ENXIO ? end : at;
}

/*
 * Of files of one size.  What is a hole in both is not read: a sandbox makes one of terabytes at
 * no cost.
 */
static int same_diff_bytes(int a, int b, off_t size)
{
	static char x[PIECE], y[PIECE];
	off_t at = 0;

	while (at < size) {
		const off_t i = data_at(a, at, size), j = data_at(b, at, size);
		ssize_t n, m;

		at = i < j ? i : j;
		n = pread(a, x, sizeof(x), at);
		m = pread(b, y, sizeof(y), at);
		if (n < 0 || n != m || memcmp(x, y, (size_t)n) != 0)
			return 0;
		if (!n)
			return 1;
		at += n;
	}
	return 1;
}

static int same_layer_entry(const struct view *v, const char *path)
{
	struct stat x, y;
	autoclose int a = find_in_upper(v->l->from, path, &x), b = find_in_upper(v->l->to, path, &y);
	autoclose int from = -1, to = -1;

	if (a < 0 || b < 0)
		return a < 0 && b < 0; /* the image's, brought along by a rename */
	if (x.st_mode != y.st_mode || x.st_uid != y.st_uid || x.st_gid != y.st_gid)
		return 0;
	if (S_ISLNK(x.st_mode))
		return same_diff_target(a, b);
	if (S_ISCHR(x.st_mode) || S_ISBLK(x.st_mode))
		return x.st_rdev == y.st_rdev;
	if (!S_ISREG(x.st_mode))
		return 1;
	if (x.st_size != y.st_size)
		return 0;
	from = open_upper_file(v->l->from, path);
	to = open_upper_file(v->l->to, path);
	return from >= 0 && to >= 0 && same_diff_bytes(from, to, x.st_size);
}

/* ---- patches ------------------------------------------------------------------------ */

struct side {
	int found;
	struct stat st;
	struct buf text;
	const char *why; /* its content is not shown; NULL: it is in text */
	char target[4096];
};

static void read_content(struct side *s, int fd)
{
	struct err ignored;

	if (s->st.st_size > PATCH_FILE_MAX)
		s->why = "too large to show";
	else if (fd < 0 || io_read_all(fd, &s->text, "a file", &ignored) < 0)
		s->why = "not readable";
	else if (s->text.len && memchr(s->text.data, 0, s->text.len))
		s->why = "binary";
}

/* kind: of the change to the image, '-' when there is none. */
static void look_at_side(const struct view *v, int upper, const char *path, char kind, struct side *s)
{
	autoclose int fd = -1, file = -1;
	ssize_t n;

	s->text = BUF_INIT(PATCH_FILE_MAX + 1);
	if (kind == 'D')
		return;
	fd = kind == '-' ? -1 : find_in_upper(upper, path, &s->st);
	if (fd < 0) {
		file = difftree_image_file(&v->a, path);
		s->found = file >= 0 && fstat(file, &s->st) == 0;
		if (s->found)
			read_content(s, file);
		return;
	}
	s->found = 1;
	if (S_ISLNK(s->st.st_mode)) {
		n = readlinkat(fd, "", s->target, sizeof(s->target) - 1);
		s->target[n < 0 ? 0 : n] = '\0';
	} else if (S_ISREG(s->st.st_mode)) {
		file = open_upper_file(upper, path);
		read_content(s, file);
	}
}

static int is_text_side(const struct side *s)
{
	return !s->found || (S_ISREG(s->st.st_mode) && !s->why);
}

static int add_links(const struct side *a, const struct side *b, struct buf *ret, struct err *e)
{
	char clean[4200];

	if (a->found && S_ISLNK(a->st.st_mode)) {
		log_clean(clean, sizeof(clean), a->target, 0);
		if (buf_addf(ret, e, "-link to %s\n", clean) < 0)
			return -1;
	}
	if (b->found && S_ISLNK(b->st.st_mode)) {
		log_clean(clean, sizeof(clean), b->target, 0);
		return buf_addf(ret, e, "+link to %s\n", clean);
	}
	return 0;
}

static int add_patch(const char *path, const struct side *a, const struct side *b, struct buf *ret,
		     struct err *e)
{
	const struct linediff_text x = { a->text.data ? a->text.data : "", a->text.len },
				   y = { b->text.data ? b->text.data : "", b->text.len };
	char name[4200];

	log_clean(name, sizeof(name), path, 0);
	if (a->found && b->found && a->st.st_mode != b->st.st_mode &&
	    buf_addf(ret, e, "old mode %o\nnew mode %o\n", a->st.st_mode, b->st.st_mode) < 0)
		return -1;
	if (add_links(a, b, ret, e) < 0)
		return -1;
	if (!is_text_side(a) || !is_text_side(b)) {
		if (!a->why && !b->why)
			return 0;
		return buf_addf(ret, e, "files a%s and b%s differ (%s)\n", name, name,
				a->why ? a->why : b->why);
	}
	if (x.n == y.n && !memcmp(x.text, y.text, x.n))
		return 0;
	if (buf_addf(ret, e, "--- %s%s\n+++ %s%s\n", a->found ? "a" : "/dev/null",
		     a->found ? name : "", b->found ? "b" : "/dev/null", b->found ? name : "") < 0)
		return -1;
	return linediff(&x, &y, ret, e);
}

static int patch_of(struct view *v, const char *path, char was, char is, struct buf *ret,
		    struct err *e)
{
	struct side a = { 0 }, b = { 0 };
	int result;

	if (v->patched > PATCH_ALL_MAX)
		return buf_adds(ret, "left out: the patches before it are 16 MiB\n", e);
	look_at_side(v, v->l->from, path, was, &a);
	look_at_side(v, v->l->to, path, is, &b);
	if (!a.why && !b.why &&
	    ((a.found && S_ISDIR(a.st.st_mode)) || (b.found && S_ISDIR(b.st.st_mode))))
		result = 0;
	else
		result = add_patch(path, &a, &b, ret, e);
	buf_release(&a.text);
	buf_release(&b.text);
	v->patched += ret->len;
	return result;
}

/* ---- output -------------------------------------------------------------------------- */

int difflayers_print(char kind, const char *path, struct buf *patch)
{
	char name[4200], *line, *next;

	log_clean(name, sizeof(name), path, 0);
	printf("%c %s\n", kind, name);
	if (!patch->len)
		return 0;
	if (!isatty(STDOUT_FILENO))
		return fwrite(patch->data, 1, patch->len, stdout) == patch->len ? 0 : -1;
	/* what a file holds must not reach a terminal as it is */
	for (line = patch->data; line < patch->data + patch->len; line = next) {
		autofree char *clean = NULL;
		size_t n = strcspn(line, "\n");

		next = line + n + (line[n] == '\n');
		line[n] = '\0';
		clean = malloc(4 * n + 1);
		if (!clean)
			return -1;
		log_clean(clean, 4 * n + 1, line, 0);
		puts(clean);
	}
	return 0;
}

static int tell_layer_change(struct view *v, const char *path, char was, char is, char kind, struct err *e)
{
	const char *word = kind == 'A' ? "added" : kind == 'C' ? "changed" : "deleted";
	autobuf struct buf patch = BUF_INIT(4 * PATCH_FILE_MAX);
	json_t *one;

	if (v->how->patch && patch_of(v, path, was, is, &patch, e) < 0)
		return -1;
	if (!v->how->json)
		return difflayers_print(kind, path, &patch) < 0 ? err_sys(e, "write to stdout") : 0;
	one = json_pack("{s:s}", "change", word);
	if (json_array_append_new(v->changes, one) < 0)
		return err_nomem(e);
	if (json_set_bytes(one, "path", path, strlen(path), e) < 0)
		return -1;
	return patch.len ? json_set_bytes(one, "patch", patch.data, patch.len, e) : 0;
}

/* was, is: what either layer did to the image's path, '-': nothing. */
static int compare_layer_path(struct view *v, const char *path, char was, char is, struct err *e)
{
	if (was == 'D' && is == 'D')
		return 0;
	if (was == 'D')
		return tell_layer_change(v, path, was, is, 'A', e);
	if (is == 'D' || (is == '-' && was == 'A'))
		return tell_layer_change(v, path, was, is, 'D', e);
	if (was == '-')
		return tell_layer_change(v, path, was, is, is, e);
	if (is != '-' && same_layer_entry(v, path))
		return 0;
	return tell_layer_change(v, path, was, is, 'C', e);
}

static int merge_layer_trees(struct view *v, struct err *e)
{
	size_t i = 0, j = 0;

	while (i < v->a.count || j < v->b.count) {
		const struct difftree_change *x = i < v->a.count ? &v->a.list[i] : NULL;
		const struct difftree_change *y = j < v->b.count ? &v->b.list[j] : NULL;
		const int order = !x ? 1 : !y ? -1 : strcmp(x->path, y->path);

		if (compare_layer_path(v, order <= 0 ? x->path : y->path, order <= 0 ? x->kind : '-',
			    order >= 0 ? y->kind : '-', e) < 0)
			return -1;
		i += order <= 0;
		j += order >= 0;
	}
	return 0;
}

static int read_tree(const struct difflayers *l, int upper, struct difftree *t, struct err *e)
{
	int fd = fcntl(upper, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return err_sys(e, "look at a layer");
	memcpy(t->layer, l->image, sizeof(t->layer));
	t->layers = l->images;
	memcpy(t->workdir, l->workdir, sizeof(t->workdir));
	return difftree_compare(t, fd, e);
}

int difflayers_show(const struct difflayers *l, const struct diffview *how, struct err *e)
{
	struct view *v = calloc(1, sizeof(*v));
	int result = -1;

	if (!v)
		return err_nomem(e);
	v->l = l;
	v->how = how;
	v->changes = json_array();
	if (read_tree(l, l->from, &v->a, e) == 0 && read_tree(l, l->to, &v->b, e) == 0)
		result = merge_layer_trees(v, e);
	if (result == 0 && how->json)
		result = fileclient_print(json_pack("{s:O}", "changes", v->changes), e);
	else if (result == 0 && fflush(stdout))
		result = err_sys(e, "write to stdout");
	difftree_release(&v->a);
	difftree_release(&v->b);
	json_decref(v->changes);
	free(v);
	return result;
}
