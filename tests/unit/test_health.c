/* SPDX-License-Identifier: Apache-2.0 */
/* What the results of health checks make of the status. */
#include <criterion/criterion.h>
#include <string.h>

#include "manager/keeper/health.h"

static const struct health_spec spec = { NULL, 1000, 500, 0, 100, 3 };

/* A check that began at at_ms and exits with exit_code 10 ms later. */
static int add(struct health *h, uint64_t at_ms, int exit_code, const char *output)
{
	struct health_result r = { .began_ms = at_ms, .exit_code = exit_code };

	if (output) {
		r.output = strdup(output);
		r.output_len = strlen(output);
	}
	return health_add(h, &r, at_ms + 10);
}

Test(health, the_first_check_is_due_after_the_interval_and_the_next_after_the_end_of_the_last)
{
	struct health h;

	health_init(&h, &spec, 5000);
	cr_assert_eq(h.next_ms, 6000);
	cr_assert_eq(h.status, HEALTH_STARTING);
	cr_assert(add(&h, 6000, 0, NULL));
	cr_assert_eq(h.next_ms, 7010);
	cr_assert_eq(h.status, HEALTH_HEALTHY);
	cr_assert_not(add(&h, 7010, 0, NULL));
	health_release(&h);
}

Test(health, only_failures_in_a_row_make_it_unhealthy)
{
	struct health h;

	health_init(&h, &spec, 0);
	cr_assert_not(add(&h, 1, 1, NULL));
	cr_assert_not(add(&h, 2, 1, NULL));
	cr_assert(add(&h, 3, 0, NULL));
	cr_assert_not(add(&h, 4, 1, NULL));
	cr_assert_not(add(&h, 5, 137, NULL));
	cr_assert_eq(h.status, HEALTH_HEALTHY);
	cr_assert(add(&h, 6, 124, NULL));
	cr_assert_eq(h.status, HEALTH_UNHEALTHY);
	cr_assert_not(add(&h, 7, 1, NULL));
	cr_assert_eq(h.streak, 4);
	cr_assert(add(&h, 8, 0, NULL));
	cr_assert_eq(h.status, HEALTH_HEALTHY);
	cr_assert_eq(h.streak, 0);
	health_release(&h);
}

Test(health, in_the_start_period_failures_count_only_after_a_success)
{
	struct health_spec s = spec;
	struct health h;

	s.start_period_ms = 2000;
	s.retries = 1;
	health_init(&h, &s, 0);
	cr_assert_eq(h.next_ms, 100);
	cr_assert_not(add(&h, 100, 1, NULL));
	cr_assert_eq(h.next_ms, 210);
	/* it began within the period, and ended after it */
	cr_assert_not(add(&h, 1995, 1, NULL));
	cr_assert_eq(h.next_ms, 3005);
	cr_assert_eq(h.streak, 0);
	cr_assert(add(&h, 3005, 1, NULL));
	cr_assert_eq(h.status, HEALTH_UNHEALTHY);
	health_release(&h);

	health_init(&h, &s, 0);
	cr_assert(add(&h, 100, 0, NULL));
	cr_assert_eq(h.next_ms, 1110);
	cr_assert(add(&h, 1110, 1, NULL));
	cr_assert_eq(h.status, HEALTH_UNHEALTHY);
	health_release(&h);
}

Test(health, the_last_five_results_stay_with_whole_characters)
{
	struct health h;
	json_t *j, *log;
	char text[8];
	int i;

	health_init(&h, &spec, 0);
	for (i = 0; i < 7; i++) {
		snprintf(text, sizeof(text), "%d\xc3\xa4\xc3", i);
		add(&h, (uint64_t)i, 0, text);
	}
	j = health_json(&h);
	log = json_object_get(j, "log");
	cr_assert_eq(json_array_size(log), HEALTH_RESULTS);
	cr_assert_str_eq(json_string_value(json_object_get(json_array_get(log, 0), "output")), "2\xc3\xa4");
	cr_assert_str_eq(json_string_value(json_object_get(json_array_get(log, 4), "output")), "6\xc3\xa4");
	json_decref(j);
	health_release(&h);
}
