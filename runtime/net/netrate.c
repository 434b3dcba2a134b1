/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/netrate.h"

#define BURST_MIN 16384ULL
#define BURST_MAX (4ULL << 20)
#define WORTH 4096ULL

uint64_t netrate_burst(uint64_t rate)
{
	const uint64_t burst = rate / 20;

	return burst < BURST_MIN ? BURST_MIN : burst > BURST_MAX ? BURST_MAX : burst;
}

size_t netrate_room(struct netrate *r, uint64_t rate, uint64_t now_ms, size_t want)
{
	const uint64_t burst = netrate_burst(rate);
	uint64_t earned, room;

	if (!rate)
		return want;
	earned = now_ms - r->at_ms;
	earned = earned > 1000000 ? UINT64_MAX : earned * rate;
	r->lacking = earned >= r->lacking ? 0 : r->lacking - earned;
	r->at_ms = now_ms;
	/* what passed unasked, with the head of a request, is a debt */
	if (r->lacking > (burst - WORTH) * 1000)
		return 0;
	room = burst - (r->lacking + 999) / 1000;
	return room < want ? (size_t)room : want;
}

void netrate_spend(struct netrate *r, uint64_t rate, size_t n)
{
	if (rate)
		r->lacking += n * 1000;
}

uint64_t netrate_wait_ms(const struct netrate *r, uint64_t rate)
{
	const uint64_t may_lack = (netrate_burst(rate) - WORTH) * 1000;

	return !rate || r->lacking <= may_lack ? 0 : (r->lacking - may_lack + rate - 1) / rate;
}
