/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/service/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/service/state.h"

/* ---- a sandbox of a caller ---- */

#define USE_TRIES 4

/* ---- start, stop, archive, look ---- */

struct new_status {
	enum run_status status;
	const char *stamp;
};

static int change_status(struct record *r, void *ctx, struct err *e)
{
	const struct new_status *n = ctx;

	(void)e;
	if (!record_is(r, STATE_RUNNING) || record_run(r) == n->status ||
	    (n->status == RUN_STOPPED && record_run(r) != RUN_RUNS))
		return 0;	/* released meanwhile, or another berthd saw it first */
	record_set_run(r, n->status);
	if (n->stamp)
		record_set_own(r, n->stamp, json_integer((json_int_t)clock_wall_ms()));
	/* otherwise it would be due for that stop when it is archived by hand next */
	if (n->status == RUN_RUNS)
		json_object_del(json_object_get(r->j, "berth"), "stopped_ms");
	record_touch(r);
	return 1;
}

/*
 * Sets the status. A berthd that shares the store may have changed the record since r was loaded; its
 * change stays.
 */
static int set_status(struct service *s, const struct record *r, enum run_status status,
		      const char *stamp, struct err *e)
{
	struct new_status n = { status, stamp };

	return record_change(s, r->name, change_status, &n, e);
}

/* Called by the holder of the exclusive lock, with a fresh record. */
static int alone(struct service *s, const struct service_who *who, const char *identity, struct record *r, uint64_t drain, struct err *e)
{
	char name[65];

	if (record_load(s, who, identity, 1, r, e) < 0)
		return -1;
	if (home_check(s, r, e) < 0) {
		record_close(r);
		return -1;
	}
	memcpy(name, r->name, sizeof(name));
	record_close(r);
	if (oplock_alone(s->ops, name, drain, e) < 0)
		return -1;
	if (record_load(s, who, name, 0, r, e) == 0) {
		if (record_is(r, STATE_RUNNING))
			return 0;
		err_set(e, ERR_NOT_FOUND, "sandbox %s is %s", name, record_str(r, "state"));
	}
	record_close(r);
	oplock_alone_end(s->ops, name);
	return -1;
}

/* As alone(), for actions without a client: not while an operation is under way, which alone() would cut. */
static int alone_unused(struct service *s, const char *name, struct record *r, struct err *e)
{
	if (oplock_try_alone(s->ops, name, e) < 0)
		return -1;
	if (record_load(s, NULL, name, 0, r, e) == 0 && home_check(s, r, e) == 0) {
		if (record_is(r, STATE_RUNNING))
			return 0;
		err_set(e, ERR_NOT_FOUND, "sandbox %s is %s", name, record_str(r, "state"));
	}
	record_close(r);
	oplock_alone_end(s->ops, name);
	return -1;
}

/* The caller has the sandbox alone. */
static int stop_alone(struct service *s, struct record *r, struct err *e)
{
	tools_forget(s, r->name);
	if (driver_stop(s, r, e) < 0)
		return -1;
	place_stopped(s, r->name);
	return record_run(r) == RUN_RUNS ? set_status(s, r, RUN_STOPPED, "stopped_ms", e) : 0;
}

int service_stop(struct service *s, const struct service_who *who, const char *identity, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	int result;

	if (alone(s, who, identity, &r, service_drain_ms(s), e) < 0)
		return -1;
	result = stop_alone(s, &r, e);
	oplock_alone_end(s->ops, r.name);
	return result;
}

int service_stop_idle(struct service *s, const char *name, uint64_t idle_ms, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	autojson json_t *state = NULL;
	int result = 0;

	if (alone_unused(s, name, &r, e) < 0)
		return -1;
	state = driver_ping(s, &r, e);
	if (state && (uint64_t)json_integer_value(json_object_get(state, "idle_ms")) >= idle_ms)
		result = stop_alone(s, &r, e);
	oplock_alone_end(s->ops, r.name);
	return result;
}

int service_note_stopped(struct service *s, const char *name, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	autojson json_t *state = NULL;
	int result = 0;

	if (alone_unused(s, name, &r, e) < 0)
		return -1;
	state = driver_ping(s, &r, e);
	if (!state && e->code == ERR_NOT_FOUND)
		place_stopped(s, r.name);
	if (!state && e->code == ERR_NOT_FOUND && record_run(&r) == RUN_RUNS)
		result = set_status(s, &r, RUN_STOPPED, "stopped_ms", e);
	oplock_alone_end(s->ops, r.name);
	return result;
}

static int start_record(struct service *s, struct record *r, struct err *e)
{
	autojson json_t *state = driver_ping(s, r, e);

	if (!state) {
		if (e->code != ERR_NOT_FOUND)
			return -1;
		if (record_run(r) == RUN_ARCHIVED && archive_restore(s, r, e) < 0)
			return -1;
		if (place_starts(s, r->name, e) < 0)
			return -1;
		if (driver_start(s, r, e) < 0 && e->code != ERR_EXISTS) {
			place_stopped(s, r->name);
			return -1;
		}
	}
	place_runs(s, r->name);
	return record_run(r) != RUN_RUNS ? set_status(s, r, RUN_RUNS, NULL, e) : 0;
}

int service_start(struct service *s, const struct service_who *who, const char *identity, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	int result;

	if (alone(s, who, identity, &r, service_drain_ms(s), e) < 0)
		return -1;
	result = start_record(s, &r, e);
	oplock_alone_end(s->ops, r.name);
	return result;
}

/* The caller has the sandbox alone. */
static int archive_alone(struct service *s, struct record *r, struct err *e)
{
	struct archive_turn turn;
	int result = archive_share_enter(s, r, &turn, e);

	/* before anything ends: a sandbox that cannot be archived continues */
	if (result < 0) {
		service_note_failed(s, r->name, e);
		return -1;
	}
	tools_forget(s, r->name);
	result = record_run(r) != RUN_ARCHIVED ? driver_stop(s, r, e) : 0;
	if (result == 0 && record_run(r) != RUN_ARCHIVED)
		result = archive_make(s, r, e);
	archive_share_leave(s, &turn);
	if (result == 0)
		s->archived++;
	else
		service_note_failed(s, r->name, e);
	return result;
}

int service_archive(struct service *s, const struct service_who *who, const char *identity, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	int result;

	if (!s->storage)
		return err_set(e, ERR_UNSUPPORTED, "there is no storage to archive to; hint: [storage] url in berth.toml");
	if (alone(s, who, identity, &r, service_drain_ms(s), e) < 0)
		return -1;
	result = archive_alone(s, &r, e);
	oplock_alone_end(s->ops, r.name);
	return result;
}

int service_archive_due(struct service *s, const char *name, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	int result;

	if (oplock_try_alone(s->ops, name, e) < 0)
		return -1;
	result = record_load(s, NULL, name, 0, &r, e);
	if (result == 0 && session_is_due(s, &r, DUE_ARCHIVE))
		result = archive_alone(s, &r, e);
	oplock_alone_end(s->ops, name);
	return result;
}

struct meta_change {
	const char *name;
	json_t *members;
};

static int change_meta(struct record *r, void *ctx, struct err *e)
{
	const struct meta_change *c = ctx;
	json_t *meta = json_object_get(r->j, "meta"), *note = json_object_get(meta, c->name), *v;
	const char *key;

	if (!json_is_object(meta))
		return err_set(e, ERR_CORRUPT, "the record of %s has no meta", r->name);
	if (!json_is_object(note))
		json_object_set_new(meta, c->name, note = json_object());
	json_object_foreach(c->members, key, v)
		if (json_is_null(v))
			json_object_del(note, key);
		else if (json_object_set(note, key, v) < 0)
			return err_nomem(e);
	return 1;
}

int service_change_meta(struct service *s, const struct service_who *who, const char *identity, const char *name, json_t *members, struct err *e)
{
	autojson json_t *held = members;
	struct meta_change c = { name, held };
	autorecord struct record r = { .j = NULL };

	if (!held)
		return err_set(e, ERR_INVALID, "what a record is to say is not valid UTF-8");
	return record_load(s, who, identity, 1, &r, e) < 0 ? -1 : record_change(s, r.name, change_meta, &c, e);
}

json_t *service_info(struct service *s, const struct service_who *who, const char *identity, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	char session[SESSION_MAX + 1];
	uint64_t last;
	struct err ignored;

	if (record_load(s, who, identity, 1, &r, e) < 0)
		return NULL;
	last = session_of(&r, session, &ignored) > 0 && record_is(&r, STATE_RUNNING) ? session_last_ms(s, session, &ignored) : 0;
	if (last)
		json_object_set_new(r.j, "last_active_at", json_real((double)last / 1000));
	record_show(&r);
	return json_incref(r.j);
}

int service_status(struct service *s, const struct service_who *who, const char *identity, char ret[16], struct err *e)
{
	autorecord struct record r = { .j = NULL };
	autojson json_t *state = NULL;

	if (record_load(s, who, identity, 1, &r, e) < 0)
		return -1;
	if (!record_is(&r, STATE_RUNNING) && !record_is(&r, STATE_WARM)) {
		snprintf(ret, 16, "%s", record_str(&r, "state"));
		return 0;
	}
	if (record_run(&r) == RUN_ARCHIVED) {
		snprintf(ret, 16, "%s", record_run_name(RUN_ARCHIVED));
		return 0;
	}
	state = driver_ping(s, &r, e);
	if (!state && e->code != ERR_NOT_FOUND)
		return -1;
	snprintf(ret, 16, "%s", state ? "running" : "exited");
	return 0;
}

int service_health(struct service *s, const struct service_who *who, const char *identity, struct err *e)
{
	struct service_use u;

	if (service_use(s, who, identity, &u, e) < 0)
		return -1;
	service_use_end(&u);
	return 0;
}

/* ---- use ---- */

/* Connects, or makes it run first: 1 when the caller must look again. */
static int try_use(struct service *s, const struct service_who *who, struct record *r, struct service_use *u, struct err *e)
{
	char session[SESSION_MAX + 1];
	struct conf_pool pool;
	struct err ignored;

	if (record_is(r, STATE_RECYCLED) && session_of(r, session, e) < 1)
		return session[0] ? -1 : err_set(e, ERR_NOT_FOUND, "sandbox %s has no session to be restored in", r->name);
	if (record_is(r, STATE_RECYCLED))
		return session_restore(s, session, e) < 0 ? -1 : 1;
	if (!record_is(r, STATE_RUNNING) && !record_is(r, STATE_WARM))
		return err_set(e, ERR_NOT_FOUND, "sandbox %s is %s", r->name, record_str(r, "state"));
	if (oplock_enter(s->ops, r->name, &u->op, e) < 0)
		return -1;
	u->sock = driver_connect(s, r, e);
	if (u->sock >= 0 && driver_guard(u->sock, e) < 0)
		fd_close(&u->sock);
	if (u->sock >= 0) {
		oplock_set_sock(&u->op, u->sock);
		snprintf(u->id, sizeof(u->id), "%s", record_str(r, "container_id"));
		memcpy(u->name, r->name, sizeof(u->name));
		u->timeout_ms = conf_pool_copy(s, record_str(r, "sandbox_type"), &pool, NULL, &ignored) == 0 ? pool.timeout_ms : 300000;
		return 0;
	}
	oplock_leave(&u->op);
	if (e->code != ERR_NOT_FOUND)
		return -1;
	return service_start(s, who, r->name, e) < 0 && e->code != ERR_BUSY ? -1 : 1;
}

int service_use(struct service *s, const struct service_who *who, const char *identity, struct service_use *u, struct err *e)
{
	char session[SESSION_MAX + 1];
	int tries, r = 1;

	*u = (struct service_use){ .service = s, .who = who, .sock = -1 };
	for (tries = 0; r == 1 && tries < USE_TRIES; tries++) {
		autorecord struct record rec = { .j = NULL };

		if (record_load(s, who, identity, 1, &rec, e) < 0)
			return -1;
		/* before anything else: a reaper looks again once it has the sandbox alone */
		r = session_of(&rec, session, e);
		if (r < 0 || (r && !record_is(&rec, STATE_RELEASED) && session_touch(s, session, e) < 0))
			return -1;
		r = try_use(s, who, &rec, u, e);
	}
	return r == 1 ? err_set(e, ERR_BUSY, "sandbox %.65s does not stay running", identity) : r;
}

void service_use_end(struct service_use *u)
{
	if (!u->service)
		return;
	if (u->op.entry) {
		oplock_set_sock(&u->op, -1);
		oplock_leave(&u->op);
	}
	fd_close(&u->sock);
	u->service = NULL;
}

/* ---- all that a caller may see ---- */

/* All sandboxes that a caller may see: a list of them, and their release at once. */

struct lister {
	struct service *s;
	const struct service_who *who;
	/* at: name to place in out, for a list: a sandbox that ends meanwhile is met twice */
	json_t *out, *at;
	int for_cleanup;
	unsigned elsewhere;	/* sandboxes of other hosts, for a cleanup */
	char host[65];		/* the first of those hosts */
};

static void list_add(struct lister *l, json_t *j)
{
	const char *name = json_string_value(json_object_get(j, "container_name"));
	const json_t *at = json_object_get(l->at, name);

	if (at) {
		json_array_set(l->out, (size_t)json_integer_value(at), j);
	} else {
		json_object_set_new(l->at, name, json_integer((json_int_t)json_array_size(l->out)));
		json_array_append(l->out, j);
	}
}

static int is_record_left(const struct record *r)
{
	const enum record_state state = record_state(r);

	return state == STATE_RUNNING || state == STATE_WARM || state == STATE_ERROR ||
	       state == STATE_RECYCLED;
}

/* Notes sandboxes of other hosts: their pools, and archived ones, do not prevent a cleanup. */
static void note_elsewhere(struct lister *l, const struct record *r)
{
	if (!record_is_elsewhere(l->s, r) || record_is(r, STATE_WARM))
		return;
	if (!l->elsewhere++)
		snprintf(l->host, sizeof(l->host), "%s", record_own(r, "host"));
}

static int list_visible_record(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct lister *l = ctx;
	struct err ignored;
	struct record r = { .j = json_parse(value, strlen(value), RECORD_MAX, key, &ignored), .version = version };

	if (r.j && (l->who->admin || !strcmp(record_own(&r, "owner"), l->who->name)) && !record_is(&r, STATE_CREATING) &&
	    (!l->for_cleanup || is_record_left(&r))) {
		record_show(&r);
		if (l->for_cleanup && !record_is_ours(l->s, &r))
			note_elsewhere(l, &r);
		else if (l->for_cleanup)
			json_array_append(l->out, json_object_get(r.j, "container_name"));
		else
			list_add(l, r.j);
	}
	record_close(&r);
	return 0;
}

json_t *service_list(struct service *s, const struct service_who *who, struct err *e)
{
	autojson json_t *at = json_object();
	struct lister l = { .s = s, .who = who, .out = json_array(), .at = at };

	if (record_scan_all(s, list_visible_record, &l, e) < 0) {
		json_decref(l.out);
		return NULL;
	}
	return l.out;
}

/* ---- by the key of its request ---- */

struct asked {
	struct service *s;
	int (*fn)(void *ctx, const char *name, const char *word);
	void *ctx;
};

static int look_at_request(void *ctx, const char *key, const char *value, uint64_t version)
{
	const struct asked *a = ctx;
	struct err ignored;
	autorecord struct record r = { .j = json_parse(value, strlen(value), RECORD_MAX, key, &ignored), .version = version };
	const char *word = r.j ? record_own(&r, "request") : "";

	/* one that was not acknowledged is removed, or was */
	if (!r.j || !word[0] || record_is_over(&r) || record_is(&r, STATE_CREATING) || !record_is_ours(a->s, &r))
		return 0;
	return a->fn(a->ctx, record_str(&r, "container_name"), word);
}

int service_each_request(struct service *s, int (*fn)(void *ctx, const char *name, const char *word), void *ctx, struct err *e)
{
	struct asked a = { s, fn, ctx };

	return ledger_scan(s->ledger, RECORD_PREFIX, look_at_request, &a, e);
}

int service_has(struct service *s, const char *name)
{
	autorecord struct record r = { .j = NULL };
	struct err ignored;

	return record_load(s, NULL, name, 0, &r, &ignored) == 0 && !record_is_over(&r);
}

/* ---- cleaning up ---- */

struct cleaner {
	struct service *s;
	const struct service_who *who;
	const json_t *names;
	_Atomic size_t next;
	uint64_t until_ms, drain;
	int discard;
	pthread_mutex_t lock;
	unsigned failed, late;
	struct err first;
};

static void *clean_some(void *arg)
{
	struct cleaner *c = arg;
	size_t i;

	while ((i = c->next++) < json_array_size(c->names)) {
		autorecord struct record r = { .j = NULL };
		uint64_t now = clock_wall_ms(), left = c->until_ms > now ? c->until_ms - now : 0;
		struct err e = { 0 };
		int result = 0;

		if (left && record_load(c->s, c->who, json_string_value(json_array_get(c->names, i)), 0, &r, &e) == 0)
			result = release_locked(c->s, &r, (struct release){ .drain_ms = c->drain < left ? c->drain : left, .discard = c->discard },
						&e);
		pthread_mutex_lock(&c->lock);
		c->late += !left;
		if (result < 0 && !c->failed++)
			c->first = e;
		pthread_mutex_unlock(&c->lock);
	}
	return NULL;
}

#define CLEANERS 16

int service_cleanup(struct service *s, const struct service_who *who, int discard, struct err *e)
{
	struct lister l = { .s = s, .who = who, .out = json_array(), .for_cleanup = 1 };
	struct cleaner c = { .s = s, .who = who, .names = l.out, .drain = service_drain_ms(s), .discard = discard,
			     .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t t[CLEANERS];
	size_t i, n;
	int r = ledger_scan(s->ledger, RECORD_PREFIX, list_visible_record, &l, e) < 0 ? -1 : 0;

	pthread_rwlock_rdlock(&s->conf_lock);
	c.until_ms = clock_wall_ms() + s->conf.shutdown_timeout_ms;
	pthread_rwlock_unlock(&s->conf_lock);
	n = json_array_size(l.out) < CLEANERS ? json_array_size(l.out) : CLEANERS;
	for (i = 0; r == 0 && i < n; i++)
		if (pthread_create(&t[i], NULL, clean_some, &c))
			break;
	if (r == 0 && !i)
		clean_some(&c);
	while (r == 0 && i--)
		pthread_join(t[i], NULL);
	if (r == 0 && (c.failed || c.late)) {
		*e = c.first;
		r = c.failed ? err_wrap(e, "%u of %zu sandboxes could not be released, %u were "
			"not reached in time; the first",
					c.failed, json_array_size(l.out), c.late) :
		    err_set(e, ERR_TIMEOUT, "%u of %zu sandboxes were not released in time", c.late, json_array_size(l.out));
	}
	if (r == 0 && l.elsewhere)
		r = err_set(e, ERR_ELSEWHERE, "what is on this host was released, what is on others (%u, the first on host %.64s) was not; "
			    "hint: send the request to the berthd of each", l.elsewhere, l.host);
	json_decref(l.out);
	return r;
}
