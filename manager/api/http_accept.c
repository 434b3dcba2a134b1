/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The door of a listening socket: which connection gets a place, and what the others are told.
 *
 * libmicrohttpd closes a connection beyond its limit without a word, which a client sees as a reset.
 * So a thread of ours accepts. With all places taken it ends the connection that has been idle
 * longest; where none is idle, root's connections get one of the places that nobody else has
 * (unix sockets), and the others are answered 503 with Retry-After at once.  The library's own
 * limit is never reached.  Upholds S43 of SECURITY.md.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/api/http.h"
#include "manager/api/http_state.h"
#include "manager/service/dlog.h"

#define TURN 64			/* connections accepted before the others are looked at again */
#define IDLE_MS 100		/* a client that asks again at once keeps its connection */
#define SILENT_MS 1000		/* a new connection has this time for its request */
#define REFUSED_MS 1000		/* a client that was refused has this time to take the answer */
#define REFUSED_MAX 256		/* such clients at once */
#define PAUSE_MS 20		/* without descriptors or memory, before the next accept() */

/* Connections that were answered, and are closed once the client has read that. */
struct refused {
	struct pollfd p[2 + REFUSED_MAX];	/* the end of the server, the socket, and theirs */
	uint64_t until_ms[REFUSED_MAX];
	size_t count, oldest;
};

unsigned http_door_places(const struct http_listener *l)
{
	return l->server->o.max_connections + (l->is_tcp ? HTTP_SPARE : 0);
}

static int is_root_peer(const struct http_listener *l, int fd)
{
	struct ucred u;
	socklen_t n = sizeof(u);

	return !l->is_tcp && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &n) == 0 && u.uid == 0;
}

/* Whether nothing is lost when c is closed: no request is under way or has arrived unread. */
static int may_close(struct http_conn *c, uint64_t now)
{
	const int phase = atomic_load(&c->phase);
	const uint64_t since = atomic_load(&c->since_ms), least = phase == PHASE_IDLE ? IDLE_MS : SILENT_MS;
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	return phase <= PHASE_HEAD && now > since && now - since >= least && poll(&p, 1, 0) == 0;
}

/* Places in use, without the connections that are ending; with close_idle the longest idle one ends now. */
static unsigned places_in_use(struct http_listener *l, int close_idle, int *ret_closed)
{
	struct http_conn *c, *oldest = NULL;
	unsigned ending = 0;
	const uint64_t now = clock_ms();

	pthread_mutex_lock(&l->server->lock);
	for (c = l->server->conns; c; c = c->next) {
		if (c->listener != l)
			continue;
		ending += c->refused != 0;
		if (close_idle && !c->refused && may_close(c, now) &&
		    (!oldest || atomic_load(&c->since_ms) < atomic_load(&oldest->since_ms)))
			oldest = c;
	}
	if (oldest) {
		oldest->refused = 1;
		ending++;
		shutdown(oldest->fd, SHUT_RDWR);
	}
	pthread_mutex_unlock(&l->server->lock);
	*ret_closed = oldest != NULL;
	return atomic_load(&l->places) - ending;
}

/* Ending connections count for the library until their threads have gone, so these are bounded too. */
static int has_place(struct http_listener *l, int fd)
{
	const unsigned most = http_door_places(l);
	int closed = 0;
	unsigned used;

	if (atomic_load(&l->places) < most)
		return 1;
	used = places_in_use(l, 0, &closed);
	if (used >= most)
		used = places_in_use(l, 1, &closed);
	return used < most + (is_root_peer(l, fd) ? HTTP_ROOT : 0) && atomic_load(&l->places) < most + HTTP_ROOT + HTTP_ENDING;
}

static void drop_refused(struct refused *r, size_t i)
{
	close(r->p[2 + i].fd);
	r->count--;
	r->p[2 + i] = r->p[2 + r->count];
	r->until_ms[i] = r->until_ms[r->count];
}

/*
 * Answers, and keeps the socket: if it were closed with a request unread, the client would see a
 * reset, and none of the answer.
 */
static void refuse(struct http_listener *l, struct refused *r, int fd)
{
	const size_t n = strlen(l->full);

	atomic_fetch_add(&l->server->refused, 1);
	if (send(fd, l->full, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n || shutdown(fd, SHUT_WR) < 0) {
		close(fd);
		return;
	}
	if (r->count == REFUSED_MAX)
		drop_refused(r, r->oldest++ % REFUSED_MAX);
	r->p[2 + r->count] = (struct pollfd){ .fd = fd, .events = POLLIN };
	r->until_ms[r->count++] = clock_ms() + REFUSED_MS;
}

/* Reads away what the clients that were refused send, until they close. */
static void look_at_refused(struct refused *r)
{
	const uint64_t now = clock_ms();
	char piece[16384];
	size_t i;

	for (i = r->count; i-- > 0;) {
		ssize_t n = r->p[2 + i].revents ? recv(r->p[2 + i].fd, piece, sizeof(piece), MSG_DONTWAIT) : 1;

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR) || now >= r->until_ms[i])
			drop_refused(r, i);
	}
}

/* 1 for a connection, 0 when none waits. */
static int accept_one(struct http_listener *l, struct refused *r)
{
	struct sockaddr_storage a = { 0 };
	socklen_t n = sizeof(a);
	const int fd = accept4(l->fd, (struct sockaddr *)&a, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
		return errno != EAGAIN;
	if (fd < 0) {
		struct pollfd end = r->p[0];

		dlog_note(DLOG_WARNING, "accept a connection: %s", strerror(errno));
		poll(&end, 1, PAUSE_MS);
		return 0;
	}
	if (!has_place(l, fd)) {
		refuse(l, r, fd);
		return 1;
	}
	atomic_fetch_add(&l->places, 1);
	/* the library closes fd if it fails */
	if (MHD_add_connection(l->daemon, fd, (struct sockaddr *)&a, n) != MHD_YES)
		atomic_fetch_sub(&l->places, 1);
	return 1;
}

static void *serve_door(void *arg)
{
	struct http_listener *l = arg;
	struct refused r = { .p = { { .fd = l->server->ending_fd, .events = POLLIN }, { .fd = l->fd, .events = POLLIN } } };
	int turn;

	while (!r.p[0].revents) {
		if (poll(r.p, 2 + r.count, r.count ? REFUSED_MS / 4 : -1) < 0)
			continue;
		look_at_refused(&r);
		for (turn = 0; r.p[1].revents && turn < TURN && accept_one(l, &r); turn++)
			;
	}
	while (r.count)
		drop_refused(&r, 0);
	return NULL;
}

/* The whole answer to a connection without a place, in the form of the listener's clients. */
static int write_full_answer(struct http_listener *l, struct err *e)
{
	const struct http_foreign *f = l->server->o.foreign;
	struct err why;
	autojson json_t *j = NULL;
	autofree char *body = NULL;
	int n;

	err_set(&why, ERR_LIMIT, "berthd has %u connections on this socket, which is the most; hint: again in a second, or "
		"daemon.max_connections in berth.toml", http_door_places(l));
	j = f ? f->shape_error(&why) : http_error_json(&why);
	body = j ? json_dumps(j, JSON_COMPACT) : NULL;
	if (!body)
		return err_nomem(e);
	n = snprintf(l->full, sizeof(l->full), "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
		     "Content-Length: %zu\r\nRetry-After: " HTTP_RETRY_AFTER "\r\nConnection: close\r\n\r\n%s\n", strlen(body) + 1, body);
	return n < (int)sizeof(l->full) ? 0 : err_set(e, ERR_INTERNAL, "the answer of a full socket is too long");
}

int http_door_open(struct http_listener *l, struct err *e)
{
	int r;

	if (write_full_answer(l, e) < 0)
		return -1;
	if (fcntl(l->fd, F_SETFL, fcntl(l->fd, F_GETFL) | O_NONBLOCK) < 0)
		return err_sys(e, "set up a listening socket");
	r = pthread_create(&l->door, NULL, serve_door, l);
	if (r)
		return err_errno(e, r, "start a thread");
	l->has_door = 1;
	return 0;
}

void http_door_close(struct http_listener *l)
{
	if (l->has_door)
		pthread_join(l->door, NULL);
	l->has_door = 0;
	fd_close(&l->fd);
}
