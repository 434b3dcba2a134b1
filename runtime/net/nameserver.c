/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S45 of SECURITY.md. */
#include "runtime/net/nameserver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runtime/net/namerelay.h"
#include "runtime/net/nametable.h"

#define PORT 53
#define RATE 5000		/* queries a second, and BURST at once */
#define BURST 1000
#define REST_MS 20		/* when the rate is used up, no query is read for this long */
#define RELAY_RATE 200		/* at most this many of them go on to a server */
#define RELAY_BURST 400
#define ROUND 64		/* datagrams, before others have their turn */
#define ZONES 8			/* networks of a member */
#define CLIENTS 16		/* over TCP; the oldest makes room */
#define CLIENT_MS 10000		/* time to ask, and to take the answer */
#define CLASS_IN 1

/* The rest of a rate, in thousandths of a query. */
struct bucket {
	uint64_t left, at_ms;
};

/* A client over TCP: it asks, waits, is answered, and may ask again. */
struct client {
	struct watch w;			/* fd -1: free */
	uint64_t tag;			/* tag of its question under way; 0: none */
	uint64_t since_ms;
	uint8_t in[2 + DNSMSG_SMALL];
	size_t got;
	uint8_t *out;			/* 2 + DNSMSG_MAX */
	size_t out_len, out_sent;
};

/* The client that asked over UDP, by the tag of its question. */
struct asker {
	uint64_t tag;
	struct sockaddr_in from;
};

struct nameserver {
	struct proxy *loop;
	struct namezone zones[ZONES];
	size_t zone_count;
	json_t *links;		/* by alias: the name that it stands for */
	int internal;
	struct watch udp, tcp;
	struct client clients[CLIENTS];
	struct asker askers[NAMERELAY_QUESTIONS];
	struct namerelay *relay;
	struct bucket rate, relay_rate;
	uint64_t last_tag;
};

/* ---- set-up -------------------------------------------------------------------------------- */

static int listen_for_names(struct watch *w, int type, struct err *e)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	inet_pton(AF_INET, NAMESERVER_ADDRESS, &a.sin_addr);
	*w = (struct watch){ .kind = WATCH_NAMES };
	w->fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (w->fd < 0 || bind(w->fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    (type == SOCK_STREAM && listen(w->fd, CLIENTS) < 0))
		return err_sys(e, "listen on " NAMESERVER_ADDRESS " in the sandbox");
	return 0;
}

static void answer_relayed(void *ctx, uint64_t tag, const struct dnsmsg *q, uint8_t *p, size_t n);

static int open_inside(struct nameserver *s, const struct nameserver_place *at, struct err *e)
{
	if (listen_for_names(&s->udp, SOCK_DGRAM, e) < 0 || listen_for_names(&s->tcp, SOCK_STREAM, e) < 0)
		return -1;
	return namerelay_open(at->policy->dns, at->internal ? 0 : at->policy->dns_count, answer_relayed, s,
			      &s->relay, e);
}

int nameserver_join(struct nameserver *s, const struct namezone_place *at, struct err *e)
{
	nameserver_part(s, at->network);
	if (s->zone_count == ZONES)
		return err_set(e, ERR_LIMIT, "a sandbox is on %d networks at most", ZONES);
	if (namezone_open(&s->zones[s->zone_count], at, e) < 0)
		return -1;
	s->zone_count++;
	return 0;
}

void nameserver_part(struct nameserver *s, const char *network)
{
	size_t i;

	for (i = 0; i < s->zone_count; i++)
		if (!strcmp(s->zones[i].network, network)) {
			namezone_close(&s->zones[i]);
			memmove(&s->zones[i], &s->zones[i + 1],
				(--s->zone_count - i) * sizeof(s->zones[0]));
		}
}

static int open_zone(struct nameserver *s, const struct nameserver_place *at, struct err *e)
{
	autoclose int fd = openat(at->dir_fd, NAMETABLE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	const struct namezone_place place = { at->network, &at->link->pool, &at->link->pool6,
					      at->link->with6, fd };

	return fd < 0 ? err_sys(e, "open the names of a network") : nameserver_join(s, &place, e);
}

static int open_name_sockets(struct nameserver *s, const struct nameserver_place *at, int netns_fd,
		    struct err *e)
{
	autoclose int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	struct err second;
	int r;

	if (at->network[0] && open_zone(s, at, e) < 0)
		return -1;
	if (home < 0 || setns(netns_fd, CLONE_NEWNET) < 0)
		return err_sys(e, "enter the sandbox's network namespace");
	r = open_inside(s, at, e);
	if (setns(home, CLONE_NEWNET) < 0)
		return err_sys(r < 0 ? &second : e, "return from the sandbox's network namespace");
	return r;
}

/* "db:mydb" as {"mydb": "db"}. */
static json_t *read_links(const json_t *list)
{
	json_t *all = json_object(), *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one) {
		const char *text = json_string_value(one), *colon = text ? strrchr(text, ':') : NULL;

		if (colon && i < NAMESERVER_LINKS_MAX)
			json_object_set_new(all, colon + 1, json_stringn(text, (size_t)(colon - text)));
	}
	return all;
}

int nameserver_open(const struct nameserver_place *at, int netns_fd, struct nameserver **ret,
		    struct err *e)
{
	struct nameserver *s = calloc(1, sizeof(*s));
	size_t i;

	if (!s)
		return err_nomem(e);
	s->udp.fd = s->tcp.fd = -1;
	for (i = 0; i < CLIENTS; i++)
		s->clients[i].w.fd = -1;
	s->internal = at->internal;
	s->links = read_links(at->links);
	if (open_name_sockets(s, at, netns_fd, e) < 0) {
		nameserver_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

void nameserver_free(struct nameserver *s)
{
	size_t i;

	if (!s)
		return;
	for (i = 0; i < CLIENTS; i++) {
		fd_close(&s->clients[i].w.fd);
		free(s->clients[i].out);
	}
	fd_close(&s->udp.fd);
	fd_close(&s->tcp.fd);
	namerelay_free(s->relay);
	for (i = 0; i < s->zone_count; i++)
		namezone_close(&s->zones[i]);
	json_decref(s->links);
	free(s);
}

void nameserver_begin(struct nameserver *s, struct proxy *p)
{
	s->loop = p;
	s->rate = (struct bucket){ BURST * 1000ULL, clock_ms() };
	s->relay_rate = (struct bucket){ RELAY_BURST * 1000ULL, s->rate.at_ms };
	proxy_watch(p, &s->udp, EPOLLIN);
	proxy_watch(p, &s->tcp, EPOLLIN);
}

static int take_from_bucket(struct bucket *b, uint64_t rate, uint64_t burst, uint64_t now)
{
	b->left += (now - b->at_ms) * rate;
	b->at_ms = now;
	if (b->left > burst * 1000)
		b->left = burst * 1000;
	if (b->left < 1000)
		return 0;
	b->left -= 1000;
	return 1;
}

/* ---- answers of our own -------------------------------------------------------------------- */

/* Answers from the table: 1, or 0 if a server must be asked. */
static int answer_question(struct nameserver *s, const struct dnsmsg *q, const uint8_t *p, uint8_t *out,
		  size_t *len)
{
	const char *link = json_string_value(json_object_get(s->links, q->name));
	struct dnsmsg linked = *q;
	size_t i;

	/* the reply has the question as it was asked; the table is asked for the name behind it */
	if (link)
		snprintf(linked.name, sizeof(linked.name), "%s", link);
	if (q->class != CLASS_IN || q->type == DNSMSG_OPT) {
		*len = dnsmsg_reply(q, p, DNSMSG_REFUSED, 0, out);
		return 1;
	}
	for (i = 0; link && i < s->zone_count; i++)
		if (namezone_answer(&s->zones[i], &linked, p, out, len))
			return 1;
	for (i = 0; i < s->zone_count; i++)
		if (namezone_answer(&s->zones[i], q, p, out, len))
			return 1;
	/* no server outside knows a name without a dot, and the query would reveal names in here */
	if (q->labels == 1) {
		*len = dnsmsg_reply(q, p, DNSMSG_NXDOMAIN, 1, out);
		return 1;
	}
	if (!s->internal && take_from_bucket(&s->relay_rate, RELAY_RATE, RELAY_BURST, clock_ms()))
		return 0;
	*len = dnsmsg_reply(q, p, DNSMSG_REFUSED, 0, out);
	return 1;
}

/*
 * The answer to n bytes at p, with its length; 0: a server is asked under the tag, and answer_relayed()
 * is called, or was already.  -1: there is nothing to answer.
 */
static int handle_question(struct nameserver *s, const uint8_t *p, size_t n, int stream, uint64_t tag,
		  uint8_t *out)
{
	struct dnsmsg q;
	size_t len = 0;
	int code = dnsmsg_read(p, n, &q);

	if (code < 0)
		return -1;
	if (code != DNSMSG_OK)
		return (int)dnsmsg_reply(&q, p, (enum dnsmsg_code)code, 0, out);
	if (!answer_question(s, &q, p, out, &len)) {
		if (namerelay_ask(s->relay, s->loop, &q, p, stream, tag) == 0)
			return 0;
		len = dnsmsg_reply(&q, p, DNSMSG_SERVFAIL, 0, out);
	}
	dnsmsg_add_opt(&q, out, &len);
	return (int)len;
}

/* ---- over UDP ------------------------------------------------------------------------------- */

static struct asker *free_asker(struct nameserver *s)
{
	size_t i;

	for (i = 0; i < NAMERELAY_QUESTIONS; i++)
		if (!s->askers[i].tag)
			return &s->askers[i];
	return NULL;
}

static void serve_datagrams(struct nameserver *s)
{
	uint8_t in[DNSMSG_SMALL], out[DNSMSG_SMALL];
	int i;

	for (i = 0; i < ROUND; i++) {
		struct sockaddr_in from = { 0 };
		socklen_t size = sizeof(from);
		struct asker *a = free_asker(s), none;
		ssize_t n;
		int len;

		if (!take_from_bucket(&s->rate, RATE, BURST, clock_ms())) {
			proxy_watch(s->loop, &s->udp, 0);	/* not watched until nameserver_tick() */
			return;
		}
		n = recvfrom(s->udp.fd, in, sizeof(in), MSG_TRUNC, (struct sockaddr *)&from, &size);
		if (n < 0)
			return;
		if (!a)
			a = &none;	/* then the relay has no room either */
		*a = (struct asker){ ++s->last_tag, from };
		len = handle_question(s, in, (size_t)n < sizeof(in) ? (size_t)n : 0, 0, a->tag, out);
		if (len)
			a->tag = 0;
		if (len > 0)
			(void)!sendto(s->udp.fd, out, (size_t)len, MSG_NOSIGNAL,
				      (struct sockaddr *)&from, size);
	}
}

/* ---- over TCP ------------------------------------------------------------------------------- */

static void close_client(struct nameserver *s, struct client *c)
{
	proxy_watch(s->loop, &c->w, 0);
	fd_close(&c->w.fd);
	c->tag = 0;
	c->got = c->out_len = c->out_sent = 0;
}

static struct client *room_for_client(struct nameserver *s)
{
	struct client *oldest = &s->clients[0];
	size_t i;

	for (i = 0; i < CLIENTS; i++) {
		if (s->clients[i].w.fd < 0)
			return &s->clients[i];
		if (s->clients[i].since_ms < oldest->since_ms)
			oldest = &s->clients[i];
	}
	close_client(s, oldest);
	return oldest;
}

static void accept_client(struct nameserver *s)
{
	struct client *c;
	int on = 1, fd;

	if (!take_from_bucket(&s->rate, RATE, BURST, clock_ms())) {
		proxy_watch(s->loop, &s->tcp, 0);
		return;
	}
	fd = accept4(s->tcp.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	c = room_for_client(s);
	if (!c->out && !(c->out = malloc(2 + DNSMSG_MAX))) {
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	c->w = (struct watch){ .kind = WATCH_NAMES, .fd = fd };
	c->since_ms = clock_ms();
	proxy_watch(s->loop, &c->w, EPOLLIN);
}

static void send_name_answer(struct nameserver *s, struct client *c)
{
	ssize_t n = send(c->w.fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN) {
		close_client(s, c);
		return;
	}
	c->out_sent += n > 0 ? (size_t)n : 0;
	if (c->out_sent < c->out_len) {
		proxy_watch(s->loop, &c->w, EPOLLOUT);
		return;
	}
	c->out_len = c->out_sent = c->got = 0;
	proxy_watch(s->loop, &c->w, EPOLLIN);
}

/* The len bytes behind the length in c->out. */
static void answer_client(struct nameserver *s, struct client *c, size_t len)
{
	c->tag = 0;
	c->since_ms = clock_ms();
	c->out[0] = (uint8_t)(len >> 8);
	c->out[1] = (uint8_t)len;
	c->out_len = 2 + len;
	c->out_sent = 0;
	send_name_answer(s, c);
}

static void ask_client(struct nameserver *s, struct client *c)
{
	int len;

	c->tag = ++s->last_tag;
	proxy_watch(s->loop, &c->w, 0);		/* questions are taken one after the other */
	len = handle_question(s, c->in + 2, c->got - 2, 1, c->tag, c->out + 2);
	if (len > 0)
		answer_client(s, c, (size_t)len);
	else if (len < 0)
		close_client(s, c);
}

static void serve_name_client(struct nameserver *s, struct client *c, uint32_t events)
{
	size_t want;
	ssize_t n;

	if (c->out_len) {
		send_name_answer(s, c);
		return;
	}
	if (c->tag || !(events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
		return;
	want = c->got < 2 ? 2 : 2 + ((size_t)c->in[0] << 8 | c->in[1]);
	if (want > sizeof(c->in) || !take_from_bucket(&s->rate, RATE, BURST, clock_ms())) {
		close_client(s, c);
		return;
	}
	n = recv(c->w.fd, c->in + c->got, want - c->got, 0);
	if (n == 0 || (n < 0 && errno != EAGAIN)) {
		close_client(s, c);
		return;
	}
	c->got += n > 0 ? (size_t)n : 0;
	if (c->got >= 2 && c->got == 2 + ((size_t)c->in[0] << 8 | c->in[1]))
		ask_client(s, c);
}

/* ---- what a server said ----------------------------------------------------------------------- */

static void answer_relayed(void *ctx, uint64_t tag, const struct dnsmsg *q, uint8_t *p, size_t n)
{
	struct nameserver *s = ctx;
	size_t i;

	p[0] = (uint8_t)(q->id >> 8);
	p[1] = (uint8_t)q->id;
	for (i = 0; i < NAMERELAY_QUESTIONS; i++) {
		struct asker *a = &s->askers[i];

		if (a->tag != tag)
			continue;
		a->tag = 0;
		n = dnsmsg_shorten(p, n, q->end, q->size);
		(void)!sendto(s->udp.fd, p, n, MSG_NOSIGNAL, (struct sockaddr *)&a->from,
			      sizeof(a->from));
		return;
	}
	for (i = 0; i < CLIENTS; i++)
		if (s->clients[i].w.fd >= 0 && s->clients[i].tag == tag) {
			memcpy(s->clients[i].out + 2, p, n);
			answer_client(s, &s->clients[i], n);
			return;
		}
}

/* ---- the loop ----------------------------------------------------------------------------------- */

void nameserver_serve(struct nameserver *s, struct watch *w, uint32_t events)
{
	size_t i;

	if (w == &s->udp) {
		serve_datagrams(s);
	} else if (w == &s->tcp) {
		accept_client(s);
	} else if (!namerelay_serve(s->relay, s->loop, w, events)) {
		for (i = 0; i < CLIENTS; i++)
			if (w == &s->clients[i].w && w->fd >= 0)
				serve_name_client(s, &s->clients[i], events);
	}
}

void nameserver_tick(struct nameserver *s, uint64_t now)
{
	size_t i;

	namerelay_tick(s->relay, s->loop, now);
	if (now >= s->rate.at_ms + REST_MS) {
		proxy_watch(s->loop, &s->udp, EPOLLIN);
		proxy_watch(s->loop, &s->tcp, EPOLLIN);
	}
	for (i = 0; i < CLIENTS; i++)
		if (s->clients[i].w.fd >= 0 && now >= s->clients[i].since_ms + CLIENT_MS)
			close_client(s, &s->clients[i]);
}

uint64_t nameserver_next(const struct nameserver *s, uint64_t at)
{
	const uint64_t again = s->rate.at_ms + REST_MS;
	size_t i;

	at = namerelay_next(s->relay, at);
	if ((!s->udp.events || !s->tcp.events) && again < at)
		at = again;
	for (i = 0; i < CLIENTS; i++)
		if (s->clients[i].w.fd >= 0 && s->clients[i].since_ms + CLIENT_MS < at)
			at = s->clients[i].since_ms + CLIENT_MS;
	return at;
}
