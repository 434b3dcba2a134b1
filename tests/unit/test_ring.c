/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks S24 of SECURITY.md (D13): what a ring gives back when all rings together are too large. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "manager/keeper/ring.h"

static char byte_at(uint64_t at)
{
	return (char)('a' + at % 23);
}

static void print(struct ring *r, uint64_t n)
{
	struct err e;
	char piece[1000];
	uint64_t i;

	while (n) {
		size_t part = n < sizeof(piece) ? (size_t)n : sizeof(piece);

		for (i = 0; i < part; i++)
			piece[i] = byte_at(r->total + i);
		cr_assert_eq(ring_add(r, piece, part, &e), 0);
		n -= part;
	}
}

/* Every byte that is there is the one that was printed at its place; returns how many there are. */
static uint64_t check(const struct ring *r)
{
	uint64_t at = 0, start, next, kept = 0;
	struct err e;

	for (;;) {
		autobuf struct buf b = BUF_INIT(1 << 20);
		size_t i;

		cr_assert_eq(ring_read(r, at, 700, &b, &start, &next, &e), 0);
		cr_assert_geq(start, at);
		for (i = 0; i < b.len; i++)
			cr_assert_eq(b.data[i], byte_at(start + i), "at %llu", (unsigned long long)(start + i));
		kept += b.len;
		if (next == r->total)
			break;
		at = next;
	}
	cr_expect_eq(kept + ring_dropped(r), r->total);
	return kept;
}

Test(ring, a_shrunk_ring_keeps_the_ends_and_goes_on)
{
	static const uint64_t printed[] = { 0, 10, 5000, 10000, 15000, 20000, 20001, 33333, 100000 };
	static const size_t to[] = { 30000, 20000, 12000, 9000, 4096, 100, 1, 0 };
	size_t i, j, head;

	for (head = 0; head <= 10000; head += 5000)
		for (i = 0; i < sizeof(printed) / sizeof(printed[0]); i++)
			for (j = 0; j < sizeof(to) / sizeof(to[0]); j++) {
				struct ring r;

				ring_init(&r, head, 20000 - head);
				print(&r, printed[i]);
				ring_shrink(&r, to[j]);
				cr_expect_leq(ring_held(&r), to[j] < 30000 ? to[j] : 20000 + 1024);
				check(&r);
				print(&r, 777);
				check(&r);
				print(&r, 40000);
				check(&r);
				ring_shrink(&r, to[j] / 2);
				check(&r);
				ring_release(&r);
			}
}

Test(ring, what_fits_is_not_touched)
{
	struct ring r;

	ring_init(&r, 4096, 4096);
	print(&r, 8192);
	ring_shrink(&r, 8192);
	cr_expect_eq(check(&r), 8192);
	ring_shrink(&r, 4096);
	cr_expect_eq(check(&r), 4096, "half of it is there");
	ring_release(&r);
}
