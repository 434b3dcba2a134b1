/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/fileflow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/api/api.h"

#define ANSWER_MS 60000
#define PIPE_BYTES (1 << 20)
#define ABORT_MS 10000

void fileflow_init(struct fileflow *f)
{
	memset(f, 0, sizeof(*f));
	f->pipe_fd = -1;
}

/*
 * The helper would take the end of an upload's pipe for the end of its bytes, and put half a file
 * in place.  So it ends first, with its client's connection; then nothing reads from the pipe.
 */
static void abort_upload(struct fileflow *f)
{
	struct pollfd p = { .fd = f->pipe_fd };

	shutdown(f->client.sock, SHUT_RDWR);
	while (poll(&p, 1, ABORT_MS) < 0 && errno == EINTR)
		;
}

void fileflow_release(struct fileflow *f)
{
	if (f->started && f->pipe_fd >= 0 && f->upload)
		abort_upload(f);
	if (f->started)
		fd_close(&f->client.err_fd);
	f->started = 0;
	fd_close(&f->pipe_fd);
}

int fileflow_start(struct fileflow *f, int sock, const char *const *argv, const char *user, uint64_t timeout_ms, int out,
		   struct err *e)
{
	int p[2], r;

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	fcntl(p[0], F_SETPIPE_SZ, PIPE_BYTES);
	f->pipe_fd = p[out ? 0 : 1];
	f->first_n = f->first_at = 0;
	r = fileclient_start(&f->client, sock, argv, user, timeout_ms, out ? -1 : p[0], out ? p[1] : -1, e);
	close(p[out ? 1 : 0]);
	f->started = r == 0;
	f->upload = !out;
	f->client.wait_ms = ANSWER_MS;
	if (r == 0 && fcntl(f->pipe_fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up a pipe");
	return r;
}

/* Some bytes, 0 at the end of the pipe, -1. */
static ssize_t read_some(struct fileflow *f, struct http_request *rq, char *buf, size_t max, struct err *e)
{
	for (;;) {
		ssize_t n = read(f->pipe_fd, buf, max);

		if (n >= 0)
			return n;
		if (errno != EAGAIN && errno != EINTR)
			return err_sys(e, "read from the file helper");
		if (http_wait(rq, f->pipe_fd, POLLIN, -1, e) < 0)
			return -1;
	}
}

int fileflow_first(struct fileflow *f, struct http_request *rq, struct err *e)
{
	ssize_t n = read_some(f, rq, f->first, sizeof(f->first), e);
	struct filecounts ignored;

	if (n < 0)
		return -1;
	f->first_n = (size_t)n;
	return n ? 0 : fileflow_end(f, &ignored, e);
}

ssize_t fileflow_more(struct fileflow *f, struct http_request *rq, char *buf, size_t max, struct err *e)
{
	struct filecounts ignored;
	ssize_t n;

	if (f->first_at < f->first_n) {
		n = (ssize_t)(f->first_n - f->first_at);
		n = n > (ssize_t)max ? (ssize_t)max : n;
		memcpy(buf, f->first + f->first_at, (size_t)n);
		f->first_at += (size_t)n;
		return n;
	}
	if (!f->started)
		return 0;
	n = read_some(f, rq, buf, max, e);
	if (n)
		return n;
	/* a copy that failed half-way must not look whole: the reply is cut */
	return fileflow_end(f, &ignored, e);
}

ssize_t fileflow_read(struct fileflow *f, struct http_request *rq, char *buf, size_t max)
{
	struct err ignored;

	return fileflow_more(f, rq, buf, max, &ignored);
}

int fileflow_feed(struct fileflow *f, struct http_request *rq, const char *data, size_t n, struct err *e)
{
	return box_upload(rq, &f->pipe_fd, data, n, e);
}

int fileflow_end(struct fileflow *f, struct filecounts *ret, struct err *e)
{
	fd_close(&f->pipe_fd);
	f->started = 0;
	return fileclient_end(&f->client, ret, e);
}
