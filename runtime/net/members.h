/* SPDX-License-Identifier: Apache-2.0 */
/*
 * members - who is on a network that has a name: its pool (pool.h), bounded, and closed before it goes.
 *
 * All of it under the pool's lock.
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
