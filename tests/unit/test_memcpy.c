/* SPDX-License-Identifier: Apache-2.0 */
/* base/musl/memcpy.c, under names of its own: every short length, the borders of the longer ones, every small overlap. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define NAME(name)
#include "base/musl/memcpy.c"	/* NOLINT(bugprone-suspicious-include) */

enum { ROOM = 4096, MARGIN = 64 };

static unsigned char buf[ROOM], want[ROOM];

static void fill(void)
{
	size_t i;

	for (i = 0; i < ROOM; i++)
		buf[i] = want[i] = (unsigned char)(i * 7 + i / 256);
}

/* What a copy that goes by way of a third place gives. */
static void expect_copy(size_t to, size_t from, size_t n)
{
	unsigned char *apart = malloc(n + 1);
	size_t i;

	for (i = 0; i < n; i++)
		apart[i] = want[from + i];
	for (i = 0; i < n; i++)
		want[to + i] = apart[i];
	free(apart);
	for (i = 0; i < ROOM; i++)
		cr_assert_eq(buf[i], want[i], "copy of %zu bytes from %zu to %zu: byte %zu is %d, not %d", n, from, to, i, buf[i], want[i]);
}

static void try_copy(size_t to, size_t from, size_t n)
{
	fill();
	cr_assert_eq(musl_memcpy(buf + to, buf + from, n), buf + to);
	expect_copy(to, from, n);
}

static void try_move(size_t to, size_t from, size_t n)
{
	fill();
	cr_assert_eq(musl_memmove(buf + to, buf + from, n), buf + to);
	expect_copy(to, from, n);
}

Test(memcpy, every_length_at_every_alignment)
{
	static const size_t longer[] = { 511, 512, 513, 1007, 1008, 1023, 1024, 1025, 1040, 1500 };
	size_t n, i;

	for (n = 0; n < 150; n++)
		for (i = 0; i < 16; i++)
			try_copy(MARGIN + i, ROOM / 2 + 16 - i, n);
	for (n = 0; n < sizeof(longer) / sizeof(longer[0]); n++)
		for (i = 0; i < 16; i++)
			try_copy(MARGIN + i, ROOM / 2 + 3, longer[n]);
}

Test(memcpy, moves_that_overlap_up_and_down)
{
	static const size_t longer[] = { 200, 255, 1023, 1024, 1025, 1900 };
	size_t n, i;

	for (n = 0; n < 100; n++)
		for (i = 0; i < 40; i++) {
			try_move(1000 + i, 1000, n);
			try_move(1000, 1000 + i, n);
		}
	for (n = 0; n < sizeof(longer) / sizeof(longer[0]); n++)
		for (i = 0; i < 40; i++) {
			try_move(1000 + i, 1000, longer[n]);
			try_move(1000, 1000 + i, longer[n]);
			try_move(100, 2000 + i, longer[n]);
		}
}
