/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/events.h"

#include <dirent.h>
#include <errno.h>
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
#include "manager/host/journal.h"
#include "manager/host/registry.h"
#include "manager/service/dlog.h"

/* ---- what changed in the registry ---- */

#define LOOKS_MAX 4
/* a record may be written in place: its directory was another sandbox's (manager/host/registry.h) */
#define IN_WHAT                                                                                    \
	(IN_CREATE | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_ONLYDIR)

int eventlook_open(struct eventlook *l, struct api *a, const struct eventlook_to *to)
{
	*l = (struct eventlook){ .api = a, .to = *to, .all = 1 };
	l->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	l->watched = json_object();
	l->changed = json_object();
	return l->inotify < 0 || !l->watched || !l->changed ? -1 : 0;
}

void eventlook_close(struct eventlook *l)
{
	fd_close(&l->inotify);
	json_decref(l->seen);
	json_decref(l->watched);
	json_decref(l->changed);
}

/* ---- which sandboxes changed ------------------------------------------------------------ */

static void note_change(struct eventlook *l, const struct inotify_event *in)
{
	const char *id;
	char key[16];

	snprintf(key, sizeof(key), "%d", in->wd);
	id = json_string_value(json_object_get(l->watched, key));
	if (in->mask & IN_Q_OVERFLOW || (in->mask & IN_IGNORED && id && !id[0]))
		l->all = 1;
	if (in->mask & IN_IGNORED) {
		json_object_del(l->watched, key);
		return;
	}
	if (id && !id[0] && in->len)
		id = in->name;
	if (id && path_is_name(id) && json_object_set_new(l->changed, id, json_true()) < 0)
		l->all = 1;
}

static void read_registry_changes(struct eventlook *l)
{
	_Alignas(struct inotify_event) char piece[16384];
	ssize_t n, at;

	while ((n = read(l->inotify, piece, sizeof(piece))) > 0) {
		for (at = 0; at < n;) {
			const struct inotify_event *in = (const void *)(piece + at);

			note_change(l, in);
			at += (ssize_t)(sizeof(*in) + in->len);
		}
	}
}

/* A directory that was another sandbox's (manager/host/registry.h) has the watch descriptor of that one. */
static void watch_dir(struct eventlook *l, int dirfd, const char *name, const char *id)
{
	char path[120], key[16];
	int wd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%.64s", dirfd, name);
	wd = inotify_add_watch(l->inotify, path, IN_WHAT);
	snprintf(key, sizeof(key), "%d", wd);
	if (wd >= 0 ? json_object_set_new(l->watched, key, json_string(id)) < 0 :
		      errno != ENOENT && errno != ENOTDIR)
		l->all = 1; /* of a directory without a watch no change is known */
}

/* Every directory, including one whose record is not written yet. */
static void watch_each(struct eventlook *l, int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	watch_dir(l, dirfd, ".", "");
	while (d && (entry = readdir(d)))
		if (path_is_name(entry->d_name))
			watch_dir(l, dirfd, entry->d_name, entry->d_name);
	if (d)
		closedir(d);
	else
		fd_close(&fd);
}

static void watch_registry(struct eventlook *l, const struct registry *r, int all)
{
	const char *id;
	json_t *unused;

	if (all) {
		watch_each(l, r->sandboxes_fd);
		watch_each(l, r->kept_fd);
		return;
	}
	json_object_foreach(l->changed, id, unused) {
		watch_dir(l, r->sandboxes_fd, id, id);
		watch_dir(l, r->kept_fd, id, id);
	}
}

/* ---- what changed in them --------------------------------------------------------------- */

struct reading {
	struct registry *registry;
	json_t *now;
};

static int read_sandbox_state(void *ctx, const char *id, int kept, json_t *record)
{
	struct reading *n = ctx;
	struct err ignored;
	autojson json_t *owner = registry_load(n->registry, id, REGISTRY_OWNER, &ignored);

	json_object_set_new(n->now, id,
			    json_pack("{s:O?,s:b,s:O?}", "name", json_object_get(record, "name"),
				      "running", !kept, "owner", json_object_get(owner, "name")));
	return 0;
}

/* Into ret, by id: all sandboxes, or those of the changed ones that exist. */
static int read_registry(struct eventlook *l, struct registry *r, int all, json_t *ret)
{
	struct reading n = { r, ret };
	const char *id;
	json_t *unused;
	struct err e;

	if (all)
		return registry_list(r, 1, read_sandbox_state, &n, &e);
	json_object_foreach(l->changed, id, unused)
		if (registry_list_one(r, id, read_sandbox_state, &n, &e) < 0)
			return -1;
	return 0;
}

/* when NULL: now */
static void tell_of(struct eventlook *l, const char *type, const char *id, const json_t *state,
		    json_t *when)
{
	json_t *event = json_pack("{s:s,s:s}", "type", type, "sandbox", id);
	json_t *name = json_object_get(state, "name");

	if (when)
		json_object_set(event, "time", when);
	if (name)
		json_object_set(event, "name", name);
	l->to.publish(l->to.ctx, json_string_value(json_object_get(state, "owner")), event);
}

static void tell_sandbox_event(struct eventlook *l, const char *type, const char *id, const json_t *state)
{
	tell_of(l, type, id, state, NULL);
}

/* A sandbox that is not in the registry. */
static void compare_gone(struct eventlook *l, const char *id)
{
	const json_t *old = json_object_get(l->seen, id);

	/* one that is awaited is in the journal, and its end will be */
	if (!old || json_is_true(json_object_get(old, "awaited")))
		return;
	if (json_is_true(json_object_get(old, "running")))
		tell_sandbox_event(l, "stopped", id, old);
	tell_sandbox_event(l, "removed", id, old);
	json_object_del(l->seen, id);
}

static void compare_sandbox_state(struct eventlook *l, const char *id, json_t *state)
{
	const json_t *old = json_object_get(l->seen, id);
	int runs = json_is_true(json_object_get(state, "running"));

	if (runs && json_is_true(json_object_get(old, "ending"))) {
		json_object_set_new(state, "running", json_false());
		json_object_set_new(state, "ending", json_true());
		runs = 0;
	}
	if (!old)
		tell_sandbox_event(l, "created", id, state);
	if (runs && (!old || json_is_false(json_object_get(old, "running"))))
		tell_sandbox_event(l, "started", id, state);
	if (old && !runs && json_is_true(json_object_get(old, "running")))
		tell_sandbox_event(l, "stopped", id, state);
	if (old && !json_equal(json_object_get(old, "name"), json_object_get(state, "name")))
		tell_sandbox_event(l, "renamed", id, state);
	json_object_set(l->seen, id, state);
}

static void compare_all(struct eventlook *l, json_t *now, int all)
{
	const char *id;
	json_t *state;
	void *next;

	if (!l->seen) {
		l->seen = json_incref(now);
		return;
	}
	json_object_foreach(now, id, state)
		compare_sandbox_state(l, id, state);
	json_object_foreach_safe(all ? l->seen : l->changed, next, id, state)
		if (!json_object_get(now, id))
			compare_gone(l, id);
}

/* The number of those that were seen and are not in the registry now. */
static size_t count_gone(const struct eventlook *l, const json_t *now, int all)
{
	const char *id;
	json_t *unused;
	size_t n = 0;

	json_object_foreach(all ? l->seen : l->changed, id, unused)
		n += json_object_get(l->seen, id) && !json_object_get(now, id);
	return n;
}

/* ---- the journal: what happened while nobody listened, and what it alone tells ------------ */

/* For a sandbox that may be gone already: the client that asked us to make it, if any. */
static json_t *find_owner(struct eventlook *l, const char *id)
{
	autojson json_t *record = NULL;
	struct registry registry;
	struct config c;
	struct err ignored;

	api_config(l->api, &c);
	if (registry_open(&registry, &c, &ignored) == 0) {
		record = registry_load(&registry, id, REGISTRY_OWNER, &ignored);
		registry_close(&registry);
	}
	return json_object_get(record, "name") ? json_incref(json_object_get(record, "name")) :
						 l->to.maker(l->to.ctx, id);
}

static void set_running(struct eventlook *l, const char *id, json_t *state, int runs, json_t *when)
{
	if (json_is_true(json_object_get(state, "running")) == runs)
		return;
	json_object_set_new(state, "running", json_boolean(runs));
	json_object_set_new(state, "ending", json_boolean(!runs));
	tell_of(l, runs ? "started" : "stopped", id, state, when);
}

/* It is reported before it is in the registry. */
static void relive_create(struct eventlook *l, const char *id, json_t *name, json_t *when)
{
	json_t *state = json_pack("{s:O?,s:b,s:o?,s:b}", "name", name, "running", 0, "owner",
				  find_owner(l, id), "awaited", 1);

	json_object_set_new(l->seen, id, state);
	tell_of(l, "created", id, state, when);
}

/* An event without a change was reported when it was seen in the registry. */
static void relive(struct eventlook *l, const json_t *entry)
{
	const char *what = json_string_value(json_object_get(entry, "event"));
	const char *id = json_string_value(json_object_get(entry, "id"));
	json_t *name = json_object_get(entry, "name"), *when = json_object_get(entry, "time");
	json_t *state;

	if (!what || !id || !l->seen)
		return;
	state = json_object_get(l->seen, id);
	if (!state && !strcmp(what, "create")) {
		relive_create(l, id, name, when);
	} else if (!state) {
		return; /* it ran in the foreground, or was reported before */
	} else if (!strcmp(what, "start")) {
		set_running(l, id, state, 1, when);
	} else if (!strcmp(what, "stop") || !strcmp(what, "die")) {
		set_running(l, id, state, 0, when);
	} else if (!strcmp(what, "rename") && name &&
		   !json_equal(name, json_object_get(state, "name"))) {
		json_object_set(state, "name", name);
		tell_of(l, "renamed", id, state, when);
	} else if (!strcmp(what, "rm") || !strcmp(what, "create-failed")) {
		set_running(l, id, state, 0, when);
		tell_of(l, "removed", id, state, when);
		json_object_del(l->seen, id);
	}
}

static void tell_entry(struct eventlook *l, const json_t *entry)
{
	static const char *const own[] = { "event", "id", "cursor", "tenant" };
	const char *type = json_string_value(json_object_get(entry, "event"));
	const char *id = json_string_value(json_object_get(entry, "id"));
	/* the tenant of a zygote, gone or not */
	const json_t *owner = json_object_get(entry, "tenant");
	json_t *event =
		type && id && id[0] && events_is_own(type) ? json_copy((json_t *)(size_t)entry) : NULL;
	size_t i;

	if (!event)
		return;
	for (i = 0; i < ARRAY_LEN(own); i++)
		json_object_del(event, own[i]);
	json_object_update_new(event, json_pack("{s:s,s:s}", "type", type, "sandbox", id));
	owner = owner ? owner : json_object_get(json_object_get(l->seen, id), "owner");
	l->to.publish(l->to.ctx, json_string_value(owner), event);
}

void eventlook_journal(struct eventlook *l, int state_fd, int skip)
{
	struct journal_reader r;
	json_t *entry;
	struct err e;

	if (state_fd < 0 || journal_open(&r, state_fd, EVENTS_FILE, l->journal_at, &e) < 0)
		return;
	while (journal_next(&r, &entry, &e) > 0) {
		l->journal_at =
			(uint64_t)json_integer_value(json_object_get(entry, "cursor"));
		if (!skip) {
			tell_entry(l, entry);
			relive(l, entry);
		}
		json_decref(entry);
	}
	journal_reader_close(&r);
}

/* ---- a look ------------------------------------------------------------------------------- */

/*
 * Events of the journal have their own time; events that the journal does not have (yet) have
 * the present time. The registry is read second, so that nothing is reported twice: an event
 * that the journal reported first, a creation ("awaited") or a stop ("ending"), stays reported
 * until the registry shows it too. A sandbox that is gone by then may have written events since,
 * so the journal is read once more, and the registry after it.
 */
static void look_at_registry(struct eventlook *l, struct registry *r, int state_fd, int all)
{
	autojson json_t *now = NULL;
	size_t gone = 0, before;
	int result, tries = 0;

	do {
		before = gone;
		json_decref(now);
		now = json_object();
		eventlook_journal(l, state_fd, 0);
		result = now ? read_registry(l, r, all, now) : -1;
		gone = result == 0 ? count_gone(l, now, all) : 0;
	} while (gone > before && ++tries < LOOKS_MAX);
	if (result < 0) {
		l->all = 1;
		return;
	}
	compare_all(l, now, all);
	json_object_clear(l->changed);
}

void eventlook_look(struct eventlook *l, int state_fd)
{
	struct registry registry;
	struct config c;
	struct err e;
	int all;

	read_registry_changes(l);
	if (!l->all && !json_object_size(l->changed))
		return;
	api_config(l->api, &c);
	if (registry_open(&registry, &c, &e) < 0) {
		dlog_error("events", &e);
		l->all = 1;
		return;
	}
	all = l->all;
	l->all = 0;
	watch_registry(l, &registry, all);
	look_at_registry(l, &registry, state_fd, all);
	registry_close(&registry);
}

/* ---- events and their listeners ---- */

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
static void watch_for_events(struct events *ev, struct eventlook *l, int state)
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

static void *run_events_thread(void *arg)
{
	struct events *ev = arg;
	const struct eventlook_to to = { ev, publish, maker };
	autoclose int state = -1;
	struct eventlook l;

	if (eventlook_open(&l, ev->api, &to) == 0) {
		/* existing sandboxes are not events; and on a fresh host this makes state_dir */
		eventlook_look(&l, -1);
		state = open_state(ev);
		watch_for_events(ev, &l, state);
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
	r = ev->wake_fd < 0 ? -1 : pthread_create(&ev->thread, NULL, run_events_thread, ev);
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
