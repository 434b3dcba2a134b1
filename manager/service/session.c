/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: their sandboxes, their leases, and what happens when a lease ends.
 *
 * Every operation and every heartbeat renews a lease. Its time is kept here and written to the
 * store (beat/ID) a few times per timeout, so berthds that share a store see each other's
 * renewals. A reaper holds the lock reap/ID of the store, looks again, and writes under its
 * token.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/service/state.h"

#define BIND_TRIES 50
#define WRITE_MAX_MS 10000

struct beat {
	struct beat *next;
	uint64_t at_ms, written_ms;
	char ctx[];
};

int session_check_ctx(const char *ctx, struct err *e)
{
	const char *p;

	if (!ctx[0] || strlen(ctx) > CTX_MAX)
		return err_set(e, ERR_INVALID, "session_ctx_id has 1 to %d bytes", CTX_MAX);
	for (p = ctx; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return err_set(e, ERR_INVALID, "session_ctx_id has a control character in it");
	return 0;
}

static void ctx_key(char out[LEDGER_KEY_MAX + 1], const char *kind, const char *ctx)
{
	snprintf(out, LEDGER_KEY_MAX + 1, "%s/%.256s", kind, ctx);
}

/* 1 with the mapping, 0 none. */
static int load_map(struct service *s, const char *ctx, json_t **ret, uint64_t *ret_version, struct err *e)
{
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	char key[LEDGER_KEY_MAX + 1];
	int r;

	*ret = NULL;
	*ret_version = LEDGER_ABSENT;
	ctx_key(key, "session", ctx);
	r = ledger_get(s->ledger, key, &b, ret_version, e);
	if (r < 1)
		return r;
	*ret = json_parse(b.data ? b.data : "", b.len, RECORD_MAX, "a session's record", e);
	return *ret ? 1 : -1;
}

static int is_owner(const struct service_who *who, const json_t *map)
{
	const char *owner = json_string_value(json_object_get(map, "owner"));

	return !who || who->admin || (owner && !strcmp(owner, who->name));
}

static void map_remove(json_t *list, const char *name)
{
	size_t i;

	for (i = 0; i < json_array_size(list); i++)
		if (!strcmp(json_string_value(json_array_get(list, i)), name))
			json_array_remove(list, i--);
}

/* The op that writes the mapping as it is now; text is the caller's to free. */
static int map_op(const json_t *map, uint64_t version, char key[LEDGER_KEY_MAX + 1], char **text, struct ledger_op *op, struct err *e)
{
	if (!json_array_size(json_object_get(map, "containers"))) {
		*text = NULL;
		*op = version == LEDGER_ABSENT ? (struct ledger_op){ LEDGER_CHECK, key, NULL, version, 0 } :
		      (struct ledger_op){ LEDGER_DELETE, key, NULL, version, 0 };
		return 0;
	}
	*text = json_dumps(map, JSON_COMPACT);
	*op = (struct ledger_op){ LEDGER_SET, key, *text, version, 0 };
	return *text ? 0 : err_nomem(e);
}

/* 1: others changed the session's mapping in between, and nothing else. */
static int map_changed(struct service *s, const char *ctx, uint64_t version)
{
	autojson json_t *map = NULL;
	struct err ignored;
	uint64_t now;

	return load_map(s, ctx, &map, &now, &ignored) >= 0 && now != version;
}

static int change(struct service *s, struct record *r, const char *ctx, int add, const struct ledger_op *more, size_t n, struct err *e)
{
	int tries;

	for (tries = 0; tries < BIND_TRIES; tries++) {
		struct ledger_op ops[LEDGER_OPS_MAX];
		autojson json_t *map = NULL;
		autofree char *text = NULL;
		char key[LEDGER_KEY_MAX + 1];
		uint64_t version;

		if (n + 3 > LEDGER_OPS_MAX || load_map(s, ctx, &map, &version, e) < 0)
			return n + 3 > LEDGER_OPS_MAX ? err_set(e, ERR_LIMIT, "too many changes at once") : -1;
		if (!map)
			map = json_pack("{s:[],s:s,s:f}", "containers", "owner", record_own(r, "owner"), "created_at", wall_seconds());
		if (add && strcmp(record_own(r, "owner"), json_string_value(json_object_get(map, "owner"))))
			return err_set(e, ERR_EXISTS, "the session id belongs to another");
		map_remove(json_object_get(map, "containers"), r->name);
		if (add)
			json_array_append_new(json_object_get(map, "containers"), json_string(r->name));
		ctx_key(key, "session", ctx);
		if (n)
			memcpy(ops, more, n * sizeof(*ops));
		if (map_op(map, version, key, &text, &ops[n], e) < 0)
			return -1;
		if (record_save(s, r, ops, n + 1, e) == 0)
			return 0;
		if (e->code != ERR_BUSY || !map_changed(s, ctx, version))
			return -1;
	}
	return -1;
}

int session_bind(struct service *s, struct record *r, const char *ctx, const struct ledger_op *more, size_t n, struct err *e)
{
	return change(s, r, ctx, 1, more, n, e);
}

static void session_forget(struct service *s, const char *ctx)
{
	char key[LEDGER_KEY_MAX + 1];
	struct ledger_op op = { LEDGER_DELETE, key, NULL, LEDGER_ANY, 0 };
	struct beat **at, *b = NULL;
	struct err ignored;

	pthread_mutex_lock(&s->lock);
	for (at = &s->beats; *at; at = &(*at)->next) {
		if (!strcmp((*at)->ctx, ctx)) {
			b = *at;
			*at = b->next;
			break;
		}
	}
	pthread_mutex_unlock(&s->lock);
	free(b);
	ctx_key(key, "beat", ctx);
	ledger_commit(s->ledger, &op, 1, NULL, &ignored);
}

int session_unbind(struct service *s, struct record *r, const char *ctx, struct err *e)
{
	char copy[CTX_MAX + 1];
	json_t *map = NULL;
	struct err ignored;
	uint64_t version;

	snprintf(copy, sizeof(copy), "%s", ctx);
	json_object_set_new(r->j, "session_ctx_id", json_null());
	json_object_del(json_object_get(r->j, "meta"), "session_ctx_id");
	if (change(s, r, copy, 0, NULL, 0, e) < 0)
		return -1;
	/* the last one took the mapping along; a heartbeat or an owner without it says nothing */
	if (load_map(s, copy, &map, &version, &ignored) == 0) {
		session_forget(s, copy);
		owner_forget(s, copy);
	}
	json_decref(map);
	return 0;
}

/* ---- leases ---- */

static struct beat *find_beat(struct service *s, const char *ctx, int add)
{
	struct beat *b = s->beats;

	while (b && strcmp(b->ctx, ctx))
		b = b->next;
	if (!b && add) {
		b = calloc(1, sizeof(*b) + strlen(ctx) + 1);
		if (!b)
			return NULL;
		strcpy(b->ctx, ctx);
		b->next = s->beats;
		s->beats = b;
	}
	return b;
}

static uint64_t heartbeat_ms(struct service *s)
{
	uint64_t ms;

	pthread_rwlock_rdlock(&s->conf_lock);
	ms = s->conf.heartbeat_timeout_ms;
	pthread_rwlock_unlock(&s->conf_lock);
	return ms;
}

int session_touch(struct service *s, const char *ctx, struct err *e)
{
	uint64_t now = clock_wall_ms(), every = heartbeat_ms(s) / 4;
	char key[LEDGER_KEY_MAX + 1], text[24];
	struct ledger_op op = { LEDGER_SET, key, text, LEDGER_ANY, 0 };
	struct beat *b;
	int write;

	if (!every || every > WRITE_MAX_MS)
		every = WRITE_MAX_MS;
	pthread_mutex_lock(&s->lock);
	b = find_beat(s, ctx, 1);
	if (b)
		b->at_ms = now;
	write = !b || now - b->written_ms >= every;
	if (write && b)
		b->written_ms = now;
	pthread_mutex_unlock(&s->lock);
	if (!write)
		return 0;
	ctx_key(key, "beat", ctx);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)now);
	return ledger_commit(s->ledger, &op, 1, NULL, e);
}

uint64_t session_last_ms(struct service *s, const char *ctx, struct err *e)
{
	autobuf struct buf text = BUF_INIT(64);
	char key[LEDGER_KEY_MAX + 1];
	uint64_t at, stored = 0;
	struct beat *b;

	ctx_key(key, "beat", ctx);
	if (ledger_get(s->ledger, key, &text, NULL, e) > 0 && num_u64(text.data, "a heartbeat", 0, UINT64_MAX, &stored, e) < 0)
		stored = 0;
	pthread_mutex_lock(&s->lock);
	b = find_beat(s, ctx, 0);
	at = b ? b->at_ms : 0;
	pthread_mutex_unlock(&s->lock);
	if (stored > at)
		at = stored;
	/* nobody could renew it while we were not running */
	return at > s->started_ms ? at : s->started_ms;
}

void sessions_free(struct service *s)
{
	struct beat *b;

	while ((b = s->beats)) {
		s->beats = b->next;
		free(b);
	}
}

/* ---- questions ---- */

struct keys {
	const struct service_who *who;
	json_t *out;
};

static int key_one(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct keys *k = ctx;
	struct err ignored;
	autojson json_t *map = json_parse(value, strlen(value), RECORD_MAX, key, &ignored);

	(void)version;
	if (map && is_owner(k->who, map))
		json_array_append_new(k->out, json_string(key + strlen("session/")));
	return 0;
}

json_t *service_session_keys(struct service *s, const struct service_who *who, struct err *e)
{
	struct keys k = { who, json_array() };

	if (ledger_scan(s->ledger, "session/", key_one, &k, e) == 0)
		return k.out;
	json_decref(k.out);
	return NULL;
}

json_t *service_session_mapping(struct service *s, const struct service_who *who, const char *ctx, struct err *e)
{
	autojson json_t *map = NULL;
	uint64_t version;
	int r;

	if (session_check_ctx(ctx, e) < 0)
		return NULL;
	r = load_map(s, ctx, &map, &version, e);
	if (r < 0)
		return NULL;
	return r && is_owner(who, map) ? json_incref(json_object_get(map, "containers")) : json_array();
}

static int find_session(struct service *s, const struct service_who *who, const char *ctx, json_t **ret, struct err *e)
{
	uint64_t version;
	int r = session_check_ctx(ctx, e) < 0 ? -1 : load_map(s, ctx, ret, &version, e);

	if (r < 0)
		return -1;
	if (r && is_owner(who, *ret))
		return 0;
	json_decref(*ret);
	*ret = NULL;
	return err_set(e, ERR_NOT_FOUND, "no session '%.80s'", ctx);
}

int service_heartbeat(struct service *s, const struct service_who *who, const char *ctx, struct err *e)
{
	autojson json_t *map = NULL;

	return find_session(s, who, ctx, &map, e) < 0 ? -1 : session_touch(s, ctx, e);
}

/* ---- reaping ---- */

/* Once more, under the lock and with the sandbox alone: is it still unwanted? */
static int is_late(struct service *s, const char *ctx, uint64_t timeout_ms)
{
	struct err ignored;

	return clock_wall_ms() > session_last_ms(s, ctx, &ignored) + timeout_ms;
}

struct reaping {
	const char *ctx, *reason;
	uint64_t token;
	uint64_t timeout_ms;	/* 0: the time of the lease */
	int by_itself;		/* nobody asked */
	int put_off;		/* a try failed a moment ago */
};

static int recycle(struct service *s, struct record *r, const struct reaping *g, struct err *e)
{
	char lock[LEDGER_KEY_MAX + 1];
	struct ledger_op fence = { LEDGER_CHECK, lock, NULL, g->token, 0 };

	snprintf(lock, sizeof(lock), "lock/reap/%.256s", g->ctx);
	tools_forget(s, r->name);
	if (driver_stop(s, r, e) < 0)
		return -1;
	if (record_str(r, "storage_path")[0] && s->storage && strcmp(record_own(r, "status"), "archived") &&
	    workspace_upload(s, r, e) < 0)
		return -1;
	if (record_str(r, "storage_path")[0])
		record_set_own(r, "stored", json_true());
	/* a workspace that is only in the archive is restored first */
	if (!strcmp(record_own(r, "status"), "archived") && archive_restore(s, r, e) < 0)
		return -1;
	if (driver_remove(s, r, e) < 0 || archive_drop(s, r, 0, e) < 0)
		return -1;
	json_object_set_new(r->j, "recycled_at", json_real(wall_seconds()));
	json_object_set_new(r->j, "recycle_reason", json_string(g->reason));
	record_set_state(r, "recycled");
	if (record_save(s, r, &fence, 1, e) < 0)
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
	if (!record_is(&r, "running") || !home_minds(s, &r, g->timeout_ms))
		return 0;
	/* each try stops it and reads all that it has; the session's others need not wait for it */
	if (g->by_itself && record_failed_lately(&r, session_last_ms(s, g->ctx, e))) {
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
	if (g->timeout_ms && !is_late(s, g->ctx, g->timeout_ms))
		result = 1;
	else if (record_load(s, NULL, name, 0, &r, e) < 0)
		result = -1;
	else if (record_is(&r, "running") && (result = recycle(s, &r, g, e)) < 0)
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
		if (r.j && record_is(&r, "running") && home_check(s, &r, e) < 0)
			return -1;
	}
	return 0;
}

static int reap(struct service *s, const char *ctx, const char *reason, uint64_t timeout_ms, int by_itself, struct err *e)
{
	struct reaping g = { .ctx = ctx, .reason = reason, .timeout_ms = timeout_ms, .by_itself = by_itself };
	autojson json_t *map = NULL;
	json_t *name;
	uint64_t version;
	size_t i;
	int r = 0;

	if (session_try_lock(s, ctx, &g.token, e) < 0)
		return -1;
	if (load_map(s, ctx, &map, &version, e) < 0 || (!by_itself && check_reachable(s, map, e) < 0))
		r = -1;
	json_array_foreach(json_object_get(map, "containers"), i, name)
		if (r == 0)
			r = reap_one(s, json_string_value(name), &g, e);
	if (r == 0 && g.put_off)
		r = err_set(e, ERR_BUSY, "a sandbox of the session could not be stored a moment ago");
	if (r == 0) {
		s->reaped++;
		owner_forget(s, ctx);
	}
	session_unlock(s, ctx, g.token);
	return r < 0 ? -1 : 0;
}

int service_reap(struct service *s, const struct service_who *who, const char *ctx, const char *reason, struct err *e)
{
	autojson json_t *map = NULL;

	return find_session(s, who, ctx, &map, e) < 0 ? -1 : reap(s, ctx, reason, 0, 0, e);
}

/* Whether all that is left to reap of it here failed a moment ago: that would only take a place from others. */
static int is_put_off(struct service *s, const char *ctx, const json_t *map)
{
	struct err ignored;
	uint64_t used_ms = session_last_ms(s, ctx, &ignored);
	json_t *name;
	size_t i;
	int put_off = 0;

	json_array_foreach(json_object_get(map, "containers"), i, name) {
		autorecord struct record r = { .j = NULL };

		if (record_load(s, NULL, json_string_value(name), 0, &r, &ignored) < 0 || !record_is(&r, "running") || !home_minds(s, &r, 0))
			continue;
		if (!record_failed_lately(&r, used_ms))
			return 0;
		put_off = 1;
	}
	return put_off;
}

static void reap_owned(struct service *s, const char *ctx)
{
	struct err e;

	reap(s, ctx, "owner_died", 0, 1, &e);
}

void session_reap_owned(struct service *s, const char *ctx)
{
	autojson json_t *map = NULL;
	uint64_t version;
	struct err e;

	if (load_map(s, ctx, &map, &version, &e) >= 0 && !is_put_off(s, ctx, map))
		chore_begin(s, reap_owned, ctx, map ? json_string_value(json_object_get(map, "owner")) : "");
}

/* ---- restoring ---- */

static int restore_one(struct service *s, const char *ctx, const char *name, struct err *e)
{
	autorecord struct record old = { .j = NULL }, new = { .j = NULL };
	autojson json_t *args = NULL;
	struct service_who owner = { .name = "" };
	struct conf_pool pool;
	struct making m = { .who = &owner, .pool = &pool, .ctx = ctx, .wait = 1, .inherit_workspace = 1 };

	if (record_load(s, NULL, name, 0, &old, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (!record_is(&old, "recycled"))
		return 0;
	if (conf_pool_copy(s, record_str(&old, "sandbox_type"), &pool, NULL, e) < 0)
		return -1;
	owner.name = record_own(&old, "owner");
	owner.admin = !tenancy_is_tenants(&old);
	args = json_pack("{s:O,s:I,s:f}", "meta", json_object_get(old.j, "meta"), "memory", (json_int_t)record_own_u64(&old, "memory_bytes"),
			 "cpus", (double)record_own_u64(&old, "cpu_milli") / 1000);
	m.args = args;
	m.mount_dir = record_str(&old, "mount_dir")[0] ? record_str(&old, "mount_dir") : NULL;
	m.storage_path = record_str(&old, "storage_path")[0] ? record_str(&old, "storage_path") : NULL;
	if (workspace_revive(s, &old, e) < 0 || service_make(s, &m, &new, e) < 0)
		return err_wrap(e, "restore sandbox %s", name);
	record_set_own(&new, "own_workspace", json_incref(json_object_get(json_object_get(old.j, "berth"), "own_workspace")));
	mcp_inherit(&new, &old);
	interval_inherit(&new, &old);
	given_inherit(s, &new, &old);
	if (workspace_give(s, &new, &pool, e) < 0 || record_save(s, &new, NULL, 0, e) < 0)
		return -1;
	/* the workspace belongs to the new one now */
	record_set_own(&old, "own_workspace", json_false());
	json_object_set_new(old.j, "redirect_to", json_string(new.name));
	json_object_set_new(old.j, "released_at", json_real(wall_seconds()));
	json_object_set_new(old.j, "recycled_at", json_null());
	record_set_state(&old, "replaced");
	if (session_unbind(s, &old, ctx, e) < 0)
		return -1;
	s->restored++;
	return 0;
}

int service_restore(struct service *s, const struct service_who *who, const char *ctx, struct err *e)
{
	autojson json_t *map = NULL;
	char copy[CTX_MAX + 1];
	uint64_t token;
	json_t *name;
	size_t i;
	int r = 0;

	snprintf(copy, sizeof(copy), "%s", ctx);
	/* another thread restores it: when that is done, nothing is left to do */
	if (find_session(s, who, copy, &map, e) < 0 || session_lock(s, copy, &token, e) < 0)
		return -1;
	json_decref(map);
	map = NULL;
	if (find_session(s, NULL, copy, &map, e) < 0 || session_touch(s, copy, e) < 0)
		r = -1;
	json_array_foreach(json_object_get(map, "containers"), i, name)
		if (r == 0)
			r = restore_one(s, copy, json_string_value(name), e);
	session_unlock(s, copy, token);
	return r;
}

/* ---- what is late ---- */

static void reap_late(struct service *s, const char *ctx)
{
	uint64_t timeout_ms;
	struct err e;

	pthread_rwlock_rdlock(&s->conf_lock);
	timeout_ms = s->conf.heartbeat_timeout_ms;
	pthread_rwlock_unlock(&s->conf_lock);
	if (timeout_ms)
		reap(s, ctx, "heartbeat_timeout", timeout_ms, 1, &e);
}

static int is_running(struct service *s, const json_t *map, uint64_t timeout_ms)
{
	struct err ignored;
	json_t *name;
	size_t i;

	json_array_foreach(json_object_get(map, "containers"), i, name) {
		autorecord struct record r = { .j = NULL };

		if (record_load(s, NULL, json_string_value(name), 0, &r, &ignored) == 0 && record_is(&r, "running") &&
		    home_minds(s, &r, timeout_ms))
			return 1;
	}
	return 0;
}

void session_look(struct service *s, const char *ctx, uint64_t timeout_ms)
{
	autojson json_t *map = NULL;
	struct err ignored;
	uint64_t version;
	json_t *name;
	size_t i;

	if (load_map(s, ctx, &map, &version, &ignored) < 1)
		return;
	/* an operation under way renews the lease for as long as it takes */
	json_array_foreach(json_object_get(map, "containers"), i, name)
		if (oplock_count(s->ops, json_string_value(name)))
			session_touch(s, ctx, &ignored);
	if (timeout_ms && is_late(s, ctx, timeout_ms) && is_running(s, map, timeout_ms) && !is_put_off(s, ctx, map))
		chore_begin(s, reap_late, ctx, json_string_value(json_object_get(map, "owner")));
}
