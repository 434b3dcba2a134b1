/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock - the time, by the system call.
 *
 * clock_gettime(3) of musl finds its way through the vDSO at the first call (vdso(7)), which is five page faults and a search of
 * its symbols: thirty microseconds where the system call takes a fifth of one.  That is dear for a process that asks twice, and little
 * is lost by one that asks once a turn of its loop.
 */
#ifndef BERTH_BASE_CLOCK_H
#define BERTH_BASE_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* id as in clock_gettime(2), one that every kernel has. */
static inline struct timespec clock_now(clockid_t id)
{
	struct timespec t = { 0 };

	if (syscall(SYS_clock_gettime, id, &t) < 0)	/* a filter around us that has forgotten it */
		clock_gettime(id, &t);
	return t;
}

static inline uint64_t clock_ms_of(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Milliseconds of CLOCK_MONOTONIC. */
static inline uint64_t clock_ms(void)
{
	return clock_ms_of(clock_now(CLOCK_MONOTONIC));
}

/* Milliseconds since 1970. */
static inline uint64_t clock_wall_ms(void)
{
	return clock_ms_of(clock_now(CLOCK_REALTIME));
}

#endif
