/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/eventlook.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/api/api.h"
#include "manager/host/journal.h"
#include "manager/host/registry.h"
#include "manager/service/dlog.h"

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

static void read_changes(struct eventlook *l)
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

static void watch(struct eventlook *l, const struct registry *r, int all)
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

static int read_one(void *ctx, const char *id, int kept, json_t *record)
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
		return registry_list(r, 1, read_one, &n, &e);
	json_object_foreach(l->changed, id, unused)
		if (registry_list_one(r, id, read_one, &n, &e) < 0)
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

static void tell(struct eventlook *l, const char *type, const char *id, const json_t *state)
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
		tell(l, "stopped", id, old);
	tell(l, "removed", id, old);
	json_object_del(l->seen, id);
}

static void compare(struct eventlook *l, const char *id, json_t *state)
{
	const json_t *old = json_object_get(l->seen, id);
	int runs = json_is_true(json_object_get(state, "running"));

	if (runs && json_is_true(json_object_get(old, "ending"))) {
		json_object_set_new(state, "running", json_false());
		json_object_set_new(state, "ending", json_true());
		runs = 0;
	}
	if (!old)
		tell(l, "created", id, state);
	if (runs && (!old || json_is_false(json_object_get(old, "running"))))
		tell(l, "started", id, state);
	if (old && !runs && json_is_true(json_object_get(old, "running")))
		tell(l, "stopped", id, state);
	if (old && !json_equal(json_object_get(old, "name"), json_object_get(state, "name")))
		tell(l, "renamed", id, state);
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
		compare(l, id, state);
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
		type && id && events_is_own(type) ? json_copy((json_t *)(size_t)entry) : NULL;
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
static void look(struct eventlook *l, struct registry *r, int state_fd, int all)
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

	read_changes(l);
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
	watch(l, &registry, all);
	look(l, &registry, state_fd, all);
	registry_close(&registry);
}
