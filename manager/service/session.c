/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: their sandboxes and their leases.
 *
 * Every operation and every heartbeat renews a lease. Its time is kept here and written to the
 * store (beat/ID) a few times per timeout, so berthds that share a store see each other's
 * renewals. reap.c is what happens when a lease ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
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
int session_load_map(struct service *s, const char *ctx, json_t **ret, uint64_t *ret_version,
		     struct err *e)
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

	return session_load_map(s, ctx, &map, &now, &ignored) >= 0 && now != version;
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

		if (n + 3 > LEDGER_OPS_MAX || session_load_map(s, ctx, &map, &version, e) < 0)
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
	if (session_load_map(s, copy, &map, &version, &ignored) == 0) {
		session_forget(s, copy);
		owner_forget(s, copy);
	}
	json_decref(map);
	return 0;
}

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
	r = session_load_map(s, ctx, &map, &version, e);
	if (r < 0)
		return NULL;
	return r && is_owner(who, map) ? json_incref(json_object_get(map, "containers")) : json_array();
}

int session_find(struct service *s, const struct service_who *who, const char *ctx, json_t **ret,
		 struct err *e)
{
	uint64_t version;
	int r = session_check_ctx(ctx, e) < 0 ? -1 : session_load_map(s, ctx, ret, &version, e);

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

	return session_find(s, who, ctx, &map, e) < 0 ? -1 : session_touch(s, ctx, e);
}

static int restore_one(struct service *s, const char *ctx, const char *name, struct err *e)
{
	autorecord struct record old = { .j = NULL }, new = { .j = NULL };
	autojson json_t *args = NULL;
	struct service_who owner = { .name = "" };
	struct conf_pool pool;
	struct making m = { .who = &owner, .ctx = ctx, .wait = 1, .inherit_workspace = 1 };

	if (record_load(s, NULL, name, 0, &old, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (!record_is(&old, STATE_RECYCLED))
		return 0;
	if (conf_pool_copy(s, record_str(&old, "sandbox_type"), &pool, NULL, e) < 0)
		return -1;
	owner.name = record_own(&old, "owner");
	owner.admin = !tenancy_is_tenants(&old);
	args = json_pack("{s:O,s:I,s:f}", "meta", json_object_get(old.j, "meta"), "memory", (json_int_t)record_own_u64(&old, "memory_bytes"),
			 "cpus", (double)record_own_u64(&old, "cpu_milli") / 1000);
	chosen_add(args, &old);
	m.args = args;
	if (chosen_read(&m, &pool, e) < 0)
		return err_wrap(e, "restore sandbox %s", name);
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
	if (record_step(&old, EVENT_REPLACED, e) < 0 || session_unbind(s, &old, ctx, e) < 0)
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
	if (session_find(s, who, copy, &map, e) < 0 || session_lock(s, copy, &token, e) < 0)
		return -1;
	json_decref(map);
	map = NULL;
	if (session_find(s, NULL, copy, &map, e) < 0 || session_touch(s, copy, e) < 0)
		r = -1;
	json_array_foreach(json_object_get(map, "containers"), i, name)
		if (r == 0)
			r = restore_one(s, copy, json_string_value(name), e);
	session_unlock(s, copy, token);
	return r;
}
