/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/fileclone.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define PIECE (8 << 20) /* between two questions of go_on */

struct copy {
	int from, to;
	int (*go_on)(void *ctx);
	void *ctx;
};

static int fail(struct err *e)
{
	if (errno == ENOSPC || errno == EDQUOT)
		return err_code_sys(e, ERR_FULL, "copy the file of a writable layer");
	return err_sys(e, "copy the file of a writable layer");
}

/* Between two file systems, of which most refuse copy_file_range(2). */
static ssize_t copy_piece(const struct copy *c, off_t at, size_t n)
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
			got = copy_piece(c, at, n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got == 0)
			errno = EIO; /* shorter than it said */
		if (got <= 0)
			return fail(e);
		at += got;
	}
	return 0;
}

static int copy_data(const struct copy *c, off_t size, struct err *e)
{
	off_t from, to = 0;

	while (to < size) {
		from = lseek(c->from, to, SEEK_DATA);
		if (from < 0 && errno == ENXIO)
			break;
		to = from < 0 ? -1 : lseek(c->from, from, SEEK_HOLE);
		if (to < 0)
			return fail(e);
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
		       fail(e);
}

int fileclone(int from_fd, int to_fd, int (*go_on)(void *ctx), void *ctx, struct err *e)
{
	const struct copy c = { from_fd, to_fd, go_on, ctx };
	struct stat st;
	int shared = fileclone_share(from_fd, to_fd, e);

	if (shared != 0)
		return shared;
	if (fstat(from_fd, &st) < 0 || ftruncate(to_fd, st.st_size) < 0)
		return fail(e);
	return copy_data(&c, st.st_size, e);
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
