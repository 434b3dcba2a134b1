/* SPDX-License-Identifier: Apache-2.0 */
/*
 * admission - whether one more sandbox fits: by number, by the memory and the CPUs
 * that all limits together promise.  First come, first served: who does not fit
 * waits in a queue of bounded length, at most for a bounded time and as long as it
 * is there, and nobody behind overtakes.  Exact: a place is taken under one lock before anything is made.
 */
#ifndef BERTH_MANAGER_SERVICE_ADMISSION_H
#define BERTH_MANAGER_SERVICE_ADMISSION_H

#include <pthread.h>
#include <stdint.h>

#include "base/err.h"

struct admission_limits {
	uint64_t count, memory_bytes, cpu_milli;	/* memory and cpu: 0 is not limited */
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
	int closed;		/* nobody gets in any more */
};

void admission_init(struct admission *a, const struct admission_limits *l);
void admission_release(struct admission *a);
void admission_set_limits(struct admission *a, const struct admission_limits *l);

/* What others take who do not enter here; none of it is in what has. */
void admission_set_others(struct admission *a, uint64_t count, uint64_t memory_bytes, uint64_t cpu_milli);

/*
 * Who waits: gone says that there is nobody any more (NULL: never), and is asked now and then; before that look, unless
 * NULL, may call admission_set_others().
 */
struct admission_asker {
	int (*gone)(void *ctx);
	void *ctx;
	void (*look)(void *ctx);
	void *look_ctx;
};

/*
 * ERR_LIMIT that names the limit; asker, if not NULL: take a place in the queue if there is one, ERR_NET when
 * he has gone meanwhile.  ERR_BUSY once closed.
 */
int admission_enter(struct admission *a, uint64_t memory_bytes, uint64_t cpu_milli, const struct admission_asker *asker, struct err *e);
/* What is there already, at start: beyond the limits if need be. */
void admission_count(struct admission *a, uint64_t memory_bytes, uint64_t cpu_milli);
/* What is in takes [1] and no longer [0]: ERR_LIMIT, and nothing changed, when the more does not fit; e NULL: it does. */
int admission_change(struct admission *a, const uint64_t memory[2], const uint64_t cpu[2], struct err *e);
void admission_leave(struct admission *a, uint64_t memory_bytes, uint64_t cpu_milli);
/* No more; those who wait are refused. */
void admission_close(struct admission *a);

#endif
