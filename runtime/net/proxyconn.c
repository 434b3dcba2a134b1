/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S13 of SECURITY.md. */
#include "runtime/net/proxyconn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runtime/net/httpreq.h"
#include "runtime/net/tlshello.h"

/*
 * One connection through the proxy: HEAD (reads the target) -> RESOLVING -> CONNECTING -> RELAY,
 * or at any point ENDING (sends an answer, discards further input) -> DEAD.
 */

/* ---- ends ----------------------------------------------------------------------------- */

void conn_note(struct conn *c, const char *verdict, const char *reason)
{
	if (!c->logged)
		proxy_log(c->proxy, c, verdict, reason);
	c->logged = 1;
}

void conn_die(struct conn *c)
{
	if (c->state == CONN_RELAY)
		conn_note(c, "allow", NULL);
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

static void conn_cut(struct conn *c, const char *reason)
{
	conn_note(c, "cut", reason);
	reset_fd(c->client.fd);
	reset_fd(c->server.fd);
	conn_die(c);
}

void conn_free(struct conn *c)
{
	free(c->out.data);
	free(c->in.data);
	free(c);
}

/* Puts bytes on their way to the client; they always fit, as nothing else is in there yet. */
void conn_say(struct conn *c, const char *p, size_t n)
{
	if (n > PROXY_BUFFER - c->in.end)
		n = PROXY_BUFFER - c->in.end;
	memcpy(c->in.data + c->in.end, p, n);
	c->in.end += n;
}

void conn_ending(struct conn *c)
{
	proxy_watch(c->proxy, &c->server, 0);
	fd_close(&c->server.fd);
	c->in.eof = 1;
	c->state = CONN_ENDING;
	c->deadline_ms = clock_ms() + PROXY_LINGER_MS;
	conn_update(c);
}

void conn_socks_say(struct conn *c, unsigned char code)
{
	const unsigned char reply[10] = { 5, code, 0, 1 };

	conn_say(c, (const char *)reply, sizeof(reply));
}

void conn_http_say(struct conn *c, const char *status, const char *why, const char *remedy)
{
	char body[1200], head[400];
	int b = snprintf(body, sizeof(body), "berth: %.500s\n%s%.400s%s", why, remedy ? "remedy: " : "", remedy ? remedy : "",
			 remedy ? "\n" : "");
	int h = snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n"
			 "X-Berth-Proxy: %s\r\nConnection: close\r\n\r\n", status, b, remedy ? "denied" : "failed");

	conn_say(c, head, (size_t)h);
	if (strcmp(c->http.method, "HEAD"))
		conn_say(c, body, (size_t)b);
}

void conn_deny(struct conn *c, const char *why, const char *remedy)
{
	c->proxy->counters->denied++;
	conn_note(c, "deny", why);
	if (c->kind == CONN_SOCKS)
		conn_socks_say(c, SOCKS_NOT_ALLOWED);
	else
		conn_http_say(c, "403 Forbidden by the network policy of the sandbox", why, remedy);
	conn_ending(c);
}

void conn_fail(struct conn *c, unsigned char socks, const char *status, const char *why)
{
	c->proxy->counters->failed++;
	conn_note(c, "fail", why);
	if (c->kind == CONN_FORWARD) {	/* like a port without a listener */
		reset_fd(c->client.fd);
		conn_die(c);
		return;
	}
	if (c->kind == CONN_SOCKS)
		conn_socks_say(c, socks);
	else
		conn_http_say(c, status, why, NULL);
	conn_ending(c);
}

void conn_remedy(const struct conn *c, const char *options, char *out, size_t n)
{
	const struct netpolicy *p = &c->proxy->policy;
	const struct nethost *denied;

	/* on a network, unless a rule of the sandbox's own refuses */
	if (p->group && (netpolicy_group_refuses(p, &c->target) ||
			 netpolicy_host(p, &c->target, &denied)))
		snprintf(out, n, "on the host: berth network update %s %s", options,
			 p->group->network);
	else if (c->proxy->lasts)
		snprintf(out, n, "on the host: berth update %s %s", options, c->proxy->id);
	else
		snprintf(out, n, "on the host: berth run with %s", options);
}

void conn_exhausted(struct conn *c, const char *why)
{
	const char *option = proxy_bytes_left(c->proxy) ? "--network-connections N" :
							  "--network-bytes SIZE";
	char remedy[200];

	c->proxy->counters->exhausted = 1;
	if (c->proxy->group && !strstr(why, "of the network"))
		snprintf(remedy, sizeof(remedy), "on the host: berth update %s %s", option,
			 c->proxy->id);
	else
		conn_remedy(c, option, remedy, sizeof(remedy));
	conn_deny(c, why, remedy);
}

/* ---- bytes ------------------------------------------------------------------------------------ */

static int drain_flow(int fd, struct flow *f);

/*
 * Reads no more; bytes that were read (and counted) are still delivered, then both sides see the
 * end.
 */
static void close_gently(struct conn *c, const char *reason)
{
	conn_note(c, "cut", reason);
	c->in.eof = c->out.eof = 1;
	c->deadline_ms = clock_ms() + PROXY_LINGER_MS;
	if (drain_flow(c->server.fd, &c->out) < 0 || drain_flow(c->client.fd, &c->in) < 0 || (c->in.shut && c->out.shut))
		conn_die(c);
	else
		conn_update(c);
}

/*
 * Checks the budget: once it has no byte left, everything ends, with the cause in the log and the
 * counters.
 */
int conn_over_budget(struct conn *c)
{
	static const char why[] = "the byte budget (--network-bytes) is used up";
	struct proxy *p = c->proxy;
	struct conn *other;

	if (proxy_bytes_left(p))
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

/* Returns how many bytes the rate allows now. */
static size_t rate_room(const struct conn *c, const struct flow *f, size_t want)
{
	struct proxy *p = c->proxy;

	return !p->policy.max_rate ? want :
	       netrate_room(f == &c->out ? &p->rate_out : &p->rate_in, p->policy.max_rate,
			    clock_ms(), want);
}

static size_t room(const struct conn *c, const struct flow *f)
{
	const struct proxy *p = c->proxy;
	size_t n = PROXY_BUFFER - f->end;

	if (c->state == CONN_HEAD && f->end + n > HTTPREQ_HEAD_MAX + 1024)
		n = f->end > HTTPREQ_HEAD_MAX ? 0 : HTTPREQ_HEAD_MAX + 1024 - f->end;
	if (c->state == CONN_RELAY && proxy_bytes_left(p) < n)
		n = (size_t)proxy_bytes_left(p);
	return c->state == CONN_RELAY && n ? rate_room(c, f, n) : n;
}

/* Reads from fd; -1: the connection is broken. */
static int fill_flow(struct conn *c, int fd, struct flow *f)
{
	struct netgroup *shared = c->state == CONN_RELAY ? c->proxy->group : NULL;
	size_t want = room(c, f);
	ssize_t n;

	if (f->eof)
		return 0;
	if (f->start == f->end)
		f->start = f->end = 0, want = room(c, f);
	if (shared && want)
		want = netgroup_take(shared, c->proxy->policy.group->max_bytes, want);
	if (!want)
		return 0;
	n = recv(fd, f->data + f->end, want, 0);
	if (shared)
		netgroup_give_back(shared, want - (n > 0 ? (size_t)n : 0));
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (n == 0) {
		f->eof = 1;
		if (c->state == CONN_RELAY && f == &c->out)
			proxypeek_client(c, 0);
		else if (c->state == CONN_RELAY)
			proxypeek_server(c, f->data, 0);
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
		const char *came = f->data + f->end - n;

		netrate_spend(f == &c->out ? &c->proxy->rate_out : &c->proxy->rate_in,
			      c->proxy->policy.max_rate, (size_t)n);
		*(f == &c->out ? &c->bytes_out : &c->bytes_in) += (uint64_t)n;
		*(f == &c->out ? &c->proxy->counters->bytes_out : &c->proxy->counters->bytes_in) += (uint64_t)n;
		if (f == &c->out)
			proxypeek_client(c, (size_t)n);
		else
			proxypeek_server(c, came, (size_t)n);
	}
	return 0;
}

static int drain_flow(int fd, struct flow *f)
{
	size_t ready = f->end - f->held;
	ssize_t n;

	if (f->start < ready) {
		n = send(fd, f->data + f->start, ready - f->start, MSG_NOSIGNAL);
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

static void relay_connection(struct conn *c, const struct watch *w, uint32_t events)
{
	int client = w == &c->client, r = 0;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		r = client ? fill_flow(c, c->client.fd, &c->out) : fill_flow(c, c->server.fd, &c->in);
	if (c->state != CONN_RELAY || (r == 0 && conn_over_budget(c)))
		return;
	if (r == 0)
		r = drain_flow(c->server.fd, &c->out);
	if (r == 0)
		r = drain_flow(c->client.fd, &c->in);
	if (r < 0) {
		reset_fd(c->client.fd);
		conn_die(c);
		return;
	}
	/* the answer of a plain request ends the connection, even if the client sends more */
	if (c->in.shut && (c->out.shut || c->kind == CONN_HTTP)) {
		conn_die(c);
		return;
	}
	if (!(c->in.eof && c->out.eof))
		c->deadline_ms = c->peek_deadline_ms ? c->peek_deadline_ms : c->in.eof || c->out.eof ? clock_ms() + PROXY_HALF_MS : 0;
	conn_update(c);
}

/* Sends the rest of an answer, and discards further input so that no reset overtakes the answer. */
static void end_slowly(struct conn *c)
{
	char sink[4096];
	ssize_t n;

	if (drain_flow(c->client.fd, &c->in) < 0) {
		conn_die(c);
		return;
	}
	n = recv(c->client.fd, sink, sizeof(sink), 0);
	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		conn_die(c);
	else
		conn_update(c);
}

void conn_update(struct conn *c)
{
	uint32_t client = 0, server = 0;

	switch (c->state) {
	case CONN_HEAD:		/* a body may come with it */
		client = rate_room(c, &c->out, 1) ? EPOLLIN : 0;
		break;
	case CONN_RESOLVING:
		break;
	case CONN_CONNECTING:
		server = EPOLLOUT;
		break;
	case CONN_RELAY:
		if (!c->out.eof && c->out.end < PROXY_BUFFER && rate_room(c, &c->out, 1) &&
		    !(c->kind == CONN_HTTP && c->http.body.done))
			client |= EPOLLIN;
		if (c->in.start < c->in.end || (c->in.eof && !c->in.shut))
			client |= EPOLLOUT;
		if (!c->in.eof && c->in.end < PROXY_BUFFER && rate_room(c, &c->in, 1))
			server |= EPOLLIN;
		if (c->out.start < c->out.end - c->out.held || (c->out.eof && !c->out.shut && !c->out.held))
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
		if (drain_flow(c->client.fd, &c->in) < 0 || fill_flow(c, c->client.fd, &c->out) < 0)
			conn_die(c);
		else
			proxyask_read(c);
		if (c->state == CONN_HEAD && c->in.end && drain_flow(c->client.fd, &c->in) == 0)
			conn_update(c);
		break;
	case CONN_CONNECTING:
		if (w == &c->server)
			proxyask_connected(c);
		break;
	case CONN_RELAY:
		relay_connection(c, w, events);
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
		proxyask_try_next(c);
	} else if (c->state == CONN_RESOLVING) {
		conn_fail(c, SOCKS_HOST_UNREACHABLE, "504 Gateway Timeout", "the DNS does not answer");
	} else if (c->state == CONN_RELAY && c->peek_deadline_ms) {
		conn_cut(c, "within the tunnel the TLS client did not finish its first message in time");
	} else {
		conn_die(c);
	}
}

int conn_recheck(struct conn *c)
{
	const struct nethost *by, *denied;

	if (c->state != CONN_RELAY && c->state != CONN_CONNECTING)
		return 0;
	by = netpolicy_host(&c->proxy->policy, &c->target, &denied);
	if (by && !netpolicy_address(&c->proxy->policy, by, &c->peer) &&
	    (!c->within.name[0] || netpolicy_host(&c->proxy->policy, &c->within, &denied)))
		return 0;
	conn_cut(c, "the policy changed");
	return 1;
}

void conn_accept(struct proxy *p, const struct watch *w)
{
	int on = 1, fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
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
	c->started_ms = clock_ms();
	c->deadline_ms = c->started_ms + PROXY_HEAD_MS;
	c->next = p->conns;
	p->conns = c;
	p->conn_count++;
	p->counters->open = p->conn_count;
	if (w->target)
		proxyask_forward(c, w->target);
	else
		conn_update(c);
}

/* ---- the name within a tunnel ---- */

/* Upholds S22 of SECURITY.md. */
/*
 * The name within a tunnel. A client with a tunnel to one name may ask its server, in the first
 * bytes of TLS, for another name that the server also has. No byte of the hello is sent before
 * its name was found allowed. A server may ask for a second hello (HelloRetryRequest), which
 * could have another name: until the server has answered, bytes after the first hello wait.
 */

static size_t waiting(const struct conn *c)
{
	return c->out.end - c->out.start;
}

/* Sets the state: the last held bytes wait, the others may be sent. */
static void set_peek_state(struct conn *c, enum peek_state state, size_t held)
{
	c->peek = state;
	c->peek_deadline_ms = 0;
	c->out.held = held;
}

/* HTTP is over in here, so a TLS alert reports it: access_denied. */
static void refuse_tls(struct conn *c, const char *why)
{
	static const char alert[] = { 21, 3, 3, 0, 2, 2, 49 };

	c->proxy->counters->denied++;
	conn_note(c, "deny", why);
	conn_say(c, alert, sizeof(alert));
	conn_ending(c);
}

static void refuse_name(struct conn *c, const char *name, const struct nethost *denied)
{
	char why[900], options[350], remedy[500];

	snprintf(options, sizeof(options), "--allow-host %.255s:%u", name, c->target.port);
	conn_remedy(c, options, remedy, sizeof(remedy));
	if (denied)
		snprintf(why, sizeof(why), "within the tunnel to %s the TLS client asked for %s, which the rule --deny-host %s denies",
			 c->target.name, name, denied->text);
	else
		snprintf(why, sizeof(why), "within the tunnel to %s the TLS client asked for %s port %u, which no rule of this sandbox allows; "
			 "remedy: %s", c->target.name, name, c->target.port, remedy);
	refuse_tls(c, why);
}

/* Checks the name: 1 if it is allowed. */
static int check_peeked_name(struct conn *c, const char *name)
{
	const struct nethost *denied = NULL;
	struct err e;

	if (nettarget_parse(name, c->target.port, &c->within, &e) < 0) {
		memset(&c->within, 0, sizeof(c->within));
		refuse_tls(c, "within the tunnel the TLS client asked for what is not a name");
		return 0;
	}
	if (netpolicy_host(&c->proxy->policy, &c->within, &denied))
		return 1;
	refuse_name(c, c->within.name, denied);
	return 0;
}

/* The client's first words, or its second hello. */
static void read_peeked_client(struct conn *c)
{
	char name[TLSHELLO_NAME];
	size_t len = 0;
	int again = c->peek == PEEK_AGAIN;
	enum tlshello hello;

	c->out.held = waiting(c);
	if (!c->out.held)
		return;
	hello = tlshello_read((const unsigned char *)c->out.data + c->out.start, waiting(c), again, name, &len);
	switch (hello) {
	case TLSHELLO_MORE:
		if (c->out.eof || c->out.end == PROXY_BUFFER)
			refuse_tls(c, "within the tunnel the TLS client did not finish its first message");
		else if (!c->peek_deadline_ms)
			c->deadline_ms = c->peek_deadline_ms = clock_ms() + PROXY_HEAD_MS;
		return;
	case TLSHELLO_BAD:
		refuse_tls(c, "within the tunnel the TLS client's first message is malformed");
		return;
	case TLSHELLO_NAMED:
		if (!check_peeked_name(c, name))
			return;
		break;
	default:
		break;
	}
	if (hello == TLSHELLO_OTHER || again)
		set_peek_state(c, PEEK_DONE, 0);
	else
		set_peek_state(c, PEEK_ANSWER, waiting(c) - len);
}

void proxypeek_begin(struct conn *c)
{
	int tunnel = c->kind == CONN_TUNNEL || c->kind == CONN_SOCKS;

	/* a target that a rule allows by address is allowed under any name */
	c->peek = tunnel && !c->target.addr.family ? PEEK_HELLO : PEEK_DONE;
	if (c->peek == PEEK_HELLO)
		read_peeked_client(c);
}

void proxypeek_client(struct conn *c, size_t more)
{
	if (c->peek == PEEK_HELLO || c->peek == PEEK_AGAIN)
		read_peeked_client(c);
	else if (c->peek == PEEK_ANSWER)
		c->out.held += more;
}

void proxypeek_server(struct conn *c, const char *p, size_t n)
{
	size_t part = sizeof(c->answer) - c->answer_len;

	if (c->peek != PEEK_ANSWER)
		return;
	if (!n) {	/* it has ended */
		set_peek_state(c, PEEK_DONE, 0);
		return;
	}
	part = n < part ? n : part;
	memcpy(c->answer + c->answer_len, p, part);
	c->answer_len += part;
	/* an answer of TLS begins with a handshake; what begins otherwise (an alert) asks for nothing */
	if (c->answer_len < sizeof(c->answer) && c->answer[0] == 22)
		return;
	if (c->answer[0] == 22 && tlshello_is_retry(c->answer)) {
		set_peek_state(c, PEEK_AGAIN, waiting(c));
		read_peeked_client(c);
	} else {
		set_peek_state(c, PEEK_DONE, 0);
	}
}
