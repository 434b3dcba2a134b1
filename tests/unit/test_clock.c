/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "base/clock.h"

Test(clock, of_two_deadlines_the_earlier_counts)
{
	cr_assert_eq(clock_earlier(10, 20), 10);
	cr_assert_eq(clock_earlier(20, 10), 10);
}

Test(clock, a_deadline_that_is_not_there_is_never_the_earlier)
{
	cr_assert_eq(clock_earlier(0, 20), 20);
	cr_assert_eq(clock_earlier(20, 0), 20);
	cr_assert_eq(clock_earlier(0, 0), 0);
}

Test(clock, poll_waits_for_ever_without_a_deadline)
{
	cr_assert_eq(clock_poll_ms(0, 5, 100), -1);
}

Test(clock, poll_does_not_wait_for_what_is_due_and_at_most_as_long_as_it_may)
{
	cr_assert_eq(clock_poll_ms(5, 5, 100), 0);
	cr_assert_eq(clock_poll_ms(4, 5, 100), 0);
	cr_assert_eq(clock_poll_ms(6, 5, 100), 1);
	cr_assert_eq(clock_poll_ms(1005, 5, 100), 100);
	cr_assert_eq(clock_poll_ms(UINT64_MAX, 5, 100), 100);
}
