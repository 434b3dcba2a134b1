/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S45 of SECURITY.md. */
#include "runtime/net/namerelay.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define TRY_MS 1500	/* time for one server */
#define SLOTS (NAMERELAY_QUESTIONS + NAMERELAY_STREAMS)

struct slot {
	struct watch w;
	int busy, stream;
	uint64_t tag, try_ms, deadline_ms;
	size_t server;			/* being asked */
	unsigned tries;
	struct dnsmsg q;
	uint8_t asked[2 + DNSMSG_QUERY];	/* behind its length, as TCP has it */
	size_t asked_len, got;
	uint8_t *answer;		/* of a stream: 2 + DNSMSG_MAX */
};

struct namerelay {
	struct slot slots[SLOTS];
	struct netserver servers[NETPOLICY_DNS];
	size_t count, first;		/* first: the server that answered last */
	int family;
	namerelay_fn *fn;
	void *ctx;
	uint8_t datagram[DNSMSG_MAX];
};

/* ---- set-up ------------------------------------------------------------------------------ */

/* If one server has an IPv6 address, sockets of both families reach all of them. */
static int choose_family(const struct netserver *servers, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (servers[i].addr.family == 6)
			return AF_INET6;
	return AF_INET;
}

static int open_slot(struct namerelay *r, struct slot *s, int stream, struct err *e)
{
	const int off = 0;

	s->stream = stream;
	s->w = (struct watch){ .kind = WATCH_NAMES, .fd = -1 };
	s->w.fd = socket(r->family, (stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC |
			 SOCK_NONBLOCK, 0);
	if (s->w.fd < 0 ||
	    (r->family == AF_INET6 &&
	     setsockopt(s->w.fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0))
		return err_sys(e, "open a socket for questions of the DNS");
	if (stream && !(s->answer = malloc(2 + DNSMSG_MAX)))
		return err_nomem(e);
	return 0;
}

int namerelay_open(const struct netserver *servers, size_t count, namerelay_fn *fn, void *ctx,
		   struct namerelay **ret, struct err *e)
{
	struct namerelay *r = calloc(1, sizeof(*r));
	size_t i;

	if (!r)
		return err_nomem(e);
	for (i = 0; i < SLOTS; i++)
		r->slots[i].w.fd = -1;
	r->fn = fn;
	r->ctx = ctx;
	r->count = count < NETPOLICY_DNS ? count : NETPOLICY_DNS;
	memcpy(r->servers, servers, r->count * sizeof(*servers));
	r->family = choose_family(servers, r->count);
	for (i = 0; r->count && i < SLOTS; i++)
		if (open_slot(r, &r->slots[i], i >= NAMERELAY_QUESTIONS, e) < 0) {
			namerelay_free(r);
			return -1;
		}
	*ret = r;
	return 0;
}

void namerelay_free(struct namerelay *r)
{
	size_t i;

	for (i = 0; r && i < SLOTS; i++) {
		fd_close(&r->slots[i].w.fd);
		free(r->slots[i].answer);
	}
	free(r);
}

/* ---- one question -------------------------------------------------------------------------- */

static socklen_t server_address(const struct namerelay *r, const struct netserver *s,
				struct sockaddr_storage *ret)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(s->port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(s->port) };
	const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	memset(ret, 0, sizeof(*ret));
	if (r->family == AF_INET) {
		memcpy(&v4.sin_addr, s->addr.b, 4);
		memcpy(ret, &v4, sizeof(v4));
		return sizeof(v4);
	}
	memcpy(&v6.sin6_addr, mapped, 12);
	if (s->addr.family == 4)
		memcpy((uint8_t *)&v6.sin6_addr + 12, s->addr.b, 4);
	else
		memcpy(&v6.sin6_addr, s->addr.b, 16);
	memcpy(ret, &v6, sizeof(v6));
	return sizeof(v6);
}

/* Frees the port; later packets to it belong to no query. */
static void disconnect(struct slot *s, struct proxy *loop)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	proxy_watch(loop, &s->w, 0);
	(void)!connect(s->w.fd, &none, sizeof(none));
}

static void finish_name_slot(struct namerelay *r, struct slot *s, struct proxy *loop, uint8_t *p, size_t n)
{
	disconnect(s, loop);
	s->busy = 0;
	if (p) {
		r->first = s->server;
	} else {
		p = r->datagram;
		n = dnsmsg_reply(&s->q, s->asked + 2, DNSMSG_SERVFAIL, 0, p);
	}
	r->fn(r->ctx, s->tag, &s->q, p, n);
}

static int ask_server(struct namerelay *r, struct slot *s, struct proxy *loop)
{
	struct sockaddr_storage to;
	socklen_t len = server_address(r, &r->servers[s->server], &to);

	disconnect(s, loop);
	s->got = 0;
	if (connect(s->w.fd, (struct sockaddr *)&to, len) < 0 && errno != EINPROGRESS)
		return -1;
	if (!s->stream && send(s->w.fd, s->asked + 2, s->asked_len, MSG_NOSIGNAL) < 0)
		return -1;
	proxy_watch(loop, &s->w, s->stream ? EPOLLOUT : EPOLLIN);
	return 0;
}

/* Asks the next server; each is asked twice at most, while there is time. */
static void ask_next(struct namerelay *r, struct slot *s, struct proxy *loop, uint64_t now)
{
	while (s->tries < 2 * r->count && now < s->deadline_ms) {
		s->server = (r->first + s->tries++) % r->count;
		s->try_ms = now + TRY_MS < s->deadline_ms ? now + TRY_MS : s->deadline_ms;
		if (ask_server(r, s, loop) == 0)
			return;
	}
	finish_name_slot(r, s, loop, NULL, 0);
}

static struct slot *free_slot(struct namerelay *r, int stream)
{
	size_t i = stream ? NAMERELAY_QUESTIONS : 0, end = stream ? SLOTS : NAMERELAY_QUESTIONS;

	for (; i < end; i++)
		if (!r->slots[i].busy)
			return &r->slots[i];
	return NULL;
}

int namerelay_ask(struct namerelay *r, struct proxy *loop, const struct dnsmsg *q,
		  const uint8_t *p, int stream, uint64_t tag)
{
	struct slot *s = r->count ? free_slot(r, stream) : NULL;
	uint64_t now = clock_ms();
	uint16_t id;

	if (!s || getrandom(&id, sizeof(id), 0) != sizeof(id))
		return -1;
	s->busy = 1;
	s->tag = tag;
	s->q = *q;
	s->tries = 0;
	s->deadline_ms = now + NAMERELAY_MS;
	s->asked_len = dnsmsg_ask(q, p, id, s->asked + 2);
	s->asked[0] = (uint8_t)(s->asked_len >> 8);
	s->asked[1] = (uint8_t)s->asked_len;
	ask_next(r, s, loop, now);
	return 0;
}

/* ---- answers ------------------------------------------------------------------------------- */

static void take_datagram(struct namerelay *r, struct slot *s, struct proxy *loop)
{
	ssize_t n = recv(s->w.fd, r->datagram, sizeof(r->datagram), 0);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		/* no server listens there, or a rule refused it */
		ask_next(r, s, loop, clock_ms());
	else if (n >= 0 && dnsmsg_answers(s->asked + 2, s->q.end, r->datagram, (size_t)n))
		finish_name_slot(r, s, loop, r->datagram, (size_t)n);
}

static void take_name_stream(struct namerelay *r, struct slot *s, struct proxy *loop)
{
	size_t want = s->got < 2 ? 2 : 2 + ((size_t)s->answer[0] << 8 | s->answer[1]);
	ssize_t n = recv(s->w.fd, s->answer + s->got, want - s->got, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		ask_next(r, s, loop, clock_ms());
		return;
	}
	s->got += (size_t)n;
	if (s->got < want || want == 2)
		return;
	if (dnsmsg_answers(s->asked + 2, s->q.end, s->answer + 2, want - 2))
		finish_name_slot(r, s, loop, s->answer + 2, want - 2);
	else
		ask_next(r, s, loop, clock_ms());
}

int namerelay_serve(struct namerelay *r, struct proxy *loop, struct watch *w, uint32_t events)
{
	struct slot *s = NULL;
	size_t i;

	for (i = 0; i < SLOTS; i++)
		if (w == &r->slots[i].w)
			s = &r->slots[i];
	if (!s)
		return 0;
	if (!s->busy)
		return 1;
	if (!s->stream)
		take_datagram(r, s, loop);
	else if (w->events & EPOLLIN)
		take_name_stream(r, s, loop);
	else if (events & (EPOLLERR | EPOLLHUP) ||
		 send(w->fd, s->asked, 2 + s->asked_len, MSG_NOSIGNAL) != (ssize_t)(2 + s->asked_len))
		ask_next(r, s, loop, clock_ms());
	else
		proxy_watch(loop, w, EPOLLIN);
	return 1;
}

void namerelay_tick(struct namerelay *r, struct proxy *loop, uint64_t now)
{
	size_t i;

	for (i = 0; i < SLOTS; i++)
		if (r->slots[i].busy && now >= r->slots[i].try_ms)
			ask_next(r, &r->slots[i], loop, now);
}

uint64_t namerelay_next(const struct namerelay *r, uint64_t at)
{
	size_t i;

	for (i = 0; i < SLOTS; i++)
		if (r->slots[i].busy && r->slots[i].try_ms < at)
			at = r->slots[i].try_ms;
	return at;
}
