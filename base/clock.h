/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock - the time, by the system call.
 *
 * clock_gettime(3) of musl looks the vDSO up at its first call (vdso(7)). The search costs five
 * page faults, about thirty microseconds, where the system call takes a fifth of a microsecond.
 * That is too much for a process that asks twice, and a process that asks once in each turn of
 * its loop loses little.
 */
#ifndef BERTH_BASE_CLOCK_H
#define BERTH_BASE_CLOCK_H

#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* id as in clock_gettime(2); it must be a clock that every kernel has. */
static inline struct timespec clock_now(clockid_t id)
{
	struct timespec t = { 0 };

	/* an outer seccomp filter does not allow the call */
	if (syscall(SYS_clock_gettime, id, &t) < 0)
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

/* Microseconds of CLOCK_MONOTONIC. */
static inline uint64_t clock_us(void)
{
	const struct timespec t = clock_now(CLOCK_MONOTONIC);

	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Milliseconds since 1970. */
static inline uint64_t clock_wall_ms(void)
{
	return clock_ms_of(clock_now(CLOCK_REALTIME));
}

/*
 * A deadline is a time of clock_ms(), or 0 for none. It holds no other meaning: whether
 * something has happened already is a flag or an enum beside it.
 */

/* The earlier of two deadlines; either may be 0. */
static inline uint64_t clock_earlier(uint64_t a, uint64_t b)
{
	return !a || (b && b < a) ? b : a;
}

/* The timeout for poll(2) until the deadline, at most most_ms; -1 if there is no deadline. */
static inline int clock_poll_ms(uint64_t deadline_ms, uint64_t now_ms, int most_ms)
{
	if (!deadline_ms)
		return -1;
	if (deadline_ms <= now_ms)
		return 0;
	return deadline_ms - now_ms > (uint64_t)most_ms ? most_ms : (int)(deadline_ms - now_ms);
}

#define CLOCK_UTC 40	/* the size of a text of clock_utc() */

/* "2026-11-23T20:57:00Z": t in UTC, as RFC 3339 writes it. */
static inline void clock_utc(time_t t, char ret_text[CLOCK_UTC])
{
	struct tm tm;

	gmtime_r(&t, &tm);
	strftime(ret_text, CLOCK_UTC, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

#endif
