/* SPDX-License-Identifier: Apache-2.0 */
#include "base/histogram.h"

#include <inttypes.h>

#include "base/mem.h"

/* A claim takes a millisecond, a create tens, and a command may take minutes. */
static const struct {
	uint64_t us;
	const char *seconds;
} bounds[] = {
	{ 500, "0.0005" }, { 1000, "0.001" }, { 2500, "0.0025" }, { 5000, "0.005" }, { 10000, "0.01" }, { 25000, "0.025" },
	{ 50000, "0.05" }, { 100000, "0.1" }, { 250000, "0.25" }, { 500000, "0.5" }, { 1000000, "1" }, { 2500000, "2.5" },
	{ 5000000, "5" }, { 10000000, "10" }, { 60000000, "60" }, { 300000000, "300" },
};

_Static_assert(ARRAY_LEN(bounds) + 1 == HISTOGRAM_BUCKETS, "a bound for each bucket but the last");

void histogram_observe(struct histogram *h, uint64_t us)
{
	size_t i = 0;

	while (i < ARRAY_LEN(bounds) && us > bounds[i].us)
		i++;
	atomic_fetch_add(&h->sum_us, us);
	atomic_fetch_add(&h->count[i], 1);
}

int histogram_print(struct histogram *h, const char *name, const char *help, struct buf *out, struct err *e)
{
	uint64_t below = 0, sum;
	size_t i;

	if (buf_addf(out, e, "# HELP berth_%s_seconds %s\n# TYPE berth_%s_seconds histogram\n", name, help, name) < 0)
		return -1;
	for (i = 0; i < HISTOGRAM_BUCKETS; i++) {
		below += atomic_load(&h->count[i]);
		if (buf_addf(out, e, "berth_%s_seconds_bucket{le=\"%s\"} %" PRIu64 "\n", name,
			     i < ARRAY_LEN(bounds) ? bounds[i].seconds : "+Inf", below) < 0)
			return -1;
	}
	sum = atomic_load(&h->sum_us);
	return buf_addf(out, e, "berth_%s_seconds_sum %" PRIu64 ".%06" PRIu64 "\nberth_%s_seconds_count %" PRIu64 "\n", name,
			sum / 1000000, sum % 1000000, name, below);
}
