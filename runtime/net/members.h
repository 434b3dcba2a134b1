/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members - the members of a named network: its pool (pool.h), which is bounded, and is closed
 * before the network is removed.
 *
 * All functions run under the pool's lock.
 */
#ifndef BERTH_RUNTIME_NET_MEMBERS_H
#define BERTH_RUNTIME_NET_MEMBERS_H

#include "runtime/net/pool.h"

/* How many there are, or -1. */
int members_count(struct pool *p, struct err *e);
/* 0 when one more may come; ERR_LIMIT; ERR_NOT_FOUND when the network is being removed. */
int members_room(struct pool *p, const char *network, uint64_t limit, struct err *e);
/* Nobody may come any more. */
int members_close(struct pool *p, struct err *e);

#endif
