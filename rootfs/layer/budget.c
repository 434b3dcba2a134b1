/* SPDX-License-Identifier: Apache-2.0 */
/* Counts a layer against its own limits and those of its maker. */
#include "rootfs/layer/layer.h"

int layer_budget_take(struct layer_budget *b, uint64_t bytes, struct err *e)
{
	uint64_t left;

	if (!b)
		return 0;
	left = atomic_load(&b->left);
	do {
		if (left < bytes)
			return err_set(e, ERR_LIMIT, "the image is more than its tenant may have; "
				       "hint: remove others, or [tenant] own_image_bytes in "
				       "berth.toml");
	} while (!atomic_compare_exchange_weak(&b->left, &left, left - bytes));
	return 0;
}

int layer_charge(const struct layer_limits *limits, struct layer_stats *st, uint64_t bytes,
		 struct err *e)
{
	st->charged += bytes;
	return layer_budget_take(limits->budget, bytes, e);
}

int layer_count_entry(const struct layer_limits *limits, struct layer_progress *progress,
		      struct layer_stats *st, struct err *e)
{
	if (++st->entries > limits->entries)
		return err_set(e, ERR_LIMIT, "the layer has more than %llu entries",
			       (unsigned long long)limits->entries);
	if (progress)
		atomic_store_explicit(&progress->entries, st->entries, memory_order_relaxed);
	return layer_charge(limits, st, LAYER_ENTRY_BYTES, e);
}

int layer_count_bytes(const struct layer_limits *limits, struct layer_progress *progress,
		      struct layer_stats *st, uint64_t bytes, struct err *e)
{
	st->bytes += bytes;
	if (st->bytes > limits->bytes)
		return err_set(e, ERR_LIMIT, "the layer holds more than %llu bytes",
			       (unsigned long long)limits->bytes);
	if (progress)
		atomic_store_explicit(&progress->bytes, st->bytes, memory_order_relaxed);
	return layer_charge(limits, st, bytes, e);
}
