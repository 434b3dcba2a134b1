/* SPDX-License-Identifier: Apache-2.0 */
/* Where names of an archive lead: never out of the tree. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "rootfs/store/notes.h"
#include "rootfs/store/tree.h"

Test(rootfs_tree, names_are_cleaned)
{
	static const struct { const char *in, *out; } rows[] = {
		{ "a", "a" }, { "/a/b", "a/b" }, { "./a//b/./c/", "a/b/c" }, { "", "" }, { "/", "" }, { "./", "" },
		{ "././//.", "" }, { "...", "..." }, { "..a/b..", "..a/b.." }, { "..", NULL }, { "../a", NULL },
		{ "a/..", NULL }, { "a/../b", NULL }, { "/..", NULL }, { "a/.. ", "a/.. " },
	};
	char out[TREE_PATH_MAX + 1];
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		struct err e = { 0 };
		int r = tree_clean_path(rows[i].in, out, &e);

		cr_expect_eq(r, rows[i].out ? 0 : -1, "'%s'", rows[i].in);
		if (!r && rows[i].out)
			cr_expect_str_eq(out, rows[i].out);
	}
}

Test(rootfs_tree, names_have_limits)
{
	char out[TREE_PATH_MAX + 1];
	char *s = calloc(1, 20000);
	int i;

	memset(s, 'n', TREE_NAME_MAX);
	cr_expect_eq(tree_clean_path(s, out, NULL), 0);
	s[TREE_NAME_MAX] = 'n';
	cr_expect_eq(tree_clean_path(s, out, NULL), -1);
	for (i = 0; i < TREE_COMPONENTS_MAX; i++)
		memcpy(s + 2 * i, "d/", 3);
	cr_expect_eq(tree_clean_path(s, out, NULL), 0);
	memcpy(s + 2 * i, "d/", 3);
	cr_expect_eq(tree_clean_path(s, out, NULL), -1);
	for (i = 0; i < 17; i++) {
		memset(s + 251 * i, 'p', 250);
		s[251 * i + 250] = '/';
	}
	s[251 * 17] = '\0';
	cr_expect_eq(tree_clean_path(s, out, NULL), -1);
	free(s);
}

struct place {
	char dir[64];
	int fd;		/* of dir/root */
};

static void make_place(struct place *p)
{
	strcpy(p->dir, "/tmp/berth-tree-XXXXXX");
	cr_assert(mkdtemp(p->dir));
	p->fd = open(p->dir, O_RDONLY | O_DIRECTORY);
	cr_assert(!mkdirat(p->fd, "root", 0700) && !mkdirat(p->fd, "out", 0700));
	close(p->fd);
	p->fd = open(p->dir, O_RDONLY | O_DIRECTORY);
	p->fd = openat(p->fd, "root", O_RDONLY | O_DIRECTORY);
	cr_assert(p->fd >= 0);
}

static void remove_place(struct place *p)
{
	close(p->fd);
	path_remove_tree(AT_FDCWD, p->dir, NULL);
}

Test(rootfs_tree, parents_are_made_and_kept)
{
	struct tree *t = malloc(sizeof(*t));
	const char *name;
	struct place p;
	struct stat st;
	int fd, again;

	make_place(&p);
	tree_init(t, p.fd);
	cr_expect_eq(tree_parent(t, "a/b/c", 0, &fd, &name, NULL), -1, "missing parents are not made unasked");
	cr_assert_eq(tree_parent(t, "a/b/c", TREE_MAKE, &fd, &name, NULL), 0);
	cr_expect_str_eq(name, "c");
	cr_assert_eq(fstatat(p.fd, "a/b", &st, 0), 0);
	cr_assert_eq(tree_parent(t, "a/b/d", 0, &again, &name, NULL), 0);
	cr_expect_eq(fd, again);
	cr_assert_eq(tree_parent(t, "top", 0, &fd, &name, NULL), 0);
	cr_expect_eq(fd, p.fd);
	tree_release(t);
	free(t);
	remove_place(&p);
}

Test(rootfs_tree, links_never_lead_out)
{
	struct tree *t = malloc(sizeof(*t));
	const char *name;
	char out[80];
	struct place p;
	struct stat in, st;
	int fd;

	make_place(&p);
	snprintf(out, sizeof(out), "%s/out", p.dir);
	cr_assert(!symlinkat(out, p.fd, "abs") && !symlinkat("../out", p.fd, "rel") && !symlinkat("/", p.fd, "top"));
	cr_assert(!mkdirat(p.fd, "real", 0700) && !symlinkat("/real", p.fd, "inner"));
	tree_init(t, p.fd);
	cr_expect_eq(tree_parent(t, "abs/x", TREE_MAKE, &fd, &name, NULL), -1);
	cr_expect_eq(tree_parent(t, "rel/x", TREE_MAKE, &fd, &name, NULL), -1);
	cr_assert_eq(tree_parent(t, "top/x", 0, &fd, &name, NULL), 0);
	cr_assert(!fstat(fd, &st) && !fstat(p.fd, &in));
	cr_expect_eq(st.st_ino, in.st_ino, "a link to / is the tree's root");
	cr_assert_eq(tree_parent(t, "inner/x", 0, &fd, &name, NULL), 0);
	cr_assert(!fstat(fd, &st) && !fstatat(p.fd, "real", &in, 0));
	cr_expect_eq(st.st_ino, in.st_ino);
	/* what was reached through a link does not serve a strict caller */
	cr_expect_eq(tree_parent(t, "inner/x", TREE_STRICT, &fd, &name, NULL), -1);
	tree_release(t);
	free(t);
	remove_place(&p);
}

static int count_notes(void *ctx, const struct note *n, struct err *e)
{
	int *count = ctx;

	(void)e;
	cr_expect_eq(n->kind, NOTE_TIME);
	cr_expect_eq(n->sec, *count);
	cr_expect_eq(strlen(n->path), (size_t)(*count * 37 % 4000));
	++*count;
	return 0;
}

Test(rootfs_notes, come_back_in_order)
{
	struct notes *n = malloc(sizeof(*n));
	char path[4001];
	FILE *f = tmpfile();
	int i, count = 0;

	notes_init(n, fileno(f));
	for (i = 0; i < 500; i++) {
		memset(path, 'x', sizeof(path));
		path[i * 37 % 4000] = '\0';
		cr_assert_eq(notes_add(n, NOTE_TIME, path, i, 5, NULL), 0);
	}
	cr_assert_eq(notes_flush(n, NULL), 0);
	cr_expect_eq(notes_replay(fileno(f), count_notes, &count, NULL), 0);
	cr_expect_eq(count, 500);
	cr_assert_eq(ftruncate(fileno(f), 100000), 0);
	count = 0;
	cr_expect_eq(notes_replay(fileno(f), count_notes, &count, NULL), -1, "a cut list is refused");
	free(n);
	fclose(f);
}
