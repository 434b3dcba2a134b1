/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "runtime/net/netpolicy.h"

#define RATE (256u << 10)

Test(netrate, a_full_bucket_lets_one_burst_pass)
{
	struct netrate r = { 0 };
	const size_t burst = netrate_burst(RATE);

	cr_assert_eq(netrate_room(&r, RATE, 5000, 1 << 20), burst);
	netrate_spend(&r, RATE, burst);
	cr_assert_eq(netrate_room(&r, RATE, 5000, 1 << 20), 0);
	cr_assert_gt(netrate_wait_ms(&r, RATE), 0);
}

Test(netrate, time_fills_it_at_the_rate)
{
	struct netrate r = { .at_ms = 1 };
	uint64_t now = 5000, passed = 0, end = now + 10000;

	while (now < end) {
		const size_t n = netrate_room(&r, RATE, now, 1 << 20);
		uint64_t wait;

		netrate_spend(&r, RATE, n);
		passed += n;
		wait = netrate_wait_ms(&r, RATE);
		cr_assert(n || wait, "it says when to ask again");
		now += wait;
	}
	cr_assert_leq(passed, netrate_burst(RATE) + 10ull * RATE + RATE / 10);
	cr_assert_geq(passed, 10ull * RATE - RATE / 10);
}

Test(netrate, what_passed_unasked_is_paid_back)
{
	struct netrate r = { .at_ms = 1000 };

	netrate_room(&r, RATE, 1000, 1);
	netrate_spend(&r, RATE, 10 * RATE);
	cr_assert_eq(netrate_room(&r, RATE, 10900, 1), 0);
	cr_assert_eq(netrate_room(&r, RATE, 11000, 1), 1);
}

Test(netrate, without_a_rate_all_passes)
{
	struct netrate r = { 0 };

	cr_assert_eq(netrate_room(&r, 0, 1, 1 << 30), 1 << 30);
	netrate_spend(&r, 0, 1 << 30);
	cr_assert_eq(netrate_wait_ms(&r, 0), 0);
	cr_assert_eq(netrate_room(&r, 0, 1, 7), 7);
}

Test(netrate, bursts_are_within_bounds)
{
	cr_assert_eq(netrate_burst(NETRATE_MIN), 16 << 10);
	cr_assert_eq(netrate_burst(1 << 20), (1 << 20) / 20);
	cr_assert_eq(netrate_burst(NETRATE_MAX), 4 << 20);
}
