/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/forward.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "runtime/net/nameserver.h"
#include "runtime/net/netwire.h"
#include "runtime/net/proxy.h"

#define SOCKETS (2 * NETPOLICY_PUBLISH)	/* IPv4 and IPv6 */
#define PEERS 64			/* for all datagram ports together; a new one replaces the oldest */
#define DATAGRAM_MAX 65536

/* The sender of datagrams to a published port, and the socket for the sandbox's answers. */
struct peer {
	struct watch server;		/* fd -1: free */
	struct watch *port;
	struct sockaddr_storage from;
	socklen_t from_len;
	uint64_t used_ms;
};

struct forward {
	struct watch ports[SOCKETS];
	struct nettarget targets[SOCKETS];
	size_t count;
	struct peer peers[PEERS];
	struct proxy proxy;
	struct nameserver *names;	/* or NULL */
	struct netcounters counters;
	char datagram[DATAGRAM_MAX];
};

static socklen_t fill_address(struct sockaddr_storage *s, const struct netaddr *a, uint16_t port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	memset(s, 0, sizeof(*s));
	memcpy(&v4.sin_addr, a->b, 4);
	memcpy(&v6.sin6_addr, a->b, 16);
	if (a->family == 4)
		memcpy(s, &v4, sizeof(v4));
	else
		memcpy(s, &v6, sizeof(v6));
	return a->family == 4 ? sizeof(v4) : sizeof(v6);
}

static int add_forwarded_port(struct forward *f, const struct netpublish *b, const char *at, const struct link_plan *l, struct err *e)
{
	struct sockaddr_storage s;
	struct netaddr a;
	autoclose int fd = -1;
	int on = 1;
	socklen_t n;

	if (f->count == SOCKETS || netaddr_parse(at, &a) < 0)
		return err_set(e, ERR_INTERNAL, "no room for another published port");
	n = fill_address(&s, &a, b->host_port);
	fd = socket(a.family == 4 ? AF_INET : AF_INET6, (b->udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* REUSEADDR is for what a server that ended has left of TCP; for UDP it would share the port */
	if (fd < 0 || (!b->udp && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0) ||
	    (a.family == 6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
	    bind(fd, (struct sockaddr *)&s, n) < 0 || (!b->udp && listen(fd, 64) < 0)) {
		err_sys(e, "publish %s at %s", b->text, at);
		if (e->os_errno == EADDRINUSE)
			err_hint(e, "a program of this host listens there; take another port, or ADDRESS:%u:%u for one address of the host",
				 b->host_port, b->port);
		return -1;
	}
	f->targets[f->count] = (struct nettarget){ .addr = a.family == 4 ? l->address : l->address6, .port = b->port };
	f->ports[f->count] = (struct watch){ .kind = b->udp ? WATCH_DATAGRAM : WATCH_LISTEN, .fd = take_fd(&fd),
					     .target = &f->targets[f->count] };
	f->count++;
	return 0;
}

/* The loopback is published when nothing else was said, when it was said, and with every address of its family. */
static int add_loopback(struct forward *f, const struct netpublish *b, const struct link_plan *l, struct err *e)
{
	const int any = !b->addr.family || netaddr_is_any(&b->addr);
	char text[NETADDR_TEXT];

	if (b->addr.family != 6 && add_forwarded_port(f, b, any ? "127.0.0.1" : netaddr_text(&b->addr, text), l, e) < 0)
		return -1;
	return b->addr.family == 4 || !l->with6 ? 0 : add_forwarded_port(f, b, any ? "::1" : netaddr_text(&b->addr, text), l, e);
}

int forward_open(const struct netpolicy *p, const struct link_plan *l, int always,
		 struct forward **ret, struct err *e)
{
	struct forward *f = always ? calloc(1, sizeof(*f)) : NULL;
	size_t i;
	int r = 0;

	if (always && !f)
		return err_nomem(e);

	for (i = 0; r == 0 && i < p->publish_count; i++) {
		const struct netpublish *b = &p->publish[i];

		if (b->addr.family && !netaddr_is_any(&b->addr) && !netaddr_is_loopback(&b->addr))
			continue;
		if (!f && !(f = calloc(1, sizeof(*f))))
			return err_nomem(e);
		r = add_loopback(f, b, l, e);
	}
	if (r < 0) {
		forward_free(f);
		return -1;
	}
	*ret = f;
	return 0;
}

void forward_names(struct forward *f, struct nameserver *names)
{
	f->names = names;
}

size_t forward_ports(const struct forward *f)
{
	return f ? f->count : 0;
}

void forward_free(struct forward *f)
{
	size_t i;

	if (f)
		nameserver_free(f->names);

	for (i = 0; f && i < f->count; i++)
		fd_close(&f->ports[i].fd);
	free(f);
}

/* ---- datagrams ------------------------------------------------------------------------- */

static struct peer *oldest(struct forward *f, struct proxy *p)
{
	struct peer *found = &f->peers[0];
	size_t i;

	for (i = 0; i < PEERS; i++) {
		if (f->peers[i].server.fd < 0)
			return &f->peers[i];
		if (f->peers[i].used_ms < found->used_ms)
			found = &f->peers[i];
	}
	proxy_watch(p, &found->server, 0);
	fd_close(&found->server.fd);
	return found;
}

static struct peer *peer_of(struct forward *f, struct proxy *p, struct watch *port, const struct sockaddr_storage *from, socklen_t n)
{
	struct sockaddr_storage to;
	struct peer *x;
	socklen_t len;
	size_t i;

	for (i = 0; i < PEERS; i++) {
		x = &f->peers[i];
		if (x->server.fd >= 0 && x->port == port && x->from_len == n && !memcmp(&x->from, from, n))
			return x;
	}
	x = oldest(f, p);
	len = fill_address(&to, &port->target->addr, port->target->port);
	x->server.fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (x->server.fd < 0 || connect(x->server.fd, (struct sockaddr *)&to, len) < 0) {
		fd_close(&x->server.fd);
		return NULL;
	}
	x->port = port;
	x->from = *from;
	x->from_len = n;
	proxy_watch(p, &x->server, EPOLLIN);
	return x;
}

/* Takes a datagram from the host to the sandbox. */
static void take_in(struct forward *f, struct proxy *p, struct watch *port)
{
	struct sockaddr_storage from = { 0 };
	socklen_t n = sizeof(from);
	ssize_t got = recvfrom(port->fd, f->datagram, sizeof(f->datagram), 0, (struct sockaddr *)&from, &n);
	struct peer *x = got >= 0 ? peer_of(f, p, port, &from, n) : NULL;

	if (!x)
		return;
	x->used_ms = clock_ms();
	(void)!send(x->server.fd, f->datagram, (size_t)got, MSG_NOSIGNAL);
}

static void give_out(struct forward *f, const struct watch *w)
{
	struct peer *x = NULL;
	ssize_t got;
	size_t i;

	for (i = 0; i < PEERS; i++)
		if (w == &f->peers[i].server)
			x = &f->peers[i];
	if (!x || x->server.fd < 0)
		return;
	/* an error is the sandbox's "port unreachable", which cannot be passed on */
	got = recv(x->server.fd, f->datagram, sizeof(f->datagram), 0);
	if (got >= 0)
		(void)!sendto(x->port->fd, f->datagram, (size_t)got, MSG_NOSIGNAL, (struct sockaddr *)&x->from, x->from_len);
}

/* ---- the loop ---------------------------------------------------------------------------- */

static void begin_forwarding(void *ctx, struct proxy *p)
{
	struct forward *f = ctx;

	if (f->names)
		nameserver_begin(f->names, p);
}

static void serve_watch(void *ctx, struct watch *w, uint32_t events)
{
	struct forward *f = ctx;

	if (w->kind == WATCH_NAMES)
		nameserver_serve(f->names, w, events);
	else if (w->target)
		take_in(f, &f->proxy, w);
	else
		give_out(f, w);
}

/*
 * {"join": NETWORK, "pool": CIDR, "pool6": CIDR, "with6": FLAG} with the file of its names, or
 * {"part": NETWORK}.
 */
static int control_forwarding(void *ctx, const char *text, int fd, struct err *e)
{
	autojson json_t *j = json_parse(text, strlen(text), strlen(text), "message", e);
	const char *network = "", *pool = "", *pool6 = "";
	struct netcidr range, range6;
	struct namezone_place at;
	struct forward *f = ctx;
	int with6 = 0;

	if (!j || !f->names)
		return j ? err_set(e, ERR_NOT_FOUND, "the sandbox has no resolver") : -1;
	if (json_get_str(j, "part", &network, "message", e) == 1) {
		nameserver_part(f->names, network);
		return 0;
	}
	if (fd < 0 || json_get_str(j, "join", &network, "message", e) < 1 ||
	    json_get_str(j, "pool", &pool, "message", e) < 1 ||
	    json_get_str(j, "pool6", &pool6, "message", e) < 1 ||
	    json_get_bool(j, "with6", &with6, "message", e) < 0 ||
	    netcidr_parse(pool, &range, e) < 0 || netcidr_parse(pool6, &range6, e) < 0)
		return err_set(e, ERR_INTERNAL, "a message to berth-net that it does not know");
	at = (struct namezone_place){ network, &range, &range6, with6, fd };
	return nameserver_join(f->names, &at, e);
}

static void tick_forwarding(void *ctx, uint64_t now)
{
	struct forward *f = ctx;

	if (f->names)
		nameserver_tick(f->names, now);
}

static uint64_t next_forward_deadline(void *ctx, uint64_t at)
{
	struct forward *f = ctx;

	return f->names ? nameserver_next(f->names, at) : at;
}

int forward_run(struct forward *f, const char *told, uid_t uid, pid_t parent, struct err *e)
{
	struct proxy *p = &f->proxy;
	static const struct proxy_guest guest = { begin_forwarding, serve_watch, tick_forwarding, control_forwarding, next_forward_deadline };
	size_t i;

	p->counters = &f->counters;
	p->control_fd = NETHELPER_SOCK;
	p->log_fd[0] = p->log_fd[1] = p->notice_fd = p->epoll_fd = -1;
	p->listens = f->ports;
	p->listen_count = f->count;
	p->guest = &guest;
	p->guest_ctx = f;
	p->hello = told;
	for (i = 0; i < PEERS; i++)
		f->peers[i].server = (struct watch){ .kind = WATCH_DATAGRAM, .fd = -1 };
	return proxy_run(p, uid, parent, e);
}

/* ---- the relay ---- */

/* Opens the sandbox's network namespace for good: never the host's own, whose loopback it would reach. */
static int enter_relayed(struct err *e)
{
	autoclose int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	struct stat a, b;

	if (home < 0 || fstat(home, &a) < 0 || fstat(NETHELPER_NETNS, &b) < 0)
		return err_sys(e, "look at the network namespaces");
	if (a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		return err_set(e, ERR_INTERNAL, "berth-net: a relay into the host's own network");
	if (setns(NETHELPER_NETNS, CLONE_NEWNET) < 0)
		return err_sys(e, "enter the sandbox's network namespace");
	close(NETHELPER_NETNS);
	close(NETHELPER_JOB);
	return 0;
}

static int load_relay(const json_t *job, struct netpolicy *p, uint64_t *ret_uid, struct err *e)
{
	json_t *policy = NULL;

	if (json_get_obj(job, "policy", &policy, "job", e) < 1 || json_get_u64(job, "uid", ret_uid, "job", e) < 1 || *ret_uid < 65536)
		return err_set(e, ERR_INTERNAL, "berth-net: a malformed job");
	return netpolicy_load(p, policy, e) < 0 ? -1 : freeport_choose(p, e);
}

int relay_run(const json_t *job, struct err *e)
{
	struct link_plan inside = { .with6 = access("/proc/sys/net/ipv6", F_OK) == 0 };
	struct netpolicy p = { 0 };
	autofree char *text = NULL;
	autojson json_t *told = NULL;
	struct forward *f = NULL;
	pid_t parent = getppid();
	uint64_t uid = 0;
	int r = load_relay(job, &p, &uid, e);

	netaddr_loopback(4, &inside.address);
	netaddr_loopback(6, &inside.address6);
	if (r == 0)
		r = forward_open(&p, &inside, 1, &f, e);
	if (r == 0) {
		told = json_pack("{s:b,s:o}", "loopback", 1, "ports", freeport_describe(&p, &inside));
		text = told ? json_dumps(told, JSON_COMPACT) : NULL;
		r = text ? enter_relayed(e) : err_nomem(e);
	}
	netpolicy_release(&p);
	if (r == 0)
		r = forward_run(f, text, (uid_t)uid, parent, e);
	forward_free(f);
	return r;
}

/* ---- ports that are chosen ---- */

#define TRIES 32

static int bind_port(int family, int udp, uint16_t port)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	const int on = 1;
	int fd = socket(family, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if ((family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) < 0) ||
	    (family == AF_INET ? bind(fd, (struct sockaddr *)&v4, sizeof(v4)) :
				 bind(fd, (struct sockaddr *)&v6, sizeof(v6))) < 0) {
		int saved = errno;

		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	socklen_t n = sizeof(a);

	return getsockname(fd, (struct sockaddr *)&a, &n) < 0 ? 0 : ntohs(a.sin_port);
}

/* Binds port, 0 for any, on every address of both families; returns it, or 0. */
static uint16_t hold_port(int udp, uint16_t port, int held[2])
{
	held[0] = bind_port(AF_INET, udp, port);
	if (held[0] < 0)
		return 0;
	port = port ? port : port_of(held[0]);
	held[1] = port ? bind_port(AF_INET6, udp, port) : -1;
	if (port && (held[1] >= 0 || errno == EAFNOSUPPORT))
		return port;
	fd_close(&held[0]);
	return 0;
}

/*
 * A port that is free on every address, of either family; the sockets reserve it until the next
 * choice.  Of a range it is the first behind the one that was chosen before, which another sandbox had.
 */
static uint16_t choose_free_port(const struct netpublish *b, int held[2])
{
	const unsigned count = b->first ? b->last - b->first + 1U : TRIES;
	const unsigned start = b->first && b->host_port ? b->host_port - b->first + 1U : 0;
	uint16_t port = 0;
	unsigned i;

	for (i = 0; i < count && !port; i++)
		port = hold_port(b->udp, b->first ? (uint16_t)(b->first + (start + i) % count) : 0, held);
	return port;
}

static void write_text(struct netpublish *b)
{
	const char *const end = b->udp ? "/udp" : "";
	char addr[NETADDR_TEXT];

	if (!b->addr.family)
		snprintf(b->text, sizeof(b->text), "%u:%u%s", b->host_port, b->port, end);
	else
		snprintf(b->text, sizeof(b->text), b->addr.family == 4 ? "%s:%u:%u%s" : "[%s]:%u:%u%s",
			 netaddr_text(&b->addr, addr), b->host_port, b->port, end);
}

int freeport_choose(struct netpolicy *p, struct err *e)
{
	int held[NETPOLICY_PUBLISH][2];
	size_t i, n = 0;
	int r = 0;

	for (i = 0; i < p->publish_count && r == 0; i++) {
		struct netpublish *b = &p->publish[i];

		if (!b->any_port)
			continue;
		held[n][0] = held[n][1] = -1;
		b->host_port = choose_free_port(b, held[n++]);
		if (b->host_port)
			write_text(b);
		else
			r = err_set(e, ERR_NET, "publish %s: no port of the host is free", b->text);
	}
	while (n-- > 0) {
		fd_close(&held[n][0]);
		fd_close(&held[n][1]);
	}
	return r;
}

static void add_chosen_port(json_t *list, const struct netpublish *b, const char *address)
{
	json_array_append_new(list, json_pack("{s:s,s:i,s:i,s:s}", "address", address, "host_port",
					      (int)b->host_port, "port", (int)b->port, "protocol",
					      b->udp ? "udp" : "tcp"));
}

json_t *freeport_describe(const struct netpolicy *p, const struct link_plan *l)
{
	json_t *list = json_array();
	char text[NETADDR_TEXT];
	size_t i;

	for (i = 0; list && i < p->publish_count; i++) {
		const struct netpublish *b = &p->publish[i];

		if (b->addr.family) {
			add_chosen_port(list, b, netaddr_text(&b->addr, text));
			continue;
		}
		add_chosen_port(list, b, "127.0.0.1");
		if (l->with6)
			add_chosen_port(list, b, "::1");
	}
	return list;
}
