/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a lease: the sandboxes of a session are stopped, what they had is stored, and they are
 * removed.  A reaper holds the lock reap/ID of the store, looks again, and writes under its token.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/service/state.h"

/* Tells once more, under the lock and with the sandbox alone, whether the session is late. */
static int is_late(struct service *s, const char *session, uint64_t timeout_ms)
{
	struct err ignored;

	return clock_wall_ms() > session_last_ms(s, session, &ignored) + timeout_ms;
}

struct reaping {
	const char *session, *reason;
	uint64_t token;
	uint64_t timeout_ms;	/* 0: the time of the lease */
	int by_itself;		/* nobody asked */
	int put_off;		/* a try failed a moment ago */
};

static int recycle(struct service *s, struct record *r, const struct reaping *g, struct err *e)
{
	char lock[LEDGER_KEY_MAX + 1];
	struct ledger_op fence = { LEDGER_CHECK, lock, NULL, g->token, 0 };

	snprintf(lock, sizeof(lock), "lock/reap/%s", g->session);
	tools_forget(s, r->name);
	if (driver_stop(s, r, e) < 0)
		return -1;
	if (record_str(r, "storage_path")[0] && s->storage && record_run(r) != RUN_ARCHIVED &&
	    workspace_upload(s, r, e) < 0)
		return -1;
	if (record_str(r, "storage_path")[0])
		record_set_own(r, "stored", json_true());
	/* a workspace that is only in the archive is restored first */
	if (record_run(r) == RUN_ARCHIVED && archive_restore(s, r, e) < 0)
		return -1;
	if (driver_remove(s, r, e) < 0 || archive_drop(s, r, 0, e) < 0)
		return -1;
	json_object_set_new(r->j, "recycled_at", json_real(wall_seconds()));
	json_object_set_new(r->j, "recycle_reason", json_string(g->reason));
	if (record_step(r, EVENT_RECYCLED, e) < 0 || record_save(s, r, &fence, 1, e) < 0)
		return -1;
	place_drop(s, r->name);
	return 0;
}

static int reap_one(struct service *s, const char *name, struct reaping *g, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	uint64_t drain;
	int result = 0;

	if (record_load(s, NULL, name, 0, &r, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (!record_is(&r, STATE_RUNNING) || !home_minds(s, &r, g->timeout_ms))
		return 0;
	/* each try stops it and reads all that it has; the session's others need not wait for it */
	if (g->by_itself && record_failed_lately(&r, session_last_ms(s, g->session, e))) {
		g->put_off = 1;
		return 0;
	}
	record_close(&r);
	pthread_rwlock_rdlock(&s->conf_lock);
	drain = s->conf.drain_timeout_ms;
	pthread_rwlock_unlock(&s->conf_lock);
	/*
	 * a running command does not renew the lease, but the client that waits for it renewed
	 * it with the request
	 */
	if (oplock_alone(s->ops, name, drain, e) < 0)
		return -1;
	if (g->timeout_ms && !is_late(s, g->session, g->timeout_ms))
		result = 1;
	else if (record_load(s, NULL, name, 0, &r, e) < 0)
		result = -1;
	else if (record_is(&r, STATE_RUNNING) && (result = recycle(s, &r, g, e)) < 0)
		service_note_failed(s, name, e);
	oplock_alone_end(s->ops, name);
	return result;
}

/* Checked before anything of a session is reaped on request: all of it can be. */
static int check_reachable(struct service *s, const json_t *map, struct err *e)
{
	json_t *name;
	size_t i;

	json_array_foreach(json_object_get(map, "containers"), i, name) {
		autorecord struct record r = { .j = NULL };

		if (record_load(s, NULL, json_string_value(name), 0, &r, e) < 0 && e->code != ERR_NOT_FOUND)
			return -1;
		if (r.j && record_is(&r, STATE_RUNNING) && home_check(s, &r, e) < 0)
			return -1;
	}
	return 0;
}

static int reap_session(struct service *s, const char *session, const char *reason, uint64_t timeout_ms, int by_itself, struct err *e)
{
	struct reaping g = { .session = session, .reason = reason, .timeout_ms = timeout_ms, .by_itself = by_itself };
	autojson json_t *map = NULL;
	json_t *name;
	uint64_t version;
	size_t i;
	int r = 0;

	if (session_try_lock(s, session, &g.token, e) < 0)
		return -1;
	if (session_load_map(s, session, &map, &version, e) < 0 || (!by_itself && check_reachable(s, map, e) < 0))
		r = -1;
	json_array_foreach(json_object_get(map, "containers"), i, name)
		if (r == 0)
			r = reap_one(s, json_string_value(name), &g, e);
	if (r == 0 && g.put_off)
		r = err_set(e, ERR_BUSY, "a sandbox of the session could not be stored a moment ago");
	if (r == 0) {
		s->reaped++;
		owner_forget(s, session);
	}
	session_unlock(s, session, g.token);
	return r < 0 ? -1 : 0;
}

int service_reap(struct service *s, const struct service_who *who, const char *ctx, const char *reason, struct err *e)
{
	char session[SESSION_MAX + 1];

	return session_find(s, who, ctx, session, e) < 0 ? -1 : reap_session(s, session, reason, 0, 0, e);
}

/*
 * Tells whether everything that is left to reap here failed a moment ago: another try would only
 * take a place from others.
 */
static int is_put_off(struct service *s, const char *session, const json_t *map)
{
	struct err ignored;
	uint64_t used_ms = session_last_ms(s, session, &ignored);
	json_t *name;
	size_t i;
	int put_off = 0;

	json_array_foreach(json_object_get(map, "containers"), i, name) {
		autorecord struct record r = { .j = NULL };

		if (record_load(s, NULL, json_string_value(name), 0, &r, &ignored) < 0 || !record_is(&r, STATE_RUNNING) || !home_minds(s, &r, 0))
			continue;
		if (!record_failed_lately(&r, used_ms))
			return 0;
		put_off = 1;
	}
	return put_off;
}

static void reap_owned(struct service *s, const char *session)
{
	struct err e;

	reap_session(s, session, "owner_died", 0, 1, &e);
}

void session_reap_owned(struct service *s, const char *session)
{
	autojson json_t *map = NULL;
	uint64_t version;
	struct err e;

	if (session_load_map(s, session, &map, &version, &e) >= 0 && !is_put_off(s, session, map))
		chore_begin(s, reap_owned, session, map ? json_string_value(json_object_get(map, "owner")) : "");
}

static void reap_late(struct service *s, const char *session)
{
	uint64_t timeout_ms;
	struct err e;

	pthread_rwlock_rdlock(&s->conf_lock);
	timeout_ms = s->conf.heartbeat_timeout_ms;
	pthread_rwlock_unlock(&s->conf_lock);
	if (timeout_ms)
		reap_session(s, session, "heartbeat_timeout", timeout_ms, 1, &e);
}

static int is_session_running(struct service *s, const json_t *map, uint64_t timeout_ms)
{
	struct err ignored;
	json_t *name;
	size_t i;

	json_array_foreach(json_object_get(map, "containers"), i, name) {
		autorecord struct record r = { .j = NULL };

		if (record_load(s, NULL, json_string_value(name), 0, &r, &ignored) == 0 && record_is(&r, STATE_RUNNING) &&
		    home_minds(s, &r, timeout_ms))
			return 1;
	}
	return 0;
}

void session_look(struct service *s, const char *session, uint64_t timeout_ms)
{
	autojson json_t *map = NULL;
	struct err ignored;
	uint64_t version;
	json_t *name;
	size_t i;

	if (session_load_map(s, session, &map, &version, &ignored) < 1)
		return;
	/* an operation under way renews the lease for as long as it takes */
	json_array_foreach(json_object_get(map, "containers"), i, name)
		if (oplock_count(s->ops, json_string_value(name)))
			session_touch(s, session, &ignored);
	if (timeout_ms && is_late(s, session, timeout_ms) && is_session_running(s, map, timeout_ms) && !is_put_off(s, session, map))
		chore_begin(s, reap_late, session, json_string_value(json_object_get(map, "owner")));
}
