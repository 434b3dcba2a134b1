/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "base/suggest.h"

Test(suggest, distance_counts_edits_and_swaps)
{
	static const struct { const char *a, *b; size_t d; } t[] = {
		{ "", "", 0 }, { "", "abc", 3 }, { "abc", "", 3 }, { "memory", "memory", 0 }, { "memroy", "memory", 1 },
		{ "memry", "memory", 1 }, { "mmemory", "memory", 1 }, { "nemory", "memory", 1 }, { "kitten", "sitting", 3 },
		{ "ca", "abc", 3 }, { "ab", "ba", 1 },
	};
	char big[65], limit[64];
	size_t i;

	for (i = 0; i < ARRAY_LEN(t); i++)
		cr_expect_eq(suggest_distance(t[i].a, t[i].b), t[i].d, "%s %s: %zu", t[i].a, t[i].b,
			     suggest_distance(t[i].a, t[i].b));
	memset(big, 'x', 64);
	big[64] = '\0';
	memcpy(limit, big, 63);
	limit[63] = '\0';
	cr_expect_eq(suggest_distance(big, "x"), (size_t)-1);
	cr_expect_eq(suggest_distance("x", big), (size_t)-1);
	cr_expect_eq(suggest_distance(limit, ""), 63);
	cr_expect_eq(suggest_distance(limit, limit), 0);
}

static const char *nearest(const char *typed)
{
	static const char *const words[] = { "memory", "cpus", "cpu-time", "cpu-weight", "pids", "rm", "read-only" };
	struct suggest s = SUGGEST_INIT(typed);
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		suggest_offer(&s, words[i]);
	return s.best ? s.best : "";
}

Test(suggest, only_a_slip_of_the_hand_is_suggested)
{
	cr_expect_str_eq(nearest("memroy"), "memory");
	cr_expect_str_eq(nearest("mem"), "memory");
	cr_expect_str_eq(nearest("readonly"), "read-only");
	cr_expect_str_eq(nearest("cpu"), "cpus");
	cr_expect_str_eq(nearest("mr"), "rm");
	cr_expect_str_eq(nearest("privileged"), "");
	cr_expect_str_eq(nearest("x"), "");
	cr_expect_str_eq(nearest(""), "");
	cr_expect_str_eq(nearest("zz"), "");
}
