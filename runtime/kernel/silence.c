/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/silence.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define CHUNK 65536

struct silence_shared {
	_Atomic uint64_t last_ms;
	_Atomic int waits;	/* for a reader */
};

struct stream {
	int from, to;	/* -1: ended */
	int is_file;	/* a write to it never blocks for long */
	size_t at, len;
	size_t left;	/* still to be read; SIZE_MAX: all that comes */
	char buf[CHUNK];
};

/* ---- the process between ---------------------------------------------------------------- */

static void end_relayed_stream(struct stream *s)
{
	close(s->from);
	close(s->to);
	s->from = s->to = -1;
	s->len = 0;
}

static int is_relay_busy(const struct stream *s)
{
	return s->from >= 0 && (s->left || s->len);
}

/* A pipe or terminal that poll(2) calls writable takes that much at once. */
static void put_some(struct stream *s)
{
	const size_t most = s->is_file || s->len < PIPE_BUF ? s->len : PIPE_BUF;
	ssize_t n = write(s->to, s->buf + s->at, most);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		end_relayed_stream(s);	/* the command learns it as of its own descriptor */
		return;
	}
	if (n > 0) {
		s->at += (size_t)n;
		s->len -= (size_t)n;
	}
}

static void take_some(struct stream *s)
{
	ssize_t n = read(s->from, s->buf, s->left < CHUNK ? s->left : CHUNK);

	if (n <= 0) {
		if (n == 0 || errno != EINTR)
			end_relayed_stream(s);
		return;
	}
	s->at = 0;
	s->len = (size_t)n;
	if (s->left != SIZE_MAX)
		s->left -= (size_t)n;
}

static void poll_of(const struct stream *s, struct pollfd p[2])
{
	p[0] = (struct pollfd){ .fd = s->len || !s->left ? -1 : s->from, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = s->to, .events = s->len ? POLLOUT : 0 };
}

static void move_some(struct stream *s, const struct pollfd p[2], struct silence_shared *shared)
{
	if (s->from < 0)
		return;
	if (p[1].revents & (POLLERR | POLLHUP | POLLNVAL)) {
		end_relayed_stream(s);
		return;
	}
	if (p[1].revents & POLLOUT)
		put_some(s);
	if (p[0].revents)
		take_some(s);
	if (p[0].revents || p[1].revents)
		atomic_store(&shared->last_ms, clock_ms());
}

static void only_what_is_there(struct stream *s)
{
	int n;

	s->left = s->from >= 0 && ioctl(s->from, FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
}

/* Reads and drops the output of processes that the command left behind. */
static void read_for_nobody(struct stream s[2])
{
	int i;

	while (s[0].from >= 0 || s[1].from >= 0) {
		struct pollfd p[2] = { { .fd = s[0].from, .events = POLLIN },
				       { .fd = s[1].from, .events = POLLIN } };

		if (poll(p, 2, -1) < 0)
			continue;
		for (i = 0; i < 2; i++)
			if (p[i].revents && read(s[i].from, s[i].buf, CHUNK) <= 0)
				s[i].from = -1;
	}
}

static void relay_streams(struct stream s[2], int told_fd, struct silence_shared *shared)
{
	int stopping = 0, i;

	while (stopping ? is_relay_busy(&s[0]) || is_relay_busy(&s[1]) : s[0].from >= 0 || s[1].from >= 0) {
		struct pollfd p[5] = { [4] = { .fd = stopping ? -1 : told_fd,
					       .events = POLLIN } };

		poll_of(&s[0], p);
		poll_of(&s[1], p + 2);
		atomic_store(&shared->waits, s[0].len || s[1].len);
		if (poll(p, 5, -1) < 0)
			continue;
		for (i = 0; i < 2; i++)
			move_some(&s[i], p + 2 * i, shared);
		if (!p[4].revents)
			continue;
		stopping = 1;
		for (i = 0; i < 2; i++)
			only_what_is_there(&s[i]);
	}
	close(told_fd);
}

enum { RELAY_FDS = 5 };

/* Closes all other descriptors: other processes may wait for their end. */
static void keep_relay_fds(const int fds[RELAY_FDS])
{
	int high[RELAY_FDS], i;

	for (i = 0; i < RELAY_FDS; i++)
		high[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD, 16);
	syscall(SYS_close_range, 0, RELAY_FDS - 1, 0);
	for (i = 0; i < RELAY_FDS; i++)
		if (high[i] >= 0)
			dup2(high[i], i);
	syscall(SYS_close_range, RELAY_FDS, ~0U, 0);
}

static void run_relay(const int fds[RELAY_FDS], pid_t parent, struct silence_shared *shared)
	__attribute__((noreturn));
static void run_relay(const int fds[RELAY_FDS], pid_t parent, struct silence_shared *shared)
{
	static const int ignored[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGTSTP,
				       SIGTTOU };
	static struct stream s[2];
	struct stat st;
	size_t i;

	for (i = 0; i < ARRAY_LEN(ignored); i++)
		signal(ignored[i], SIG_IGN);
	prctl(PR_SET_NAME, "berth-silence");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	keep_relay_fds(fds);
	for (i = 0; i < 2; i++) {
		s[i].from = fds[2 * i] < 0 ? -1 : 2 * (int)i;
		s[i].to = fds[2 * i] < 0 ? -1 : 2 * (int)i + 1;
		s[i].left = SIZE_MAX;
		s[i].is_file = s[i].to >= 0 && fstat(s[i].to, &st) == 0 && S_ISREG(st.st_mode);
	}
	relay_streams(s, 4, shared);
	for (i = 0; i < 2; i++)
		close(2 * (int)i + 1);
	read_for_nobody(s);
	_exit(0);
}

/* ---- its parent -------------------------------------------------------------------------- */

static int is_same_output(const int out[2])
{
	struct stat a, b;

	return fstat(out[0], &a) == 0 && fstat(out[1], &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino && a.st_rdev == b.st_rdev;
}

/* Pipes, of which ours are in fds as run_relay() takes them. */
static int open_relay_pipes(const int out[2], int fds[RELAY_FDS], int theirs[2], struct err *e)
{
	const int streams = is_same_output(out) ? 1 : 2;
	int p[2], i;

	for (i = 0; i < streams; i++) {
		if (pipe2(p, O_CLOEXEC) < 0)
			return err_sys(e, "make a pipe");
		fds[2 * i] = p[0];
		theirs[i] = p[1];
	}
	if (streams == 1 && (theirs[1] = fcntl(theirs[0], F_DUPFD_CLOEXEC, 3)) < 0)
		return err_sys(e, "make a pipe");
	return 0;
}

static int start_relay(struct silence *s, int fds[RELAY_FDS], struct err *e)
{
	const pid_t parent = getpid();
	int told[2];

	s->shared = mmap(NULL, sizeof(*s->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s->shared == MAP_FAILED) {
		s->shared = NULL;
		return err_sys(e, "share memory with the process that watches the output");
	}
	atomic_store(&s->shared->last_ms, clock_ms());
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, told) < 0)
		return err_sys(e, "make a socket");
	s->fd = told[0];
	fds[4] = told[1];
	s->pid = fork();
	if (s->pid == 0)
		run_relay(fds, parent, s->shared);
	close(told[1]);
	return s->pid < 0 ? err_sys(e, "start the process that watches the output") : 0;
}

int silence_open(struct silence *s, const int out[2], int ret[2], struct err *e)
{
	int fds[RELAY_FDS] = { -1, out[0], -1, out[1], -1 }, theirs[2] = { -1, -1 }, r, i;

	*s = (struct silence)SILENCE_NONE;
	r = open_relay_pipes(out, fds, theirs, e);
	if (r == 0)
		r = start_relay(s, fds, e);
	fd_close(&fds[0]);
	fd_close(&fds[2]);
	if (r < 0)
		silence_close(s);
	for (i = 0; i < 2; i++) {
		if (r < 0)
			fd_close(&theirs[i]);
		else
			ret[i] = theirs[i];
	}
	return r;
}

uint64_t silence_last_ms(const struct silence *s, uint64_t now)
{
	return !s->shared || atomic_load(&s->shared->waits) ? now :
		atomic_load(&s->shared->last_ms);
}

void silence_stop(struct silence *s)
{
	if (s->fd >= 0)
		shutdown(s->fd, SHUT_WR);
}

void silence_drain(struct silence *s, int most_ms, int wake_fd)
{
	struct pollfd p[2] = { { .fd = s->fd, .events = POLLIN },
			       { .fd = wake_fd, .events = POLLIN } };

	if (s->fd < 0)
		return;
	silence_stop(s);
	while (poll(p, 2, most_ms) < 0 && errno == EINTR)
		;
}

void silence_close(struct silence *s)
{
	if (s->pid > 0) {
		kill(s->pid, SIGKILL);
		while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	fd_close(&s->fd);
	if (s->shared)
		munmap(s->shared, sizeof(*s->shared));
	*s = (struct silence)SILENCE_NONE;
}
