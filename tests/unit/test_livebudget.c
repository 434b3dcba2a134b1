/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "manager/keeper/livebudget.h"

Test(livebudget, each_kind_is_read_and_written_back)
{
	struct livebudget b, again;
	json_t *text;
	struct err e;

	cr_assert_eq(livebudget_parse("net=+1g,cpu=1.5s,io=5,time=1m", &b, &e), 0);
	cr_expect_eq(b.v[LIVEBUDGET_CPU], 1500);
	cr_expect_eq(b.v[LIVEBUDGET_TIME], 60000);
	cr_expect_eq(b.v[LIVEBUDGET_IO], 5);
	cr_expect_eq(b.v[LIVEBUDGET_NET], 1 << 30);
	text = livebudget_text(&b);
	cr_expect_str_eq(json_string_value(text), "cpu=1500ms,time=60000ms,io=5,net=1073741824");
	cr_assert_eq(livebudget_parse(json_string_value(text), &again, &e), 0);
	cr_expect_eq(memcmp(&b, &again, sizeof(b)), 0);
	json_decref(text);
}

Test(livebudget, what_is_no_budget_is_refused_and_changes_nothing)
{
	static const char *const bad[] = {
		"", "cpu", "cpu=", "cpu=0", "cpu=1s,", ",cpu=1s", "cpu=1s,,io=1", "cpu=1s,cpu=1s", "gpu=1",
		"io=1s", "net=-1", "cpu=++1s", "time=367d", "net=2000p", "io=18446744073709551616",
	};
	struct livebudget b = { { 7 } };
	struct err e;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(livebudget_parse(bad[i], &b, &e), -1, "%s", bad[i]);
	cr_expect_eq(b.v[0], 7);
}

Test(livebudget, only_what_it_has_is_added_to_and_never_past_the_end)
{
	struct livebudget b = { { [LIVEBUDGET_NET] = 5 } }, more = { { [LIVEBUDGET_NET] = 7 } };
	struct err e;

	cr_assert_eq(livebudget_add(&b, &more, "x", &e), 0);
	cr_expect_eq(b.v[LIVEBUDGET_NET], 12);
	more.v[LIVEBUDGET_NET] = UINT64_MAX - 3;
	cr_expect_eq(livebudget_add(&b, &more, "x", &e), -1);
	more = (struct livebudget){ { [LIVEBUDGET_NET] = 1, [LIVEBUDGET_CPU] = 1 } };
	cr_expect_eq(livebudget_add(&b, &more, "x", &e), -1);
	cr_expect_eq(b.v[LIVEBUDGET_NET], 12);
}

Test(livebudget, a_record_holds_what_was_used)
{
	const struct livebudget b = { { 9, 0, 9, 0 } }, used = { { 1, 2, 3, 4 } };
	struct livebudget got;
	json_t *record = json_object();

	livebudget_tell(&b, &used, record);
	got = livebudget_used_of(record);
	cr_expect_eq(got.v[LIVEBUDGET_CPU], 1);
	cr_expect_eq(got.v[LIVEBUDGET_IO], 3);
	cr_expect_eq(got.v[LIVEBUDGET_TIME], 0);
	cr_expect_eq(json_object_size(record), 4);
	json_decref(record);
}
