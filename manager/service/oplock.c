/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/service/oplock.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "manager/service/deadline.h"
#define ALONE_WAIT_MS 20000	/* wait for a process that has it alone */
#define FORCED_MS 5000	/* a cut operation ends within this */

struct oplock_entry {
	struct oplock_entry *next;
	char name[65];
	unsigned running, waiting;
	int alone, brief;	/* brief: by oplock_try_alone() */
	struct oplock *ops;
};

struct oplocks {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct oplock_entry *entries;
};

struct oplocks *oplocks_new(struct err *e)
{
	struct oplocks *l = calloc(1, sizeof(*l));
	pthread_condattr_t a;

	if (!l) {
		err_nomem(e);
		return NULL;
	}
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->changed, &a);
	pthread_condattr_destroy(&a);
	return l;
}

void oplocks_free(struct oplocks *l)
{
	struct oplock_entry *n;

	if (!l)
		return;
	while ((n = l->entries)) {
		l->entries = n->next;
		free(n);
	}
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->changed);
	free(l);
}

static struct oplock_entry *find_oplock(struct oplocks *l, const char *name)
{
	struct oplock_entry *n = l->entries;

	while (n && strcmp(n->name, name))
		n = n->next;
	return n;
}

static struct oplock_entry *find_or_add(struct oplocks *l, const char *name, struct err *e)
{
	struct oplock_entry *n = find_oplock(l, name);

	if (n)
		return n;
	n = calloc(1, sizeof(*n));
	if (!n) {
		err_nomem(e);
		return NULL;
	}
	snprintf(n->name, sizeof(n->name), "%s", name);
	n->next = l->entries;
	l->entries = n;
	return n;
}

static void drop_unused(struct oplocks *l, struct oplock_entry *entry)
{
	struct oplock_entry **at = &l->entries;

	if (entry->running || entry->alone || entry->waiting)
		return;
	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	free(entry);
}

/* Waits until no operation has it alone, but not longer than ms; the lock is held. */
static void wait_not_alone(struct oplocks *l, struct oplock_entry *n, uint64_t ms)
{
	const struct timespec until = deadline_after(ms);

	n->waiting++;
	while (n->alone && pthread_cond_timedwait(&l->changed, &l->lock, &until) != ETIMEDOUT)
		;
	n->waiting--;
}

int oplock_enter(struct oplocks *l, const char *name, struct oplock *op, struct err *e)
{
	struct oplock_entry *n;
	int r = 0;

	*op = (struct oplock){ .all = l, .sock = -1 };
	pthread_mutex_lock(&l->lock);
	n = find_or_add(l, name, e);
	/* a stop or an archive ends soon; after the wait the caller looks at the record again */
	if (n && n->alone)
		wait_not_alone(l, n, ALONE_WAIT_MS);
	if (!n) {
		r = -1;
	} else if (n->alone) {
		r = err_set(e, ERR_BUSY, "sandbox %s is being removed or moved", name);
	} else {
		n->running++;
		op->entry = n;
		op->next = n->ops;
		n->ops = op;
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

void oplock_set_sock(struct oplock *op, int sock)
{
	pthread_mutex_lock(&op->all->lock);
	op->sock = sock;
	if (op->forced && sock >= 0)
		shutdown(sock, SHUT_RDWR);
	pthread_mutex_unlock(&op->all->lock);
}

int oplock_leave(struct oplock *op)
{
	struct oplock **at;

	if (!op->entry)
		return 0;
	pthread_mutex_lock(&op->all->lock);
	for (at = &op->entry->ops; *at != op; at = &(*at)->next)
		;
	*at = op->next;
	op->entry->running--;
	drop_unused(op->all, op->entry);
	op->entry = NULL;
	pthread_cond_broadcast(&op->all->changed);
	pthread_mutex_unlock(&op->all->lock);
	return op->forced;
}

static int wait_empty(struct oplocks *l, struct oplock_entry *n, uint64_t ms)
{
	const struct timespec until = deadline_after(ms);

	while (n->running)
		if (pthread_cond_timedwait(&l->changed, &l->lock, &until) == ETIMEDOUT)
			return !n->running;
	return 1;
}

int oplock_alone(struct oplocks *l, const char *name, uint64_t drain_ms, struct err *e)
{
	struct oplock_entry *n;
	struct oplock *op;
	int r = 0;

	pthread_mutex_lock(&l->lock);
	n = find_or_add(l, name, e);
	/* a release must not fail because the sandbox is being stopped for its idleness just now */
	if (n && n->alone && (drain_ms || n->brief))
		wait_not_alone(l, n, ALONE_WAIT_MS);
	if (!n) {
		r = -1;
	} else if (n->alone) {
		r = err_set(e, ERR_BUSY, "sandbox %s is being removed or moved already", name);
	} else {
		n->alone = 1;
		n->waiting++;
		if (!wait_empty(l, n, drain_ms)) {
			for (op = n->ops; op; op = op->next) {
				op->forced = 1;
				if (op->sock >= 0)
					shutdown(op->sock, SHUT_RDWR);
			}
			if (!wait_empty(l, n, FORCED_MS))
				r = err_set(e, ERR_TIMEOUT, "%u operations on sandbox %s do not end", n->running, name);
		}
		n->waiting--;
		if (r < 0) {
			n->alone = 0;
			drop_unused(l, n);
		}
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}

int oplock_try_alone(struct oplocks *l, const char *name, struct err *e)
{
	struct oplock_entry *n;
	int r = 0;

	pthread_mutex_lock(&l->lock);
	n = find_or_add(l, name, e);
	if (!n)
		r = -1;
	else if (n->alone || n->running)
		r = err_set(e, ERR_BUSY, "sandbox %s is in use", name);
	else
		n->alone = n->brief = 1;
	pthread_mutex_unlock(&l->lock);
	return r;
}

void oplock_alone_end(struct oplocks *l, const char *name)
{
	struct oplock_entry *n;

	pthread_mutex_lock(&l->lock);
	n = find_oplock(l, name);
	if (n) {
		n->alone = n->brief = 0;
		drop_unused(l, n);
		pthread_cond_broadcast(&l->changed);
	}
	pthread_mutex_unlock(&l->lock);
}

unsigned oplock_count(struct oplocks *l, const char *name)
{
	struct oplock_entry *n;
	unsigned count = 0;

	pthread_mutex_lock(&l->lock);
	for (n = l->entries; n; n = n->next)
		if (!name || !strcmp(n->name, name))
			count += n->running;
	pthread_mutex_unlock(&l->lock);
	return count;
}
