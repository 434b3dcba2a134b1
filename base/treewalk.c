/* SPDX-License-Identifier: Apache-2.0 */
#include "base/treewalk.h"

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

static int push(struct walk *w, off_t at, struct err *e)
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
static int go_down(struct walk *w, const char *name, const struct stat *st, off_t at, struct err *e)
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
	if (w->does->enter(w->ctx, w->fd, name, st, e) < 0 || push(w, at, e) < 0)
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

static int go_up(struct walk *w, struct err *e)
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
static int take(struct walk *w, const struct getdents *d, struct err *e)
{
	struct stat st;

	if (getdents_dots(d->name))
		return 0;
	if (fstatat(w->fd, d->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "look at %.200s", d->name);
	if (!S_ISDIR(st.st_mode))
		return w->does->entry(w->ctx, w->fd, d->name, &st, e);
	return go_down(w, d->name, &st, d->off, e) < 0 ? -1 : 1;
}

/* From the current position: returns 1 if it went down, 0 if all was read. */
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
			r = take(w, getdents_next(list, &at), e);
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
			r = go_up(&w, e) < 0 ? -1 : 1;
	}
	fd_close(&w.fd);
	free(w.levels);
	return r;
}
