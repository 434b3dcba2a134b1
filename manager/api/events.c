/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/events.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/api/api.h"
#include "manager/host/events.h"
#include "manager/host/list.h"
#include "manager/service/dlog.h"

#define LISTENERS_MAX 256
#define LISTENERS_SPARE 32	/* that only administrators get */
#define LOOKS_MAX 4
#define SETTLE_MS 20		/* a sandbox is made in several steps: one look for all of them */
/* a record may be written in place: its directory was another sandbox's (rundir.h) */
#define IN_WHAT (IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_ONLYDIR)

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
	uint64_t journal_at;		/* the cursor behind what was read of the journal; the thread's own, too */
	json_t *seen;			/* id -> {"name","running","owner","awaited","ending"}; the thread's own */
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

/* ---- watching the registry ------------------------------------------------------------- */

struct look {
	struct registry registry;
	json_t *now;
};

static void watch_dir(int inotify, int dirfd, const char *name)
{
	char path[120];

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%.64s", dirfd, name);
	/* it was removed meanwhile, or is watched already */
	(void)!inotify_add_watch(inotify, path, IN_WHAT);
}

/* Every directory, including one whose record is not written yet. */
static void watch_all(int inotify, int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	watch_dir(inotify, dirfd, ".");
	while (d && (entry = readdir(d)))
		if (path_is_name(entry->d_name))
			watch_dir(inotify, dirfd, entry->d_name);
	if (d)
		closedir(d);
	else
		fd_close(&fd);
}

static int look_at(void *ctx, const char *id, int kept, json_t *record)
{
	struct look *l = ctx;
	struct err ignored;
	autojson json_t *owner = registry_load(&l->registry, id, REGISTRY_OWNER, &ignored);

	json_object_set_new(l->now, id, json_pack("{s:O?,s:b,s:O?}", "name", json_object_get(record, "name"), "running", !kept, "owner",
						  json_object_get(owner, "name")));
	return 0;
}

/* when NULL: now */
static void tell_of(struct events *ev, const char *type, const char *id, const json_t *state, json_t *when)
{
	json_t *event = json_pack("{s:s,s:s}", "type", type, "sandbox", id);
	json_t *name = json_object_get(state, "name");

	if (when)
		json_object_set(event, "time", when);
	if (name)
		json_object_set(event, "name", name);
	events_publish(ev, json_string_value(json_object_get(state, "owner")), event);
}

static void tell(struct events *ev, const char *type, const char *id, const json_t *state)
{
	tell_of(ev, type, id, state, NULL);
}

static void compare(struct events *ev, json_t *now)
{
	const char *id;
	json_t *state, *old;

	json_object_foreach(now, id, state) {
		int runs = json_is_true(json_object_get(state, "running"));

		old = json_object_get(ev->seen, id);
		if (runs && json_is_true(json_object_get(old, "ending"))) {
			json_object_set_new(state, "running", json_false());
			json_object_set_new(state, "ending", json_true());
			runs = 0;
		}
		if (!old)
			tell(ev, "created", id, state);
		if (runs && (!old || json_is_false(json_object_get(old, "running"))))
			tell(ev, "started", id, state);
		if (old && !runs && json_is_true(json_object_get(old, "running")))
			tell(ev, "stopped", id, state);
		if (old && !json_equal(json_object_get(old, "name"), json_object_get(state, "name")))
			tell(ev, "renamed", id, state);
	}
	json_object_foreach(ev->seen, id, state) {
		if (json_object_get(now, id))
			continue;
		if (json_is_true(json_object_get(state, "awaited"))) {
			json_object_set(now, id, state);	/* the journal has it, and will have its end */
			continue;
		}
		if (json_is_true(json_object_get(state, "running")))
			tell(ev, "stopped", id, state);
		tell(ev, "removed", id, state);
	}
}

/* ---- the journal: what happened while nobody listened, and what it alone tells ---------------- */

/* For a sandbox that may be gone already: the client that asked us to make it, if any. */
static json_t *find_owner(struct events *ev, const char *id)
{
	autojson json_t *record = NULL;
	json_t *owner = NULL;
	struct registry registry;
	struct config c;
	struct err ignored;
	size_t i;

	api_config(ev->api, &c);
	if (registry_open(&registry, &c, &ignored) == 0) {
		record = registry_load(&registry, id, REGISTRY_OWNER, &ignored);
		registry_close(&registry);
	}
	if (json_object_get(record, "name"))
		return json_incref(json_object_get(record, "name"));
	pthread_mutex_lock(&ev->lock);
	for (i = 0; i < EVENTS_KEPT && !owner; i++) {
		const struct kept *k = &ev->ring[i];
		const char *op = json_string_value(json_object_get(k->event, "op")), *of = json_string_value(json_object_get(k->event, "sandbox"));

		if (op && of && k->owner[0] && !strcmp(op, "POST /v1/sandboxes") && !strcmp(of, id))
			owner = json_string(k->owner);
	}
	pthread_mutex_unlock(&ev->lock);
	return owner;
}

static void set_running(struct events *ev, const char *id, json_t *state, int runs, json_t *when)
{
	if (json_is_true(json_object_get(state, "running")) == runs)
		return;
	json_object_set_new(state, "running", json_boolean(runs));
	json_object_set_new(state, "ending", json_boolean(!runs));
	tell_of(ev, runs ? "started" : "stopped", id, state, when);
}

/* An event without a change was reported when it was seen in the registry. */
static void relive(struct events *ev, const json_t *entry)
{
	const char *what = json_string_value(json_object_get(entry, "event")), *id = json_string_value(json_object_get(entry, "id"));
	json_t *name = json_object_get(entry, "name"), *when = json_object_get(entry, "time"), *state;

	if (!what || !id || !ev->seen)
		return;
	state = json_object_get(ev->seen, id);
	if (!state && !strcmp(what, "create")) {
		/* it is reported before it is in the registry */
		state = json_pack("{s:O?,s:b,s:o?,s:b}", "name", name, "running", 0, "owner", find_owner(ev, id), "awaited", 1);
		json_object_set_new(ev->seen, id, state);
		tell_of(ev, "created", id, state, when);
	} else if (!state) {
		return;		/* it ran in the foreground, or was reported before */
	} else if (!strcmp(what, "start")) {
		set_running(ev, id, state, 1, when);
	} else if (!strcmp(what, "stop") || !strcmp(what, "die")) {
		set_running(ev, id, state, 0, when);
	} else if (!strcmp(what, "rename") && name && !json_equal(name, json_object_get(state, "name"))) {
		json_object_set(state, "name", name);
		tell_of(ev, "renamed", id, state, when);
	} else if (!strcmp(what, "rm") || !strcmp(what, "create-failed")) {
		set_running(ev, id, state, 0, when);
		tell_of(ev, "removed", id, state, when);
		json_object_del(ev->seen, id);
	}
}

static void tell_entry(struct events *ev, const json_t *entry)
{
	static const char *const own[] = { "event", "id", "cursor", "tenant" };
	const char *type = json_string_value(json_object_get(entry, "event")), *id = json_string_value(json_object_get(entry, "id"));
	const json_t *owner = json_object_get(entry, "tenant");	/* of a zygote, gone or not */
	json_t *event = type && id && events_is_own(type) ? json_copy((json_t *)(size_t)entry) : NULL;
	size_t i;

	if (!event)
		return;
	for (i = 0; i < ARRAY_LEN(own); i++)
		json_object_del(event, own[i]);
	json_object_update_new(event, json_pack("{s:s,s:s}", "type", type, "sandbox", id));
	owner = owner ? owner : json_object_get(json_object_get(ev->seen, id), "owner");
	events_publish(ev, json_string_value(owner), event);
}

/* Reads what was added since the last reading; with skip without reporting it. */
static void read_journal(struct events *ev, int state_fd, int skip)
{
	struct journal_reader r;
	json_t *entry;
	struct err e;

	if (state_fd < 0 || journal_open(&r, state_fd, EVENTS_FILE, ev->journal_at, &e) < 0)
		return;
	while (journal_next(&r, &entry, &e) > 0) {
		ev->journal_at = (uint64_t)json_integer_value(json_object_get(entry, "cursor"));
		if (!skip) {
			tell_entry(ev, entry);
			relive(ev, entry);
		}
		json_decref(entry);
	}
	journal_reader_close(&r);
}

/* Reports those that are no longer in the registry. */
static size_t count_gone(struct events *ev, const json_t *now)
{
	const char *id;
	json_t *state;
	size_t n = 0;

	json_object_foreach(ev->seen, id, state)
		n += !json_object_get(now, id);
	return n;
}

/*
 * Events of the journal have their own time; events that the journal does not have (yet) have
 * the present time. The registry is read second, so that nothing is reported twice: an event
 * that the journal reported first, a creation ("awaited") or a stop ("ending"), stays reported
 * until the registry shows it too. A sandbox that is gone by then may have written events since,
 * so the journal is read once more, and the registry after it.
 */
static void look(struct events *ev, int inotify, int state_fd)
{
	struct look l = { .now = NULL };
	size_t gone = 0, before;
	struct config c;
	struct err e;
	int r = 0, tries = 0;

	api_config(ev->api, &c);
	if (registry_open(&l.registry, &c, &e) < 0) {
		dlog_error("events", &e);
		return;
	}
	watch_all(inotify, l.registry.sandboxes_fd);
	watch_all(inotify, l.registry.kept_fd);
	do {
		before = gone;
		json_decref(l.now);
		l.now = json_object();
		read_journal(ev, state_fd, 0);
		r = registry_list(&l.registry, 1, look_at, &l, &e);
		gone = r == 0 ? count_gone(ev, l.now) : 0;
	} while (gone > before && ++tries < LOOKS_MAX);
	if (r == 0) {
		if (ev->seen)
			compare(ev, l.now);
		json_decref(ev->seen);
		ev->seen = json_incref(l.now);
	}
	registry_close(&l.registry);
	json_decref(l.now);
}

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

static void *run(void *arg)
{
	struct events *ev = arg;
	int inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	autoclose int state = -1, journal = -1;
	char piece[16384];
	struct err ignored;
	eventfd_t n;
	int idle = 1;

	if (inotify >= 0)
		/* existing sandboxes are not events; and on a fresh host this makes state_dir */
		look(ev, inotify, -1);
	state = open_state(ev);
	if (state >= 0)
		journal = journal_watch(state, &ignored);
	read_journal(ev, state, 1);
	while (!atomic_load(&ev->stopping) && inotify >= 0) {
		int heard = anybody(ev), changed;
		struct pollfd p[3] = { { .fd = ev->wake_fd, .events = POLLIN }, { .fd = heard ? inotify : -1, .events = POLLIN },
				       { .fd = heard ? journal : -1, .events = POLLIN } };

		if (poll(p, 3, -1) < 0)
			continue;
		if (p[0].revents)
			(void)!eventfd_read(ev->wake_fd, &n);
		if (atomic_load(&ev->stopping))
			break;
		poll(NULL, 0, SETTLE_MS);
		if (!anybody(ev)) {
			/* the journal is not read on: it is there for the next listener */
			idle = 1;
			continue;
		}
		changed = p[0].revents != 0 || idle;
		while (read(inotify, piece, sizeof(piece)) > 0)
			changed = 1;	/* it may have come while things settled */
		/* commands are in the journal too: for those alone the registry is not looked through */
		if (changed)
			look(ev, inotify, state);
		idle = 0;
		if (journal >= 0)
			journal_drain(journal);
		read_journal(ev, state, 0);
	}
	fd_close(&inotify);
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
	json_decref(ev->seen);
	fd_close(&ev->wake_fd);
	pthread_mutex_destroy(&ev->lock);
	free(ev);
}
