/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/filter.h"

static json_t *record(void)
{
	return json_pack("{s:s,s:s,s:s,s:s,s:s,s:{s:s},s:{s:s,s:s}}", "id", "0123456789ab", "name",
			 "web-1", "image", "debian:12", "status", "running", "created",
			 "2026-11-21T08:00:00Z", "network", "mode", "egress", "labels", "app",
			 "web", "empty", "");
}

/* Whether the record is one of those that the terms, up to three, want. */
static int wants(const char *a, const char *b, const char *c)
{
	struct filter f = { .keys = filter_sandbox_keys };
	autojson json_t *r = record();
	struct err e = { 0 };

	if (a)
		cr_assert_eq(filter_add(&f, a, &e), 0, "%s", e.msg);
	if (b)
		cr_assert_eq(filter_add(&f, b, &e), 0, "%s", e.msg);
	if (c)
		cr_assert_eq(filter_add(&f, c, &e), 0, "%s", e.msg);
	return filter_matches(&f, r);
}

Test(filter, without_a_term_everything_is_wanted)
{
	cr_assert(wants(NULL, NULL, NULL));
}

Test(filter, a_text_is_matched_as_a_pattern)
{
	cr_assert(wants("name=web-*", NULL, NULL));
	cr_assert(!wants("name=web", NULL, NULL));
	cr_assert(wants("ancestor=debian:*", "status=running", "network=egress"));
}

Test(filter, an_id_is_known_by_its_start)
{
	cr_assert(wants("id=0123", NULL, NULL));
	cr_assert(wants("id=*89ab", NULL, NULL));
	cr_assert(!wants("id=123", NULL, NULL));
	cr_assert(!wants("id=", NULL, NULL));
}

Test(filter, a_label_is_wanted_by_its_key_or_with_its_value)
{
	cr_assert(wants("label=app", NULL, NULL));
	cr_assert(wants("label=app=web", NULL, NULL));
	cr_assert(wants("label=empty=", NULL, NULL));
	cr_assert(!wants("label=app=we*", NULL, NULL), "a value is no pattern");
	cr_assert(!wants("label=ap", NULL, NULL));
}

Test(filter, all_labels_must_be_there)
{
	cr_assert(wants("label=app", "label=empty", NULL));
	cr_assert(!wants("label=app", "label=other", NULL));
}

Test(filter, of_one_key_one_value_is_enough_and_all_keys_must_hold)
{
	cr_assert(wants("status=paused", "status=running", NULL));
	cr_assert(!wants("status=paused", "status=running", "name=db"));
}

Test(filter, a_negated_term_must_not_hold)
{
	cr_assert(wants("label!=other", NULL, NULL));
	cr_assert(!wants("label!=app=web", NULL, NULL));
	cr_assert(!wants("name=web-1", "name!=web-*", NULL));
	cr_assert(!wants("status!=running", "status!=paused", NULL));
}

Test(filter, until_is_a_time_or_how_long_ago)
{
	cr_assert(wants("until=2026-11-21T08:00:01Z", NULL, NULL));
	cr_assert(!wants("until=2026-11-21T08:00:00Z", NULL, NULL));
	cr_assert(!wants("until=50000h", NULL, NULL));
}

Test(filter, what_is_no_term_is_refused_with_the_keys)
{
	static const char *const bad[] = { "",	     "=",      "name",	   "color=red",
					   "name!x", "label=", "label==x", "until=soon",
					   "nam=x",  "!=x" };
	struct filter f = { .keys = filter_sandbox_keys };
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		cr_assert_eq(filter_add(&f, bad[i], &e), -1, "'%s'", bad[i]);
		cr_assert_eq(e.code, ERR_INVALID, "'%s'", bad[i]);
	}
	filter_add(&f, "color=red", &e);
	cr_assert(strstr(e.msg, "hint: the keys are id=, name=") && strstr(e.msg, " and until="),
		  "%s", e.msg);
	cr_assert_eq(f.count, 0);
}

Test(filter, their_number_is_bounded)
{
	struct filter f = { .keys = filter_sandbox_keys };
	struct err e = { 0 };
	int i;

	for (i = 0; i < FILTER_TERMS_MAX; i++)
		cr_assert_eq(filter_add(&f, "label=x", &e), 0);
	cr_assert_eq(filter_add(&f, "label=x", &e), -1);
	cr_assert_eq(e.code, ERR_LIMIT);
}

Test(filter, a_record_without_the_member_is_not_wanted)
{
	struct filter f = { .keys = filter_sandbox_keys };
	autojson json_t *r = json_pack("{s:i}", "name", 7);
	struct err e = { 0 };

	filter_add(&f, "name=7", &e);
	cr_assert(!filter_matches(&f, r));
	cr_assert(!filter_has(&f, "status"));
	cr_assert(filter_has(&f, "name"));
}
