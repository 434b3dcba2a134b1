/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/service/admission.h"

#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "manager/service/deadline.h"

#define LOOK_MS 200	/* interval after which a client's departure is noticed */

void admission_init(struct admission *a, const struct admission_limits *l)
{
	pthread_condattr_t attr;

	*a = (struct admission){ .limits = *l };
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, &attr);
	pthread_condattr_destroy(&attr);
}

void admission_release(struct admission *a)
{
	pthread_mutex_destroy(&a->lock);
	pthread_cond_destroy(&a->changed);
}

void admission_set_limits(struct admission *a, const struct admission_limits *l)
{
	pthread_mutex_lock(&a->lock);
	a->limits = *l;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

void admission_set_others(struct admission *a, uint64_t count, uint64_t memory_bytes, uint64_t cpu_milli)
{
	pthread_mutex_lock(&a->lock);
	a->other_count = count;
	a->other_memory_bytes = memory_bytes;
	a->other_cpu_milli = cpu_milli;
	pthread_mutex_unlock(&a->lock);
}

/* The others' sums may exceed the limits. */
static uint64_t sum_with_others(uint64_t ours, uint64_t others)
{
	uint64_t both;

	return __builtin_add_overflow(ours, others, &both) ? UINT64_MAX : both;
}

static int look_at_sums(const struct admission *a, uint64_t memory, uint64_t cpu, struct err *e)
{
	const struct admission_limits *l = &a->limits;
	uint64_t memory_bytes = sum_with_others(a->memory_bytes, a->other_memory_bytes), cpu_milli = sum_with_others(a->cpu_milli, a->other_cpu_milli);

	if (memory && l->memory_bytes && (memory > l->memory_bytes || memory_bytes > l->memory_bytes - memory))
		return err_set(e, ERR_LIMIT, "%" PRIu64 " of %" PRIu64 " bytes of memory are promised, %" PRIu64 " more do not fit; "
			       "hint: [admission] memory", memory_bytes, l->memory_bytes, memory);
	if (cpu && l->cpu_milli && (cpu > l->cpu_milli || cpu_milli > l->cpu_milli - cpu))
		return err_set(e, ERR_LIMIT, "%" PRIu64 ".%03u of %" PRIu64 ".%03u CPUs are promised; hint: [admission] cpus",
			       cpu_milli / 1000, (unsigned)(cpu_milli % 1000), l->cpu_milli / 1000, (unsigned)(l->cpu_milli % 1000));
	return 0;
}

/* Returns 0 if it fits now. */
static int check_admission_room(const struct admission *a, uint64_t memory, uint64_t cpu, struct err *e)
{
	const struct admission_limits *l = &a->limits;

	if (a->closed)
		return err_set(e, ERR_BUSY, "the manager is ending");
	if (sum_with_others(a->count, a->other_count) >= l->count)
		return err_set(e, ERR_LIMIT, "%" PRIu64 " sandboxes run, the limit is %" PRIu64 "; hint: stop or release some, or raise "
			       "[manager] max_sandboxes", sum_with_others(a->count, a->other_count), l->count);
	return look_at_sums(a, memory, cpu, e);
}

/* Could it ever fit? */
static int is_too_large(const struct admission *a, uint64_t memory, uint64_t cpu)
{
	return (a->limits.memory_bytes && memory > a->limits.memory_bytes) || (a->limits.cpu_milli && cpu > a->limits.cpu_milli);
}

static void take_admission_room(struct admission *a, uint64_t memory, uint64_t cpu)
{
	a->count++;
	a->memory_bytes += memory;
	a->cpu_milli += cpu;
}

struct admission_waiter {
	struct admission_waiter *next;
};

static int is_before(const struct timespec *x, const struct timespec *y)
{
	return x->tv_sec != y->tv_sec ? x->tv_sec < y->tv_sec : x->tv_nsec < y->tv_nsec;
}

/*
 * Waits in the queue, under the lock, until it is the first and fits, is late, or its asker has
 * gone.
 */
static int await_turn(struct admission *a, const struct admission_waiter *self, uint64_t memory, uint64_t cpu,
		      const struct admission_asker *asker, struct err *e)
{
	const struct timespec until = deadline_after(a->limits.queue_timeout_ms);

	for (;;) {
		struct timespec look_at = deadline_after(LOOK_MS), now;

		if (asker->gone && asker->gone(asker->ctx))
			return err_set(e, ERR_NET, "the client has gone");
		if (asker->look) {
			pthread_mutex_unlock(&a->lock);
			asker->look(asker->look_ctx);
			pthread_mutex_lock(&a->lock);
		}
		if (a->first == self && check_admission_room(a, memory, cpu, e) == 0) {
			take_admission_room(a, memory, cpu);
			return 0;
		}
		now = deadline_after(0);
		if (a->closed || !is_before(&now, &until))
			return check_admission_room(a, memory, cpu, e) < 0 ? -1 :
			       err_set(e, ERR_LIMIT, "no room within %" PRIu64 " ms; others were first", a->limits.queue_timeout_ms);
		pthread_cond_timedwait(&a->changed, &a->lock, is_before(&look_at, &until) ? &look_at : &until);
	}
}

static int queue(struct admission *a, uint64_t memory, uint64_t cpu, const struct admission_asker *asker, struct err *e)
{
	struct admission_waiter self = { NULL }, **at;
	int r;

	for (at = &a->first; *at; at = &(*at)->next)
		;
	*at = &self;
	a->waiting++;
	r = await_turn(a, &self, memory, cpu, asker, e);
	for (at = &a->first; *at != &self; at = &(*at)->next)
		;
	*at = self.next;
	a->waiting--;
	/* another request is the first now */
	pthread_cond_broadcast(&a->changed);
	return r;
}

int admission_enter(struct admission *a, uint64_t memory_bytes, uint64_t cpu_milli, const struct admission_asker *asker, struct err *e)
{
	int r;

	pthread_mutex_lock(&a->lock);
	if (!a->waiting) {
		r = check_admission_room(a, memory_bytes, cpu_milli, e);
		if (r == 0)
			take_admission_room(a, memory_bytes, cpu_milli);
	} else {
		r = err_set(e, ERR_LIMIT, "%" PRIu64 " requests wait for room already", a->waiting);
	}
	if (r < 0 && asker && !a->closed && a->waiting < a->limits.queue_length && !is_too_large(a, memory_bytes, cpu_milli))
		r = queue(a, memory_bytes, cpu_milli, asker, e);
	a->refused += r < 0 && e->code != ERR_NET;
	pthread_mutex_unlock(&a->lock);
	return r;
}

void admission_count(struct admission *a, uint64_t memory_bytes, uint64_t cpu_milli)
{
	pthread_mutex_lock(&a->lock);
	take_admission_room(a, memory_bytes, cpu_milli);
	pthread_mutex_unlock(&a->lock);
}

int admission_change(struct admission *a, const uint64_t memory[2], const uint64_t cpu[2], struct err *e)
{
	uint64_t more_memory = memory[1] > memory[0] ? memory[1] - memory[0] : 0, more_cpu = cpu[1] > cpu[0] ? cpu[1] - cpu[0] : 0;
	int r;

	pthread_mutex_lock(&a->lock);
	r = e ? look_at_sums(a, more_memory, more_cpu, e) : 0;
	if (r == 0) {
		a->memory_bytes += memory[1] - memory[0];
		a->cpu_milli += cpu[1] - cpu[0];
		pthread_cond_broadcast(&a->changed);
	}
	pthread_mutex_unlock(&a->lock);
	return r;
}

void admission_leave(struct admission *a, uint64_t memory_bytes, uint64_t cpu_milli)
{
	pthread_mutex_lock(&a->lock);
	a->count--;
	a->memory_bytes -= memory_bytes;
	a->cpu_milli -= cpu_milli;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

void admission_close(struct admission *a)
{
	pthread_mutex_lock(&a->lock);
	a->closed = 1;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
}
