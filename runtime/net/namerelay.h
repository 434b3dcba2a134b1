/* SPDX-License-Identifier: Apache-2.0 */
/*
 * namerelay - relays a nameserver's questions (nameserver.h) to DNS servers.
 *
 * Sockets are made once, in the member's namespace, and used in turn. Each question gets another
 * port, which the kernel chooses anew after connect(2) to AF_UNSPEC, and another id. A packet
 * counts as the answer if it comes from the server asked, and has the id and the question.
 */
#ifndef BERTH_RUNTIME_NET_NAMERELAY_H
#define BERTH_RUNTIME_NET_NAMERELAY_H

#include "runtime/net/dnsmsg.h"
#include "runtime/net/netpolicy.h"
#include "runtime/net/proxy.h"

#define NAMERELAY_QUESTIONS 64	/* questions under way, over UDP */
#define NAMERELAY_STREAMS 4	/* and over TCP */
#define NAMERELAY_MS 5000	/* time for all servers together */

struct namerelay;

/* Gets the answer of n bytes, or one that says that none came; its id is not the client's. */
typedef void namerelay_fn(void *ctx, uint64_t tag, const struct dnsmsg *q, uint8_t *p, size_t n);

/* Opens its sockets in the namespace that the caller is in. */
int namerelay_open(const struct netserver *servers, size_t count, namerelay_fn *fn, void *ctx,
		   struct namerelay **ret, struct err *e);
void namerelay_free(struct namerelay *r);
/* Asks the question q with its bytes p: 0, or -1 if too many are under way. fn gets the tag. */
int namerelay_ask(struct namerelay *r, struct proxy *loop, const struct dnsmsg *q,
		  const uint8_t *p, int stream, uint64_t tag);
/* Returns 1 if the watch belongs to this relay. */
int namerelay_serve(struct namerelay *r, struct proxy *loop, struct watch *w, uint32_t events);
void namerelay_tick(struct namerelay *r, struct proxy *loop, uint64_t now);
uint64_t namerelay_next(const struct namerelay *r, uint64_t at);

#endif
