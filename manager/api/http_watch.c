/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watchdog: one thread that ends connections on which nothing goes forward.
 *
 * libmicrohttpd's own timeout starts anew with every byte, which is what a slow
 * client lives on (slowloris).  Here each phase has its time: the header from
 * its first line on, a JSON body as a whole, each piece of an upload or a reply.
 */
#include <poll.h>
#include <sys/socket.h>

#include "manager/api/http_state.h"

#define LOOK_MS 250

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
		uint64_t now = http_now_ms();
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
