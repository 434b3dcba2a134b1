/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/tty.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/io.h"

int tty_open(struct tty *t, int master, int in, int out, struct err *e)
{
	if (tty_open_sized(t, master, in, out, e) < 0)
		return -1;
	tty_resize(t);
	return 0;
}

int tty_open_sized(struct tty *t, int master, int in, int out, struct err *e)
{
	struct termios raw;

	memset(t, 0, sizeof(*t));
	t->master = master;
	t->in = in;
	t->out = out;
	if (fcntl(master, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "make the terminal non-blocking");
	if (tcgetattr(in, &t->saved) < 0)
		return 0;	/* input from a pipe or file: nothing to make raw */
	raw = t->saved;
	cfmakeraw(&raw);
	if (tcsetattr(in, TCSADRAIN, &raw) < 0)
		return err_sys(e, "set the terminal to raw mode");
	t->raw = 1;
	return 0;
}

void tty_close(struct tty *t)
{
	if (t->raw)
		tcsetattr(t->in, TCSADRAIN, &t->saved);
	t->raw = 0;
}

void tty_resize(struct tty *t)
{
	struct winsize w;

	if (!ioctl(t->in, TIOCGWINSZ, &w) || !ioctl(t->out, TIOCGWINSZ, &w))
		ioctl(t->master, TIOCSWINSZ, &w);
}

void tty_polls(const struct tty *t, struct pollfd *p)
{
	p[0] = (struct pollfd){ .fd = t->in_eof || t->to_master_len ? -1 : t->in, .events = POLLIN };
	p[1] = (struct pollfd){
		.fd = t->master_eof ? -1 : t->master,
		.events = (short)((t->to_out_len ? 0 : POLLIN) | (t->to_master_len ? POLLOUT : 0)),
	};
	p[2] = (struct pollfd){ .fd = t->to_out_len ? t->out : -1, .events = POLLOUT };
}

static void consume(char *buf, size_t *len, size_t n)
{
	memmove(buf, buf + n, *len - n);
	*len -= n;
}

static void read_input(struct tty *t)
{
	ssize_t n = read(t->in, t->to_master, sizeof(t->to_master));

	if (n > 0) {
		t->to_master_len = (size_t)n;
	} else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
		t->in_eof = 1;
		t->to_master[0] = 4;	/* VEOF: end of file for a reader in canonical mode */
		t->to_master_len = 1;
	}
}

static void read_master(struct tty *t)
{
	ssize_t n = read(t->master, t->to_out, sizeof(t->to_out));

	if (n > 0) {
		t->to_out_len = (size_t)n;
		t->heard += (size_t)n;
	} else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
		t->master_eof = 1;	/* EIO: no slave is open any more (pty(7)) */
	}
}

int tty_move(struct tty *t, const struct pollfd *p, struct err *e)
{
	ssize_t n;

	if (p[0].revents)
		read_input(t);
	if (p[1].revents & POLLOUT && t->to_master_len) {
		n = write(t->master, t->to_master, t->to_master_len);
		if (n > 0)
			consume(t->to_master, &t->to_master_len, (size_t)n);
	}
	if (p[1].revents & (POLLIN | POLLHUP | POLLERR) && !t->to_out_len)
		read_master(t);
	if (p[2].revents) {
		/* at most PIPE_BUF: a writable pipe takes that much without blocking */
		n = write(t->out, t->to_out, t->to_out_len > 4096 ? 4096 : t->to_out_len);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return err_sys(e, "write to stdout");
		if (n > 0)
			consume(t->to_out, &t->to_out_len, (size_t)n);
	}
	return 0;
}

void tty_drain(struct tty *t)
{
	while (!t->master_eof || t->to_out_len) {
		if (t->to_out_len && io_write_all(t->out, t->to_out, t->to_out_len) < 0)
			return;
		t->to_out_len = 0;
		if (!t->master_eof)
			read_master(t);
		if (!t->to_out_len && !t->master_eof)
			return;		/* EAGAIN: open somewhere still, but silent */
	}
}
