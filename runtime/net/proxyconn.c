/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection through the proxy: HEAD (whom does it want) -> RESOLVING ->
 * CONNECTING -> RELAY, or at any point ENDING (an answer is on its way out, what
 * the client still sends is thrown away) -> DEAD.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/net/proxy.h"
#include "runtime/net/route.h"
#include "runtime/net/socksreq.h"

static void update(struct conn *c);
static int over_budget(struct conn *c);

/* ---- ends ----------------------------------------------------------------------------- */

static void note(struct conn *c, const char *verdict, const char *reason)
{
	if (!c->logged)
		proxy_log(c->proxy, c, verdict, reason);
	c->logged = 1;
}

static void die(struct conn *c)
{
	if (c->state == CONN_RELAY)
		note(c, "allow", NULL);
	proxy_watch(c->proxy, &c->client, 0);
	proxy_watch(c->proxy, &c->server, 0);
	fd_close(&c->client.fd);
	fd_close(&c->server.fd);
	c->state = CONN_DEAD;
}

static void reset_fd(int fd)
{
	struct linger now = { .l_onoff = 1 };

	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

void conn_cut(struct conn *c, const char *reason)
{
	note(c, "cut", reason);
	reset_fd(c->client.fd);
	reset_fd(c->server.fd);
	die(c);
}

void conn_free(struct conn *c)
{
	free(c->out.data);
	free(c->in.data);
	free(c);
}

/* Puts bytes on their way to the client; they always fit, as nothing else is in there yet. */
static void say(struct conn *c, const char *p, size_t n)
{
	if (n > PROXY_BUFFER - c->in.end)
		n = PROXY_BUFFER - c->in.end;
	memcpy(c->in.data + c->in.end, p, n);
	c->in.end += n;
}

static void ending(struct conn *c)
{
	proxy_watch(c->proxy, &c->server, 0);
	fd_close(&c->server.fd);
	c->in.eof = 1;
	c->state = CONN_ENDING;
	c->deadline_ms = proxy_now_ms() + PROXY_LINGER_MS;
	update(c);
}

static void socks_say(struct conn *c, unsigned char code)
{
	const unsigned char reply[10] = { 5, code, 0, 1 };

	say(c, (const char *)reply, sizeof(reply));
}

static void http_say(struct conn *c, const char *status, const char *why, const char *remedy)
{
	char body[1200], head[400];
	int b = snprintf(body, sizeof(body), "berth: %.500s\n%s%.400s%s", why, remedy ? "remedy: " : "", remedy ? remedy : "",
			 remedy ? "\n" : "");
	int h = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"
			 "X-Berth-Proxy: %s\r\nConnection: close\r\n\r\n", status, b, remedy ? "denied" : "failed");

	say(c, head, (size_t)h);
	if (strcmp(c->http.method, "HEAD"))
		say(c, body, (size_t)b);
}

static void deny(struct conn *c, const char *why, const char *remedy)
{
	c->proxy->counters->denied++;
	note(c, "deny", why);
	if (c->kind == CONN_SOCKS)
		socks_say(c, SOCKS_NOT_ALLOWED);
	else
		http_say(c, "403 Forbidden by the network policy of the sandbox", why, remedy);
	ending(c);
}

static void fail(struct conn *c, unsigned char socks, const char *status, const char *why)
{
	c->proxy->counters->failed++;
	note(c, "fail", why);
	if (c->kind == CONN_SOCKS)
		socks_say(c, socks);
	else
		http_say(c, status, why, NULL);
	ending(c);
}

static void exhausted(struct conn *c, const char *why)
{
	char remedy[200];

	c->proxy->counters->exhausted = 1;
	snprintf(remedy, sizeof(remedy), "berth update --network-bytes SIZE or --network-connections N %s", c->proxy->id);
	deny(c, why, remedy);
}

/* ---- whom it wants ---------------------------------------------------------------------- */

static void deny_host(struct conn *c, const struct nethost *denied)
{
	char why[700], remedy[500];

	if (denied) {
		snprintf(why, sizeof(why), "%s port %u is denied by the rule --deny-host %s", c->target.name, c->target.port,
			 denied->text);
		snprintf(remedy, sizeof(remedy), "on the host: berth update --allow-host %s %s takes that rule back", denied->text,
			 c->proxy->id);
	} else {
		char host[320];

		snprintf(host, sizeof(host), c->target.addr.family == 6 ? "[%s]:%u" : "%s:%u", c->target.name, c->target.port);
		snprintf(why, sizeof(why), "%s port %u is allowed by no rule of this sandbox (--allow-host)", c->target.name,
			 c->target.port);
		snprintf(remedy, sizeof(remedy), "on the host: berth update --allow-host %s %s", host, c->proxy->id);
	}
	deny(c, why, remedy);
}

static void try_next(struct conn *c);

/* Which of the addresses may be gone to; the first refusal is kept to be told. */
static void choose(struct conn *c, const struct netaddr *found, size_t count, const char *nothing)
{
	const struct netpolicy *p = &c->proxy->policy;
	const struct nethost *denied, *by = netpolicy_host(p, &c->target, &denied);
	char why[600] = "", remedy[300] = "", addr[NETADDR_TEXT];
	size_t i;

	if (!by) {	/* the policy changed while the DNS was asked */
		deny_host(c, denied);
		return;
	}
	snprintf(c->rule, sizeof(c->rule), "%s", by->text);
	for (i = 0; i < count && c->tried_count < RESOLVER_ADDRESSES; i++) {
		const char *special;
		struct netaddr plain;

		/* what DNS hands out may be mapped IPv4 as well */
		if (netaddr_parse(netaddr_text(&found[i], addr), &plain) < 0)
			continue;
		special = netpolicy_address(p, by, &plain);
		if (!special && !netpolicy_explicit(p, by, &plain))
			special = route_special(c->proxy->route, &plain);
		if (!special) {
			c->tried[c->tried_count++] = plain;
		} else if (!why[0]) {
			snprintf(why, sizeof(why), c->target.addr.family ? "%s is an address that may not be reached (%s%s)" :
				 "%s leads to an address that may not be reached (%s: %s)", c->target.name,
				 c->target.addr.family ? "" : netaddr_text(&plain, addr), special);
			snprintf(remedy, sizeof(remedy), "on the host, if that is meant: berth update --allow-net %s %s",
				 netaddr_text(&plain, addr), c->proxy->id);
			c->peer = plain;
		}
	}
	if (c->tried_count) {
		c->proxy->counters->allowed++;
		try_next(c);
	} else if (why[0]) {
		deny(c, why, remedy);
	} else {
		snprintf(why, sizeof(why), "%s cannot be resolved: %s", c->target.name, nothing);
		fail(c, SOCKS_HOST_UNREACHABLE, "502 Bad Gateway", why);
	}
}

static void resolved(void *ctx, const struct netaddr *found, size_t count, const char *why)
{
	struct conn *c = ctx;

	c->asking = 0;
	if (c->state == CONN_RESOLVING)
		choose(c, found, count, why);
}

static void wants(struct conn *c, const char *host, uint64_t port)
{
	const char *used_up = proxy_exhausted(c->proxy);
	const struct nethost *denied;
	struct err e;

	c->proxy->counters->requests++;
	if (nettarget_parse(host, port, &c->target, &e) < 0) {
		c->proxy->counters->denied++;
		note(c, "deny", e.msg);
		if (c->kind == CONN_SOCKS)
			socks_say(c, SOCKS_NOT_ALLOWED);
		else
			http_say(c, "400 Bad Request", e.msg, NULL);
		ending(c);
		return;
	}
	if (used_up) {
		exhausted(c, used_up);
		return;
	}
	if (!netpolicy_host(&c->proxy->policy, &c->target, &denied)) {
		deny_host(c, denied);
		return;
	}
	c->state = CONN_RESOLVING;
	c->deadline_ms = proxy_now_ms() + PROXY_HEAD_MS;
	if (c->target.addr.family) {
		choose(c, &c->target.addr, 1, "");
		return;
	}
	c->asking = 1;
	resolver_ask(c->proxy->resolver, c->target.name, resolved, c);
}

/* ---- the server --------------------------------------------------------------------------- */

static int begin_connect(struct conn *c, const struct netaddr *a)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(c->target.port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(c->target.port) };
	int on = 1, fd = socket(a->family == 4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	memcpy(&v4.sin_addr, a->b, 4);
	memcpy(&v6.sin6_addr, a->b, 16);
	if ((a->family == 4 ? connect(fd, (struct sockaddr *)&v4, sizeof(v4)) : connect(fd, (struct sockaddr *)&v6, sizeof(v6))) < 0 &&
	    errno != EINPROGRESS) {
		fd_close(&fd);
		return -1;
	}
	return fd;
}

static void cannot_connect(struct conn *c)
{
	char why[500];
	unsigned char code = c->connect_errno == ECONNREFUSED ? SOCKS_REFUSED : c->connect_errno == ENETUNREACH ? SOCKS_NET_UNREACHABLE :
			     SOCKS_HOST_UNREACHABLE;

	snprintf(why, sizeof(why), "%s port %u cannot be reached: %s", c->target.name, c->target.port, strerror(c->connect_errno));
	fail(c, code, c->connect_errno == ETIMEDOUT ? "504 Gateway Timeout" : "502 Bad Gateway", why);
}

static void try_next(struct conn *c)
{
	proxy_watch(c->proxy, &c->server, 0);
	fd_close(&c->server.fd);
	while (c->tried_next < c->tried_count) {
		c->peer = c->tried[c->tried_next++];
		c->server.fd = begin_connect(c, &c->peer);
		c->server.events = 0;
		if (c->server.fd >= 0) {
			c->state = CONN_CONNECTING;
			c->deadline_ms = proxy_now_ms() + PROXY_CONNECT_MS;
			update(c);
			return;
		}
		c->connect_errno = errno;
	}
	cannot_connect(c);
}

static void connected(struct conn *c)
{
	static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	int why = 0;
	socklen_t n = sizeof(why);

	if (getsockopt(c->server.fd, SOL_SOCKET, SO_ERROR, &why, &n) < 0 || why) {
		c->connect_errno = why ? why : errno;
		try_next(c);
		return;
	}
	if (c->kind == CONN_TUNNEL)
		say(c, established, sizeof(established) - 1);
	else if (c->kind == CONN_SOCKS)
		socks_say(c, SOCKS_OK);
	c->state = CONN_RELAY;
	c->deadline_ms = 0;
	c->bytes_out += c->out.end;
	c->proxy->counters->bytes_out += c->out.end;
	if (!over_budget(c))
		update(c);
}

/* ---- the client's first words ---------------------------------------------------------------- */

static void drop_front(struct flow *f, size_t n)
{
	memmove(f->data, f->data + n, f->end - n);
	f->end -= n;
}

/* The head is replaced by what the server is to get; what of the body came with it stays behind it. */
static int forward_head(struct conn *c, const struct buf *head)
{
	struct flow *f = &c->out;
	size_t rest = f->end - c->http.head_len;
	long body = httpbody_take(&c->http.body, f->data + c->http.head_len, rest);

	if (body < 0 || head->len + (size_t)body > PROXY_BUFFER)
		return -1;
	memmove(f->data + head->len, f->data + c->http.head_len, (size_t)body);
	memcpy(f->data, head->data, head->len);
	f->end = head->len + (size_t)body;
	return 0;
}

static void read_http(struct conn *c)
{
	autobuf struct buf head = BUF_INIT(HTTPREQ_HEAD_MAX * 2);
	struct err e;
	int r = httpreq_parse(c->out.data, c->out.end, &c->http, &head, &e);

	if (r == 0)
		return;
	c->kind = CONN_HTTP;
	if (r > 0 && !c->http.connect && forward_head(c, &head) < 0)
		r = err_set(&e, ERR_INVALID, "a malformed body");
	if (r < 0) {
		c->proxy->counters->requests++;
		fail(c, 0, "400 Bad Request", e.msg);
		return;
	}
	if (c->http.connect) {
		c->kind = CONN_TUNNEL;
		drop_front(&c->out, c->http.head_len);
	}
	wants(c, c->http.host, c->http.port);
}

static void read_socks(struct conn *c)
{
	const unsigned char *p = (const unsigned char *)c->out.data;
	struct socksreq rq;
	long n;
	int r;

	c->kind = CONN_SOCKS;
	if (!c->greeted) {
		n = socksreq_greeting(p, c->out.end);
		if (n == 0)
			return;
		say(c, n < 0 ? "\5\377" : "\5\0", 2);
		if (n < 0) {
			ending(c);
			return;
		}
		c->greeted = 1;
		drop_front(&c->out, (size_t)n);
	}
	r = socksreq_parse(p, c->out.end, &rq);
	if (r == 0)
		return;
	if (r < 0) {
		c->proxy->counters->requests++;
		fail(c, (unsigned char)-r, "400 Bad Request", "a SOCKS5 request other than CONNECT");
		return;
	}
	drop_front(&c->out, rq.len);
	wants(c, rq.host, rq.port);
}

static void read_head(struct conn *c)
{
	if (c->out.eof) {
		die(c);
		return;
	}
	if (c->out.end && (c->out.data[0] == 5 || c->kind == CONN_SOCKS))
		read_socks(c);
	else if (c->out.end)
		read_http(c);
	if (c->state == CONN_HEAD)
		update(c);
}

/* ---- bytes ------------------------------------------------------------------------------------ */

static int drain(int fd, struct flow *f);

/* Nothing more is read; what was read (and counted) is still delivered, then both sides see the end. */
static void close_gently(struct conn *c, const char *reason)
{
	note(c, "cut", reason);
	c->in.eof = c->out.eof = 1;
	c->deadline_ms = proxy_now_ms() + PROXY_LINGER_MS;
	if (drain(c->server.fd, &c->out) < 0 || drain(c->client.fd, &c->in) < 0 || (c->in.shut && c->out.shut))
		die(c);
	else
		update(c);
}

/* No byte left in the budget: everything ends, with the cause in the log and the counters. */
static int over_budget(struct conn *c)
{
	static const char why[] = "the byte budget (--network-bytes) is used up";
	struct proxy *p = c->proxy;
	struct conn *other;

	if (!p->policy.max_bytes || p->counters->bytes_in + p->counters->bytes_out < p->policy.max_bytes)
		return 0;
	p->counters->exhausted = 1;
	for (other = p->conns; other; other = other->next) {
		if (other->state == CONN_RELAY)
			close_gently(other, why);
		else if (other->state == CONN_CONNECTING)
			conn_cut(other, why);
	}
	return 1;
}

static size_t room(const struct conn *c, const struct flow *f)
{
	const struct proxy *p = c->proxy;
	size_t n = PROXY_BUFFER - f->end;
	uint64_t used = p->counters->bytes_in + p->counters->bytes_out;

	if (c->state == CONN_HEAD && f->end + n > HTTPREQ_HEAD_MAX + 1024)
		n = f->end > HTTPREQ_HEAD_MAX ? 0 : HTTPREQ_HEAD_MAX + 1024 - f->end;
	if (c->state == CONN_RELAY && p->policy.max_bytes && p->policy.max_bytes - used < n)
		n = (size_t)(p->policy.max_bytes - used);
	return n;
}

/* -1: the connection is broken. */
static int fill(struct conn *c, int fd, struct flow *f)
{
	size_t want = room(c, f);
	ssize_t n;

	if (f->eof)
		return 0;
	if (f->start == f->end)
		f->start = f->end = 0, want = room(c, f);
	if (!want)
		return 0;
	n = recv(fd, f->data + f->end, want, 0);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (n == 0) {
		f->eof = 1;
		return 0;
	}
	if (c->state == CONN_RELAY && f == &c->out && c->kind == CONN_HTTP) {
		long body = httpbody_take(&c->http.body, f->data + f->end, (size_t)n);

		if (body < 0)
			return -1;
		n = body;
	}
	f->end += (size_t)n;
	if (c->state == CONN_RELAY) {
		*(f == &c->out ? &c->bytes_out : &c->bytes_in) += (uint64_t)n;
		*(f == &c->out ? &c->proxy->counters->bytes_out : &c->proxy->counters->bytes_in) += (uint64_t)n;
	}
	return 0;
}

static int drain(int fd, struct flow *f)
{
	ssize_t n;

	if (f->start < f->end) {
		n = send(fd, f->data + f->start, f->end - f->start, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -1;
		f->start += (size_t)n;
	}
	if (f->start == f->end) {
		f->start = f->end = 0;
		if (f->eof && !f->shut) {
			shutdown(fd, SHUT_WR);
			f->shut = 1;
		}
	}
	return 0;
}

static void relay(struct conn *c, const struct watch *w, uint32_t events)
{
	int client = w == &c->client, r = 0;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = client ? fill(c, c->client.fd, &c->out) : fill(c, c->server.fd, &c->in);
	if (r == 0 && over_budget(c))
		return;
	if (r == 0)
		r = drain(c->server.fd, &c->out);
	if (r == 0)
		r = drain(c->client.fd, &c->in);
	if (r < 0) {
		reset_fd(c->client.fd);
		die(c);
		return;
	}
	/* the answer of a plain request ends it, whatever the client has still to say */
	if (c->in.shut && (c->out.shut || c->kind == CONN_HTTP)) {
		die(c);
		return;
	}
	if (!(c->in.eof && c->out.eof))
		c->deadline_ms = c->in.eof || c->out.eof ? proxy_now_ms() + PROXY_HALF_MS : 0;
	update(c);
}

/* The rest of an answer goes out; what still comes in is thrown away, lest a reset overtakes the answer. */
static void end_slowly(struct conn *c)
{
	char sink[4096];
	ssize_t n;

	if (drain(c->client.fd, &c->in) < 0) {
		die(c);
		return;
	}
	n = recv(c->client.fd, sink, sizeof(sink), 0);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		die(c);
	else
		update(c);
}

/* What to wait for, by state. */
static void update(struct conn *c)
{
	uint32_t client = 0, server = 0;

	switch (c->state) {
	case CONN_HEAD:
		client = EPOLLIN;
		break;
	case CONN_RESOLVING:
		break;
	case CONN_CONNECTING:
		server = EPOLLOUT;
		break;
	case CONN_RELAY:
		if (!c->out.eof && c->out.end < PROXY_BUFFER && !(c->kind == CONN_HTTP && c->http.body.done))
			client |= EPOLLIN;
		if (c->in.start < c->in.end || (c->in.eof && !c->in.shut))
			client |= EPOLLOUT;
		if (!c->in.eof && c->in.end < PROXY_BUFFER)
			server |= EPOLLIN;
		if (c->out.start < c->out.end || (c->out.eof && !c->out.shut))
			server |= EPOLLOUT;
		break;
	case CONN_ENDING:
		client = EPOLLIN | (c->in.start < c->in.end || !c->in.shut ? EPOLLOUT : 0);
		break;
	case CONN_DEAD:
		return;
	}
	if (c->state == CONN_HEAD && c->in.start < c->in.end)
		client |= EPOLLOUT;	/* SOCKS5: the answer to the greeting */
	proxy_watch(c->proxy, &c->client, client);
	proxy_watch(c->proxy, &c->server, server);
}

/* ---- events ------------------------------------------------------------------------------------ */

void conn_serve(struct conn *c, const struct watch *w, uint32_t events)
{
	switch (c->state) {
	case CONN_HEAD:
		if (drain(c->client.fd, &c->in) < 0 || fill(c, c->client.fd, &c->out) < 0)
			die(c);
		else
			read_head(c);
		if (c->state == CONN_HEAD && c->in.end && drain(c->client.fd, &c->in) == 0)
			update(c);
		break;
	case CONN_CONNECTING:
		if (w == &c->server)
			connected(c);
		break;
	case CONN_RELAY:
		relay(c, w, events);
		break;
	case CONN_ENDING:
		end_slowly(c);
		break;
	case CONN_RESOLVING:
	case CONN_DEAD:
		break;
	}
}

void conn_deadline(struct conn *c, uint64_t now)
{
	(void)now;
	if (c->state == CONN_CONNECTING) {
		c->connect_errno = ETIMEDOUT;
		try_next(c);
	} else if (c->state == CONN_RESOLVING) {
		fail(c, SOCKS_HOST_UNREACHABLE, "504 Gateway Timeout", "the DNS does not answer");
	} else {
		die(c);
	}
}

int conn_recheck(struct conn *c)
{
	const struct nethost *by, *denied;

	if (c->state != CONN_RELAY && c->state != CONN_CONNECTING)
		return 0;
	by = netpolicy_host(&c->proxy->policy, &c->target, &denied);
	if (by && !netpolicy_address(&c->proxy->policy, by, &c->peer))
		return 0;
	conn_cut(c, "the policy changed");
	return 1;
}

void conn_accept(struct proxy *p)
{
	int on = 1, fd = accept4(p->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct conn *c;

	if (fd < 0)
		return;
	c = calloc(1, sizeof(*c));
	if (c) {
		c->out.data = malloc(PROXY_BUFFER);
		c->in.data = malloc(PROXY_BUFFER);
	}
	if (!c || !c->out.data || !c->in.data) {
		if (c)
			conn_free(c);
		close(fd);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	c->proxy = p;
	c->client = (struct watch){ .kind = WATCH_CLIENT, .conn = c, .fd = fd };
	c->server = (struct watch){ .kind = WATCH_SERVER, .conn = c, .fd = -1 };
	c->started_ms = proxy_now_ms();
	c->deadline_ms = c->started_ms + PROXY_HEAD_MS;
	c->next = p->conns;
	p->conns = c;
	p->conn_count++;
	p->counters->open = p->conn_count;
	update(c);
}
