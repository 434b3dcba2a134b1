/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/net/confine.h"
#include "runtime/net/nl.h"

#define LOG_HALF_BYTES (1u << 20)	/* bytes of each of the two files */
#define EVENTS 64
#define GUEST_TEXT 4096		/* bytes of a message to the loop's further user */

void proxy_watch(struct proxy *p, struct watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	if (w->fd < 0 || events == w->events)
		return;
	epoll_ctl(p->epoll_fd, !events ? EPOLL_CTL_DEL : w->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, w->fd, &ev);
	w->events = events;
}

/* ---- the log: two files in turn, so that it has an end -------------------------------- */

static void log_line(struct proxy *p, const char *text, size_t n)
{
	if (p->group) {
		netgroup_log(p->group, p->log_fd, text, n, LOG_HALF_BYTES);
		return;
	}
	if (p->log_fd[0] < 0)
		return;
	if (p->log_bytes + n > LOG_HALF_BYTES) {
		int full = p->log_fd[0];

		p->log_fd[0] = p->log_fd[1];
		p->log_fd[1] = full;
		p->log_bytes = 0;
		if (ftruncate(p->log_fd[0], 0) < 0)
			return;
	}
	if (io_write_all(p->log_fd[0], text, n) == 0)
		p->log_bytes += n;
}

void proxy_log(struct proxy *p, const struct conn *c, const char *verdict, const char *reason)
{
	static const char *const kinds[] = { "unknown", "http", "connect", "socks5", "forward" };
	char stamp[40], addr[NETADDR_TEXT];
	autofree char *text = NULL;
	json_t *j;
	struct timespec now;
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	n = strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(stamp + n, sizeof(stamp) - n, ".%03ldZ", now.tv_nsec / 1000000);
	j = json_pack("{s:s,s:s}", "time", stamp, "verdict", verdict);
	if (p->group)
		json_object_set_new(j, "sandbox", json_string(p->id));
	if (c) {
		json_object_set_new(j, "protocol", json_string(kinds[c->kind]));
		if (c->target.name[0]) {
			json_object_set_new(j, "host", json_string(c->target.name));
			json_object_set_new(j, "port", json_integer(c->target.port));
		}
		if (c->http.method[0])
			json_object_set_new(j, "method", json_string(c->http.method));
		if (c->peer.family)
			json_object_set_new(j, "address", json_string(netaddr_text(&c->peer, addr)));
		if (c->rule[0])
			json_object_set_new(j, "rule", json_string(c->rule));
		json_object_set_new(j, "bytes_out", json_integer((json_int_t)c->bytes_out));
		json_object_set_new(j, "bytes_in", json_integer((json_int_t)c->bytes_in));
		json_object_set_new(j, "ms", json_integer((json_int_t)(clock_ms() - c->started_ms)));
	}
	if (reason)
		json_object_set_new(j, "reason", json_string(reason));
	text = json_dumps(j, JSON_COMPACT | JSON_ENSURE_ASCII);
	json_decref(j);
	if (!text)
		return;
	n = strlen(text);
	text[n] = '\n';	/* in place of the NUL: one write, one line */
	log_line(p, text, n + 1);
	/* full, or without a reader: then only the log has it */
	if (p->notice_fd >= 0 && (!strcmp(verdict, "deny") || !strcmp(verdict, "cut")))
		(void)!send(p->notice_fd, text, n < NETHELPER_NOTICE_MAX ? n : NETHELPER_NOTICE_MAX, MSG_DONTWAIT | MSG_NOSIGNAL);
}

uint64_t proxy_bytes_left(const struct proxy *p)
{
	uint64_t used = p->used_bytes + p->counters->bytes_in + p->counters->bytes_out;

	uint64_t own = !p->policy.max_bytes ? UINT64_MAX :
			p->policy.max_bytes > used ? p->policy.max_bytes - used : 0;
	uint64_t all = p->group ? netgroup_bytes_left(p->group, p->policy.group->max_bytes) :
				  UINT64_MAX;

	return own < all ? own : all;
}

/* Returns which of the network's own budgets is used up, or NULL. */
static const char *group_exhausted(const struct proxy *p)
{
	const struct netpolicy *g = p->group ? p->policy.group : NULL;

	if (g && !netgroup_bytes_left(p->group, g->max_bytes))
		return "the byte budget of the network (--network-bytes) is used up";
	if (g && g->max_connections && p->group->connections >= g->max_connections)
		return "the connection budget of the network (--network-connections) is used up";
	return NULL;
}

const char *proxy_exhausted(const struct proxy *p)
{
	const char *why = group_exhausted(p);

	if (why)
		return why;
	if (!proxy_bytes_left(p))
		return "the byte budget (--network-bytes) is used up";
	if (p->policy.max_connections && p->used_connections + p->counters->allowed >= p->policy.max_connections)
		return "the connection budget (--network-connections) is used up";
	return NULL;
}

/* ---- the supervisor --------------------------------------------------------------------- */

static void tell_proxy_supervisor(struct proxy *p, const struct err *e, uint64_t cut)
{
	const size_t room = p->hello ? strlen(p->hello) + 1 : 64;
	autofree char *packet = malloc(sizeof(*e) + room);
	int n;

	if (!packet)
		return;
	n = p->hello ? snprintf(packet + sizeof(*e), room, "%s", p->hello) :
		       snprintf(packet + sizeof(*e), room, "{\"cut\":%llu}", (unsigned long long)cut);
	memcpy(packet, e, sizeof(*e));
	(void)!send(p->control_fd, packet, sizeof(*e) + (size_t)n, MSG_NOSIGNAL);
}

static int read_proxy_policy(int fd, struct netpolicy *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT(NETPOLICY_JSON_MAX);
	autojson json_t *j = NULL;

	if (io_read_all(fd, &b, "network policy", e) < 0)
		return -1;
	j = json_parse(b.data ? b.data : "", b.len, NETPOLICY_JSON_MAX, "network policy", e);
	return j ? netpolicy_load(ret, j, e) : -1;
}

/* The guest's answer; if we are killed in between, our parent's death ends the guest. */
static void serve_guest(struct proxy *p)
{
	char text[GUEST_TEXT + 1];
	struct err e = { 0 };
	autoclose int fd = -1;
	size_t count = 0;
	ssize_t n = fdpass_recv(p->control_fd, text, GUEST_TEXT, &fd, 1, &count);

	if (n <= 0) {
		p->stopping = 1;	/* the supervisor is gone */
		return;
	}
	text[n] = '\0';
	if (!p->guest->control)
		err_set(&e, ERR_INTERNAL, "a message to berth-net that it does not know");
	else if (p->guest->control(p->guest_ctx, text, count ? fd : -1, &e) == 0)
		e = (struct err){ 0 };
	p->hello = "{}";
	tell_proxy_supervisor(p, &e, 0);
}

/* Applies a new policy as a whole, and at once also to open connections. */
static void serve_control(struct proxy *p)
{
	autofree struct netpolicy *fresh = calloc(1, sizeof(*fresh));
	autoclose int fd = -1;
	struct err e = { 0 };
	struct conn *c;
	uint64_t cut = 0;
	size_t count = 0;
	char byte;

	if (fdpass_recv(p->control_fd, &byte, 1, &fd, 1, &count) <= 0) {
		p->stopping = 1;	/* the supervisor is gone */
		return;
	}
	if (!fresh || count != 1)
		err_set(&e, ERR_INTERNAL, "a message to the proxy without a policy");
	else if (read_proxy_policy(fd, fresh, &e) < 0)
		netpolicy_release(fresh);
	else if (!fresh->group != !p->group) {
		netpolicy_release(fresh);
		err_set(&e, ERR_INTERNAL, "a policy of another network");
	}
	if (fresh && e.code == ERR_NONE) {
		if (fresh->max_rate != p->policy.max_rate)
			p->rate_out = p->rate_in = (struct netrate){ .at_ms = clock_ms() };
		netpolicy_release(&p->policy);
		p->policy = *fresh;
		p->counters->exhausted = proxy_exhausted(p) != NULL;
		for (c = p->conns; c; c = c->next)
			cut += (uint64_t)conn_recheck(c);
		p->counters->cut += cut;
		proxy_log(p, NULL, "policy", "changed");
	}
	tell_proxy_supervisor(p, &e, cut);
}

/* ---- the loop ----------------------------------------------------------------------------- */

static void watch_dns(void *ctx, int fd, int readable, int writable)
{
	struct proxy *p = ctx;
	struct watch *w = NULL;
	size_t i;

	for (i = 0; i < ARRAY_LEN(p->dns); i++)
		if (p->dns[i].events && p->dns[i].fd == fd)
			w = &p->dns[i];
	for (i = 0; !w && i < ARRAY_LEN(p->dns); i++)
		if (!p->dns[i].events)
			w = &p->dns[i];
	if (!w)
		return;	/* the question times out */
	w->kind = WATCH_RESOLVER;
	w->fd = fd;
	proxy_watch(p, w, (readable ? EPOLLIN : 0) | (writable ? EPOLLOUT : 0));
}

static void serve_proxy_watch(struct proxy *p, struct watch *w, uint32_t events)
{
	switch (w->kind) {
	case WATCH_LISTEN:
		conn_accept(p, w);
		break;
	case WATCH_CONTROL:
		if (p->guest)
			serve_guest(p);
		else
			serve_control(p);
		break;
	case WATCH_DATAGRAM:
	case WATCH_NAMES:
		if (w->events)
			p->guest->serve(p->guest_ctx, w, events);
		break;
	case WATCH_RESOLVER:
		if (w->events)
			resolver_serve(p->resolver, events & ~(uint32_t)EPOLLOUT ? w->fd : -1, events & EPOLLOUT ? w->fd : -1);
		break;
	default:
		if (w->conn->state != CONN_DEAD)
			conn_serve(w->conn, w, events);
	}
}

/* Freed only here, between two rounds: events of this one may still point to it. */
static void bury_connections(struct proxy *p)
{
	struct conn **at = &p->conns, *c;
	size_t i;

	while ((c = *at)) {
		if (c->state != CONN_DEAD || c->asking) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		conn_free(c);
		p->conn_count--;
	}
	p->counters->open = p->conn_count;
	for (i = 0; i < p->listen_count; i++)
		if (p->listens[i].kind == WATCH_LISTEN)
			proxy_watch(p, &p->listens[i], p->conn_count < PROXY_CONNECTIONS ? EPOLLIN : 0);
}

/* Returns when a rate that holds connections back allows more bytes; 0: it holds none back. */
static uint64_t rate_at(const struct proxy *p, uint64_t now)
{
	const uint64_t out = netrate_wait_ms(&p->rate_out, p->policy.max_rate);
	const uint64_t in = netrate_wait_ms(&p->rate_in, p->policy.max_rate);
	const uint64_t first = out && (!in || out < in) ? out : in;

	return p->conns && first ? now + first : 0;
}

static int next_proxy_timeout(const struct proxy *p)
{
	uint64_t now = clock_ms(), at = now + 60000;
	const struct conn *c;

	for (c = p->conns; c; c = c->next)
		if (c->state != CONN_DEAD && c->deadline_ms && c->deadline_ms < at)
			at = c->deadline_ms;
	at = clock_earlier(at, rate_at(p, now));
	if (p->guest)
		at = p->guest->next(p->guest_ctx, at);
	at = at > now ? at - now : 0;
	return p->resolver ? resolver_timeout(p->resolver, (int)at) : (int)at;
}

/* Reads again from connections that the rate held back, as far as it allows. */
static void rate_update(struct proxy *p)
{
	struct conn *c;

	if (!p->policy.max_rate && !p->rate_out.at_ms && !p->rate_in.at_ms)
		return;
	for (c = p->conns; c; c = c->next)
		if (c->state == CONN_RELAY || c->state == CONN_HEAD)
			conn_update(c);
	if (!p->policy.max_rate)	/* the rate was removed */
		p->rate_out = p->rate_in = (struct netrate){ 0 };
}

static void run_proxy_loop(struct proxy *p)
{
	struct epoll_event ev[EVENTS];
	struct conn *c;
	uint64_t now;
	int i, n;

	while (!p->stopping) {
		n = epoll_wait(p->epoll_fd, ev, EVENTS, next_proxy_timeout(p));
		for (i = 0; i < n; i++)
			serve_proxy_watch(p, ev[i].data.ptr, ev[i].events);
		if (p->resolver)
			resolver_serve(p->resolver, -1, -1);
		now = clock_ms();
		if (p->guest)
			p->guest->tick(p->guest_ctx, now);
		for (c = p->conns; c; c = c->next)
			if (c->state != CONN_DEAD && c->deadline_ms && now >= c->deadline_ms)
				conn_deadline(c, now);
		rate_update(p);
		bury_connections(p);
	}
}

int proxy_run(struct proxy *p, uid_t uid, pid_t parent, struct err *e)
{
	struct err ready = { 0 };
	size_t i;
	off_t end = p->log_fd[0] >= 0 ? lseek(p->log_fd[0], 0, SEEK_END) : 0;

	p->log_bytes = end > 0 ? (size_t)end : 0;
	p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll_fd < 0)
		return err_sys(e, "make an epoll");
	if (!p->guest && !(p->resolver = resolver_new(&p->policy, watch_dns, p, e)))
		return -1;
	if (confine(uid, parent, e) < 0)
		return -1;
	p->control = (struct watch){ .kind = WATCH_CONTROL, .fd = p->control_fd };
	for (i = 0; i < p->listen_count; i++)
		proxy_watch(p, &p->listens[i], EPOLLIN);
	proxy_watch(p, &p->control, EPOLLIN);
	if (p->guest)
		p->guest->begin(p->guest_ctx, p);
	tell_proxy_supervisor(p, &ready, 0);
	run_proxy_loop(p);
	return 0;
}

/* ---- berth-net as the proxy of one sandbox ---- */

/* Opens a listening socket in the sandbox's namespace, and stays there only for that. */
static int listen_inside(int *ret, struct err *e)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(NETHELPER_PROXY_PORT) };
	autoclose int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), fd = -1;
	int failed = 0, one = 1;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (home < 0 || setns(NETHELPER_NETNS, CLONE_NEWNET) < 0)
		return err_sys(e, "enter the sandbox's network namespace");
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0)
		failed = err_sys(e, "listen on 127.0.0.1:%d in the sandbox", NETHELPER_PROXY_PORT);
	if (setns(home, CLONE_NEWNET) < 0)
		return err_sys(e, "return from the sandbox's network namespace");
	if (failed)
		return -1;
	*ret = take_fd(&fd);
	return 0;
}

static int egress_log_fd(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fd : -1;	/* /dev/null: none is wanted */
}

static int prepare_egress(struct proxy *p, const json_t *job, uint64_t *ret_uid, struct err *e)
{
	json_t *policy = NULL;
	const char *id = "";
	off_t a, b;

	if (json_get_str(job, "id", &id, "job", e) < 1 || json_get_u64(job, "uid", ret_uid, "job", e) < 1 ||
	    json_get_u64(job, "used_bytes", &p->used_bytes, "job", e) < 0 ||
	    json_get_u64(job, "used_connections", &p->used_connections, "job", e) < 0 ||
	    json_get_bool(job, "lasts", &p->lasts, "job", e) < 1 || json_get_obj(job, "policy", &policy, "job", e) < 1 || *ret_uid < 65536)
		return err_set(e, ERR_INTERNAL, "berth-net: a malformed job");
	snprintf(p->id, sizeof(p->id), "%s", id);
	if (netpolicy_load(&p->policy, policy, e) < 0)
		return -1;
	p->counters = mmap(NULL, sizeof(*p->counters), PROT_READ | PROT_WRITE, MAP_SHARED, NETHELPER_COUNTERS, 0);
	if (p->counters == MAP_FAILED)
		return err_sys(e, "map the counters");
	if (p->policy.group && !(p->group = netgroup_map(NETHELPER_GROUP, e)))
		return -1;
	p->control_fd = NETHELPER_SOCK;
	p->notice_fd = NETHELPER_NOTICE;
	p->counters->exhausted = proxy_exhausted(p) != NULL;
	p->log_fd[0] = egress_log_fd(NETHELPER_LOG);
	p->log_fd[1] = egress_log_fd(NETHELPER_LOG_OLD);
	if (p->log_fd[0] >= 0 && !p->group) {
		/* continue the file that was written last: the one that is not full */
		a = lseek(p->log_fd[0], 0, SEEK_END);
		b = lseek(p->log_fd[1], 0, SEEK_END);
		if (a > b && b > 0 && a >= 1 << 19) {
			p->log_fd[0] = NETHELPER_LOG_OLD;
			p->log_fd[1] = NETHELPER_LOG;
		}
	}
	p->route = route_open(e);
	return p->route ? 0 : -1;
}

int egress_probe(const json_t *job, struct err *e)
{
	struct err ok = { 0 };
	uint64_t uid = 0;

	if (json_get_u64(job, "uid", &uid, "job", e) < 1 || confine((uid_t)uid, getppid(), e) < 0)
		return -1;
	(void)!send(NETHELPER_SOCK, &ok, sizeof(ok), MSG_NOSIGNAL);
	return 0;
}

int egress_run(const json_t *job, struct err *e)
{
	struct proxy *p = calloc(1, sizeof(*p));
	pid_t parent = getppid();
	uint64_t uid = 0;
	int r = -1;

	if (!p)
		return err_nomem(e);
	p->epoll_fd = -1;
	p->listen = (struct watch){ .kind = WATCH_LISTEN, .fd = -1 };
	p->listens = &p->listen;
	p->listen_count = 1;
	if (prepare_egress(p, job, &uid, e) == 0 && listen_inside(&p->listen.fd, e) == 0) {
		close(NETHELPER_NETNS);	/* otherwise the namespace would exist as long as we do */
		close(NETHELPER_JOB);
		r = proxy_run(p, (uid_t)uid, parent, e);
	}
	free(p);
	return r;
}
