/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/cgroup_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/getdents.h"
#include "base/mem.h"
#include "base/path.h"

#define NAMES_MAX (256u << 20)	/* far less than the cgroups of these names take of the kernel */

struct level {
	dev_t dev;
	ino_t ino;
	size_t names;	/* where its own begin */
};

struct walk {
	struct level *levels;
	size_t depth, room;	/* depth of them are in use */
	/*
	 * names of cgroups still to walk; the last is the current one, except on the newest
	 * level
	 */
	struct buf names;
	int fd;
};

/*
 * All at once and before any is removed: a position to come back to would be a hash of the name, and names with one hash
 * are easily made.
 */
static int read_names(struct walk *w, struct err *e)
{
	_Alignas(struct getdents) char list[4096];
	long n, at;

	while ((n = getdents_read(w->fd, list, sizeof(list))) > 0)
		for (at = 0; at < n;) {
			const struct getdents *d = getdents_next(list, &at);

			if (d->type == DT_DIR && !getdents_dots(d->name) && buf_add(&w->names, d->name, strlen(d->name) + 1, e) < 0)
				return -1;
		}
	return n < 0 && errno != ENOENT ? err_sys(e, "read a cgroup directory") : 0;
}

/* fd is the walk's from here on. */
static int enter(struct walk *w, int fd, const struct oci_cgroup_walk *how, struct err *e)
{
	struct stat st;

	fd_close(&w->fd);
	w->fd = fd;
	if (fstat(fd, &st) < 0)
		return err_sys(e, "stat a cgroup");
	if (w->depth == w->room) {
		size_t room = w->room ? w->room * 2 : 16;
		struct level *more = reallocarray(w->levels, room, sizeof(*more));

		if (!more)
			return err_nomem(e);
		w->levels = more;
		w->room = room;
	}
	w->levels[w->depth++] = (struct level){ st.st_dev, st.st_ino, w->names.len };
	if (how->enter && how->enter(how->ctx, fd, e) < 0)
		return -1;
	return read_names(w, e);
}

static const char *last_name(const struct walk *w)
{
	const char *p = w->names.data + w->names.len - 1;

	while (p > w->names.data && p[-1])
		p--;
	return p;
}

static void drop_name(struct walk *w)
{
	w->names.len = (size_t)(last_name(w) - w->names.data);
}

/* Out of one with nothing left to walk. */
static int leave(struct walk *w, const struct oci_cgroup_walk *how, struct err *e)
{
	const struct level *above = &w->levels[--w->depth - 1];
	int up = path_open_above(w->fd, 0, above->dev, above->ino);

	if (up < 0)
		return errno == ESTALE ? err_set(e, ERR_BUSY, "a cgroup is not where it was") : err_sys(e, "go back from a cgroup");
	fd_close(&w->fd);
	w->fd = up;
	if (how->leave && how->leave(how->ctx, up, last_name(w), e) < 0)
		return -1;
	drop_name(w);
	return 0;
}

static int step(struct walk *w, const struct oci_cgroup_walk *how, struct err *e)
{
	int fd;

	if (clock_ms() >= how->end)
		return err_set(e, ERR_TIMEOUT, "the container's cgroups are too many, or grow");
	if (w->names.len == w->levels[w->depth - 1].names)
		return leave(w, how, e);
	fd = openat(w->fd, last_name(w), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		return enter(w, fd, how, e);
	if (errno != ENOENT && errno != ENODEV)
		return err_sys(e, "open a cgroup");
	drop_name(w);
	return 0;
}

int oci_cgroup_walk(int fd, const struct oci_cgroup_walk *how, struct err *e)
{
	struct walk w = { .names = BUF_INIT(NAMES_MAX), .fd = -1 };
	int top = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (top < 0)
		return errno == ENOENT || errno == ENODEV ? 0 : err_sys(e, "open a cgroup");
	r = enter(&w, top, how, e);
	while (r == 0 && (w.depth > 1 || w.names.len))
		r = step(&w, how, e);
	fd_close(&w.fd);
	buf_release(&w.names);
	free(w.levels);
	return r;
}
