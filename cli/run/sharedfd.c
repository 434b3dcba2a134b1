/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/sharedfd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"

void sharedfd_note(struct sharedfd *s, int status_fd)
{
	int i;

	for (i = 0; i < SHAREDFD_MAX; i++) {
		s->fd[i] = i < 3 ? i : status_fd;
		s->flags[i] = s->fd[i] < 0 ? -1 : fcntl(s->fd[i], F_GETFL);
	}
}

void sharedfd_give_back(const struct sharedfd *s)
{
	int i;

	for (i = 0; i < SHAREDFD_MAX; i++)
		if (s->flags[i] >= 0 && fcntl(s->fd[i], F_GETFL) != s->flags[i])
			fcntl(s->fd[i], F_SETFL, s->flags[i]);
}

/* The file's last byte, by a descriptor of our own, as this one may be for writing alone; -1: not to be had. */
static int last_byte(int fd, off_t size)
{
	char path[32], byte;
	autoclose int own = open(path_of_fd(fd, path), O_RDONLY | O_CLOEXEC);

	return own >= 0 && pread(own, &byte, 1, size - 1) == 1 ? (unsigned char)byte : -1;
}

int sharedfd_last_line(int fd, const char *line, size_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	struct stat st;
	ssize_t w;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		if (lseek(fd, 0, SEEK_END) < 0)
			return -1;
		if (st.st_size && last_byte(fd, st.st_size) != '\n' && io_write_all(fd, "\n", 1) < 0)
			return -1;
	}
	while (n) {
		w = write(fd, line, n);
		if (w < 0 && errno == EAGAIN)
			w = poll(&p, 1, -1) < 0 && errno != EINTR ? -1 : 0;	/* the caller's own, made so before us */
		if (w < 0 && errno != EINTR)
			return -1;
		if (w > 0) {
			line += w;
			n -= (size_t)w;
		}
	}
	return 0;
}

int sharedfd_option(const char *value, int *ret_fd, struct err *e)
{
	uint64_t n;

	if (num_u64(value, "descriptor", 0, 1 << 20, &n, e) < 0)
		return -1;
	if (fcntl((int)n, F_GETFD) < 0)
		return err_set(e, ERR_INVALID, "descriptor %s is not open", value);
	*ret_fd = (int)n;
	return 0;
}

int sharedfd_verdict(int fd, const json_t *verdict, struct err *e)
{
	autofree char *text = fd < 0 ? NULL : json_dumps(verdict, JSON_COMPACT);
	autobuf struct buf line = BUF_INIT(1 << 20);

	if (fd < 0)
		return 0;
	if (!text)
		return err_nomem(e);
	if (buf_addf(&line, e, "%s\n", text) < 0)
		return -1;
	return sharedfd_last_line(fd, line.data, line.len) < 0 ?
		       err_sys(e, "write the verdict to descriptor %d", fd) :
		       0;
}
