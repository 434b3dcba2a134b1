/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolver - names to addresses, without waiting, by the host's DNS servers or those given.
 *
 * First the names of --add-host, then, unless DNS servers were given, those
 * that the host's /etc/hosts had at the start, then DNS; no file of the host
 * is read after the start, no search list, no NSS.  Its sockets join the
 * caller's epoll as watches.
 */
#ifndef BERTH_RUNTIME_NET_RESOLVER_H
#define BERTH_RUNTIME_NET_RESOLVER_H

#include "base/err.h"
#include "runtime/net/netpolicy.h"

#define RESOLVER_ADDRESSES 16

struct resolver;

/* count addresses, IPv4 first; 0 with why (a literal or static text). */
typedef void resolver_fn(void *ctx, const struct netaddr *found, size_t count, const char *why);
/* Called when a socket wants to be watched: read and write are 0 for both when it goes. */
typedef void resolver_watch_fn(void *ctx, int fd, int read, int write);

struct resolver *resolver_new(const struct netpolicy *p, resolver_watch_fn *watch, void *ctx, struct err *e);
void resolver_free(struct resolver *r);
/* fn is called once, perhaps before this returns. */
void resolver_ask(struct resolver *r, const char *name, resolver_fn *fn, void *ctx);
/* fd is readable or writable; -1: look at the time only. */
void resolver_serve(struct resolver *r, int read_fd, int write_fd);
/* Milliseconds until it wants resolver_serve(-1), at most max. */
int resolver_timeout(struct resolver *r, int max);

#endif
