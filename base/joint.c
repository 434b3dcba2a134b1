/* SPDX-License-Identifier: Apache-2.0 */
#include "base/joint.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

#define MOVE_BYTES ((size_t)1 << 20)	/* at once */
#define MOVE_ROUNDS 16			/* then the others have their turn */
#define PIPE_BYTES (256 << 10)
#define ALIVE_IDLE_S 60
#define ALIVE_GAP_S 10
#define ALIVE_PROBES 6

void joint_keep_alive(int fd)
{
	const int on = 1, idle = ALIVE_IDLE_S, gap = ALIVE_GAP_S, probes = ALIVE_PROBES;

	/* none of them is there for a unix socket, whose end is always seen */
	(void)!setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)!setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)!setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &gap, sizeof(gap));
	(void)!setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	/* a sender that waits for its answer has sent all that it will */
	(void)!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static int take_pipe(struct joint_way *w, struct joint_spares *s)
{
	if (w->pipe[0] >= 0)
		return 0;
	if (s->n) {
		s->n--;
		w->pipe[0] = s->fd[s->n][0];
		w->pipe[1] = s->fd[s->n][1];
		return 0;
	}
	if (pipe2(w->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	(void)!fcntl(w->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);	/* a user's quota may forbid it */
	return 0;
}

static void give_pipe(struct joint_way *w, struct joint_spares *s)
{
	if (w->pipe[0] < 0)
		return;
	if (s->n < JOINT_SPARE) {
		s->fd[s->n][0] = take_fd(&w->pipe[0]);
		s->fd[s->n][1] = take_fd(&w->pipe[1]);
		s->n++;
		return;
	}
	fd_close(&w->pipe[0]);
	fd_close(&w->pipe[1]);
}

/* Bytes from in to out; 0: in has ended; -1: wait, with *failed unless it is only that. */
static ssize_t joint_splice(int in, int out, size_t n, int *failed)
{
	ssize_t got;

	do
		got = splice(in, NULL, out, NULL, n, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	while (got < 0 && errno == EINTR);
	*failed = got < 0 && errno != EAGAIN;
	return got;
}

/* As joint_move(), for the bytes from fd[i]; 0 also when this direction has ended. */
static int move_one_way(struct joint *j, int i, struct joint_spares *s)
{
	struct joint_way *w = &j->way[i];
	int failed = 0, round;
	ssize_t n;

	for (round = 0; round < MOVE_ROUNDS && !w->passed_on; round++) {
		/* only into an empty pipe, so that EAGAIN is about the socket */
		if (!w->held && !w->ended) {
			if (take_pipe(w, s) < 0)
				return -1;
			n = joint_splice(j->fd[i], w->pipe[1], MOVE_BYTES, &failed);
			if (n < 0)
				return failed ? -1 : 0;
			w->ended = n == 0;
			w->held = (size_t)n;
		}
		while (w->held) {
			n = joint_splice(w->pipe[0], j->fd[1 - i], w->held, &failed);
			if (n <= 0)
				return n == 0 || failed ? -1 : 0;
			w->held -= (size_t)n;
		}
		if (w->ended) {
			if (shutdown(j->fd[1 - i], SHUT_WR) < 0)
				return -1;
			w->passed_on = 1;
		}
	}
	return !w->passed_on;
}

int joint_move(struct joint *j, struct joint_spares *s)
{
	int i, r, more = 0;

	for (i = 0; i < 2; i++) {
		r = move_one_way(j, i, s);
		if (!j->way[i].held)
			give_pipe(&j->way[i], s);
		if (r < 0)
			return -1;
		more |= r;
	}
	return j->way[0].passed_on && j->way[1].passed_on ? -1 : more;
}

void joint_polls(const struct joint *j, struct pollfd p[2])
{
	int i;

	for (i = 0; i < 2; i++)
		p[i] = (struct pollfd){ .fd = j->way[i].ended && j->way[1 - i].passed_on ? -1 : j->fd[i] };
	for (i = 0; i < 2; i++) {
		if (j->way[i].held)
			p[1 - i].events |= POLLOUT;
		else if (!j->way[i].ended)
			p[i].events |= POLLIN;
	}
}

void joint_release(struct joint *j, int reset)
{
	const struct linger at_once = { .l_onoff = 1 };
	int i;

	for (i = 0; i < 2; i++) {
		if (reset && j->fd[i] >= 0 && !(j->way[0].passed_on && j->way[1].passed_on))
			(void)!setsockopt(j->fd[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		fd_close(&j->fd[i]);
		fd_close(&j->way[i].pipe[0]);
		fd_close(&j->way[i].pipe[1]);
	}
}

void joint_spares_release(struct joint_spares *s)
{
	while (s->n) {
		s->n--;
		fd_close(&s->fd[s->n][0]);
		fd_close(&s->fd[s->n][1]);
	}
}
