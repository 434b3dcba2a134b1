/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram - how long something took, counted in fixed buckets, as Prometheus reads it.
 *
 * Any thread may observe.  A scrape that runs meanwhile sees each count at a moment of its own, but
 * the buckets of one scrape never decrease and end in _count.
 */
#ifndef BERTH_BASE_HISTOGRAM_H
#define BERTH_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define HISTOGRAM_BUCKETS 17	/* the last one has no bound */

struct histogram {	/* zeroed: nothing was observed */
	_Atomic uint64_t count[HISTOGRAM_BUCKETS];
	_Atomic uint64_t sum_us;
};

void histogram_observe(struct histogram *h, uint64_t us);
/* HELP, TYPE and the series of berth_NAME_seconds. */
int histogram_print(struct histogram *h, const char *name, const char *help, struct buf *out, struct err *e);

#endif
