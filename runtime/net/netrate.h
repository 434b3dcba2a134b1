/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netrate - a bound on the bytes a second that a sandbox sends, and on those that it receives.
 *
 * Pure: the token bucket.  The proxy of an egress sandbox has one for each direction; on a bridge the
 * kernel has them (tbf.h).
 */
#ifndef BERTH_RUNTIME_NET_NETRATE_H
#define BERTH_RUNTIME_NET_NETRATE_H

#include <stddef.h>
#include <stdint.h>

#define NETRATE_MIN 1024
#define NETRATE_MAX (1ULL << 40)

/* Bytes that may pass at once: a twentieth of a second's, from 16 KiB to 4 MiB. */
uint64_t netrate_burst(uint64_t rate);
/* A bucket; all zero is a full one. */
struct netrate {
	uint64_t lacking;	/* thousandths of a byte that it lacks to be full */
	uint64_t at_ms;		/* when that was so */
};

/* How many of want bytes may pass now; few are held back until it is worth a system call. */
size_t netrate_room(struct netrate *r, uint64_t rate, uint64_t now_ms, size_t want);
/* They have passed. */
void netrate_spend(struct netrate *r, uint64_t rate, size_t n);
/* Milliseconds until netrate_room() is more than 0. */
uint64_t netrate_wait_ms(const struct netrate *r, uint64_t rate);

#endif
