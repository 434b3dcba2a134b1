/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watchdog: one thread that ends connections without progress.
 *
 * libmicrohttpd's own timeout starts again with every byte, which a slow client can exploit
 * (slowloris). Here each phase has its time: the header from its first line on, a JSON body as a
 * whole, each piece of an upload or a reply.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "manager/api/http_state.h"

#define LOOK_MS 250
#define LINGER_MS 5000
#define LINGER_BYTES (64u << 20)

static uint64_t limit_of(const struct http_server *s, int phase)
{
	switch (phase) {
	case PHASE_NEW:
	case PHASE_HEAD:
		return s->o.header_ms;
	case PHASE_IDLE:
		return s->o.idle_ms;
	case PHASE_BODY:
		return s->o.body_ms;
	case PHASE_WRITE:
		return s->o.write_ms;
	default:
		return 0;	/* a handler has deadlines of its own */
	}
}

static void *watch(void *arg)
{
	struct http_server *s = arg;
	struct pollfd p = { .fd = s->stop_fd, .events = POLLIN };

	while (poll(&p, 1, LOOK_MS) <= 0) {
		uint64_t now = clock_ms();
		struct http_conn *c;

		pthread_mutex_lock(&s->lock);
		for (c = s->conns; c; c = c->next) {
			uint64_t limit = limit_of(s, atomic_load(&c->phase)), since = atomic_load(&c->since_ms);

			/* it is in the list: its descriptor is not closed yet */
			if (limit && now > since && now - since > limit)
				shutdown(c->fd, SHUT_RDWR);
		}
		pthread_mutex_unlock(&s->lock);
	}
	return NULL;
}

int http_watch_start(struct http_server *s, struct err *e)
{
	int r = pthread_create(&s->watchdog, NULL, watch, s);

	if (r)
		return err_errno(e, r, "start a thread");
	s->watchdog_runs = 1;
	return 0;
}

void http_watch_stop(struct http_server *s)
{
	if (s->watchdog_runs)
		pthread_join(s->watchdog, NULL);
	s->watchdog_runs = 0;
}

void http_linger(struct http_conn *c)
{
	uint64_t end = clock_ms() + LINGER_MS, now, bytes = 0;
	struct pollfd p[2] = { { .fd = c->fd, .events = POLLIN }, { .fd = c->server->stop_fd, .events = POLLIN } };
	char piece[16384];
	ssize_t n;

	if (shutdown(c->fd, SHUT_WR) < 0)
		return;
	while (bytes < LINGER_BYTES && (now = clock_ms()) < end) {
		if (poll(p, 2, (int)(end - now)) < 0 && errno != EINTR)
			return;
		if (p[1].revents)
			return;
		n = recv(c->fd, piece, sizeof(piece), MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return;
		bytes += n > 0 ? (uint64_t)n : 0;
	}
}
