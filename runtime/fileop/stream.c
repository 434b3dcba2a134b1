/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#define CHUNK (1u << 20)

volatile sig_atomic_t stream_interrupted;
static int ended_input = -1; /* a pipe that has no writer */

/*
 * The end of a copy must leave nothing: calls end, and made files are removed. A call that waits
 * for input is interrupted; a call that is about to wait, after its check, finds the end of
 * input.
 */
static void note_stream_interrupt(int signo)
{
	const int was = errno;

	(void)signo;
	stream_interrupted = 1;
	if (ended_input >= 0)
		dup2(ended_input, STDIN_FILENO);
	errno = was;
}

void stream_catch_end(void)
{
	struct sigaction term = { .sa_handler = note_stream_interrupt }; /* no SA_RESTART */
	int p[2];

	if (pipe2(p, O_CLOEXEC) == 0) {
		close(p[1]);
		ended_input = p[0];
	}
	sigaction(SIGTERM, &term, NULL);
}

void stream_init(struct stream *s, int fd, int stall_ms)
{
	memset(s, 0, offsetof(struct stream, buf));
	s->fd = fd;
	s->stall_ms = stall_ms;
}

/* Handles -1 from a call on fd: 0 to try it again, -1 with e. */
static int again(int fd, short events, int stall_ms, const char *what, struct err *e)
{
	struct pollfd p = { .fd = fd, .events = events };
	int saved = errno, r;

	if (stream_interrupted)
		return err_set(e, ERR_BUSY, "interrupted");
	if (saved == EINTR)
		return 0;
	errno = saved;
	if (saved != EAGAIN)
		return err_sys(e, "%s", what);
	r = poll(&p, 1, stall_ms);
	if (stream_interrupted)
		return err_set(e, ERR_BUSY, "interrupted");
	if (r == 0)
		return err_set(e, ERR_TIMEOUT, "no byte moved for %d s", stall_ms / 1000);
	return 0;
}

static int may_not_splice(int os_errno)
{
	return os_errno == EINVAL || os_errno == ENOSYS || os_errno == EPERM || os_errno == EXDEV;
}

static void moved(struct stream *s, uint64_t n)
{
	s->moved += n;
	if (s->tick)
		s->tick(s->ctx, s->moved);
}

static int put_stream_bytes(struct stream *s, const char *p, size_t n, struct err *e)
{
	while (n) {
		ssize_t w = write(s->fd, p, n);

		if (w < 0) {
			if (again(s->fd, POLLOUT, s->stall_ms, "write to the stream", e) < 0)
				return -1;
			continue;
		}
		p += w;
		n -= (size_t)w;
		moved(s, (uint64_t)w);
	}
	return 0;
}

int stream_flush(struct stream *s, struct err *e)
{
	size_t n = s->len;

	s->len = 0;
	return put_stream_bytes(s, s->buf, n, e);
}

int stream_write(struct stream *s, const void *p, size_t n, struct err *e)
{
	const char *c = p;

	while (n) {
		size_t room = sizeof(s->buf) - s->len, part = n < room ? n : room;

		memcpy(s->buf + s->len, c, part);
		s->len += part;
		c += part;
		n -= part;
		if (s->len == sizeof(s->buf) && stream_flush(s, e) < 0)
			return -1;
	}
	return 0;
}

int stream_zeros(struct stream *s, uint64_t n, struct err *e)
{
	static const char zeros[4096];

	for (; n > sizeof(zeros); n -= sizeof(zeros))
		if (stream_write(s, zeros, sizeof(zeros), e) < 0)
			return -1;
	return stream_write(s, zeros, (size_t)n, e);
}

/* Sends the rest of a file through the buffer; *n counts down. */
static int from_file_buffered(struct stream *s, int in_fd, uint64_t *n, struct err *e)
{
	while (*n) {
		size_t room = sizeof(s->buf) - s->len;
		ssize_t got = read(in_fd, s->buf + s->len, *n < room ? (size_t)*n : room);

		if (got < 0) {
			if (errno == EINTR)
				continue;
			return err_sys(e, "read the file");
		}
		if (got == 0)
			return 0;
		s->len += (size_t)got;
		*n -= (uint64_t)got;
		if (s->len == sizeof(s->buf) && stream_flush(s, e) < 0)
			return -1;
	}
	return 0;
}

int stream_from_file(struct stream *s, int in_fd, uint64_t n, int *ret_short, struct err *e)
{
	if (n > sizeof(s->buf) / 4 && !s->no_splice && stream_flush(s, e) < 0)
		return -1;
	while (n > sizeof(s->buf) / 4 && !s->no_splice) {
		ssize_t w = sendfile(s->fd, in_fd, NULL, n < CHUNK ? (size_t)n : CHUNK);

		if (w < 0 && may_not_splice(errno)) {
			s->no_splice = 1;
			break;
		}
		if (w < 0) {
			if (again(s->fd, POLLOUT, s->stall_ms, "copy the file to the stream", e) < 0)
				return -1;
			continue;
		}
		if (w == 0)
			break;
		n -= (uint64_t)w;
		moved(s, (uint64_t)w);
	}
	if (from_file_buffered(s, in_fd, &n, e) < 0)
		return -1;
	if (n)
		*ret_short = 1;
	return stream_zeros(s, n, e);
}

/* Bytes in the buffer: 1, 0 at the end of the stream. */
static int fill_stream_buffer(struct stream *s, struct err *e)
{
	ssize_t n;

	if (s->pos < s->len)
		return 1;
	while ((n = read(s->fd, s->buf, sizeof(s->buf))) < 0)
		if (again(s->fd, POLLIN, s->stall_ms, "read the stream", e) < 0)
			return -1;
	s->pos = 0;
	s->len = (size_t)n;
	moved(s, (uint64_t)n);
	return n > 0;
}

static int stream_ended_early(struct err *e)
{
	return err_set(e, ERR_CORRUPT, "the stream ended in the middle");
}

int stream_read(struct stream *s, void *p, size_t n, struct err *e)
{
	char *c = p;

	while (n) {
		size_t part;
		int r = fill_stream_buffer(s, e);

		if (r <= 0)
			return r < 0 ? -1 : stream_ended_early(e);
		part = s->len - s->pos < n ? s->len - s->pos : n;
		memcpy(c, s->buf + s->pos, part);
		s->pos += part;
		c += part;
		n -= part;
	}
	return 0;
}

int stream_skip(struct stream *s, uint64_t n, struct err *e)
{
	while (n) {
		size_t part;
		int r = fill_stream_buffer(s, e);

		if (r <= 0)
			return r < 0 ? -1 : stream_ended_early(e);
		part = s->len - s->pos < n ? s->len - s->pos : (size_t)n;
		s->pos += part;
		n -= part;
	}
	return 0;
}

int stream_drain(struct stream *s, struct err *e)
{
	int r;

	do
		s->pos = s->len;
	while ((r = fill_stream_buffer(s, e)) > 0);
	return r;
}

static int write_stream_to_file(int fd, const char *p, size_t n, struct err *e)
{
	while (n) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno != EINTR)
			return err_sys(e, "write the file");
		if (w > 0) {
			p += w;
			n -= (size_t)w;
		}
	}
	return 0;
}

/* Returns up to n bytes of the buffer; the result is their number. */
static int64_t to_file_buffered(struct stream *s, int out_fd, uint64_t n, struct err *e)
{
	size_t part = s->len - s->pos < n ? s->len - s->pos : (size_t)n;

	if (write_stream_to_file(out_fd, s->buf + s->pos, part, e) < 0)
		return -1;
	s->pos += part;
	return (int64_t)part;
}

int stream_to_file(struct stream *s, int out_fd, uint64_t n, struct err *e)
{
	while (n) {
		ssize_t w = -1;
		int64_t part = to_file_buffered(s, out_fd, n, e);

		if (part < 0)
			return -1;
		n -= (uint64_t)part;
		if (n <= sizeof(s->buf) / 4 || s->no_splice) {
			int r = n ? fill_stream_buffer(s, e) : 1;

			if (r <= 0)
				return r < 0 ? -1 : stream_ended_early(e);
			continue;
		}
		w = splice(s->fd, NULL, out_fd, NULL, n < CHUNK ? (size_t)n : CHUNK, SPLICE_F_MOVE);
		if (w < 0 && may_not_splice(errno)) {
			s->no_splice = 1;
			continue;
		}
		if (w == 0)
			return stream_ended_early(e);
		if (w < 0) {
			if (again(s->fd, POLLIN, s->stall_ms, "copy the stream to the file", e) < 0)
				return -1;
			continue;
		}
		n -= (uint64_t)w;
		moved(s, (uint64_t)w);
	}
	return 0;
}

static ssize_t pump_kernel(int in_fd, int out_fd, int *how)
{
	ssize_t n;

	for (; *how < 3; (*how)++) {
		if (*how == 0)
			n = copy_file_range(in_fd, NULL, out_fd, NULL, CHUNK, 0);
		else if (*how == 1)
			n = sendfile(out_fd, in_fd, NULL, CHUNK);
		else
			n = splice(in_fd, NULL, out_fd, NULL, CHUNK, 0);
		/* procfs and friends say 0 where read(2) has bytes: only read(2) knows the end */
		if (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)))
			return n;
		if (n < 0 && !may_not_splice(errno) && errno != EBADF && errno != EOPNOTSUPP)
			return n;
	}
	return 0;
}

static int pump_chunk(int in_fd, int out_fd, int *how, char *buf, ssize_t *ret, struct err *e)
{
	ssize_t n = *how < 3 ? pump_kernel(in_fd, out_fd, how) : 0, done = 0;

	if (*how == 3) {
		n = read(in_fd, buf, STREAM_BUF);
		for (done = 0; n > 0 && done < n;) {
			ssize_t w = write(out_fd, buf + done, (size_t)(n - done));

			if (w < 0 && again(out_fd, POLLOUT, -1, "write", e) < 0)
				return -1;
			done += w > 0 ? w : 0;
		}
	}
	if (n < 0) {
		struct pollfd p[2] = { { .fd = in_fd, .events = POLLIN }, { .fd = out_fd, .events = POLLOUT } };

		if (errno != EAGAIN && errno != EINTR)
			return err_sys(e, "copy the bytes");
		/* we cannot know which of the two is not ready */
		if (errno == EAGAIN && !stream_interrupted && poll(&p[0], 1, -1) > 0)
			poll(&p[1], 1, -1);
		if (stream_interrupted)
			return err_set(e, ERR_BUSY, "interrupted");
		*ret = -1;
		return 0;
	}
	*ret = n;
	return 0;
}

int stream_pump(int in_fd, int out_fd, uint64_t limit, char *buf, uint64_t *ret_bytes, struct err *e)
{
	uint64_t total = 0;
	int how = 0;
	ssize_t n = -1;

	while (n) {
		if (pump_chunk(in_fd, out_fd, &how, buf, &n, e) < 0)
			return -1;
		if (n > 0)
			total += (uint64_t)n;
		if (total > limit)
			return err_set(e, ERR_LIMIT, "more than %llu bytes", (unsigned long long)limit);
	}
	/* note_stream_interrupt() gave it the end that it read */
	if (stream_interrupted)
		return err_set(e, ERR_BUSY, "interrupted");
	*ret_bytes = total;
	return 0;
}
