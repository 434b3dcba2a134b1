/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S43 of SECURITY.md. */
/*
 * One tenant's share of the server: connections, requests under way, endless replies.
 *
 * A connection counts for the tenant from its first valid token on, also while it is idle. All
 * tenants together leave HTTP_SPARE connections of each TCP socket to administrators and to
 * clients that have not yet identified themselves. When the spare ones are taken too, each new
 * connection closes the oldest idle one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "manager/api/http_state.h"

/* With the lock held: the share of that name, made if needed, or NULL without memory. */
static struct http_share *find(struct http_server *s, const struct http_who *who)
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

static int refuse(struct http_request *rq, const char *what, uint64_t most, const char *key, struct err *e)
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
		r = refuse(rq, "connections", h->limits.connections, "connections", e);
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
	h = find(s, &rq->who);
	if (!h) {
		pthread_mutex_unlock(&s->lock);
		return err_nomem(e);
	}
	refresh(s, h, &rq->who);
	r = take_connection(rq, h, e);
	if (r == 0 && h->limits.requests && h->requests >= h->limits.requests)
		r = refuse(rq, "requests", h->limits.requests, "requests", e);
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
		r = refuse(rq, "endless replies", h->limits.streams, "streams", e);
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
