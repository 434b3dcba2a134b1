/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

#define SPLICE_MAX (1u << 20)
#define STUCK_MS 1000	/* after a timeout a reader that takes nothing for this long is not waited for */

/* Whether it has a reader that waits for its end. */
static int is_relayed(int fd, const struct stat *st)
{
	socklen_t n = sizeof(int);
	int type = 0;

	if (!S_ISSOCK(st->st_mode))
		return S_ISFIFO(st->st_mode);
	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM;
}

static int is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static int open_relay_stream(struct relay *r, int i, int is_socket, int std[3], struct err *e)
{
	struct relay_stream *s = &r->stream[i];
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	s->is_input = i == 0;
	s->spliced = !is_socket;
	s->from = s->is_input ? i : p[0];
	s->to = s->is_input ? p[1] : i;
	r->theirs[i] = std[i] = p[!s->is_input];
	/* changes of the command to its end's flags do not affect ours */
	return s->is_input && fcntl(p[1], F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "set up a pipe") : 0;
}

/* stdin that is the socket of an output. */
static int open_relay_input(struct relay *r, const struct stat st[3], int std[3], struct err *e)
{
	struct stat in;

	if (std[0] != STDIN_FILENO)
		return 0;
	if ((std[1] == STDOUT_FILENO || !S_ISSOCK(st[1].st_mode)) && (std[2] == STDERR_FILENO || !S_ISSOCK(st[2].st_mode)))
		return 0;
	if (fstat(STDIN_FILENO, &in) < 0 || !S_ISSOCK(in.st_mode) || (!is_same_file(&in, &st[1]) && !is_same_file(&in, &st[2])))
		return 0;
	return open_relay_stream(r, 0, 1, std, e);
}

int relay_open(struct relay *r, int std[3], struct err *e)
{
	struct stat st[3] = { 0 };
	int i;

	for (i = 0; i < RELAY_STREAMS; i++) {
		struct relay_stream *s = &r->stream[i];

		s->from = s->to = r->theirs[i] = -1;
		s->full = 0;
		s->at = s->len = 0;
		s->left = SIZE_MAX;
	}
	for (i = 1; i < RELAY_STREAMS; i++) {
		if (fstat(i, &st[i]) < 0 || !is_relayed(i, &st[i]))
			continue;
		if (i == 2 && std[1] != STDOUT_FILENO && is_same_file(&st[1], &st[2]))
			std[2] = std[1];
		else if (open_relay_stream(r, i, S_ISSOCK(st[i].st_mode), std, e) < 0)
			return -1;
	}
	return open_relay_input(r, st, std, e);
}

void relay_handed(struct relay *r)
{
	int i;

	for (i = 0; i < RELAY_STREAMS; i++)
		fd_close(&r->theirs[i]);
}

static void end_relay_stream(struct relay_stream *s)
{
	fd_close(s->is_input ? &s->to : &s->from);
	s->from = s->to = -1;
	s->len = s->left = 0;
}

void relay_polls(const struct relay *r, struct pollfd *p)
{
	int i;

	for (i = 0; i < RELAY_STREAMS; i++, p += 2) {
		const struct relay_stream *s = &r->stream[i];

		p[0] = (struct pollfd){ .fd = s->full || !s->left ? -1 : s->from, .events = POLLIN };
		/* without events: whether its reader is still there, as the command would learn it of a pipe of its own */
		p[1] = (struct pollfd){ .fd = s->to, .events = s->full ? POLLOUT : 0 };
	}
}

static void count_relayed(struct relay_stream *s, size_t n)
{
	if (s->left != SIZE_MAX)
		s->left -= n;
}

/* Called when from has something, or its end. */
static void splice_some(struct relay_stream *s)
{
	const size_t most = s->left < SPLICE_MAX ? s->left : SPLICE_MAX;
	ssize_t n = splice(s->from, NULL, s->to, NULL, most, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

	if (n > 0)
		count_relayed(s, (size_t)n);
	else if (n < 0 && errno == EAGAIN)
		s->full = 1;
	else if (n == 0 || errno != EINTR)
		end_relay_stream(s);	/* EPIPE: it has no reader any more */
}

static void copy_some(struct relay_stream *s)
{
	const size_t most = s->left < sizeof(s->buf) ? s->left : sizeof(s->buf);
	ssize_t n;

	if (!s->len) {
		n = s->is_input ? recv(s->from, s->buf, most, MSG_DONTWAIT) : read(s->from, s->buf, most);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			end_relay_stream(s);
			return;
		}
		count_relayed(s, (size_t)n);
		s->at = 0;
		s->len = (size_t)n;
	}
	n = s->is_input ? write(s->to, s->buf + s->at, s->len) : send(s->to, s->buf + s->at, s->len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		end_relay_stream(s);
		return;
	}
	if (n > 0) {
		s->at += (size_t)n;
		s->len -= (size_t)n;
	}
	s->full = s->len > 0;
}

static int is_stream_busy(const struct relay_stream *s)
{
	return s->from >= 0 && (s->left || s->len);
}

static void move_stream(struct relay_stream *s)
{
	if (s->spliced)
		splice_some(s);
	else
		copy_some(s);
}

void relay_move(struct relay *r, const struct pollfd *p)
{
	int i;

	for (i = 0; i < RELAY_STREAMS; i++, p += 2) {
		struct relay_stream *s = &r->stream[i];

		if (s->from < 0)
			continue;
		if (p[1].revents & (POLLERR | POLLHUP | POLLNVAL)) {
			end_relay_stream(s);
			continue;
		}
		if (p[1].revents & POLLOUT)
			s->full = 0;
		if (p[0].revents || (s->len && !s->full))
			move_stream(s);
	}
}

/* Is one of the signals that have come a reason not to wait for readers any more? */
static int asks_to_end(int signal_fd)
{
	struct signalfd_siginfo si;
	int found = 0;

	while (read(signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si))
		found |= si.ssi_signo == SIGHUP || si.ssi_signo == SIGINT || si.ssi_signo == SIGQUIT || si.ssi_signo == SIGTERM;
	return found;
}

/* Moves on what every reader takes now: whether some of them have to be waited for. */
static int move_ready(struct relay *r)
{
	int i, waits = 0;

	for (i = 1; i < RELAY_STREAMS; i++) {
		struct relay_stream *s = &r->stream[i];

		while (is_stream_busy(s) && !s->full)
			move_stream(s);
		waits |= is_stream_busy(s);
	}
	return waits;
}

/*
 * Passes on what is in the pipes now, and nothing that arrives later. Waits for readers, but at
 * most idle_ms (-1: for ever) for one that takes nothing, and not beyond a signal that asks to
 * end. Returns how many bytes were not passed on.
 */
static size_t drain_streams(struct relay *r, int signal_fd, int idle_ms)
{
	struct pollfd p[RELAY_POLLS + 1];
	size_t lost = 0;
	int i, n;

	if (r->stream[0].from >= 0)
		end_relay_stream(&r->stream[0]);
	for (i = 1; i < RELAY_STREAMS; i++) {
		if (r->stream[i].from < 0)
			continue;
		r->stream[i].left = ioctl(r->stream[i].from, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
	}
	while (move_ready(r)) {
		relay_polls(r, p);
		p[RELAY_POLLS] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
		n = poll(p, RELAY_POLLS + 1, idle_ms);
		if (n == 0 || (n < 0 && errno != EINTR) || (n > 0 && p[RELAY_POLLS].revents && asks_to_end(signal_fd)))
			break;
		if (n > 0)
			relay_move(r, p);
	}
	for (i = 1; i < RELAY_STREAMS; i++)
		lost += is_stream_busy(&r->stream[i]) ? r->stream[i].left + r->stream[i].len : 0;
	return lost;
}

/* The keeper reads and discards later output: the processes go on as if it were read. */
static int leave_to_keeper(const struct relay *r, int sock, const char *command, struct err *e)
{
	static const char *const names[] = { "stdin", "stdout", "stderr" };
	autojson json_t *rq = NULL;
	json_t *streams = json_array();
	int fds[2], n = 0, i;

	for (i = 1; i < RELAY_STREAMS; i++) {
		if (r->stream[i].from < 0)
			continue;
		fds[n++] = r->stream[i].from;
		json_array_append_new(streams, json_string(names[i]));
	}
	rq = protocol_request(OP_leave);
	request_set_command(rq, command);
	request_set_streams(rq, streams);
	return n ? wire_request(sock, rq, fds, (size_t)n, e) : 0;
}

static void close_relay(struct relay *r)
{
	int i;

	relay_handed(r);
	for (i = 0; i < RELAY_STREAMS; i++)
		if (r->stream[i].from >= 0)
			end_relay_stream(&r->stream[i]);
}

void relay_end(struct relay *r, const char *prog, int sock, int signal_fd, const char *command, const json_t *verdict)
{
	const int timed_out = json_is_true(json_object_get(verdict, "timed_out"));
	size_t lost = drain_streams(r, signal_fd, timed_out ? STUCK_MS : -1);
	struct err ignored;

	if (lost)
		log_note(prog, "%zu bytes of output had no reader", lost);
	if (json_integer_value(json_object_get(verdict, "left_behind")) > 0 && leave_to_keeper(r, sock, command, &ignored) < 0) {
		/* the sandbox has just ended, and they with it */
	}
	close_relay(r);
}
