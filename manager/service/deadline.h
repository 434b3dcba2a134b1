/* SPDX-License-Identifier: Apache-2.0 */
/* deadline - makes a time for pthread_cond_timedwait(3) on a condition of CLOCK_MONOTONIC. */
#ifndef BERTH_MANAGER_SERVICE_DEADLINE_H
#define BERTH_MANAGER_SERVICE_DEADLINE_H

#include <stdint.h>
#include <time.h>

/* ms from now. */
static inline struct timespec deadline_after(uint64_t ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += (time_t)(ms / 1000);
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

#endif
