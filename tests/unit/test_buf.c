/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

Test(buf, appended_bytes_are_terminated_but_not_counted)
{
	struct buf b = BUF_INIT(100);
	struct err e;

	cr_assert_eq(buf_adds(&b, "abc", &e), 0);
	cr_assert_eq(buf_add(&b, "\0d", 2, &e), 0);
	cr_expect_eq(b.len, 5);
	cr_expect_eq(memcmp(b.data, "abc\0d", 6), 0);
	buf_release(&b);
}

Test(buf, the_ceiling_is_reached_exactly_and_never_passed)
{
	struct buf b = BUF_INIT(10);
	struct err e = { 0 };

	cr_assert_eq(buf_adds(&b, "123456789", &e), 0);
	cr_assert_eq(buf_adds(&b, "0", &e), 0);
	cr_expect_eq(buf_adds(&b, "x", &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT);
	cr_expect_eq(buf_add(&b, "", 0, &e), 0, "nothing still fits");
	cr_expect_str_eq(b.data, "1234567890");
	cr_expect_eq(b.len, 10);
	buf_release(&b);
}

Test(buf, a_refused_append_changes_nothing)
{
	struct buf b = BUF_INIT(4);
	struct err e = { 0 };

	cr_assert_eq(buf_adds(&b, "ab", &e), 0);
	cr_expect_eq(buf_adds(&b, "cde", &e), -1);
	cr_expect_eq(buf_addf(&b, &e, "%d", 12345), -1);
	cr_expect_str_eq(b.data, "ab");
	cr_expect_eq(b.len, 2);
	buf_release(&b);
}

Test(buf, a_size_near_the_top_of_the_address_space_does_not_wrap)
{
	struct buf b = BUF_INIT(1000);
	struct err e = { 0 };

	cr_assert_eq(buf_adds(&b, "ab", &e), 0);
	cr_expect_eq(buf_reserve(&b, SIZE_MAX, &e), -1);
	cr_expect_eq(buf_reserve(&b, SIZE_MAX - 1, &e), -1);
	cr_expect_eq(buf_reserve(&b, 999, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT);
	cr_expect_eq(buf_reserve(&b, 998, &e), 0);
	buf_release(&b);
}

Test(buf, a_ceiling_of_zero_takes_nothing)
{
	struct buf b = BUF_INIT(0);
	struct err e = { 0 };

	cr_expect_eq(buf_adds(&b, "", &e), 0);
	cr_expect_eq(buf_adds(&b, "x", &e), -1);
	buf_release(&b);
}

Test(buf, memory_stays_near_the_ceiling)
{
	struct buf b = BUF_INIT(1000);
	struct err e;
	int i;

	for (i = 0; i < 1000; i++)
		cr_assert_eq(buf_add(&b, "x", 1, &e), 0);
	cr_expect_leq(b.cap, 2048);
	buf_release(&b);
}

Test(buf, formatted_text_of_any_length_is_whole)
{
	static const size_t sizes[] = { 0, 1, 254, 255, 256, 257, 1000, 70000 };
	static char text[70001];
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct buf b = BUF_INIT(100000);
		struct err e;

		memset(text, 'y', sizes[i]);
		text[sizes[i]] = '\0';
		cr_assert_eq(buf_addf(&b, &e, "<%s>", text), 0);
		cr_expect_eq(b.len, sizes[i] + 2, "%zu", sizes[i]);
		cr_expect_eq(b.data[b.len - 1], '>');
		cr_expect_eq(b.data[b.len], '\0');
		buf_release(&b);
	}
}

Test(buf, release_is_idempotent_and_allows_reuse)
{
	struct buf b = BUF_INIT(10), empty = BUF_INIT(10);
	struct err e;

	buf_release(&empty);
	cr_assert_eq(buf_adds(&b, "abc", &e), 0);
	buf_release(&b);
	buf_release(&b);
	cr_expect_null(b.data);
	cr_assert_eq(buf_adds(&b, "de", &e), 0);
	cr_expect_str_eq(b.data, "de");
	buf_release(&b);
}
