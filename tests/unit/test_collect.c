/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "cli/mcp/collect.h"

static char *shown(struct collect *c)
{
	struct buf b = BUF_INIT(1 << 20);
	struct err e;

	cr_assert_eq(collect_text(c, &b, &e), 0);
	collect_release(c);
	return b.data ? b.data : strdup("");
}

static char *utf8(const char *p, size_t n)
{
	struct buf b = BUF_INIT(1 << 20);
	struct err e;

	cr_assert_eq(utf8_add(&b, p, n, &e), 0);
	return b.data ? b.data : strdup("");
}

Test(collect, short_output_is_kept_whole)
{
	struct collect c;
	struct err e;
	char *text;

	collect_init(&c, 16);
	collect_add(&c, "abc", 3, &e);
	collect_add(&c, "\ndef", 4, &e);
	cr_assert_eq(c.total_bytes, 7);
	text = shown(&c);
	cr_assert_str_eq(text, "abc\ndef");
	cr_assert_eq(c.dropped_bytes, 0);
	free(text);
}

Test(collect, long_output_keeps_its_beginning_and_its_end)
{
	struct collect c;
	struct err e;
	char *text;
	int i;

	collect_init(&c, 8);
	collect_add(&c, "head", 4, &e);
	for (i = 0; i < 100000; i++)
		cr_assert_eq(collect_add(&c, "x", 1, &e), 0);
	collect_add(&c, "tail", 4, &e);
	cr_assert_leq(c.kept.cap, 3 * 8 + 65536 + 256, "held %zu bytes", c.kept.cap);
	text = shown(&c);
	cr_assert_str_eq(text, "head\n[... 100000 bytes left out ...]\ntail");
	free(text);
}

Test(collect, one_chunk_far_over_the_maximum_is_cut_too)
{
	static char big[300000];
	struct collect c;
	struct err e;
	char *text;

	memset(big, 'y', sizeof(big));
	collect_init(&c, 4);
	cr_assert_eq(collect_add(&c, big, sizeof(big), &e), 0);
	text = shown(&c);
	cr_assert_str_eq(text, "yy\n[... 299996 bytes left out ...]\nyy");
	free(text);
}

Test(collect, bytes_that_are_no_characters_become_the_replacement_character)
{
	static const struct { const char *in; size_t n; const char *out; } cases[] = {
		{ "h\xc3\xa9", 3, "h\xc3\xa9" },
		{ "a\0b", 3, "a\xef\xbf\xbd" "b" },
		{ "\xc3", 1, "\xef\xbf\xbd" },
		{ "\xc0\xaf", 2, "\xef\xbf\xbd\xef\xbf\xbd" },			/* an overlong '/' */
		{ "\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },	/* a surrogate */
		{ "\xf4\x90\x80\x80x", 5, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx" },
		{ "\xf0\x9f\x98\x80", 4, "\xf0\x9f\x98\x80" },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char *text = utf8(cases[i].in, cases[i].n);

		cr_assert_str_eq(text, cases[i].out, "case %zu", i);
		free(text);
	}
}
