/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/events.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/eventlook.h"
#include "manager/host/journal.h"

#define LISTENERS_MAX 256
#define LISTENERS_SPARE 32	/* that only administrators get */
#define SETTLE_MS 20		/* a sandbox is made in several steps: one look for all of them */

struct kept {
	json_t *event;
	char owner[65];
};

struct events {
	struct api *api;
	pthread_mutex_t lock;
	struct kept ring[EVENTS_KEPT];
	uint64_t last;			/* number of the newest; the first is 1 */
	int listeners[LISTENERS_MAX];	/* eventfds, or -1 */
	unsigned count;
	pthread_t thread;
	int runs;
	int wake_fd;			/* wakes for a new listener, or the end */
	_Atomic int stopping;
};

/* ---- the ring ---------------------------------------------------------------------- */

void events_publish(struct events *ev, const char *owner, json_t *event)
{
	struct kept *k;
	struct timespec t;
	char when[JOURNAL_TIME];
	int i;

	if (!json_object_get(event, "time")) {
		clock_gettime(CLOCK_REALTIME, &t);
		journal_time(&t, when);
		json_object_set_new(event, "time", json_string(when));
	}
	pthread_mutex_lock(&ev->lock);
	k = &ev->ring[++ev->last % EVENTS_KEPT];
	json_decref(k->event);
	json_object_set_new(event, "event", json_integer((json_int_t)ev->last));
	k->event = event;
	snprintf(k->owner, sizeof(k->owner), "%s", owner ? owner : "");
	for (i = 0; i < LISTENERS_MAX; i++)
		if (ev->listeners[i] >= 0)
			(void)!eventfd_write(ev->listeners[i], 1);
	pthread_mutex_unlock(&ev->lock);
}

uint64_t events_last(struct events *ev)
{
	uint64_t n;

	pthread_mutex_lock(&ev->lock);
	n = ev->last;
	pthread_mutex_unlock(&ev->lock);
	return n;
}

json_t *events_after(struct events *ev, uint64_t *at, const struct http_who *who, const char *sandbox)
{
	json_t *found = NULL;
	uint64_t n;

	pthread_mutex_lock(&ev->lock);
	n = *at + 1;
	if (ev->last >= EVENTS_KEPT && n + EVENTS_KEPT <= ev->last)
		n = ev->last - EVENTS_KEPT + 1;
	for (; !found && n <= ev->last; n++) {
		const struct kept *k = &ev->ring[n % EVENTS_KEPT];
		const char *of = json_string_value(json_object_get(k->event, "sandbox"));

		*at = n;
		if ((who->admin || (k->owner[0] && !strcmp(k->owner, who->name))) && (!sandbox || (of && !strcmp(of, sandbox))))
			found = json_deep_copy(k->event);	/* a document is one thread's */
	}
	pthread_mutex_unlock(&ev->lock);
	return found;
}

int events_subscribe(struct events *ev, int is_admin, struct err *e)
{
	const int max = is_admin ? LISTENERS_MAX : LISTENERS_MAX - LISTENERS_SPARE;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), i;

	if (fd < 0)
		return err_sys(e, "make an eventfd");
	pthread_mutex_lock(&ev->lock);
	for (i = 0; i < max && ev->listeners[i] >= 0; i++)
		;
	if (i < max) {
		ev->listeners[i] = fd;
		ev->count++;
	}
	pthread_mutex_unlock(&ev->lock);
	if (i == max) {
		close(fd);
		return err_set(e, ERR_LIMIT, "%d clients listen to events already", max);
	}
	(void)!eventfd_write(ev->wake_fd, 1);
	return fd;
}

void events_unsubscribe(struct events *ev, int fd)
{
	int i;

	pthread_mutex_lock(&ev->lock);
	for (i = 0; i < LISTENERS_MAX; i++) {
		if (ev->listeners[i] == fd && fd >= 0) {
			ev->listeners[i] = -1;
			ev->count--;
			close(fd);
		}
	}
	pthread_mutex_unlock(&ev->lock);
}

/* As long as the event of that request is kept. */
static json_t *maker(void *ctx, const char *sandbox)
{
	struct events *ev = ctx;
	json_t *owner = NULL;
	size_t i;

	pthread_mutex_lock(&ev->lock);
	for (i = 0; i < EVENTS_KEPT && !owner; i++) {
		const struct kept *k = &ev->ring[i];
		const char *op = json_string_value(json_object_get(k->event, "op"));
		const char *of = json_string_value(json_object_get(k->event, "sandbox"));

		if (op && of && k->owner[0] && !strcmp(op, "POST /v1/sandboxes") &&
		    !strcmp(of, sandbox))
			owner = json_string(k->owner);
	}
	pthread_mutex_unlock(&ev->lock);
	return owner;
}

static void publish(void *ctx, const char *owner, json_t *event)
{
	events_publish(ctx, owner, event);
}

/* ---- the thread ----------------------------------------------------------------------- */

static int open_state(struct events *ev)
{
	struct config c;

	api_config(ev->api, &c);
	return open(c.state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int anybody(struct events *ev)
{
	int n;

	pthread_mutex_lock(&ev->lock);
	n = ev->count > 0;
	pthread_mutex_unlock(&ev->lock);
	return n;
}

/* Until somebody listens nothing is read: it is there for the next listener. */
static void watch(struct events *ev, struct eventlook *l, int state)
{
	struct err ignored;
	autoclose int journal = state < 0 ? -1 : journal_watch(state, &ignored);
	eventfd_t n;

	eventlook_journal(l, state, 1);
	while (!atomic_load(&ev->stopping)) {
		const int heard = anybody(ev);
		struct pollfd p[3] = { { .fd = ev->wake_fd, .events = POLLIN },
				       { .fd = heard ? l->inotify : -1, .events = POLLIN },
				       { .fd = heard ? journal : -1, .events = POLLIN } };

		if (poll(p, 3, -1) < 0)
			continue;
		if (p[0].revents)
			(void)!eventfd_read(ev->wake_fd, &n);
		if (atomic_load(&ev->stopping))
			break;
		poll(NULL, 0, SETTLE_MS);
		if (!anybody(ev))
			continue;
		/* commands are in the journal too: for those alone no sandbox is looked at */
		eventlook_look(l, state);
		if (journal >= 0)
			journal_drain(journal);
		eventlook_journal(l, state, 0);
	}
}

static void *run(void *arg)
{
	struct events *ev = arg;
	const struct eventlook_to to = { ev, publish, maker };
	autoclose int state = -1;
	struct eventlook l;

	if (eventlook_open(&l, ev->api, &to) == 0) {
		/* existing sandboxes are not events; and on a fresh host this makes state_dir */
		eventlook_look(&l, -1);
		state = open_state(ev);
		watch(ev, &l, state);
	}
	eventlook_close(&l);
	return NULL;
}

struct events *events_new(struct api *a, struct err *e)
{
	struct events *ev = calloc(1, sizeof(*ev));
	int i, r;

	if (!ev) {
		err_nomem(e);
		return NULL;
	}
	ev->api = a;
	pthread_mutex_init(&ev->lock, NULL);
	for (i = 0; i < LISTENERS_MAX; i++)
		ev->listeners[i] = -1;
	ev->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r = ev->wake_fd < 0 ? -1 : pthread_create(&ev->thread, NULL, run, ev);
	if (r) {
		err_set(e, ERR_SYS, "start the thread for events");
		events_free(ev);
		return NULL;
	}
	ev->runs = 1;
	return ev;
}

void events_free(struct events *ev)
{
	int i;

	if (!ev)
		return;
	atomic_store(&ev->stopping, 1);
	if (ev->runs) {
		(void)!eventfd_write(ev->wake_fd, 1);
		pthread_join(ev->thread, NULL);
	}
	for (i = 0; i < EVENTS_KEPT; i++)
		json_decref(ev->ring[i].event);
	fd_close(&ev->wake_fd);
	pthread_mutex_destroy(&ev->lock);
	free(ev);
}
