/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool - records on disk which sandbox has which address, below state_dir/network/ (0700):
 *
 *   lock          flock'ed while an address is taken, the bridge made, or leftovers looked for;
 *                 holds the number after the one taken last
 *   N             the address number N of the pools is taken; holds the sandbox's id
 *   ID.json       what the kernel was told of the sandbox, written before it is told
 *   forwarding    what of the host's switches berth has switched on (forwarding.h)
 *
 * Numbers are given in turn, so that a freed address is not another sandbox's a moment later.
 */
#ifndef BERTH_RUNTIME_NET_POOL_H
#define BERTH_RUNTIME_NET_POOL_H

#include "base/err.h"
#include "base/json.h"
#include "base/netaddr.h"

struct pool {
	int dir_fd, lock_fd;
};

#define POOL_FIRST 2	/* 0 is the network, 1 the bridge */
#define POOL_KEPT 34	/* two gateways, and at most NETS_AUX_MAX that a network sets aside */

/* The numbers that a network gives to its members. */
struct pool_plan {
	struct netcidr net, net6;
	uint64_t from, to;		/* numbers that are not asked for come from this range, both ends
					 * included */
	uint64_t kept[POOL_KEPT];	/* never given: the bridge's own numbers, and those set aside */
	size_t kept_count;
	int has_wanted;			/* the member asks for one number */
	uint64_t wanted;
};

int pool_open(struct pool *p, const char *dir, struct err *e);
void pool_close(struct pool *p);
int pool_lock(struct pool *p, struct err *e);
void pool_unlock(struct pool *p);
/*
 * Takes a number for id; the caller holds the lock. ERR_LIMIT if none is free; ERR_EXISTS if
 * another has the wanted number.
 */
int pool_take(struct pool *p, const char *id, const struct pool_plan *plan, uint64_t *ret_number, struct err *e);
void pool_free(struct pool *p, uint64_t number);
int pool_record(struct pool *p, const char *id, const json_t *record, struct err *e);
/* Returns the record, a new reference; NULL with ERR_NOT_FOUND. */
json_t *pool_recorded(struct pool *p, const char *id, struct err *e);
/* Forgets the record, and every number of the id if it has no record. */
int pool_forget(struct pool *p, const char *id, struct err *e);
/* Calls each for every id that has a number or a record. */
int pool_each(struct pool *p, int (*each)(void *ctx, const char *id), void *ctx, struct err *e);

/* ---- the members of a named network ---- */

/*
 * members - the members of a named network: its pool (pool.h), which is bounded, and is closed
 * before the network is removed.
 *
 * All functions run under the pool's lock.
 */

/* Returns how many members there are, or -1. */
int members_count(struct pool *p, struct err *e);
/* Checks that one more member may join: 0, ERR_LIMIT, or ERR_NOT_FOUND if the network is being removed. */
int members_room(struct pool *p, const char *network, uint64_t limit, struct err *e);
/* Lets no member join any more. */
int members_close(struct pool *p, struct err *e);

#endif
