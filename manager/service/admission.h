/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission - decides whether one more sandbox fits: by number, and by the sums of all memory and
 * CPU limits.
 *
 * Requests are served in order: one that does not fit waits in a queue of bounded length, at most
 * for a bounded time and as long as its client is connected, and no later request overtakes it. The
 * count is exact: a place is taken under one lock before anything is made.
 */
#ifndef BERTH_MANAGER_SERVICE_ADMISSION_H
#define BERTH_MANAGER_SERVICE_ADMISSION_H

#include <pthread.h>
#include <stdint.h>

#include "base/err.h"

struct admission_limits {
	uint64_t count, memory_bytes, cpu_milli;	/* memory and cpu: 0: no limit */
	uint64_t queue_length, queue_timeout_ms;
};

struct admission_waiter;

struct admission {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct admission_limits limits;
	uint64_t count, memory_bytes, cpu_milli;	/* taken */
	uint64_t other_count, other_memory_bytes, other_cpu_milli;	/* taken by others, when they were last looked at */
	struct admission_waiter *first;	/* of the queue */
	uint64_t waiting;
	uint64_t refused;
	int closed;		/* no new entries */
};

void admission_init(struct admission *a, const struct admission_limits *l);
void admission_release(struct admission *a);
void admission_set_limits(struct admission *a, const struct admission_limits *l);

/* Sets the sum of others that do not enter here; it does not include `has`. */
void admission_set_others(struct admission *a, uint64_t count, uint64_t memory_bytes, uint64_t cpu_milli);

/*
 * A waiting client. gone reports that it has left (NULL: never), and is called from time to time.
 * Before that, look, unless NULL, may call admission_set_others().
 */
struct admission_asker {
	int (*gone)(void *ctx);
	void *ctx;
	void (*look)(void *ctx);
	void *look_ctx;
};

/*
 * Takes a place: ERR_LIMIT, naming the limit, if none is free. With an asker it waits in the queue
 * if that has room; ERR_NET if the client has left meanwhile. ERR_BUSY once closed.
 */
int admission_enter(struct admission *a, uint64_t memory_bytes, uint64_t cpu_milli, const struct admission_asker *asker, struct err *e);
/* Enters an existing sandbox at start, even beyond the limits. */
void admission_count(struct admission *a, uint64_t memory_bytes, uint64_t cpu_milli);
/*
 * Changes an entry from [0] to [1]: ERR_LIMIT, and no change, if the difference does not fit; e
 * NULL: no check.
 */
int admission_change(struct admission *a, const uint64_t memory[2], const uint64_t cpu[2], struct err *e);
void admission_leave(struct admission *a, uint64_t memory_bytes, uint64_t cpu_milli);
/* Closes the queue; waiting requests are refused. */
void admission_close(struct admission *a);

#endif
