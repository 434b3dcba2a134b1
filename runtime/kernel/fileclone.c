/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/fileclone.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mem.h"

#define PIECE (8 << 20) /* bytes between two calls of go_on */

struct copy {
	int from, to;
	int (*go_on)(void *ctx);
	void *ctx;
};

static int clone_failed(struct err *e)
{
	if (errno == ENOSPC || errno == EDQUOT)
		return err_code_sys(e, ERR_FULL, "copy the file of a writable layer");
	return err_sys(e, "copy the file of a writable layer");
}

/* Copies a piece between two file systems, most of which refuse copy_file_range(2). */
static ssize_t copy_clone_piece(const struct copy *c, off_t at, size_t n)
{
	char piece[1 << 16];
	ssize_t got = pread(c->from, piece, n < sizeof(piece) ? n : sizeof(piece), at);

	return got > 0 ? pwrite(c->to, piece, (size_t)got, at) : got;
}

static int copy_extent(const struct copy *c, off_t at, off_t end, struct err *e)
{
	while (at < end) {
		off_t in = at, out = at;
		size_t n = end - at > PIECE ? PIECE : (size_t)(end - at);
		ssize_t got;

		if (c->go_on && !c->go_on(c->ctx))
			return err_set(e, ERR_BUSY, "the copy was cut short");
		got = copy_file_range(c->from, &in, c->to, &out, n, 0);
		if (got < 0 && errno == EXDEV)
			got = copy_clone_piece(c, at, n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got == 0)
			errno = EIO; /* shorter than it said */
		if (got <= 0)
			return clone_failed(e);
		at += got;
	}
	return 0;
}

static int copy_clone_data(const struct copy *c, off_t size, struct err *e)
{
	off_t from, to = 0;

	while (to < size) {
		from = lseek(c->from, to, SEEK_DATA);
		if (from < 0 && errno == ENXIO)
			break;
		to = from < 0 ? -1 : lseek(c->from, from, SEEK_HOLE);
		if (to < 0)
			return clone_failed(e);
		if (copy_extent(c, from, to, e) < 0)
			return -1;
	}
	return 0;
}

int fileclone_share(int from_fd, int to_fd, struct err *e)
{
	if (ioctl(to_fd, FICLONE, from_fd) == 0)
		return 1;
	return errno == EOPNOTSUPP || errno == EXDEV || errno == ENOTTY || errno == EINVAL ?
		       0 :
		       clone_failed(e);
}

int fileclone(int from_fd, int to_fd, int (*go_on)(void *ctx), void *ctx, struct err *e)
{
	const struct copy c = { from_fd, to_fd, go_on, ctx };
	struct stat st;
	int shared = fileclone_share(from_fd, to_fd, e);

	if (shared != 0)
		return shared;
	if (fstat(from_fd, &st) < 0 || ftruncate(to_fd, st.st_size) < 0)
		return clone_failed(e);
	return copy_clone_data(&c, st.st_size, e);
}

int fileclone_shares(int dirfd, struct err *e)
{
	autoclose int from = openat(dirfd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	autoclose int to = openat(dirfd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

	if (from < 0 || to < 0 || write(from, "", 1) != 1)
		return err_sys(e, "make a file to try reflinks with");
	if (ioctl(to, FICLONE, from) == 0)
		return 1;
	return errno == EOPNOTSUPP || errno == ENOTTY || errno == EINVAL ?
		       0 :
		       err_sys(e, "try reflinks");
}

/* ---- what clones take together ---- */

#define BATCH 256
#define COUNT_MAX (1u << 20) /* beyond that they count as the file's own */
#define NO_PLACE                                                                                   \
	(FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_DATA_INLINE |              \
	 FIEMAP_EXTENT_NOT_ALIGNED)

static int keep_extent(struct extents *x, const struct fiemap_extent *f, struct err *e)
{
	if (!(f->fe_flags & FIEMAP_EXTENT_SHARED) || f->fe_flags & NO_PLACE ||
	    x->count == COUNT_MAX) {
		x->own += f->fe_length;
		return 0;
	}
	if (x->count == x->cap) {
		const size_t cap = x->cap ? x->cap * 2 : BATCH;
		struct extent *list = realloc(x->list, cap * sizeof(*list));

		if (!list)
			return err_nomem(e);
		x->list = list;
		x->cap = cap;
	}
	x->list[x->count++] = (struct extent){ f->fe_physical, f->fe_length };
	return 0;
}

/* Reads extents of the file from *at on: 0 and *at for the next call, 1 at its end, -1. */
static int add_batch(struct extents *x, int fd, struct fiemap *m, uint64_t *at, struct err *e)
{
	const struct fiemap_extent *last;
	uint32_t i;

	memset(m, 0, sizeof(*m));
	m->fm_start = *at;
	m->fm_length = FIEMAP_MAX_OFFSET - *at;
	m->fm_extent_count = BATCH;
	if (ioctl(fd, FS_IOC_FIEMAP, m) < 0)
		return err_sys(e, "look up the blocks of a file");
	for (i = 0; i < m->fm_mapped_extents; i++)
		if (keep_extent(x, &m->fm_extents[i], e) < 0)
			return -1;
	if (!m->fm_mapped_extents)
		return 1;
	last = &m->fm_extents[m->fm_mapped_extents - 1];
	*at = last->fe_logical + last->fe_length;
	return (last->fe_flags & FIEMAP_EXTENT_LAST) != 0;
}

/* Tells whether the file system is known to have no reflinks; such ones have more extents. */
static int has_no_reflinks(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == TMPFS_MAGIC);
}

int extents_add(struct extents *x, int fd, struct err *e)
{
	const size_t before = x->count;
	const uint64_t own = x->own;
	autofree struct fiemap *m = NULL;
	uint64_t at = 0;
	struct stat st;
	int done = 0;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at a file");
	if (!has_no_reflinks(fd)) {
		m = malloc(sizeof(*m) + BATCH * sizeof(struct fiemap_extent));
		if (!m)
			return err_nomem(e);
		while (!done)
			done = add_batch(x, fd, m, &at, e);
		if (done > 0)
			return 0;
		if (errno != EOPNOTSUPP && errno != ENOTTY && errno != EINVAL)
			return -1;
		x->count = before;
		x->own = own;
	}
	x->own += (uint64_t)st.st_blocks * 512;
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/*
 * Merges the extents, so that a shared one is in the list once: the list does not grow with the
 * number of files.
 */
static void merge_extents(struct extents *x)
{
	struct extent *last = x->list;
	size_t i;

	if (x->count < 2)
		return;
	qsort(x->list, x->count, sizeof(*x->list), by_place);
	for (i = 1; i < x->count; i++) {
		const struct extent *one = &x->list[i];
		const uint64_t end = last->at + last->bytes;

		if (one->at > end)
			*++last = *one;
		else if (one->at + one->bytes > end)
			last->bytes = one->at + one->bytes - last->at;
	}
	x->count = (size_t)(last - x->list) + 1;
}

uint64_t extents_bytes(struct extents *x)
{
	uint64_t sum = x->own;
	size_t i;

	merge_extents(x);
	for (i = 0; i < x->count; i++)
		sum += x->list[i].bytes;
	return sum;
}

void extents_release(struct extents *x)
{
	free(x->list);
	*x = (struct extents)EXTENTS_INIT;
}

/* ---- a file system that stands still ---- */

static int open_top(int mnt_fd, struct err *e)
{
	int fd = openat(mnt_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_sys(e, "open the writable layer") : fd;
}

int fsfreeze(int mnt_fd, struct err *e)
{
	autoclose int top = open_top(mnt_fd, e);

	if (top < 0)
		return -1;
	return ioctl(top, FIFREEZE, 0) < 0 ? err_code_sys(e, errno == EBUSY ? ERR_BUSY : ERR_SYS,
							  "let the writable layer stand still") :
					     0;
}

int fsfreeze_thaw(int mnt_fd, struct err *e)
{
	autoclose int top = open_top(mnt_fd, e);

	if (top < 0)
		return -1;
	return ioctl(top, FITHAW, 0) < 0 && errno != EINVAL ?
		       err_sys(e, "let the writable layer go on") :
		       0;
}
