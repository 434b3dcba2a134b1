/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps one client from another: the shares of the server that a tenant has, the bytes of bodies
 * that berthd holds, and the time of each phase.  Upholds S42, S43, S54 of SECURITY.md.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "manager/api/http.h"
#include "manager/api/http_state.h"

/* ---- a tenant's share ---- */

/*
 * One tenant's share of the server: connections, requests under way, endless replies.
 *
 * A connection counts for the tenant from its first valid token on, also while it is idle. All
 * tenants together leave HTTP_SPARE connections of each TCP socket to administrators and to
 * clients that have not yet identified themselves. When the spare ones are taken too, each new
 * connection closes the oldest idle one.
 */

/* With the lock held: the share of that name, made if needed, or NULL without memory. */
static struct http_share *find_http_share(struct http_server *s, const struct http_who *who)
{
	struct http_share *h;

	for (h = s->shares; h && strcmp(h->name, who->name); h = h->next)
		;
	if (!h) {
		h = calloc(1, sizeof(*h));
		if (!h)
			return NULL;
		snprintf(h->name, sizeof(h->name), "%s", who->name);
		h->generation = s->generation - 1;
		h->next = s->shares;
		s->shares = h;
	}
	return h;
}

/* Its limits, which are read when they may have changed: outside the lock, as that reads a file. */
static void refresh(struct http_server *s, struct http_share *h, const struct http_who *who)
{
	struct http_share_limits limits = { 0 };
	unsigned generation = atomic_load(&s->generation);

	if (h->generation == generation)
		return;
	pthread_mutex_unlock(&s->lock);
	s->o.share_of(s->o.context, who, &limits);
	pthread_mutex_lock(&s->lock);
	h->limits = limits;
	h->generation = generation;
}

static int refuse_for_share(struct http_request *rq, const char *what, uint64_t most, const char *key, struct err *e)
{
	rq->error_status = 429;
	return err_set(e, ERR_LIMIT, "tenant %s has %" PRIu64 " %s at once, which is the most; hint: end some, or [tenant] %s in berth.toml",
		       rq->who.name, most, what, key);
}

/* The connection now belongs to who; perhaps it was another's. */
static int take_connection(struct http_request *rq, struct http_share *h, struct err *e)
{
	struct http_server *s = rq->server;
	struct http_conn *c = rq->conn;
	int r = 0;

	if (c->share == h)
		return 0;
	if (h->limits.connections && h->connections >= h->limits.connections)
		r = refuse_for_share(rq, "connections", h->limits.connections, "connections", e);
	else if (s->tenants >= s->o.max_connections)
		r = err_set(e, ERR_LIMIT, "tenants have %u connections at once, which is the most; hint: again later, or "
			    "daemon.max_connections in berth.toml", s->o.max_connections);
	if (r < 0) {
		rq->error_status = 429;
		rq->crowded = 1;	/* the connection ends with the reply */
		return -1;
	}
	if (c->share)
		c->share->connections--;
	else
		s->tenants++;
	c->share = h;
	h->connections++;
	return 0;
}

int http_share_enter(struct http_request *rq, struct err *e)
{
	struct http_server *s = rq->server;
	struct http_share *h;
	int r;

	if (rq->who.admin || !s->o.share_of)
		return 0;
	pthread_mutex_lock(&s->lock);
	h = find_http_share(s, &rq->who);
	if (!h) {
		pthread_mutex_unlock(&s->lock);
		return err_nomem(e);
	}
	refresh(s, h, &rq->who);
	r = take_connection(rq, h, e);
	if (r == 0 && h->limits.requests && h->requests >= h->limits.requests)
		r = refuse_for_share(rq, "requests", h->limits.requests, "requests", e);
	if (r == 0) {
		h->requests++;
		rq->share = h;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

int http_endless(struct http_request *rq, struct err *e)
{
	struct http_share *h = rq->share;
	int r = 0;

	pthread_mutex_lock(&rq->server->lock);
	if (h && h->limits.streams && h->streams >= h->limits.streams)
		r = refuse_for_share(rq, "endless replies", h->limits.streams, "streams", e);
	else if (h)
		h->streams++;
	rq->endless = r == 0;
	pthread_mutex_unlock(&rq->server->lock);
	return r;
}

void http_share_leave(struct http_request *rq)
{
	if (!rq->share)
		return;
	pthread_mutex_lock(&rq->server->lock);
	rq->share->requests--;
	rq->share->streams -= rq->endless != 0;
	rq->share = NULL;
	pthread_mutex_unlock(&rq->server->lock);
}

void http_share_close(struct http_conn *c)
{
	if (!c->share)
		return;
	c->share->connections--;
	c->server->tenants--;
	c->share = NULL;
}

void http_share_make_room(struct http_listener *l)
{
	struct http_conn *c, *oldest = NULL;
	unsigned count = 0;

	for (c = l->server->conns; c; c = c->next) {
		int phase = atomic_load(&c->phase);

		if (c->listener != l || c->refused)
			continue;
		count++;
		if (phase <= PHASE_HEAD && (!oldest || atomic_load(&c->since_ms) < atomic_load(&oldest->since_ms)))
			oldest = c;
	}
	if (oldest && count > l->server->o.max_connections + HTTP_SPARE / 2) {
		oldest->refused = 1;
		shutdown(oldest->fd, SHUT_RDWR);
	}
}

void http_share_reload(struct http_server *s)
{
	atomic_fetch_add(&s->generation, 1);
}

void http_shares_free(struct http_server *s)
{
	struct http_share *h;

	while ((h = s->shares)) {
		s->shares = h->next;
		free(h);
	}
}

/* ---- bodies that are held ---- */

static size_t *held_by(struct http_hold *h)
{
	return h->share ? &h->share->held : &h->server->held_by_admins;
}

int http_hold_take(struct http_request *rq, struct http_hold *h, size_t n, struct err *e)
{
	struct http_server *s = rq->server;
	size_t *mine, left;
	int r = 0;

	if (!h->server) {
		h->server = s;
		h->share = rq->share;
	}
	pthread_mutex_lock(&s->lock);
	mine = held_by(h);
	left = HTTP_HOLD_MAX - (s->held - *mine);
	if (n > left || *mine + n > left / 5 * 4) {
		rq->error_status = 429;
		r = err_set(e, ERR_LIMIT, "the request bodies of %s%s that are under way may "
			    "have %zu bytes together now, of %u for all; "
			    "hint: again later, or PUT files one by one",
			    h->share ? "tenant " : "administrators", h->share ? h->share->name : "",
			    left / 5 * 4, HTTP_HOLD_MAX);
	} else {
		*mine += n;
		s->held += n;
		h->bytes += n;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

void http_hold_end(struct http_hold *h)
{
	if (!h->bytes)
		return;
	pthread_mutex_lock(&h->server->lock);
	*held_by(h) -= h->bytes;
	h->server->held -= h->bytes;
	h->bytes = 0;
	pthread_mutex_unlock(&h->server->lock);
}

/* What was large, and is given back, is not kept for the next. */
#define TRIM_FROM (2u << 20)

int http_hold_json(struct http_request *rq, size_t n, struct err *e)
{
	const size_t want = n > HTTP_JSON_FREE ? n - HTTP_JSON_FREE : 0;

	if (!want)
		return 0;
	if (!rq->body_hold)
		rq->body_hold = calloc(1, sizeof(*rq->body_hold));
	if (!rq->body_hold)
		return err_nomem(e);
	return want > rq->body_hold->bytes ?
		       http_hold_take(rq, rq->body_hold, want - rq->body_hold->bytes, e) :
		       0;
}

void http_hold_json_end(struct http_request *rq)
{
	const size_t bytes = rq->body_hold ? rq->body_hold->bytes : 0;

	if (rq->body_hold)
		http_hold_end(rq->body_hold);
	free(rq->body_hold);
	rq->body_hold = NULL;
	if (bytes >= TRIM_FROM)
		malloc_trim(0);
}

/* ---- the watchdog ---- */

/*
 * The watchdog: one thread that ends connections without progress.
 *
 * libmicrohttpd's own timeout starts again with every byte, which a slow client can exploit
 * (slowloris). Here each phase has its time: the header from its first line on, a JSON body as a
 * whole, each piece of an upload or a reply.
 */

#define LOOK_MS 250
#define LINGER_MS 5000
#define LINGER_BYTES (64u << 20)

static uint64_t phase_limit(const struct http_server *s, int phase)
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

static void *watch_connections(void *arg)
{
	struct http_server *s = arg;
	struct pollfd p = { .fd = s->stop_fd, .events = POLLIN };

	while (poll(&p, 1, LOOK_MS) <= 0) {
		uint64_t now = clock_ms();
		struct http_conn *c;

		pthread_mutex_lock(&s->lock);
		for (c = s->conns; c; c = c->next) {
			uint64_t limit = phase_limit(s, atomic_load(&c->phase)), since = atomic_load(&c->since_ms);

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
	int r = pthread_create(&s->watchdog, NULL, watch_connections, s);

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
