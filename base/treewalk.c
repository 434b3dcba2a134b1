/* SPDX-License-Identifier: Apache-2.0 */
#include "base/treewalk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/getdents.h"
#include "base/mem.h"
#include "base/path.h"

/* ---- in the order of the file system ---- */

/* A directory above the current one: its identity, and where to read on in it. */
struct level {
	ino_t ino;
	off_t at;
};

struct walk {
	const struct treewalk *does;
	void *ctx;
	int fd;			/* the directory that is being read */
	dev_t dev;
	ino_t ino;
	struct level *levels;
	size_t depth, room;
	/* a file system cannot have more directories than this; 0: unknown */
	uint64_t entered, most;
};

static int push_walk_level(struct walk *w, off_t at, struct err *e)
{
	if (w->depth == w->room) {
		size_t room = w->room ? 2 * w->room : 64;
		struct level *more = reallocarray(w->levels, room, sizeof(*more));

		if (!more)
			return err_nomem(e);
		w->levels = more;
		w->room = room;
	}
	w->levels[w->depth++] = (struct level){ w->ino, at };
	return 0;
}

/* at: position of the next name in the directory we leave. */
static int treewalk_go_down(struct walk *w, const char *name, const struct stat *st, off_t at, struct err *e)
{
	struct stat is;
	int sub;

	if (st->st_dev != w->dev)
		return err_set(e, ERR_BUSY, "%.200s is a mount point", name);
	/*
	 * names with equal positions are read again: hash collisions in ext4, which an attacker
	 * has to search for
	 */
	if (w->most && w->entered++ == w->most)
		return err_set(e, ERR_CORRUPT, "a directory gives the same names again");
	if (w->does->enter(w->ctx, w->fd, name, st, e) < 0 || push_walk_level(w, at, e) < 0)
		return -1;
	sub = path_open_subdir(w->fd, name, O_NOATIME);
	if (sub < 0)
		return errno == EXDEV ? err_set(e, ERR_BUSY, "%.200s is a mount point", name) : err_sys(e, "open directory %.200s", name);
	fd_close(&w->fd);
	w->fd = sub;
	w->ino = st->st_ino;
	if (fstat(sub, &is) < 0)
		return err_sys(e, "look at directory %.200s", name);
	return is.st_dev == w->dev && is.st_ino == w->ino ? 0 : err_set(e, ERR_CORRUPT, "directory %.200s was exchanged", name);
}

static int treewalk_go_up(struct walk *w, struct err *e)
{
	const struct level *l = &w->levels[w->depth - 1];
	int up;

	if (w->does->leave && w->does->leave(w->ctx, w->fd, e) < 0)
		return -1;
	up = path_open_above(w->fd, O_NOATIME, w->dev, l->ino);
	if (up < 0)
		return errno == ESTALE ? err_set(e, ERR_CORRUPT, "a directory moved while its tree was read") :
		       err_sys(e, "go back up in a tree");
	fd_close(&w->fd);
	w->fd = up;
	if (lseek(up, l->at, SEEK_SET) < 0)
		return err_sys(e, "read on in a directory");
	w->ino = l->ino;
	w->depth--;
	return 0;
}

/* Returns 1 if it went down into the entry. */
static int take_walk_entry(struct walk *w, const struct getdents *d, struct err *e)
{
	struct stat st;

	if (getdents_dots(d->name))
		return 0;
	if (fstatat(w->fd, d->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "look at %.200s", d->name);
	if (!S_ISDIR(st.st_mode))
		return w->does->entry(w->ctx, w->fd, d->name, &st, e);
	return treewalk_go_down(w, d->name, &st, d->off, e) < 0 ? -1 : 1;
}

/* Reads on from the current position: returns 1 if it went down, 0 if all was read. */
static int read_on(struct walk *w, struct err *e)
{
	/* short, because names after a directory are read again */
	_Alignas(struct getdents) char list[2048];
	long n, at;
	int r = 0;

	while (r == 0 && (n = getdents_read(w->fd, list, sizeof(list))) != 0) {
		if (n < 0)
			return err_sys(e, "read a directory");
		for (at = 0; r == 0 && at < n;)
			r = take_walk_entry(w, getdents_next(list, &at), e);
	}
	return r;
}

int treewalk(int top_fd, const struct treewalk *does, void *ctx, struct err *e)
{
	struct walk w = { .does = does, .ctx = ctx, .fd = openat(top_fd, ".", O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC) };
	struct statfs fs;
	struct stat st;
	int r = 1;

	if (w.fd < 0 || fstat(w.fd, &st) < 0 || fstatfs(w.fd, &fs) < 0) {
		fd_close(&w.fd);
		return err_sys(e, "open the directory of a tree");
	}
	w.dev = st.st_dev;
	w.ino = st.st_ino;
	w.most = (uint64_t)fs.f_files;
	while (r > 0) {
		r = read_on(&w, e);
		if (r == 0 && w.depth)
			r = treewalk_go_up(&w, e) < 0 ? -1 : 1;
	}
	fd_close(&w.fd);
	free(w.levels);
	return r;
}

/* ---- in the order of the names ---- */

#define FDS_KEPT 32		/* descriptors of directories above that stay open; moving one of those is
				 * no error */
#define PATH_BYTES_MAX (1u << 30)	/* more depth than the inodes of a layer allow */

struct treelist_level {
	int fd;			/* open while we are below the directory, if it is one of those kept */
	dev_t dev;
	ino_t ino;
	struct buf text;	/* the names, each with its NUL */
	const char **names;
	size_t count, next, path_len;
};

static int compare_listed_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int read_listed_names(struct treelist *w, struct treelist_level *l, struct err *e)
{
	int fd = openat(w->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *de;

	if (!d) {
		err_sys(e, "read a directory");
		fd_close(&fd);
		return -1;
	}
	while (r == 0 && (errno = 0, de = readdir(d))) {
		if (getdents_dots(de->d_name))
			continue;
		if (w->names == w->names_max)
			r = err_set(e, ERR_LIMIT, "more than %zu entries", w->names_max);
		else
			r = buf_add(&l->text, de->d_name, strlen(de->d_name) + 1, e);
		if (r == 0) {
			l->count++;
			w->names++;
		}
	}
	if (r == 0 && errno)
		r = err_sys(e, "read a directory");
	closedir(d);
	return r;
}

static int sort_names(struct treelist_level *l, struct err *e)
{
	const char *at = l->text.data;
	size_t i;

	if (!l->count)
		return 0;
	l->names = reallocarray(NULL, l->count, sizeof(*l->names));
	if (!l->names)
		return err_nomem(e);
	for (i = 0; i < l->count; i++, at += strlen(at) + 1)
		l->names[i] = at;
	qsort(l->names, l->count, sizeof(*l->names), compare_listed_names);
	return 0;
}

/* Adds a level for the directory w->fd. */
static int add_level(struct treelist *w, struct err *e)
{
	struct treelist_level *l;
	struct stat st;

	if (w->depth == w->room) {
		size_t room = w->room ? 2 * w->room : 16;

		l = reallocarray(w->levels, room, sizeof(*l));
		if (!l)
			return err_nomem(e);
		w->levels = l;
		w->room = room;
	}
	if (fstat(w->fd, &st) < 0)
		return err_sys(e, "look at a directory");
	l = &w->levels[w->depth++];
	*l = (struct treelist_level){ .fd = -1, .dev = st.st_dev, .ino = st.st_ino, .text = BUF_INIT(w->names_max * 256),
				      .path_len = w->path.len };
	return read_listed_names(w, l, e) < 0 ? -1 : sort_names(l, e);
}

static void drop_level(struct treelist *w)
{
	struct treelist_level *l = &w->levels[--w->depth];

	w->names -= l->count;
	buf_release(&l->text);
	free(l->names);
	fd_close(&l->fd);
}

int treelist_begin(struct treelist *w, int dir_fd, size_t names_max, struct err *e)
{
	*w = (struct treelist){ .fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), .names_max = names_max,
				.path = BUF_INIT(PATH_BYTES_MAX) };
	return w->fd < 0 ? err_sys(e, "open a directory") : add_level(w, e);
}

/* Returns to the directory above. */
static int leave_listed_dir(struct treelist *w, struct err *e)
{
	struct treelist_level *above = &w->levels[w->depth - 2];
	int fd;

	drop_level(w);
	fd = above->fd >= 0 ? take_fd(&above->fd) : path_open_above(w->fd, 0, above->dev, above->ino);
	fd_close(&w->fd);
	w->fd = fd;
	if (fd >= 0)
		return 0;
	return errno == ESTALE ? err_set(e, ERR_BUSY, "a directory was moved while it was read; hint: try again") :
	       err_sys(e, "open the directory above");
}

static int set_listed_path(struct treelist *w, const struct treelist_level *l, const char *name, struct err *e)
{
	w->path.len = l->path_len;
	return (l->path_len && buf_adds(&w->path, "/", e) < 0) || buf_adds(&w->path, name, e) < 0 ? -1 : 0;
}

int treelist_next(struct treelist *w, struct treelist_entry *ret, struct err *e)
{
	for (;;) {
		struct treelist_level *l = &w->levels[w->depth - 1];

		if (l->next == l->count) {
			if (w->depth == 1)
				return 0;
			if (leave_listed_dir(w, e) < 0)
				return -1;
			continue;
		}
		ret->name = l->names[l->next++];
		if (fstatat(w->fd, ret->name, &ret->st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;	/* removed meanwhile */
			return err_sys(e, "look at %.200s", ret->name);
		}
		if (set_listed_path(w, l, ret->name, e) < 0)
			return -1;
		ret->dir_fd = w->fd;
		ret->path = w->path.data;
		return 1;
	}
}

int treelist_enter(struct treelist *w, const struct treelist_entry *dir, struct err *e)
{
	int fd = openat(w->fd, dir->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_sys(e, "open directory %.200s", dir->name);
	if (w->depth <= FDS_KEPT)
		w->levels[w->depth - 1].fd = take_fd(&w->fd);
	fd_close(&w->fd);
	w->fd = fd;
	return add_level(w, e);
}

void treelist_end(struct treelist *w)
{
	while (w->depth)
		drop_level(w);
	free(w->levels);
	w->levels = NULL;
	fd_close(&w->fd);
	buf_release(&w->path);
}
