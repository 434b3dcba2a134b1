/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth forward: ports of this host that lead to ports of a sandbox's loopback, whatever its
 * network.  Upholds S57 of SECURITY.md.
 *
 * For each connection that comes in, the keeper hands over a socket of the sandbox's network
 * namespace that connects to the port (keeper_network.c); both are then joined (base/joint.h).
 * One loop, in which nothing waits; its memory is that of FORWARD_MOST places from the start.
 * When all are taken, further connections wait in the kernel's queue.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/joint.h"
#include "base/mem.h"
#include "base/netaddr.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/forwards.h"
#include "cli/live/sandbox_open.h"
#include "cli/live/stdioway.h"
#include "manager/keeper/netclient.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

#define FORWARD_MOST 1024	/* connections at once */
#define FORWARD_PORTS 64
#define FORWARD_FILES 6		/* of a connection: two sockets, a pipe in each direction */
#define FORWARD_OTHERS 128	/* descriptors of everything else */
#define FORWARD_ASKED 16	/* requests that the keeper has not answered */
#define FORWARD_BATCH 64
#define FORWARD_RETRY_MS 200	/* after the host had no descriptor left */

enum { OPT_JSON = 1, OPT_STDIO, OPT_VERBOSE, OPT_DETACH };

static const struct opt options[] = {
	{ "detach", 'd', OPT_FLAG, NULL, "go on in the background once it listens", OPT_DETACH },
	{ "stdio", 0, OPT_FLAG, NULL, "join standard input and output to the port, as a ProxyCommand", OPT_STDIO },
	{ "verbose", 'v', OPT_FLAG, NULL, "tell of each connection that failed", OPT_VERBOSE },
	{ "json", 0, OPT_FLAG, NULL, "print the ports as JSON, one a line, errors too", OPT_JSON },
};

struct forward_options {
	int json, stdio, verbose, detach;
};

enum forward_kind { FORWARD_KEEPER, FORWARD_SIGNAL, FORWARD_LISTENER, FORWARD_CONN };

/* What an event of the loop is about; the first member of what it is in. */
struct forward_source {
	enum forward_kind kind;
};

struct forward_port {
	struct forward_source source;
	struct netaddr address;
	uint16_t outside, inside;	/* outside 0: any */
	int fd;
};

enum forward_phase {
	CONN_FREE,
	CONN_ASKS,		/* for a socket of the sandbox */
	CONN_CONNECTS,
	CONN_JOINED,
	CONN_DEAD,		/* free at the end of this turn: an event may still name it */
};

struct forward_conn {
	struct forward_source source;
	enum forward_phase phase;
	const struct forward_port *port;
	int with6;			/* it was refused at 127.0.0.1 */
	int busy;			/* it is in the list of those with more to move */
	struct joint joint;		/* fd[0]: the client's */
	struct forward_conn *next, *next_busy;
};

struct forward_queue {
	struct forward_conn *first, *last;
};

struct forward {
	struct sandbox_ref s;
	int epoll_fd, signal_fd, verbose;
	int record_fd;			/* forwards.h; -1: it runs in the foreground */
	struct forward_source keeper, signals;
	struct forward_port ports[FORWARD_PORTS];
	size_t port_count;
	struct forward_conn *conns;	/* FORWARD_MOST, or fewer: most */
	struct forward_conn *unused, *dead, *busy;
	struct forward_queue waiting, asked;
	size_t asked_count;
	size_t most;
	int muted;			/* the listeners are not looked at */
	struct joint_spares spares;
};

static void forward_put(struct forward_queue *q, struct forward_conn *c)
{
	c->next = NULL;
	if (q->first)
		q->last->next = c;
	else
		q->first = c;
	q->last = c;
}

static struct forward_conn *forward_take(struct forward_queue *q)
{
	struct forward_conn *c = q->first;

	if (c)
		q->first = c->next;
	return c;
}

/* ---- [[HOST:]PORT:]PORT ---- */

static int refuse_forward_word(const char *word, const char *why, struct err *e)
{
	return err_set(e, ERR_USAGE, "'%.80s' is not a port to forward: %s; hint: 8000, 8080:8000, 0:8000 or "
		       "[::1]:8080:8000", word, why);
}

/* host is written in word, or NULL. */
static int parse_forward_host(const char *word, char *host, struct netaddr *ret, struct err *e)
{
	size_t n = host ? strlen(host) : 0;

	if (!host || !strcmp(host, "localhost")) {
		netaddr_loopback(4, ret);
		return 0;
	}
	if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		if (netaddr_parse(host + 1, ret) == 0 && strchr(host + 1, ':'))
			return 0;
	} else if (!strchr(host, ':') && netaddr_parse(host, ret) == 0) {
		return 0;
	}
	return refuse_forward_word(word, "its host is no address, or an IPv6 address without [ ]", e);
}

static int parse_forward(const char *word, struct forward_port *p, struct err *e)
{
	autofree char *copy = strdup(word);
	char *inside, *outside, *host = NULL;
	uint64_t number;

	*p = (struct forward_port){ .source = { FORWARD_LISTENER }, .fd = -1 };
	if (!copy)
		return err_nomem(e);
	outside = inside = strrchr(copy, ':');
	if (inside) {
		*inside++ = '\0';
		outside = strrchr(copy, ':');
		/* a colon in brackets is the address's */
		if (outside && !strchr(outside, ']')) {
			*outside++ = '\0';
			host = copy;
		} else {
			outside = copy;
		}
	}
	if (num_u64(inside ? inside : copy, "port", 1, UINT16_MAX, &number, e) < 0)
		return refuse_forward_word(word, "the port in the sandbox is a number from 1 to 65535", e);
	p->inside = p->outside = (uint16_t)number;
	if (outside && num_u64(outside, "port", 0, UINT16_MAX, &number, e) < 0)
		return refuse_forward_word(word, "the port of this host is a number from 0 to 65535, where 0 is a free one", e);
	if (outside)
		p->outside = (uint16_t)number;
	return parse_forward_host(word, host, &p->address, e);
}

static void forward_port_text(const struct forward_port *p, char out[NETADDR_TEXT + 10])
{
	char text[NETADDR_TEXT];

	netaddr_text(&p->address, text);
	snprintf(out, NETADDR_TEXT + 10, p->address.family == 6 ? "[%s]:%d" : "%s:%d", text, p->outside);
}

static int listen_at(struct forward_port *p, struct err *e)
{
	const int family = p->address.family == 6 ? AF_INET6 : AF_INET, one = 1;
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons(p->outside) };
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons(p->outside) };
	struct sockaddr *a = family == AF_INET6 ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4;
	socklen_t n = family == AF_INET6 ? sizeof(a6) : sizeof(a4);
	char text[NETADDR_TEXT + 10];

	forward_port_text(p, text);
	memcpy(&a6.sin6_addr, p->address.b, sizeof(a6.sin6_addr));
	memcpy(&a4.sin_addr, p->address.b, sizeof(a4.sin_addr));
	p->fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->fd < 0)
		return err_sys(e, "make a socket for %s", text);
	/* a port for IPv6 is for nothing else */
	if (family == AF_INET6 && setsockopt(p->fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0)
		return err_sys(e, "listen on %s", text);
	if (setsockopt(p->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 || bind(p->fd, a, n) < 0 ||
	    listen(p->fd, SOMAXCONN) < 0)
		return errno == EADDRINUSE ?
			       err_set(e, ERR_EXISTS, "listen on %s: it is in use; hint: 0:%d takes a free port", text, p->inside) :
			       err_sys(e, "listen on %s", text);
	if (getsockname(p->fd, a, &n) < 0)
		return err_sys(e, "ask for the port of %s", text);
	p->outside = ntohs(family == AF_INET6 ? a6.sin6_port : a4.sin_port);
	return 0;
}

static json_t *describe_forward_port(const struct forward_port *p)
{
	char text[NETADDR_TEXT];

	netaddr_text(&p->address, text);
	return json_pack("{s:s,s:i,s:i,s:s}", "address", text, "host_port", p->outside, "port", p->inside, "protocol", "tcp");
}

static int tell_forward_port(const struct forward_port *p, int json, struct err *e)
{
	char text[NETADDR_TEXT + 10];
	autojson json_t *j = NULL;

	if (json) {
		j = describe_forward_port(p);
		return j ? command_print_json(j, JSON_COMPACT, e) : err_nomem(e);
	}
	forward_port_text(p, text);
	if (printf("%s -> %d\n", text, p->inside) < 0 || fflush(stdout) == EOF)
		return err_sys(e, "write to standard output");
	return 0;
}

/* ---- connections ---- */

static int watch_forwarded(struct forward *f, int fd, struct forward_source *what, uint32_t events, struct err *e)
{
	struct epoll_event ev = { .events = events, .data.ptr = what };

	return epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? err_sys(e, "watch a descriptor") : 0;
}

static void mute_listeners(struct forward *f, int muted)
{
	size_t i;

	if (f->muted == muted)
		return;
	for (i = 0; i < f->port_count; i++) {
		struct epoll_event ev = { .events = muted ? 0 : EPOLLIN, .data.ptr = &f->ports[i].source };

		(void)!epoll_ctl(f->epoll_fd, EPOLL_CTL_MOD, f->ports[i].fd, &ev);
	}
	f->muted = muted;
}

/* why: NULL when it ended as it should. */
static void drop_forwarded(struct forward *f, struct forward_conn *c, const char *why)
{
	char text[NETADDR_TEXT + 10];

	if (why && f->verbose) {
		forward_port_text(c->port, text);
		fprintf(stderr, "berth forward: %s -> %d: %s\n", text, c->port->inside, why);
	}
	joint_release(&c->joint, 1);
	c->phase = CONN_DEAD;
	c->next = f->dead;
	f->dead = c;
}

/* The places of those that ended in this turn are free. */
static void bury_forwarded(struct forward *f)
{
	struct forward_conn *c;

	while ((c = f->dead)) {
		f->dead = c->next;
		c->phase = CONN_FREE;
		c->next = f->unused;
		f->unused = c;
		mute_listeners(f, 0);
	}
}

/* Asks for those that wait, as many as the keeper may have before it. */
static int ask_keeper(struct forward *f, struct err *e)
{
	struct forward_conn *c;

	while (f->asked_count < FORWARD_ASKED && (c = forward_take(&f->waiting))) {
		autojson json_t *rq = netport_request(c->port->inside, c->with6);

		forward_put(&f->asked, c);
		f->asked_count++;
		if (wire_request(f->s.sock, rq, NULL, 0, e) < 0)
			return -1;
	}
	return 0;
}

static int accept_forwarded(struct forward *f, const struct forward_port *p)
{
	struct forward_conn *c;
	int fd;

	while ((c = f->unused)) {
		fd = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS ? -1 : 0;
		joint_keep_alive(fd);
		f->unused = c->next;
		*c = (struct forward_conn){ .source = { FORWARD_CONN }, .phase = CONN_ASKS, .port = p, .joint = JOINT_INIT };
		c->joint.fd[0] = fd;
		forward_put(&f->waiting, c);
	}
	return -1;
}

static void move_forwarded(struct forward *f, struct forward_conn *c, uint32_t events)
{
	int r;

	/* what was received before a reset is still passed on */
	do
		r = joint_move(&c->joint, &f->spares);
	while (r > 0 && events & EPOLLERR);
	if (r < 0 || events & EPOLLERR) {
		drop_forwarded(f, c, NULL);
	} else if (r > 0 && !c->busy) {
		c->busy = 1;
		c->next_busy = f->busy;
		f->busy = c;
	}
}

static const uint32_t both_ways = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

static void forward_connected(struct forward *f, struct forward_conn *c)
{
	struct sockaddr_storage peer;
	socklen_t n = sizeof(int), size = sizeof(peer);
	int why = 0;
	struct err e;

	if (getsockopt(c->joint.fd[1], SOL_SOCKET, SO_ERROR, &why, &n) < 0)
		why = errno;
	if (!why && getpeername(c->joint.fd[1], (struct sockaddr *)&peer, &size) < 0)
		return;		/* it still connects */
	if (why && !c->with6) {
		c->with6 = 1;
		c->phase = CONN_ASKS;
		fd_close(&c->joint.fd[1]);
		forward_put(&f->waiting, c);
	} else if (why) {
		drop_forwarded(f, c, why == ETIMEDOUT ? "the server there takes no connection" :
						       "nothing listens on that port in the sandbox");
	} else {
		c->phase = CONN_JOINED;
		joint_keep_alive(c->joint.fd[1]);
		if (watch_forwarded(f, c->joint.fd[0], &c->source, both_ways, &e) < 0)
			drop_forwarded(f, c, e.msg);
		else
			move_forwarded(f, c, 0);
	}
}

/* The keeper answers in the order of the requests.  -1: it is not there any more, or e. */
static int take_forwarded(struct forward *f, struct err *e)
{
	struct forward_conn *c;
	struct err refused = { 0 };
	json_t *answer;
	size_t count;
	int fd = -1, got = wire_recv(f->s.sock, 0, &answer, &fd, 1, &count, e);

	if (got < 0 && e->code == ERR_TIMEOUT)
		return 0;
	if (got <= 0)
		return got < 0 ? -1 : wire_ended(e);
	c = forward_take(&f->asked);
	f->asked_count -= c != NULL;
	if (!count)
		fd = -1;
	if (wire_check(answer, &refused) == 0 && fd < 0)
		err_set(&refused, ERR_INTERNAL, "the keeper answered without a socket");
	if (!c) {
		fd_close(&fd);
	} else if (fd >= 0) {
		c->joint.fd[1] = fd;
		c->phase = CONN_CONNECTS;
		if (watch_forwarded(f, fd, &c->source, both_ways, &refused) < 0)
			drop_forwarded(f, c, refused.msg);
	} else if (!c->with6 && refused.code == ERR_NOT_FOUND) {
		c->with6 = 1;
		forward_put(&f->waiting, c);
	} else {
		drop_forwarded(f, c, refused.code == ERR_NOT_FOUND ? "nothing listens on that port in the sandbox" : refused.msg);
	}
	json_decref(answer);
	return 0;
}

/* ---- the loop ---- */

/* 1: a signal asks to end. */
static int serve_forwarded(struct forward *f, const struct epoll_event *ev, int *retry, struct err *e)
{
	struct forward_source *what = ev->data.ptr;
	struct forward_conn *c;

	switch (what->kind) {
	case FORWARD_SIGNAL:
		return 1;
	case FORWARD_KEEPER:
		return take_forwarded(f, e);
	case FORWARD_LISTENER:
		if (accept_forwarded(f, (struct forward_port *)what) < 0) {
			*retry |= f->unused != NULL;
			mute_listeners(f, 1);
		}
		return 0;
	case FORWARD_CONN:
		c = (struct forward_conn *)what;
		if (c->phase == CONN_CONNECTS)
			forward_connected(f, c);
		else if (c->phase == CONN_JOINED)
			move_forwarded(f, c, ev->events);
		return 0;
	}
	return 0;
}

static void move_busy(struct forward *f)
{
	struct forward_conn *c, *list = f->busy;

	f->busy = NULL;
	while ((c = list)) {
		list = c->next_busy;
		c->busy = 0;
		if (c->phase == CONN_JOINED)
			move_forwarded(f, c, 0);
	}
}

static int forward_loop(struct forward *f, struct err *e)
{
	struct epoll_event ev[FORWARD_BATCH];
	int i, n, r = 0, retry = 0;

	while (r == 0) {
		n = epoll_wait(f->epoll_fd, ev, FORWARD_BATCH, f->busy ? 0 : retry ? FORWARD_RETRY_MS : -1);
		if (n < 0 && errno != EINTR)
			return err_sys(e, "wait for connections");
		if (n == 0 && retry) {
			retry = 0;
			mute_listeners(f, 0);
		}
		move_busy(f);
		for (i = 0; i < n && r == 0; i++)
			r = serve_forwarded(f, &ev[i], &retry, e);
		bury_forwarded(f);
		if (r == 0)
			r = ask_keeper(f, e);
	}
	if (r < 0 && e->code == ERR_NOT_FOUND)
		return err_set(e, ERR_NOT_FOUND, "sandbox %s has stopped; hint: berth start %s, then forward again", f->s.id, f->s.id);
	return r < 0 ? -1 : 0;
}

/* Those that the caller ignores stay ignored, as in the background of a shell. */
static int watch_end_signals(struct forward *f, struct err *e)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction now;
	sigset_t set;
	size_t i;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	for (i = 0; i < ARRAY_LEN(ends); i++)
		if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
			sigaddset(&set, ends[i]);
	f->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (f->signal_fd < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_sys(e, "take signals");
	return watch_forwarded(f, f->signal_fd, &f->signals, EPOLLIN, e);
}

static int make_places(struct forward *f, struct err *e)
{
	struct rlimit limit;
	size_t i, files;

	io_allow_files(FORWARD_MOST * FORWARD_FILES + FORWARD_OTHERS);
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return err_sys(e, "read the limit of open files");
	files = limit.rlim_cur > FORWARD_MOST * FORWARD_FILES + FORWARD_OTHERS ? FORWARD_MOST * FORWARD_FILES + FORWARD_OTHERS :
										(size_t)limit.rlim_cur;
	if (files < FORWARD_OTHERS + FORWARD_FILES)
		return err_set(e, ERR_LIMIT, "a forward takes %d open files, and the limit is %zu; hint: ulimit -n 8192",
			       FORWARD_OTHERS + FORWARD_FILES, files);
	f->most = (files - FORWARD_OTHERS) / FORWARD_FILES;
	f->conns = calloc(f->most, sizeof(*f->conns));
	if (!f->conns)
		return err_nomem(e);
	for (i = f->most; i-- > 0;) {
		f->conns[i].joint = (struct joint)JOINT_INIT;
		f->conns[i].next = f->unused;
		f->unused = &f->conns[i];
	}
	return 0;
}

/* The keeper says whether it could: not of a sandbox with the host's network, nor an older keeper. */
static int check_forwarded(struct forward *f, const char *ref, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_port), *answer = NULL;

	if (sandbox_ref_connect(&f->s, ref, 0, e) < 0)
		return -1;
	answer = keeper_call(f->s.sock, rq, NULL, 0, NULL, e);
	return answer ? 0 : -1;
}

static int forward_begin(struct forward *f, const char *ref, char **words, int json, struct err *e)
{
	size_t i;

	for (i = 0; i < f->port_count; i++)
		if (parse_forward(words[i], &f->ports[i], e) < 0)
			return -1;
	f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (f->epoll_fd < 0)
		return err_sys(e, "make an epoll");
	if (check_forwarded(f, ref, e) < 0 || make_places(f, e) < 0 || watch_end_signals(f, e) < 0 ||
	    watch_forwarded(f, f->s.sock, &f->keeper, EPOLLIN, e) < 0)
		return -1;
	for (i = 0; i < f->port_count; i++)
		if (listen_at(&f->ports[i], e) < 0 ||
		    watch_forwarded(f, f->ports[i].fd, &f->ports[i].source, EPOLLIN, e) < 0)
			return -1;
	for (i = 0; i < f->port_count; i++)
		if (tell_forward_port(&f->ports[i], json, e) < 0)
			return -1;
	return 0;
}

/* ---- in the background ---- */

/* The process is told to its caller, to others, and has nothing of the caller's any more. */
static int forward_detached(struct forward *f, const char *ref, int told_fd, struct err *e)
{
	autojson json_t *ports = json_array(), *what = NULL;
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	size_t i;
	int fd;

	for (i = 0; i < f->port_count; i++)
		json_array_append_new(ports, describe_forward_port(&f->ports[i]));
	what = json_pack("{s:s,s:s,s:O}", "sandbox", f->s.id, "name", ref, "ports", ports);
	if (!what)
		return err_nomem(e);
	f->record_fd = forwards_record(f->s.registry.run_fd, what, e);
	if (f->record_fd < 0)
		return -1;
	for (fd = 0; fd < 3; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			return err_sys(e, "leave the caller's descriptors");
	(void)!chdir("/");
	return io_write_all(told_fd, &(struct err){ 0 }, sizeof(*e)) < 0 ? err_sys(e, "report that it listens") : 0;
}

static int run_forward(const struct forward_options *o, const char *ref, char **words, size_t count, int told_fd, struct err *e);

/* Forks, and returns what the child reports: that it listens, or why not. */
static int detach_forward(const struct forward_options *o, const char *ref, char **words, size_t count, struct err *e)
{
	struct err told = { 0 };
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	pid = fork();
	if (pid == 0) {
		setsid();
		umask(077);
		if (dup2(fds[1], 3) < 0)
			_exit(125);
		/* a pipe of the caller's that stays open would make others wait for its end */
		syscall(SYS_close_range, 4, ~0U, 0);
		if (run_forward(o, ref, words, count, 3, &told) < 0)
			(void)!io_write_all(3, &told, sizeof(told));
		_exit(0);
	}
	close(fds[1]);
	if (pid < 0)
		err_sys(&told, "start a process for the forward");
	else if (io_read_exact(fds[0], &told, sizeof(told)) != 1)
		err_set(&told, ERR_INTERNAL, "the forward ended without a word");
	close(fds[0]);
	*e = told;
	return told.code == ERR_NONE ? 0 : -1;
}

static int run_forward(const struct forward_options *o, const char *ref, char **words, size_t count, int told_fd, struct err *e)
{
	autofree struct forward *f = calloc(1, sizeof(*f));
	size_t i;
	int r;

	if (!f)
		return err_nomem(e);
	if (count > FORWARD_PORTS)
		return err_set(e, ERR_USAGE, "%zu ports; a forward has at most %d", count, FORWARD_PORTS);
	sandbox_ref_init(&f->s);
	f->verbose = o->verbose;
	f->epoll_fd = f->signal_fd = f->record_fd = -1;
	f->keeper.kind = FORWARD_KEEPER;
	f->signals.kind = FORWARD_SIGNAL;
	f->port_count = count;
	for (i = 0; i < FORWARD_PORTS; i++)
		f->ports[i].fd = -1;
	r = forward_begin(f, ref, words, o->json, e);
	if (r == 0 && told_fd >= 0) {
		r = forward_detached(f, ref, told_fd, e);
		if (r == 0)
			close(told_fd);
	}
	if (r == 0)
		r = forward_loop(f, e);
	if (f->record_fd >= 0)
		forwards_forget(f->s.registry.run_fd);
	fd_close(&f->record_fd);
	for (i = 0; i < f->most && f->conns; i++)
		joint_release(&f->conns[i].joint, 1);
	for (i = 0; i < count; i++)
		fd_close(&f->ports[i].fd);
	joint_spares_release(&f->spares);
	fd_close(&f->signal_fd);
	fd_close(&f->epoll_fd);
	sandbox_ref_close(&f->s);
	free(f->conns);
	return r;
}

/* ---- standard input and output ---- */

/* 1: connected; 0: nothing listens there; -1. */
static int connect_inside(struct sandbox_ref *s, uint16_t port, int with6, int *ret_fd, struct err *e)
{
	autojson json_t *rq = netport_request(port, with6), *answer = NULL;
	autoclose int fd = -1;
	struct pollfd p = { .events = POLLOUT };
	int r;

	answer = keeper_call(s->sock, rq, NULL, 0, &fd, e);
	if (!answer)
		return e->code == ERR_NOT_FOUND && e->os_errno != ESRCH ? 0 : -1;
	if (fd < 0)
		return err_set(e, ERR_INTERNAL, "the keeper answered without a socket");
	p.fd = fd;
	while (poll(&p, 1, -1) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for a connection");
	r = netport_connected(fd, port, e);
	if (r > 0)
		*ret_fd = take_fd(&fd);
	return r;
}

/* Until the server has ended its direction. */
static int join_stdio(struct stdioway way[2], struct err *e)
{
	struct pollfd p[STDIOWAY_POLLS];

	while (!way[1].ended) {
		stdioway_polls(way, p);
		if (poll(p, STDIOWAY_POLLS, -1) < 0 && errno != EINTR)
			return err_sys(e, "wait for data");
		if (stdioway_move(way, p, e) < 0)
			return -1;
	}
	return 0;
}

static int forward_stdio(const char *ref, const char *word, struct err *e)
{
	autofree struct stdioway *way = calloc(2, sizeof(*way));
	struct sandbox_ref s;
	autoclose int fd = -1;
	uint64_t port;
	int r;

	if (!way)
		return err_nomem(e);
	if (num_u64(word, "port", 1, UINT16_MAX, &port, e) < 0)
		return -1;
	signal(SIGPIPE, SIG_IGN);
	sandbox_ref_init(&s);
	r = sandbox_ref_connect(&s, ref, 0, e);
	if (r == 0)
		r = connect_inside(&s, (uint16_t)port, 0, &fd, e);
	if (r == 0 && fd < 0 && s.sock >= 0)
		r = connect_inside(&s, (uint16_t)port, 1, &fd, e);
	if (r == 0)
		r = netport_nothing(s.id, (uint16_t)port, e);
	sandbox_ref_close(&s);
	if (r < 0)
		return -1;
	stdioway_init(way, fd);
	return join_stdio(way, e);
}

/* ---- the command ---- */

static int set_forward_option(void *ctx, int id, const char *value, struct err *e)
{
	struct forward_options *o = ctx;

	(void)value;
	(void)e;
	if (id == OPT_JSON)
		o->json = 1;
	else if (id == OPT_STDIO)
		o->stdio = 1;
	else if (id == OPT_DETACH)
		o->detach = 1;
	else
		o->verbose = 1;
	return 0;
}

static int forward_main(const struct command *self, int argc, char **argv)
{
	struct forward_options o = { 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	r = command_options(self, argc, argv, set_forward_option, &o, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && argc - rest < 2)
		r = err_set(&e, ERR_USAGE, "a sandbox and a port are wanted; hint: berth forward ID 8000");
	if (r == 0 && o.stdio && argc - rest != 2)
		r = err_set(&e, ERR_USAGE, "--stdio joins one port; hint: berth forward --stdio ID 22");
	if (r == 0 && o.stdio && (o.json || o.verbose || o.detach))
		r = err_set(&e, ERR_USAGE, "--stdio serves its own input and output and prints nothing else, so it does not go with %s; "
			    "hint: leave that out", o.json ? "--json" : o.verbose ? "--verbose" : "--detach");
	if (r == 0 && o.detach && o.verbose)
		r = err_set(&e, ERR_USAGE, "nobody reads what --verbose prints in the background; hint: leave out --detach");
	if (r == 0)
		r = o.stdio ? forward_stdio(argv[rest], argv[rest + 1], &e) :
		    o.detach ? detach_forward(&o, argv[rest], argv + rest + 1, (size_t)(argc - rest - 1), &e) :
			      run_forward(&o, argv[rest], argv + rest + 1, (size_t)(argc - rest - 1), -1, &e);
	return r < 0 ? command_fail(self, &e, o.json) : 0;
}

const struct command cmd_forward = {
	.name = "forward",
	.args = "SANDBOX [[HOST:]PORT:]PORT...",
	.summary = "lead ports of this host to ports of a sandbox, whatever its network",
	.detail = "HOST is an address of this host (default: 127.0.0.1), the first PORT is this host's (0: a free\n"
		  "one), the second the sandbox's.  It ends with the sandbox, or by SIGINT or SIGTERM; one in the\n"
		  "background by berth forward rm.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = forward_main,
};
