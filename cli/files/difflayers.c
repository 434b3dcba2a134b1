/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/files/difflayers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/files/difftree.h"
#include "cli/files/linediff.h"
#include "manager/keeper/fileclient.h"

#define PIECE 65536

struct view {
	const struct difflayers *l;
	const struct diffview *how;
	struct difftree a, b; /* what each layer changed of the image */
	json_t *changes;
	size_t patched; /* bytes of all patches */
};

/* ---- a path in both ---------------------------------------------------------------- */

static int find(int upper, const char *path, struct stat *ret)
{
	int fd = path_open_beneath(upper, path + 1, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);

	if (fd >= 0 && fstat(fd, ret) < 0)
		fd_close(&fd);
	return fd;
}

static int open_file(int upper, const char *path)
{
	return path_open_beneath(upper, path + 1, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
				 0);
}

static int same_target(int a, int b)
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
static int same_bytes(int a, int b, off_t size)
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

static int same_entry(const struct view *v, const char *path)
{
	struct stat x, y;
	autoclose int a = find(v->l->from, path, &x), b = find(v->l->to, path, &y);
	autoclose int from = -1, to = -1;

	if (a < 0 || b < 0)
		return a < 0 && b < 0; /* the image's, brought along by a rename */
	if (x.st_mode != y.st_mode || x.st_uid != y.st_uid || x.st_gid != y.st_gid)
		return 0;
	if (S_ISLNK(x.st_mode))
		return same_target(a, b);
	if (S_ISCHR(x.st_mode) || S_ISBLK(x.st_mode))
		return x.st_rdev == y.st_rdev;
	if (!S_ISREG(x.st_mode))
		return 1;
	if (x.st_size != y.st_size)
		return 0;
	from = open_file(v->l->from, path);
	to = open_file(v->l->to, path);
	return from >= 0 && to >= 0 && same_bytes(from, to, x.st_size);
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
static void look(const struct view *v, int upper, const char *path, char kind, struct side *s)
{
	autoclose int fd = -1, file = -1;
	ssize_t n;

	s->text = BUF_INIT(PATCH_FILE_MAX + 1);
	if (kind == 'D')
		return;
	fd = kind == '-' ? -1 : find(upper, path, &s->st);
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
		file = open_file(upper, path);
		read_content(s, file);
	}
}

static int is_text(const struct side *s)
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
	if (!is_text(a) || !is_text(b)) {
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
	look(v, v->l->from, path, was, &a);
	look(v, v->l->to, path, is, &b);
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

static int tell(struct view *v, const char *path, char was, char is, char kind, struct err *e)
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
static int compare(struct view *v, const char *path, char was, char is, struct err *e)
{
	if (was == 'D' && is == 'D')
		return 0;
	if (was == 'D')
		return tell(v, path, was, is, 'A', e);
	if (is == 'D' || (is == '-' && was == 'A'))
		return tell(v, path, was, is, 'D', e);
	if (was == '-')
		return tell(v, path, was, is, is, e);
	if (is != '-' && same_entry(v, path))
		return 0;
	return tell(v, path, was, is, 'C', e);
}

static int merge(struct view *v, struct err *e)
{
	size_t i = 0, j = 0;

	while (i < v->a.count || j < v->b.count) {
		const struct difftree_change *x = i < v->a.count ? &v->a.list[i] : NULL;
		const struct difftree_change *y = j < v->b.count ? &v->b.list[j] : NULL;
		const int order = !x ? 1 : !y ? -1 : strcmp(x->path, y->path);

		if (compare(v, order <= 0 ? x->path : y->path, order <= 0 ? x->kind : '-',
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
		result = merge(v, e);
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
