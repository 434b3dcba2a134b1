/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/stdioway.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#define STDIO_WRITE 4096	/* a pipe that poll(2) calls writable takes that without waiting */

void stdioway_init(struct stdioway way[2], int fd)
{
	way[0].from = STDIN_FILENO;
	way[0].to = way[1].from = fd;
	way[1].to = STDOUT_FILENO;
}

static int read_stdio_way(struct stdioway *w, struct err *e)
{
	const ssize_t n = read(w->from, w->buf, sizeof(w->buf));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return err_sys(e, w->from == STDIN_FILENO ? "read standard input" : "read from the sandbox");
	w->at = 0;
	w->len = (size_t)n;
	w->ended = n == 0;
	/* the other direction goes on */
	if (w->ended && w->to != STDOUT_FILENO)
		shutdown(w->to, SHUT_WR);
	return 0;
}

static int write_stdio_way(struct stdioway *w, struct err *e)
{
	const size_t left = w->len - w->at;
	const ssize_t n = write(w->to, w->buf + w->at, left < STDIO_WRITE ? left : STDIO_WRITE);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		if (w->to == STDOUT_FILENO)
			return err_sys(e, "write to standard output");
		/* the server reads no more, but may have sent its answer */
		w->ended = 1;
		w->len = w->at;
	}
	w->at += n > 0 ? (size_t)n : 0;
	return 0;
}

void stdioway_polls(const struct stdioway way[2], struct pollfd *p)
{
	int i;

	for (i = 0; i < 2; i++) {
		const int full = way[i].at < way[i].len;

		p[2 * i] = (struct pollfd){ .fd = full || way[i].ended ? -1 : way[i].from, .events = POLLIN };
		p[2 * i + 1] = (struct pollfd){ .fd = full ? way[i].to : -1, .events = POLLOUT };
	}
}

int stdioway_move(struct stdioway way[2], const struct pollfd *p, struct err *e)
{
	int i;

	for (i = 0; i < 2; i++)
		if ((p[2 * i].fd >= 0 && p[2 * i].revents && read_stdio_way(&way[i], e) < 0) ||
		    (p[2 * i + 1].fd >= 0 && p[2 * i + 1].revents && write_stdio_way(&way[i], e) < 0))
			return -1;
	return 0;
}
