/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether sandboxes can be made and stored now: the store is asked at each question, the object store beside the scans, as it
 * may take long to say no.  Until it has answered once nobody knows.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "manager/objects/storage.h"
#include "manager/service/dlog.h"
#include "manager/service/state.h"

#define GOOD_MS 60000	/* from a good answer to the next question */
#define BAD_MS 5000

static void note(struct service *s, const struct err *why)
{
	int was;

	pthread_mutex_lock(&s->lock);
	was = s->storage_state;
	s->storage_state = why ? STORAGE_FAILS : STORAGE_ANSWERS;
	s->storage_looked_ms = clock_ms();
	if (why)
		s->storage_error = *why;
	pthread_mutex_unlock(&s->lock);
	if (why && was != STORAGE_FAILS)
		dlog_error("storage", why);
	else if (!why && was == STORAGE_FAILS)
		dlog_note(DLOG_NOTICE, "the storage takes objects again");
}

static void probe(struct service *s, const char *name)
{
	struct err e;
	int r = storage_probe(s->storage, name, &e);

	/* an end of berthd cuts it short, which says nothing of the storage */
	if (r == 0 || !storage_use_stopped_ms())
		note(s, r < 0 ? &e : NULL);
}

void ready_look(struct service *s)
{
	uint64_t now = clock_ms();
	int due;

	pthread_mutex_lock(&s->lock);
	due = s->storage_state == STORAGE_UNKNOWN || now - s->storage_looked_ms >= (s->storage_state == STORAGE_FAILS ? BAD_MS : GOOD_MS);
	pthread_mutex_unlock(&s->lock);
	if (s->storage && due)
		chore_begin(s, probe, s->host, "");
}

int service_ready(struct service *s, struct err *e)
{
	int r = 0;

	if (ledger_ping(s->ledger, e) < 0)
		return err_wrap(e, "the store does not answer");
	if (!s->storage)
		return 0;
	pthread_mutex_lock(&s->lock);
	if (s->storage_state == STORAGE_UNKNOWN)
		r = err_set(e, ERR_BUSY, "the storage has not answered yet");
	else if (s->storage_state == STORAGE_FAILS)
		*e = s->storage_error;
	if (s->storage_state == STORAGE_FAILS)
		r = -1;
	pthread_mutex_unlock(&s->lock);
	return r < 0 && e->code != ERR_BUSY ? err_wrap(e, "the storage cannot be used") : r;
}
