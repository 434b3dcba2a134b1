/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "manager/keeper/shellscript.h"

static char out[1024];
static size_t out_len;

static void put(void *ctx, const char *p, size_t n)
{
	(void)ctx;
	cr_assert(out_len + n < sizeof(out));
	memcpy(out + out_len, p, n);
	out_len += n;
	out[out_len] = '\0';
}

/* text in pieces of `piece` bytes. */
static const char *fed(const char *text, const char *name, size_t piece)
{
	struct shellname s;
	size_t n = strlen(text), i;

	out_len = 0;
	out[0] = '\0';
	shellname_init(&s, "/run/.berth/main", name);
	for (i = 0; i < n; i += piece)
		shellname_feed(&s, text + i, n - i < piece ? n - i : piece, put, NULL);
	shellname_flush(&s, put, NULL);
	return out;
}

static void expect(const char *text, const char *name, const char *want)
{
	size_t piece;

	for (piece = 1; piece <= strlen(text) + 1; piece++)
		cr_assert_str_eq(fed(text, name, piece), want, "in pieces of %zu: %s", piece, out);
}

Test(shellname, messages_have_the_shells_name)
{
	expect("/run/.berth/main: line 1: foo: command not found\n", "bash: ", "bash: line 1: foo: command not found\n");
	expect("sh: 1: /run/.berth/main: foo: not found\n", "", "sh: 1: foo: not found\n");
	expect("abc/run/.berth/main: line 2: x\n/run/.berth/main: line 3: y", "bash: ", "abcbash: line 2: x\nbash: line 3: y");
}

Test(shellname, all_other_bytes_stay)
{
	expect("/run/.berth/main", "bash: ", "/run/.berth/main");
	expect("/run/.berth/main:", "bash: ", "/run/.berth/main:");
	expect("/run/.berth/other: x /run/ /run/.berth/main\n", "bash: ", "/run/.berth/other: x /run/ /run/.berth/main\n");
	expect("", "bash: ", "");
}

Test(shellname, a_beginning_within_a_beginning_is_found)
{
	expect("/run//run/.berth/main: x", "bash: ", "/run/bash: x");
	expect("/run/.berth/run/.berth/main: x", "bash: ", "/run/.berthbash: x");
	expect("//////run/.berth/main: /run/.berth/main: ", "", "/////");
}

Test(shellname, what_is_held_comes_at_the_flush_and_no_later)
{
	struct shellname s;

	out_len = 0;
	shellname_init(&s, "/run/.berth/main", "bash: ");
	shellname_feed(&s, "password for /run/", 18, put, NULL);
	cr_assert_str_eq(out, "password for ");
	shellname_flush(&s, put, NULL);
	cr_assert_str_eq(out, "password for /run/");
	shellname_feed(&s, ".berth/main: x", 14, put, NULL);
	cr_assert_str_eq(out, "password for /run/.berth/main: x");
}
