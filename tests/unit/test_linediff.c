/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/files/linediff.h"

static char *diff(const char *a, size_t n, const char *b, size_t m)
{
	const struct linediff_text x = { a, n }, y = { b, m };
	struct buf out = BUF_INIT(1 << 24);
	struct err e;

	cr_assert_eq(linediff(&x, &y, &out, &e), 0);
	return out.data ? out.data : strdup("");
}

static void expect(const char *a, const char *b, const char *want)
{
	char *got = diff(a, strlen(a), b, strlen(b));

	cr_assert_str_eq(got, want, "got: %s", got);
	free(got);
}

Test(linediff, hunks_are_those_of_diff_u)
{
	expect("a\nb\n", "a\nb\n", "");
	expect("", "", "");
	expect("a\n", "", "@@ -1,1 +0,0 @@\n-a\n");
	expect("", "a", "@@ -0,0 +1,1 @@\n+a\n\\ No newline at end of file\n");
	expect("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n6\n7\n8\n9\n",
	       "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
	expect("1\n2\n3\n4\n5\n6\n7\n", "0\n1\n2\n3\n4\n5\n6\n",
	       "@@ -1,7 +1,7 @@\n+0\n 1\n 2\n 3\n 4\n 5\n 6\n-7\n");
	expect("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "0\n1\n2\n3\n4\n5\n6\n7\n8\n",
	       "@@ -1,3 +1,4 @@\n+0\n 1\n 2\n 3\n@@ -6,4 +7,3 @@\n 6\n 7\n 8\n-9\n");
}

/* The second text, of the first one and the hunks. */
static size_t apply(const char *a, const char *patch, char *out)
{
	const char *end = a + strlen(a), *nl;
	size_t n = 0, at = 1, from, len;

	for (; *patch; patch = nl + 1) {
		nl = strchr(patch, '\n');
		if (sscanf(patch, "@@ -%zu,%zu", &from, &len) == 2) {
			for (from += !len; at < from; at++) {
				const char *next = strchr(a, '\n') + 1;

				memcpy(out + n, a, (size_t)(next - a));
				n += (size_t)(next - a);
				a = next;
			}
			continue;
		}
		len = (size_t)(nl - patch);
		if (*patch != '-') {
			memcpy(out + n, patch + 1, len);
			n += len;
		}
		if (*patch != '+') {
			cr_assert_eq(memcmp(a, patch + 1, len), 0);
			a += len;
			at++;
		}
	}
	memcpy(out + n, a, (size_t)(end - a));
	return n + (size_t)(end - a);
}

Test(linediff, hunks_make_the_second_text_of_the_first)
{
	static char a[1 << 16], b[1 << 16], out[1 << 17];
	int round, i;

	srand(7);
	for (round = 0; round < 400; round++) {
		/* some beyond LINEDIFF_MAX */
		const int lines = round % 40 ? rand() % 60 : 3000, kinds = 1 + rand() % 9;
		size_t n = 0, m = 0;
		char *patch;

		for (i = 0; i < lines; i++) {
			int line = rand() % kinds;

			n += (size_t)sprintf(a + n, "%d\n", line);
			if (rand() % 4 == 0)
				line = rand() % kinds;
			if (rand() % 5)
				m += (size_t)sprintf(b + m, "%d\n", line);
		}
		a[n] = b[m] = '\0';
		patch = diff(a, n, b, m);
		cr_assert_eq(apply(a, patch, out), m);
		cr_assert_eq(memcmp(out, b, m), 0);
		free(patch);
	}
}
