/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolver - resolves names to addresses, without blocking, by the host's DNS servers or the given
 * ones.
 *
 * It looks at the names of --add-host first, then, unless DNS servers were given, at those that the
 * host's /etc/hosts had at the start, then at DNS. It reads no file of the host after the start,
 * and uses no search list and no NSS. Its sockets join the caller's epoll as watches.
 */
#ifndef BERTH_RUNTIME_NET_RESOLVER_H
#define BERTH_RUNTIME_NET_RESOLVER_H

#include "base/err.h"
#include "runtime/net/netpolicy.h"

#define RESOLVER_ADDRESSES 16

struct resolver;

/* Gets count addresses, IPv4 first; or 0 with why (a literal or static text). */
typedef void resolver_fn(void *ctx, const struct netaddr *found, size_t count, const char *why);
/* Called when a socket must be watched; read and write are both 0 when it closes. */
typedef void resolver_watch_fn(void *ctx, int fd, int read, int write);

struct resolver *resolver_new(const struct netpolicy *p, resolver_watch_fn *watch, void *ctx, struct err *e);
void resolver_free(struct resolver *r);
/* Resolves name; fn is called once, perhaps before this returns. */
void resolver_ask(struct resolver *r, const char *name, resolver_fn *fn, void *ctx);
/* Call it when fd is readable or writable; -1: only look at the time. */
void resolver_serve(struct resolver *r, int read_fd, int write_fd);
/* Returns the milliseconds until it needs resolver_serve(-1), at most max. */
int resolver_timeout(struct resolver *r, int max);

#endif
