/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/json.h"
#include "manager/host/restart.h"

static int due(const char *text, int boot)
{
	struct err e;
	json_t *record = json_parse(text, strlen(text), 4096, "record", &e);
	int r;

	cr_assert(record, "%s: %s", text, e.msg);
	r = boot ? restart_is_due_at_boot(record) : restart_is_due(record);
	json_decref(record);
	return r;
}

Test(restart, a_policy_is_read_and_written_alike)
{
	static const char *const texts[] = { "no", "on-failure", "on-failure:7", "always", "unless-stopped" };
	static const char *const wrong[] = { "", "never", "on-failure:", "on-failure:0", "on-failure:x", "always:3", "on-failure:-1",
					     "on-failure:1000001" };
	struct restart_policy p;
	char out[RESTART_TEXT];
	struct err e;
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		cr_assert(restart_parse(texts[i], &p, &e) == 0, "%s: %s", texts[i], e.msg);
		restart_format(&p, out);
		cr_assert_str_eq(out, texts[i]);
	}
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		cr_assert(restart_parse(wrong[i], &p, &e) < 0, "%s", wrong[i]);
}

Test(restart, what_ended_by_itself_runs_again_as_the_policy_says)
{
	cr_assert(!due("{\"verdict\":{\"exit_status\":1}}", 0));
	cr_assert(!due("{\"restart\":\"no\",\"verdict\":{\"exit_status\":1}}", 0));
	cr_assert(!due("{\"restart\":\"nonsense\",\"verdict\":{\"exit_status\":1}}", 0));
	cr_assert(due("{\"restart\":\"always\",\"verdict\":{\"exit_status\":0}}", 0));
	cr_assert(due("{\"restart\":\"unless-stopped\",\"verdict\":{\"exit_status\":0}}", 0));
	cr_assert(!due("{\"restart\":\"on-failure\",\"verdict\":{\"exit_status\":0}}", 0));
	cr_assert(due("{\"restart\":\"on-failure\",\"verdict\":{\"exit_status\":137}}", 0));
}

Test(restart, a_killed_keeper_leaves_no_verdict_and_is_a_failure)
{
	cr_assert(due("{\"restart\":\"on-failure\",\"status\":\"running\"}", 0));
	cr_assert(due("{\"restart\":\"on-failure:2\",\"restarts\":1}", 0));
	cr_assert(!due("{\"restart\":\"on-failure:2\",\"restarts\":2}", 0));
	cr_assert(due("{\"restart\":\"always\",\"restarts\":1000}", 0));
}

Test(restart, what_was_stopped_by_hand_comes_back_at_a_boot_only_with_always)
{
	cr_assert(!due("{\"restart\":\"always\",\"stopped_by_hand\":true}", 0));
	cr_assert(due("{\"restart\":\"always\",\"stopped_by_hand\":true}", 1));
	cr_assert(!due("{\"restart\":\"unless-stopped\",\"stopped_by_hand\":true}", 1));
	cr_assert(due("{\"restart\":\"unless-stopped\"}", 1));
	cr_assert(!due("{\"restart\":\"on-failure\",\"verdict\":{\"exit_status\":0}}", 1));
	cr_assert(!due("{\"restart\":\"no\"}", 1));
}

Test(restart, the_wait_doubles_to_a_minute_and_begins_anew_after_a_long_life)
{
	uint64_t wait = 0;
	int i;

	cr_assert_eq(restart_backoff(0, 0), 100);
	cr_assert_eq(restart_backoff(100, 9999), 200);
	cr_assert_eq(restart_backoff(25600, 10000), 100);
	for (i = 0; i < 20; i++)
		wait = restart_backoff(wait, 0);
	cr_assert_eq(wait, 60000);
}
