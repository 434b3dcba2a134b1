/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scan - looks at all sessions and records, each scan_interval: it finds those that are late, due,
 * gone or over, and starts the chores.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/host/buildcache.h"
#include "manager/host/forget.h"
#include "manager/host/volume.h"
#include "manager/service/deadline.h"
#include "manager/service/state.h"
#include "manager/service/stored.h"

/* ---- when a sandbox is due ---- */

/* Times after which an idle sandbox stops, is archived, is released: [session] auto_*, or its
 * owner's for this sandbox. */

#define YEAR_S (366 * 86400LL)

static const struct {
	const char *name, *own;
} intervals[] = {
	{"auto_stop", "auto_stop_ms"},
	{"auto_archive", "auto_archive_ms"},
	{"auto_delete", "auto_delete_ms"},
};

/* Reads an interval: 1 with ms, 0 if it is missing or null: the configuration's applies. */
static int read_interval(const json_t *args, const char *name, uint64_t *ret_ms, struct err *e)
{
	const json_t *v = json_object_get(args, name);

	if (!v || json_is_null(v))
		return 0;
	if (json_is_string(v))
		return num_duration_ms(json_string_value(v), name, (uint64_t)YEAR_S * 1000, ret_ms,
				       e) < 0 ?
			       -1 :
			       1;
	if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > YEAR_S)
		return err_set(
			e, ERR_INVALID,
			"\"%s\" is not a time; hint: seconds, or such as \"15m\"; 0 is never",
			name);
	*ret_ms = (uint64_t)json_integer_value(v) * 1000;
	return 1;
}

int interval_check(const json_t *args, struct err *e)
{
	uint64_t ms;
	size_t i;

	for (i = 0; i < ARRAY_LEN(intervals); i++)
		if (read_interval(args, intervals[i].name, &ms, e) < 0)
			return -1;
	return 0;
}

int interval_note(struct record *r, const json_t *args, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(intervals); i++) {
		uint64_t ms;
		int given = read_interval(args, intervals[i].name, &ms, e);

		if (given < 0)
			return -1;
		if (given)
			record_set_own(r, intervals[i].own, json_integer((json_int_t)ms));
		else if (json_object_get(args, intervals[i].name))
			record_set_own(r, intervals[i].own, json_null());
	}
	return 0;
}

void interval_inherit(struct record *to, const struct record *from)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(intervals); i++) {
		json_t *v = json_object_get(json_object_get(from->j, "berth"), intervals[i].own);

		if (v)
			record_set_own(to, intervals[i].own, json_incref(v));
	}
}

static uint64_t one_of(const struct record *r, const char *own, uint64_t of_all)
{
	return json_is_integer(json_object_get(json_object_get(r->j, "berth"), own)) ?
		       record_own_u64(r, own) :
		       of_all;
}

struct intervals interval_of(const struct record *r, const struct conf *c)
{
	return (struct intervals){one_of(r, "auto_stop_ms", c->auto_stop_ms),
				  one_of(r, "auto_archive_ms", c->auto_archive_ms),
				  one_of(r, "auto_delete_ms", c->auto_delete_ms)};
}

static int change_intervals(struct record *r, void *ctx, struct err *e)
{
	return interval_note(r, ctx, e) < 0 ? -1 : 1;
}

json_t *service_intervals(struct service *s, const struct service_who *who, const char *identity,
			  const json_t *args, struct err *e)
{
	autorecord struct record r = {.j = NULL};
	struct intervals its;

	if (record_load(s, who, identity, 1, &r, e) < 0 ||
	    (json_object_size(args) &&
	     (interval_note(&r, args, e) < 0 ||
	      record_change(s, r.name, change_intervals, (void *)(size_t)args, e) < 0)))
		return NULL;
	pthread_rwlock_rdlock(&s->conf_lock);
	its = interval_of(&r, &s->conf);
	pthread_rwlock_unlock(&s->conf_lock);
	return json_pack("{s:I,s:I,s:I}", "auto_stop_ms", (json_int_t)its.stop_ms,
			 "auto_archive_ms", (json_int_t)its.archive_ms, "auto_delete_ms",
			 (json_int_t)its.delete_ms);
}

/* ---- chores, in threads of their own ---- */

/*
 * Archives, releases and reaping that no request asked for: the scans start them and go on, so
 * that one tenant's large folder does not delay the scan of the others' sandboxes.
 */

#define CHORES_MAX 8
#define TENANTS_MAX 3	/* chores of one tenant: two with many large folders leave room for a third */
#define STACK_BYTES (1u << 20)

struct chore {
	struct chore *next;
	struct service *s;
	chore_fn *work;
	char name[SESSION_MAX + 1], tenant[100];
};

static int has_room_for_chore(const struct service *s, const struct chore *new)
{
	const struct chore *c;
	unsigned n = 0, tenants = 0;

	for (c = s->chores; c; c = c->next, n++) {
		if (c->work == new->work && !strcmp(c->name, new->name))
			return 0;
		tenants += !strcmp(c->tenant, new->tenant);
	}
	return !s->stopping && n < CHORES_MAX && tenants < TENANTS_MAX;
}

static void forget_chore(struct chore *chore)
{
	struct service *s = chore->s;
	struct chore **at;

	pthread_mutex_lock(&s->lock);
	for (at = &s->chores; *at != chore; at = &(*at)->next)
		;
	*at = chore->next;
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
	free(chore);
}

static void *run_service_chore(void *arg)
{
	struct chore *c = arg;

	c->work(c->s, c->name);
	forget_chore(c);
	return NULL;
}

void chore_begin(struct service *s, chore_fn *work, const char *name, const char *tenant)
{
	struct chore *c = calloc(1, sizeof(*c));
	pthread_attr_t a;
	pthread_t thread;
	int room;

	if (!c)
		return;	/* until the next scan */
	c->s = s;
	c->work = work;
	snprintf(c->name, sizeof(c->name), "%s", name);
	snprintf(c->tenant, sizeof(c->tenant), "%s", tenant);
	pthread_mutex_lock(&s->lock);
	room = has_room_for_chore(s, c);
	if (room) {
		c->next = s->chores;
		s->chores = c;
	}
	pthread_mutex_unlock(&s->lock);
	if (!room) {
		free(c);
		return;
	}
	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, STACK_BYTES);
	pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &a, run_service_chore, c))
		forget_chore(c);
	pthread_attr_destroy(&a);
}

void chores_wait(struct service *s)
{
	pthread_mutex_lock(&s->lock);
	while (s->chores)
		pthread_cond_wait(&s->wake, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

/* ---- the scans ---- */

#define OVER_LOOKS 10
#define RENEW_MS 30000
#define OVER_EVERY_MS 600000	/* where they are kept for ever */

struct scan {
	struct service *s;
	const struct conf *conf;
	json_t *sessions, *records;	/* names first, work later: a scan holds nothing */
};

static int scan_session(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct scan *c = ctx;

	(void)value;
	(void)version;
	json_array_append_new(c->sessions, json_string(key + strlen("sessions/")));
	return 0;
}

static int scan_record(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct scan *c = ctx;
	struct err ignored;
	struct record r = { .j = json_parse(value, strlen(value), RECORD_MAX, key, &ignored), .version = version };

	if (r.j && record_is_ours(c->s, &r) && (!record_is(&r, STATE_WARM) || !conf_pool_find(c->conf, record_str(&r, "sandbox_type"))) &&
	    (!record_is(&r, STATE_CREATING) || !place_has(c->s, record_str(&r, "container_name"))))
		json_array_append(c->records, r.j);
	record_close(&r);
	return 0;
}

static const struct service_who manager = { .name = "", .admin = 1 };

static void release_by_itself(struct service *s, const char *name)
{
	struct err e;

	service_release(s, &manager, name, 0, &e);
}

/* Releases a warm sandbox that still has no owner: a claim may be first. */
static void release_warm(struct service *s, const char *name)
{
	autorecord struct record r = { .j = NULL };
	struct err e;

	if (record_load(s, NULL, name, 0, &r, &e) == 0 && record_is(&r, STATE_WARM))
		service_release_record(s, &r, 0, &e);
}

static void release_gone(struct service *s, const char *name)
{
	struct err e;

	service_release_gone(s, name, &e);
}

int session_is_due(struct service *s, const struct record *r, enum due what)
{
	uint64_t stopped = record_own_u64(r, "stopped_ms"), now = clock_wall_ms(), after;
	const enum run_status status = record_run(r);
	struct intervals its;

	pthread_rwlock_rdlock(&s->conf_lock);
	its = interval_of(r, &s->conf);
	pthread_rwlock_unlock(&s->conf_lock);
	after = what == DUE_DELETE ? its.delete_ms :
		s->storage && status == RUN_STOPPED ? its.archive_ms : 0;
	return record_is(r, STATE_RUNNING) && status != RUN_RUNS && after && stopped &&
	       now >= stopped && now - stopped >= after;
}

static void delete_due(struct service *s, const char *name)
{
	struct err e;

	service_delete_due(s, name, &e);
}

static void archive_due(struct service *s, const char *name)
{
	struct err e;

	service_archive_due(s, name, &e);
}

static void look_at_running(struct service *s, struct record *r, const struct intervals *its)
{
	const enum run_status status = record_run(r);
	autojson json_t *state = NULL;
	struct err e;

	if (status != RUN_ARCHIVED && !driver_exists(s, record_str(r, "container_id"))) {
		/*
		 * removed by hand: not one that is being made or moved right now, for which the
		 * release waits and looks again
		 */
		chore_begin(s, release_gone, r->name, record_own(r, "owner"));
	} else if (status == RUN_RUNS) {
		if (!its->stop_ms)
			return;
		state = driver_ping(s, r, &e);
		if (!state && e.code == ERR_NOT_FOUND)
			service_note_stopped(s, r->name, &e);	/* by its own idle timeout, or by hand */
		else if (state && (uint64_t)json_integer_value(json_object_get(state, "idle_ms")) >= its->stop_ms)
			service_stop_idle(s, r->name, its->stop_ms, &e);
	} else if (record_failed_lately(r, record_own_u64(r, "stopped_ms"))) {
		return;
	} else if (session_is_due(s, r, DUE_DELETE)) {
		chore_begin(s, delete_due, r->name, record_own(r, "owner"));
	} else if (session_is_due(s, r, DUE_ARCHIVE)) {
		chore_begin(s, archive_due, r->name, record_own(r, "owner"));
	}
}

/* The time in which it can be restored is over. */
static void collect_recycled(struct service *s, const char *name)
{
	autorecord struct record now = { .j = NULL };
	struct err e;

	/* not the sandbox that it was restored to, if it was */
	if (record_load(s, NULL, name, 0, &now, &e) == 0 && record_is(&now, STATE_RECYCLED))
		service_release_record(s, &now, 0, &e);
}

/* Released or replaced, and neither that nor its last use as a redirect was in the last released_ttl. */
static int is_long_over(const struct record *r, const struct conf *c)
{
	double since = json_number_value(json_object_get(r->j, "released_at")) * 1000, used = (double)record_own_u64(r, "used_ms");

	return record_is_over(r) && c->released_ttl_ms && wall_seconds() * 1000 - (used > since ? used : since) > (double)c->released_ttl_ms;
}

static void look_at_record(struct service *s, json_t *j, const struct conf *c)
{
	struct record r = { .j = j };
	struct intervals its = interval_of(&r, c);
	struct err e;

	snprintf(r.name, sizeof(r.name), "%s", record_str(&r, "container_name"));
	if (record_is(&r, STATE_RUNNING)) {
		look_at_running(s, &r, &its);
	} else if (record_is(&r, STATE_WARM)) {
		/*
		 * its pool was removed from the configuration: the filler, which knows the others
		 * only, does not look at it
		 */
		chore_begin(s, release_warm, r.name, "");
	} else if (record_is(&r, STATE_RECYCLED)) {
		home_clear_over(s, &r, &e);
		if (its.delete_ms && (wall_seconds() - json_number_value(json_object_get(j, "recycled_at"))) * 1000 >=
		    (double)its.delete_ms)
			chore_begin(s, collect_recycled, r.name, record_own(&r, "owner"));
	} else if (record_is(&r, STATE_ERROR) && !record_failed_lately(&r, 0) && (json_is_true(json_object_get(json_object_get(j, "berth"), "retry")) ||
		   (wall_seconds() - json_number_value(json_object_get(j, "updated_at"))) * 1000 > FAILED_MS)) {
		/* sandboxes whose removal failed */
		chore_begin(s, release_by_itself, r.name, record_own(&r, "owner"));
	} else if (record_is(&r, STATE_CREATING)) {
		autorecord struct record now = { .j = NULL };

		if (!place_has(s, r.name) && record_load(s, NULL, r.name, 0, &now, &e) == 0 && record_is(&now, STATE_CREATING) &&
		    !place_has(s, r.name))
			service_undo(s, &now, &e);
	} else if (record_is_over(&r)) {
		autorecord struct record now = { .j = NULL };

		if (home_clear_over(s, &r, &e) < 0 || !is_long_over(&r, c))
			return;
		if (record_load(s, NULL, r.name, 0, &now, &e) == 0 && is_long_over(&now, c))
			record_delete(s, &now, &e);
	}
}

/* released_ttl bounds the number of ended records: a scan each tenth of that time is enough. */
static int is_time_for_over(struct service *s, const struct conf *c)
{
	uint64_t every = c->released_ttl_ms ? c->released_ttl_ms / OVER_LOOKS : OVER_EVERY_MS, now = clock_wall_ms();

	if (now >= s->over_looked_ms && now - s->over_looked_ms < every)
		return 0;
	s->over_looked_ms = now;
	return 1;
}

void session_scan(struct service *s)
{
	autofree struct conf *conf = malloc(sizeof(*conf));	/* too large for a thread's stack */
	struct scan c = { s, conf, json_array(), json_array() };
	struct err e;
	json_t *j;
	size_t i;
	int over;

	if (!conf) {
		json_decref(c.sessions);
		json_decref(c.records);
		return;	/* until the next time */
	}
	pthread_rwlock_rdlock(&s->conf_lock);
	*conf = s->conf;
	pthread_rwlock_unlock(&s->conf_lock);
	ready_look(s);
	sessions_move(s, &e);
	owners_look(s);
	if (ledger_scan(s->ledger, "sessions/", scan_session, &c, &e) == 0)
		json_array_foreach(c.sessions, i, j)
			session_look(s, json_string_value(j), conf->heartbeat_timeout_ms);
	over = is_time_for_over(s, conf);
	if ((over ? record_scan_all(s, scan_record, &c, &e) : ledger_scan(s->ledger, RECORD_PREFIX, scan_record, &c, &e)) == 0)
		json_array_foreach(c.records, i, j)
			look_at_record(s, j, conf);
	archives_look(s);
	stored_look(s);
	places_check(s);
	tools_expire(s, conf->auto_stop_ms);
	json_decref(c.sessions);
	json_decref(c.records);
}

/* ---- the thread ---- */

static int wait_tick(struct service *s, uint64_t ms)
{
	const struct timespec until = deadline_after(ms);
	int stopping;

	pthread_mutex_lock(&s->lock);
	while (!s->stopping && pthread_cond_timedwait(&s->wake, &s->lock, &until) != ETIMEDOUT)
		;
	stopping = s->stopping;
	pthread_mutex_unlock(&s->lock);
	return stopping;
}

static void clear_dead_sandboxes(struct service *s)
{
	struct registry reg;
	struct err ignored;
	unsigned cleared;

	if (registry_open(&reg, &s->config, &ignored) < 0)
		return;
	registry_gc(&reg, &cleared, &ignored);
	volume_gc(&reg, &cleared, &ignored);
	buildcache_prune(&reg, BUILDCACHE_UNUSED_MS, &cleared, NULL, &ignored);
	expire_stopped(&reg, &cleared, &ignored);
	registry_close(&reg);
}

/* A scan may be an hour away, and what we have in the store ends before. */
static int wait_scan(struct service *s, uint64_t ms)
{
	for (; ms > RENEW_MS; ms -= RENEW_MS) {
		if (wait_tick(s, RENEW_MS))
			return 1;
		session_renew_locks(s);
	}
	return wait_tick(s, ms);
}

void *scan_loop(void *arg)
{
	struct service *s = arg;
	uint64_t every, cleanup, cleaned = clock_wall_ms();

	do {
		pthread_rwlock_rdlock(&s->conf_lock);
		every = s->conf.scan_interval_ms;
		cleanup = s->cleanup_interval_ms;
		pthread_rwlock_unlock(&s->conf_lock);
		session_renew_locks(s);
		session_scan(s);
		if (clock_wall_ms() - cleaned >= cleanup) {
			clear_dead_sandboxes(s);
			cleaned = clock_wall_ms();
		}
	} while (!wait_scan(s, every));
	return NULL;
}
