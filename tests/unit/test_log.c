/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks S12 of SECURITY.md. */
/* D07: what a sandbox can put into a message must not reach the operator's terminal as a control. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

static const struct { const char *in, *out; } table[] = {
	{ "", "" }, { "plain text 123 ~", "plain text 123 ~" }, { "a\tb", "a\tb" }, { "a\nb", "a?b" }, { "a\rb", "a?b" },
	{ "\x1b[31mred\x1b[0m", "?[31mred?[0m" }, { "\x1b]0;title\x07", "?]0;title?" }, { "\x1bP+q\x1b\\", "?P+q?\\" },
	{ "\x01\x02\x03\x08\x0b\x0c\x0e\x1f\x7f", "?????????" },
	{ "\xc2\x9b" "31m", "??31m" },			/* CSI as a C1 control in UTF-8 */
	{ "\xc2\x80\xc2\x9f\xc2\xa0", "????\xc2\xa0" },	/* the edges of C1 */
	{ "\x9b" "31m", "?31m" },			/* CSI as a bare byte */
	{ "\x80\xbf\xc0\xc1\xf5\xff", "??????" },
	{ "\xc0\x9b", "??" }, { "\xc1\x9b", "??" }, { "\xe0\x82\x9b", "???" }, { "\xf0\x80\x82\x9b", "????" },	/* overlong */
	{ "\xed\xa0\x80", "???" },			/* a surrogate */
	{ "\xf4\x90\x80\x80", "????" },			/* past U+10FFFF */
	{ "\xc3", "?" }, { "\xe2\x82", "??" }, { "\xf0\x9f\x98", "???" },	/* cut short by the end */
	{ "\xc3.", "?." }, { "\xe2.\xa1", "?.?" }, { "\xe2\x82.", "??." },
	{ "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80" },
	{ "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf" }, { "\xed\x9f\xbf", "\xed\x9f\xbf" }, { "\xef\xbf\xbd", "\xef\xbf\xbd" },
};

Test(log, controls_and_invalid_bytes_become_question_marks)
{
	char out[200];
	size_t i;

	for (i = 0; i < ARRAY_LEN(table); i++) {
		size_t n = log_clean(out, sizeof(out), table[i].in, 0);

		cr_expect_str_eq(out, table[i].out, "row %zu", i);
		cr_expect_eq(n, strlen(out), "row %zu", i);
	}
}

Test(log, newlines_stay_only_when_asked_for)
{
	char out[100];

	log_clean(out, sizeof(out), "a\nb\r\n\x1b", 1);
	cr_expect_str_eq(out, "a\nb?\n?");
}

Test(log, no_single_byte_passes_as_a_control)
{
	char in[2] = { 0 }, out[16];
	int c;

	for (c = 1; c < 256; c++) {
		in[0] = (char)c;
		log_clean(out, sizeof(out), in, 0);
		if (c >= 0x20 && c < 0x7f)
			cr_expect_str_eq(out, in);
		else if (c != '\t')
			cr_expect_str_eq(out, "?", "byte %#x gave %s", c, out);
	}
}

/* The directional overrides turn a file name round on the screen ("Trojan Source", CVE-2021-42574). */
Test(log, directional_overrides_do_not_pass)
{
	static const char *const bad[] = {
		"\xe2\x80\xaa", "\xe2\x80\xab", "\xe2\x80\xac", "\xe2\x80\xad", "\xe2\x80\xae",	/* U+202A..E */
		"\xe2\x81\xa6", "\xe2\x81\xa7", "\xe2\x81\xa8", "\xe2\x81\xa9",			/* U+2066..9 */
		"\xe2\x80\xa8", "\xe2\x80\xa9",							/* line, paragraph separator */
	};
	char out[100];
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		log_clean(out, sizeof(out), bad[i], 0);
		cr_expect_str_eq(out, "???", "row %zu", i);
	}
	log_clean(out, sizeof(out), "\xe2\x80\x93\xe2\x81\xa5\xe2\x80\xa7", 0);	/* their neighbours do */
	cr_expect_str_eq(out, "\xe2\x80\x93\xe2\x81\xa5\xe2\x80\xa7");
}

Test(log, a_small_buffer_cuts_between_characters)
{
	char out[64];
	size_t n;

	for (n = 1; n < sizeof(out); n++) {
		size_t len;

		memset(out, 'Z', sizeof(out));
		len = log_clean(out, n, "\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80", 0);
		cr_assert_lt(len, n);
		cr_expect_eq(out[len], '\0');
		cr_expect_eq(len % 4, 0, "a character was cut at size %zu", n);
		cr_expect_eq(out[n], 'Z', "written past the end at size %zu", n);
	}
}

static size_t captured(void (*print)(void), char *text, size_t n)
{
	int p[2], saved = dup(2);
	size_t got = 0;
	ssize_t r;

	cr_assert_eq(pipe(p), 0);
	fflush(stderr);
	dup2(p[1], 2);
	close(p[1]);
	print();
	dup2(saved, 2);
	close(saved);
	while ((r = read(p[0], text + got, n - 1 - got)) > 0)
		got += (size_t)r;
	close(p[0]);
	text[got] = '\0';
	return got;
}

static void hostile(void)
{
	struct err e;

	err_set(&e, ERR_CORRUPT, "file '%s'", "a\nberth: all is well\x1b[2J");
	log_error("berth", &e);
}

Test(log, an_error_is_one_line_whatever_is_in_it)
{
	char text[2000];

	captured(hostile, text, sizeof(text));
	cr_expect_str_eq(text, "berth: file 'a?berth: all is well?[2J'\n");
}

static void long_note(void)
{
	static char huge[5000];

	memset(huge, 'a', sizeof(huge) - 1);
	log_note("berth", "%s", huge);
}

Test(log, a_long_line_still_ends_in_a_newline)
{
	char text[8000];
	size_t n = captured(long_note, text, sizeof(text));

	cr_assert_gt(n, 500);
	cr_expect_eq(text[n - 1], '\n');
	cr_expect_eq(strchr(text, '\n'), text + n - 1);
}
