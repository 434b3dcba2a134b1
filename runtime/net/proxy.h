/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy - the only way out of a sandbox with --network egress.
 *
 * Theory of operation. berth-net enters the sandbox's network namespace, opens a listening socket
 * on its loopback, and returns to the host's: a socket stays in the namespace it was made in. Then
 * it gives up all rights (confine.h). A client in the sandbox names its target, by HTTP CONNECT, by
 * an absolute http:// request or by SOCKS5; the proxy checks name and port against the policy, asks
 * the DNS itself, checks each address, and connects to an address it checked. The sandbox never
 * resolves a name, so no answer of its own can lead elsewhere.
 *
 * It has one thread, one epoll loop, and at most PROXY_CONNECTIONS connections at a time: new ones
 * then wait in the backlog. Bytes from clients and servers are hostile; only a request's name and
 * its answer reach the log.
 */
#ifndef BERTH_RUNTIME_NET_PROXY_H
#define BERTH_RUNTIME_NET_PROXY_H

#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"
#include "runtime/net/httpreq.h"
#include "runtime/net/netgroup.h"
#include "runtime/net/netpolicy.h"
#include "runtime/net/netwire.h"
#include "runtime/net/resolver.h"
#include "runtime/net/tlshello.h"

#define PROXY_CONNECTIONS 256
#define PROXY_BUFFER 40960
#define PROXY_HEAD_MS 30000	/* time for a client to name its target */
#define PROXY_CONNECT_MS 15000	/* time to reach one address */
#define PROXY_LINGER_MS 2000	/* time for a client to read a denial */
#define PROXY_HALF_MS 300000	/* silence allowed once one side has ended */

struct mnl_socket;
struct proxy;

enum watch_kind { WATCH_LISTEN, WATCH_CONTROL, WATCH_RESOLVER, WATCH_CLIENT, WATCH_SERVER, WATCH_DATAGRAM,
	WATCH_NAMES };

struct watch {
	enum watch_kind kind;
	struct conn *conn;
	const struct nettarget *target;	/* target of a forwarded port */
	uint32_t events;	/* as epoll takes them; 0: the watch is not in it */
	int fd;
};

enum conn_state { CONN_HEAD, CONN_RESOLVING, CONN_CONNECTING, CONN_RELAY, CONN_ENDING, CONN_DEAD };
/* The part of TLS within a tunnel that is still expected (proxyconn.c). */
enum peek_state { PEEK_DONE, PEEK_HELLO, PEEK_ANSWER, PEEK_AGAIN };
enum conn_kind { CONN_UNKNOWN, CONN_HTTP, CONN_TUNNEL, CONN_SOCKS, CONN_FORWARD };

struct flow {
	char *data;	/* PROXY_BUFFER bytes, allocated at the first byte */
	size_t start, end;
	size_t held;	/* the last of these bytes, which must not be sent yet */
	int eof, shut;	/* the source has ended; the destination has been shut down */
};

struct conn {
	struct proxy *proxy;
	struct conn *next;
	enum conn_state state;
	enum conn_kind kind;
	struct watch client, server;
	struct flow out, in;		/* from the sandbox, and to it */
	int greeted;			/* SOCKS5: the greeting is answered */
	struct httpreq http;
	struct nettarget target;
	char rule[NETHOST_NAME + 32];	/* the rule that allowed it; "" before */
	struct netaddr tried[RESOLVER_ADDRESSES], peer;
	size_t tried_count, tried_next;
	int connect_errno;
	enum peek_state peek;
	uint64_t peek_deadline_ms;	/* for the rest of a hello; 0: none has begun */
	struct nettarget within;	/* the name in the hello; "": it has none */
	unsigned char answer[TLSHELLO_ANSWER];
	size_t answer_len;
	int asking;			/* the resolver will still call back */
	uint64_t started_ms, deadline_ms, bytes_in, bytes_out;
	int logged;
};

/* A further user of the loop (forward.h), with watches of kinds that are not the proxy's. */
struct proxy_guest {
	void (*begin)(void *ctx, struct proxy *p);
	void (*serve)(void *ctx, struct watch *w, uint32_t events);
	void (*tick)(void *ctx, uint64_t now);
	/* carries out a command of the supervisor: 0, -1 with e; NULL: the supervisor sends none */
	int (*control)(void *ctx, const char *text, int fd, struct err *e);
	/* returns until when the loop may sleep, at the latest at */
	uint64_t (*next)(void *ctx, uint64_t at);
};

struct proxy {
	char id[65];
	int lasts;			/* berth update can change its rules; not those of a berth run */
	struct netpolicy policy;
	struct netcounters *counters;
	struct netgroup *group;		/* set with policy.group, else NULL */
	int epoll_fd, control_fd;
	const char *hello;		/* JSON to answer with once it serves; NULL: only success */
	int log_fd[2];			/* the log's current file, and the one before; -1: none */
	int notice_fd;			/* refusals are also reported here; -1: nowhere */
	uint64_t used_bytes, used_connections;	/* used of the budgets by earlier runs */
	struct netrate rate_out, rate_in;	/* buckets of policy.max_rate */
	size_t log_bytes;
	struct mnl_socket *route;
	struct resolver *resolver;	/* NULL if it forwards */
	struct watch *listens, listen, control, dns[64];	/* listens: what it listens on, perhaps the one listen */
	size_t listen_count;
	/* a further user of its loop; NULL: it is only a proxy */
	const struct proxy_guest *guest;
	void *guest_ctx;
	struct conn *conns;
	unsigned conn_count;
	int stopping;
};

/*
 * Runs the loop (proxy.c): takes the id uid and gives up all other rights (confine.h), says
 * "ready", and serves until the supervisor has gone.
 */
int proxy_run(struct proxy *p, uid_t uid, pid_t parent, struct err *e);
/* Watches for events; 0 removes the watch. */
void proxy_watch(struct proxy *p, struct watch *w, uint32_t events);
void proxy_log(struct proxy *p, const struct conn *c, const char *verdict, const char *reason);
/* Returns the budget that is used up, or NULL. */
const char *proxy_exhausted(const struct proxy *p);
/* Returns how many bytes of the budget are left. */
uint64_t proxy_bytes_left(const struct proxy *p);

/* proxyconn.c */
/* Sets the events to wait for, by the connection's state and by what the rate allows. */
void conn_update(struct conn *c);
void conn_accept(struct proxy *p, const struct watch *w);
void conn_serve(struct conn *c, const struct watch *w, uint32_t events);
void conn_deadline(struct conn *c, uint64_t now);
/* Judges the connection by a changed policy: 1 if it had to be cut. */
int conn_recheck(struct conn *c);
void conn_free(struct conn *c);

/* ---- berth-net as the proxy of one sandbox ---- */

/* egress - runs berth-net as the proxy of one sandbox: from its descriptors to the loop of proxy.h. */

/* Returns when the supervisor has ended; -1 if that happens before everything is ready. */
int egress_run(const json_t *job, struct err *e);
/* Takes all of the proxy's confinement, to see whether this kernel supports it. */
int egress_probe(const json_t *job, struct err *e);

#endif
