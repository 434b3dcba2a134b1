/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/extents.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/mem.h"

#define BATCH 256
#define COUNT_MAX (1u << 20) /* beyond that they count as the file's own */
#define NO_PLACE                                                                                   \
	(FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC | FIEMAP_EXTENT_DATA_INLINE |              \
	 FIEMAP_EXTENT_NOT_ALIGNED)

static int keep(struct extents *x, const struct fiemap_extent *f, struct err *e)
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

/* Of the file from *at on: 0 and *at of the next, 1 at its end, -1. */
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
		if (keep(x, &m->fm_extents[i], e) < 0)
			return -1;
	if (!m->fm_mapped_extents)
		return 1;
	last = &m->fm_extents[m->fm_mapped_extents - 1];
	*at = last->fe_logical + last->fe_length;
	return (last->fe_flags & FIEMAP_EXTENT_LAST) != 0;
}

/* Those that are known to have none, and have the more extents for it. */
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

/* What several files share is in the list once from then on: it does not grow with their number. */
static void merge(struct extents *x)
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

	merge(x);
	for (i = 0; i < x->count; i++)
		sum += x->list[i].bytes;
	return sum;
}

void extents_release(struct extents *x)
{
	free(x->list);
	*x = (struct extents)EXTENTS_INIT;
}
