/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request of a proxy's client: its target, whether the policy allows it, and the connection
 * to its server.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runtime/net/httpreq.h"
#include "runtime/net/nl.h"
#include "runtime/net/proxyconn.h"

/* ---- whom it wants ---------------------------------------------------------------------- */

/* Tells how to remove the rule that denies, where it was given. */
static void hint_denying_rule(const struct conn *c, const struct nethost *denied, char *out, size_t n)
{
	const struct netpolicy *g = c->proxy->policy.group;

	if (g && denied >= g->deny && denied < g->deny + g->deny_count)
		snprintf(out, n,
			 "on the host: berth network update --allow-host %s %s takes that rule back",
			 denied->text, g->network);
	else if (c->proxy->lasts)
		snprintf(out, n, "on the host: berth update --allow-host %s %s takes that rule back",
			 denied->text, c->proxy->id);
	else
		snprintf(out, n, "on the host: berth run without --deny-host %s", denied->text);
}

static void deny_host(struct conn *c, const struct nethost *denied)
{
	char why[700], remedy[500];

	if (denied) {
		snprintf(why, sizeof(why), "%s port %u is denied by the rule --deny-host %s",
			 c->target.name, c->target.port, denied->text);
		hint_denying_rule(c, denied, remedy, sizeof(remedy));
	} else {
		char options[350];

		snprintf(options, sizeof(options), c->target.addr.family == 6 ? "--allow-host [%s]:%u" : "--allow-host %s:%u",
			 c->target.name, c->target.port);
		snprintf(why, sizeof(why), "%s port %u is allowed by no rule of this sandbox (--allow-host)", c->target.name,
			 c->target.port);
		conn_remedy(c, options, remedy, sizeof(remedy));
	}
	conn_deny(c, why, remedy);
}

/* Chooses the addresses that may be connected to; the first refusal is kept for the message. */
static void choose_target_address(struct conn *c, const struct netaddr *found, size_t count, const char *nothing)
{
	const struct netpolicy *p = &c->proxy->policy;
	const struct nethost *denied, *by = netpolicy_host(p, &c->target, &denied);
	char why[600] = "", remedy[300] = "", options[NETADDR_TEXT + 16], addr[NETADDR_TEXT];
	size_t i;

	if (!by) {	/* the policy changed while the DNS was asked */
		deny_host(c, denied);
		return;
	}
	snprintf(c->rule, sizeof(c->rule), "%s", by->text);
	for (i = 0; i < count && c->tried_count < RESOLVER_ADDRESSES; i++) {
		const char *special;
		struct netaddr plain;

		/* an answer of the DNS may be mapped IPv4 as well */
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
			snprintf(options, sizeof(options), "--allow-net %s", netaddr_text(&plain, addr));
			conn_remedy(c, options, remedy, sizeof(remedy));
			c->peer = plain;
		}
	}
	if (c->tried_count && c->proxy->group &&
	    !netgroup_connect(c->proxy->group, p->group->max_connections)) {
		conn_exhausted(c, proxy_exhausted(c->proxy));
	} else if (c->tried_count) {
		c->proxy->counters->allowed++;
		proxyask_try_next(c);
	} else if (why[0]) {
		conn_deny(c, why, remedy);
	} else {
		snprintf(why, sizeof(why), "%s cannot be resolved: %s", c->target.name, nothing);
		conn_fail(c, SOCKS_HOST_UNREACHABLE, "502 Bad Gateway", why);
	}
}

static void resolved(void *ctx, const struct netaddr *found, size_t count, const char *why)
{
	struct conn *c = ctx;

	c->asking = 0;
	if (c->state == CONN_RESOLVING)
		choose_target_address(c, found, count, why);
}

static void wants(struct conn *c, const char *host, uint64_t port)
{
	const char *used_up = proxy_exhausted(c->proxy);
	const struct nethost *denied;
	struct err e;

	c->proxy->counters->requests++;
	if (nettarget_parse(host, port, &c->target, &e) < 0) {
		c->proxy->counters->denied++;
		conn_note(c, "deny", e.msg);
		if (c->kind == CONN_SOCKS)
			conn_socks_say(c, SOCKS_NOT_ALLOWED);
		else
			conn_http_say(c, "400 Bad Request", e.msg, NULL);
		conn_ending(c);
		return;
	}
	if (used_up) {
		conn_exhausted(c, used_up);
		return;
	}
	if (!netpolicy_host(&c->proxy->policy, &c->target, &denied)) {
		deny_host(c, denied);
		return;
	}
	c->state = CONN_RESOLVING;
	c->deadline_ms = clock_ms() + PROXY_HEAD_MS;
	if (c->target.addr.family) {
		choose_target_address(c, &c->target.addr, 1, "");
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
	conn_fail(c, code, c->connect_errno == ETIMEDOUT ? "504 Gateway Timeout" : "502 Bad Gateway", why);
}

void proxyask_try_next(struct conn *c)
{
	proxy_watch(c->proxy, &c->server, 0);
	fd_close(&c->server.fd);
	while (c->tried_next < c->tried_count) {
		c->peer = c->tried[c->tried_next++];
		c->server.fd = begin_connect(c, &c->peer);
		c->server.events = 0;
		if (c->server.fd >= 0) {
			c->state = CONN_CONNECTING;
			c->deadline_ms = clock_ms() + PROXY_CONNECT_MS;
			conn_update(c);
			return;
		}
		c->connect_errno = errno;
	}
	cannot_connect(c);
}

void proxyask_forward(struct conn *c, const struct nettarget *t)
{
	c->kind = CONN_FORWARD;
	c->target = *t;
	c->tried[c->tried_count++] = t->addr;
	/* a server inside may listen on the loopback of the other family alone */
	if (netaddr_is_loopback(&t->addr))
		netaddr_loopback(t->addr.family == 4 ? 6 : 4, &c->tried[c->tried_count++]);
	proxyask_try_next(c);
}

void proxyask_connected(struct conn *c)
{
	static const char established[] = "HTTP/1.1 200 Connection established\r\n\r\n";
	int why = 0;
	socklen_t n = sizeof(why);

	if (getsockopt(c->server.fd, SOL_SOCKET, SO_ERROR, &why, &n) < 0 || why) {
		c->connect_errno = why ? why : errno;
		proxyask_try_next(c);
		return;
	}
	if (c->kind == CONN_TUNNEL)
		conn_say(c, established, sizeof(established) - 1);
	else if (c->kind == CONN_SOCKS)
		conn_socks_say(c, SOCKS_OK);
	c->state = CONN_RELAY;
	c->deadline_ms = 0;
	/* bytes that the network's budget does not cover are not sent */
	if (c->proxy->group)
		c->out.end = netgroup_take(c->proxy->group, c->proxy->policy.group->max_bytes,
					   c->out.end);
	c->bytes_out += c->out.end;
	c->proxy->counters->bytes_out += c->out.end;
	netrate_spend(&c->proxy->rate_out, c->proxy->policy.max_rate, c->out.end);
	if (conn_over_budget(c))
		return;
	proxypeek_begin(c);
	if (c->state == CONN_RELAY)
		conn_update(c);
}

/* ---- the client's first words ---------------------------------------------------------------- */

static void drop_front(struct flow *f, size_t n)
{
	memmove(f->data, f->data + n, f->end - n);
	f->end -= n;
}

/* Replaces the head by the one for the server; body bytes that came with it stay behind it. */
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
		conn_fail(c, 0, "400 Bad Request", e.msg);
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
		conn_say(c, n < 0 ? "\5\377" : "\5\0", 2);
		if (n < 0) {
			conn_ending(c);
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
		conn_fail(c, (unsigned char)-r, "400 Bad Request", "a SOCKS5 request other than CONNECT");
		return;
	}
	drop_front(&c->out, rq.len);
	wants(c, rq.host, rq.port);
}

void proxyask_read(struct conn *c)
{
	if (c->out.eof) {
		conn_die(c);
		return;
	}
	if (c->out.end && (c->out.data[0] == 5 || c->kind == CONN_SOCKS))
		read_socks(c);
	else if (c->out.end)
		read_http(c);
	if (c->state == CONN_HEAD)
		conn_update(c);
}
