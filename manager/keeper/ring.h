/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring - the output of one command, bounded: its head, its tail, and the exact
 * number of bytes dropped between them.
 *
 * Byte offsets count from the start of the output and never change, so a reader that returns with
 * the offset it had reached misses and repeats nothing. Storage grows as bytes come, up to head_max
 * + tail_max. Pure.
 */
#ifndef BERTH_MANAGER_KEEPER_RING_H
#define BERTH_MANAGER_KEEPER_RING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/err.h"

struct ring {
	size_t head_max, tail_max;	/* bytes */
	uint64_t total;			/* bytes ever added */
	char *head;
	size_t head_len, head_cap;
	char *tail;			/* circular once full; holds the last tail_len bytes */
	size_t tail_len, tail_cap, tail_at;
};

void ring_init(struct ring *r, size_t head_max, size_t tail_max);
void ring_release(struct ring *r);
/*
 * Adds n bytes, and never refuses: bytes that do not fit are dropped and counted. -1 only without
 * memory; then nothing was added.
 */
int ring_add(struct ring *r, const void *p, size_t n, struct err *e);
/* Returns the bytes of memory that it holds. */
size_t ring_held(const struct ring *r);
/*
 * Frees memory until at most max bytes are held: all of the head above half of max, and all of the
 * tail but its end. These bytes count as dropped. Later output may grow the tail again.
 */
void ring_shrink(struct ring *r, size_t max);
/* Returns how many bytes between head and tail were dropped. */
uint64_t ring_dropped(const struct ring *r);
/*
 * Appends the kept bytes from byte offset `from` on, at most max, to out; *ret_from is where they
 * really start (later than requested if bytes were dropped), *ret_next the offset to ask for next.
 */
int ring_read(const struct ring *r, uint64_t from, size_t max, struct buf *out, uint64_t *ret_from,
	      uint64_t *ret_next, struct err *e);
/*
 * As ring_read(), without a copy: returns how many parts the bytes have, which are valid until the
 * ring changes; -1.
 */
#define RING_PARTS 3
int ring_parts(const struct ring *r, uint64_t from, size_t max, struct iovec part[RING_PARTS], uint64_t *ret_from,
	       uint64_t *ret_next, struct err *e);

#endif
