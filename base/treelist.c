/* SPDX-License-Identifier: Apache-2.0 */
#include "base/treelist.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/getdents.h"
#include "base/mem.h"
#include "base/path.h"

#define FDS_KEPT 32		/* open directories above; a move there is no error */
#define PATH_BYTES_MAX (1u << 30)	/* more depth than the inodes of a layer allow */

struct treelist_level {
	int fd;			/* while we are below it, if it is kept */
	dev_t dev;
	ino_t ino;
	struct buf text;	/* the names, each with its NUL */
	const char **names;
	size_t count, next, path_len;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int read_names(struct treelist *w, struct treelist_level *l, struct err *e)
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
	qsort(l->names, l->count, sizeof(*l->names), by_name);
	return 0;
}

/* One more level: the directory w->fd. */
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
	return read_names(w, l, e) < 0 ? -1 : sort_names(l, e);
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

/* To the directory above. */
static int leave(struct treelist *w, struct err *e)
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

static int set_path(struct treelist *w, const struct treelist_level *l, const char *name, struct err *e)
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
			if (leave(w, e) < 0)
				return -1;
			continue;
		}
		ret->name = l->names[l->next++];
		if (fstatat(w->fd, ret->name, &ret->st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;	/* removed meanwhile */
			return err_sys(e, "look at %.200s", ret->name);
		}
		if (set_path(w, l, ret->name, e) < 0)
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
