/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions: their sandboxes and their leases.
 *
 * Every operation and every heartbeat renews a lease. Its time is kept here and written to the
 * store (beat/ID) a few times per timeout, so berthds that share a store see each other's
 * renewals. reap.c is what happens when a lease ends.
 *
 * Upholds S19 of SECURITY.md: each owner has session ids of its own. A session is named OWNER/ID
 * here and in all keys (state.h), and clients say only the id.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/service/state.h"

/* ---- leases and bindings ---- */

#define BIND_TRIES 50
#define WRITE_MAX_MS 10000

struct beat {
	struct beat *next;
	uint64_t at_ms, written_ms;
	char session[];
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

int session_name(char out[SESSION_MAX + 1], const char *owner, const char *ctx, struct err *e)
{
	return snprintf(out, SESSION_MAX + 1, "%s/%s", owner, ctx) > SESSION_MAX ?
		       err_set(e, ERR_INVALID, "a session's id has at most %d bytes", CTX_MAX) : 0;
}

const char *session_ctx(const char *session)
{
	return strchr(session, '/') + 1;
}

int session_of(const struct record *r, char out[SESSION_MAX + 1], struct err *e)
{
	const char *ctx = record_str(r, "session_ctx_id");

	out[0] = '\0';
	return !ctx[0] ? 0 : session_name(out, record_own(r, "owner"), ctx, e) < 0 ? -1 : 1;
}

static void session_key_of(char out[LEDGER_KEY_MAX + 1], const char *kind, const char *session)
{
	_Static_assert(sizeof("sessions/") + SESSION_MAX <= LEDGER_KEY_MAX, "no name of a session is cut");
	snprintf(out, LEDGER_KEY_MAX + 1, "%s/%s", kind, session);
}

/* Reads the mapping: 1, or 0 if there is none. */
int session_load_map(struct service *s, const char *session, json_t **ret, uint64_t *ret_version,
		     struct err *e)
{
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	char key[LEDGER_KEY_MAX + 1];
	int r;

	*ret = NULL;
	*ret_version = LEDGER_ABSENT;
	session_key_of(key, "sessions", session);
	r = ledger_get(s->ledger, key, &b, ret_version, e);
	if (r < 1)
		return r;
	*ret = json_parse(b.data ? b.data : "", b.len, RECORD_MAX, "a session's record", e);
	return *ret ? 1 : -1;
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

/* Tells whether others changed the session's mapping in between, and nothing else: 1. */
static int map_changed(struct service *s, const char *session, uint64_t version)
{
	autojson json_t *map = NULL;
	struct err ignored;
	uint64_t now;

	return session_load_map(s, session, &map, &now, &ignored) >= 0 && now != version;
}

static int change_session_map(struct service *s, struct record *r, const char *session, int add, const struct ledger_op *more, size_t n, struct err *e)
{
	int tries;

	for (tries = 0; tries < BIND_TRIES; tries++) {
		struct ledger_op ops[LEDGER_OPS_MAX];
		autojson json_t *map = NULL;
		autofree char *text = NULL;
		char key[LEDGER_KEY_MAX + 1];
		uint64_t version;

		if (n + 3 > LEDGER_OPS_MAX || session_load_map(s, session, &map, &version, e) < 0)
			return n + 3 > LEDGER_OPS_MAX ? err_set(e, ERR_LIMIT, "too many changes at once") : -1;
		if (!map)
			map = json_pack("{s:[],s:s,s:f}", "containers", "owner", record_own(r, "owner"), "created_at", wall_seconds());
		map_remove(json_object_get(map, "containers"), r->name);
		if (add)
			json_array_append_new(json_object_get(map, "containers"), json_string(r->name));
		session_key_of(key, "sessions", session);
		if (n)
			memcpy(ops, more, n * sizeof(*ops));
		if (map_op(map, version, key, &text, &ops[n], e) < 0)
			return -1;
		if (record_save(s, r, ops, n + 1, e) == 0)
			return 0;
		if (e->code != ERR_BUSY || !map_changed(s, session, version))
			return -1;
	}
	return -1;
}

int session_bind(struct service *s, struct record *r, const struct ledger_op *more, size_t n, struct err *e)
{
	char session[SESSION_MAX + 1];

	return session_of(r, session, e) < 0 ? -1 : change_session_map(s, r, session, 1, more, n, e);
}

static void session_forget(struct service *s, const char *session)
{
	char key[LEDGER_KEY_MAX + 1];
	struct ledger_op op = { LEDGER_DELETE, key, NULL, LEDGER_ANY, 0 };
	struct beat **at, *b = NULL;
	struct err ignored;

	pthread_mutex_lock(&s->lock);
	for (at = &s->beats; *at; at = &(*at)->next) {
		if (!strcmp((*at)->session, session)) {
			b = *at;
			*at = b->next;
			break;
		}
	}
	pthread_mutex_unlock(&s->lock);
	free(b);
	session_key_of(key, "beats", session);
	ledger_commit(s->ledger, &op, 1, NULL, &ignored);
}

int session_unbind(struct service *s, struct record *r, struct err *e)
{
	char session[SESSION_MAX + 1];
	json_t *map = NULL;
	struct err ignored;
	uint64_t version;

	if (session_of(r, session, e) < 0)
		return -1;
	json_object_set_new(r->j, "session_ctx_id", json_null());
	json_object_del(json_object_get(r->j, "meta"), "session_ctx_id");
	if (change_session_map(s, r, session, 0, NULL, 0, e) < 0)
		return -1;
	/* the last sandbox took the mapping along; a heartbeat or an owner without it means nothing */
	if (session_load_map(s, session, &map, &version, &ignored) == 0) {
		session_forget(s, session);
		owner_forget(s, session);
	}
	json_decref(map);
	return 0;
}

static struct beat *find_beat(struct service *s, const char *session, int add)
{
	struct beat *b = s->beats;

	while (b && strcmp(b->session, session))
		b = b->next;
	if (!b && add) {
		b = calloc(1, sizeof(*b) + strlen(session) + 1);
		if (!b)
			return NULL;
		strcpy(b->session, session);
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

int session_touch(struct service *s, const char *session, struct err *e)
{
	uint64_t now = clock_wall_ms(), every = heartbeat_ms(s) / 4;
	char key[LEDGER_KEY_MAX + 1], text[24];
	struct ledger_op op = { LEDGER_SET, key, text, LEDGER_ANY, 0 };
	struct beat *b;
	int write;

	if (!every || every > WRITE_MAX_MS)
		every = WRITE_MAX_MS;
	pthread_mutex_lock(&s->lock);
	b = find_beat(s, session, 1);
	if (b)
		b->at_ms = now;
	write = !b || now - b->written_ms >= every;
	if (write && b)
		b->written_ms = now;
	pthread_mutex_unlock(&s->lock);
	if (!write)
		return 0;
	session_key_of(key, "beats", session);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)now);
	return ledger_commit(s->ledger, &op, 1, NULL, e);
}

uint64_t session_last_ms(struct service *s, const char *session, struct err *e)
{
	autobuf struct buf text = BUF_INIT(64);
	char key[LEDGER_KEY_MAX + 1];
	uint64_t at, stored = 0;
	struct beat *b;

	session_key_of(key, "beats", session);
	if (ledger_get(s->ledger, key, &text, NULL, e) > 0 && num_u64(text.data, "a heartbeat", 0, UINT64_MAX, &stored, e) < 0)
		stored = 0;
	pthread_mutex_lock(&s->lock);
	b = find_beat(s, session, 0);
	at = b ? b->at_ms : 0;
	pthread_mutex_unlock(&s->lock);
	if (stored > at)
		at = stored;
	/* no client could renew it while we were not running */
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

/* ---- what a client means by an id ---- */

struct names {
	const char *ctx;	/* only sessions with this id; NULL: all */
	json_t *out;
};

static int add_session_name(void *ctx, const char *key, const char *value, uint64_t version)
{
	const char *session = key + strlen("sessions/");
	struct names *n = ctx;

	(void)value;
	(void)version;
	if (!n->ctx || !strcmp(n->ctx, session_ctx(session)))
		json_array_append_new(n->out, json_string(session));
	return 0;
}

/* Names of sessions that begin with prefix: an array. */
static json_t *session_names_of(struct service *s, const char *prefix, const char *ctx, struct err *e)
{
	struct names n = { ctx, json_array() };
	char key[LEDGER_KEY_MAX + 1];

	session_key_of(key, "sessions", prefix);
	if (ledger_scan(s->ledger, key, add_session_name, &n, e) == 0)
		return n.out;
	json_decref(n.out);
	return NULL;
}

/* Lists ids; an administrator sees each once, however many owners have it. */
json_t *service_session_keys(struct service *s, const struct service_who *who, struct err *e)
{
	autojson json_t *seen = json_object(), *names = NULL;
	char own[SESSION_MAX + 1] = "";
	json_t *out, *name;
	const char *ctx;
	size_t i;

	if (!who->admin)
		snprintf(own, sizeof(own), "%.64s/", who->name);
	names = session_names_of(s, own, NULL, e);
	if (!names)
		return NULL;
	out = json_array();
	json_array_foreach(names, i, name) {
		ctx = session_ctx(json_string_value(name));
		if (!json_object_get(seen, ctx))
			json_array_append_new(out, json_string(ctx));
		json_object_set_new(seen, ctx, json_true());
	}
	return out;
}

/*
 * Returns the names of the sessions with that id: who's own, and if an administrator has none,
 * those of all others.
 */
static json_t *meant(struct service *s, const struct service_who *who, const char *ctx, struct err *e)
{
	char own[SESSION_MAX + 1];
	json_t *map = NULL;
	uint64_t version;
	int r;

	if (session_check_ctx(ctx, e) < 0 || session_name(own, who->name, ctx, e) < 0)
		return NULL;
	r = session_load_map(s, own, &map, &version, e);
	json_decref(map);
	if (r < 0)
		return NULL;
	return r ? json_pack("[s]", own) : who->admin ? session_names_of(s, "", ctx, e) : json_array();
}

int session_find(struct service *s, const struct service_who *who, const char *ctx, char out[SESSION_MAX + 1], struct err *e)
{
	autojson json_t *names = meant(s, who, ctx, e);

	if (!names)
		return -1;
	if (!json_array_size(names))
		return err_set(e, ERR_NOT_FOUND, "no session '%.80s'", ctx);
	/* an administrator's request is not carried out on several tenants' sessions */
	if (json_array_size(names) > 1)
		return err_set(e, ERR_INVALID, "%zu owners have a session '%.80s'; hint: name one of its sandboxes instead, which "
			       "/v1/manager/sandboxes lists", json_array_size(names), ctx);
	snprintf(out, SESSION_MAX + 1, "%s", json_string_value(json_array_get(names, 0)));
	return 0;
}

json_t *service_session_mapping(struct service *s, const struct service_who *who, const char *ctx, struct err *e)
{
	autojson json_t *names = meant(s, who, ctx, e);
	json_t *out, *name;
	size_t i;

	if (!names)
		return NULL;
	out = json_array();
	json_array_foreach(names, i, name) {
		autojson json_t *map = NULL;
		uint64_t version;

		if (session_load_map(s, json_string_value(name), &map, &version, e) < 0) {
			json_decref(out);
			return NULL;
		}
		json_array_extend(out, json_object_get(map, "containers"));
	}
	return out;
}

int service_heartbeat(struct service *s, const struct service_who *who, const char *ctx, struct err *e)
{
	char session[SESSION_MAX + 1];

	return session_find(s, who, ctx, session, e) < 0 ? -1 : session_touch(s, session, e);
}

static int restore_one(struct service *s, const char *session, const char *name, struct err *e)
{
	autorecord struct record old = { .j = NULL }, new = { .j = NULL };
	autojson json_t *args = NULL;
	struct service_who owner = { .name = "" };
	struct conf_pool pool;
	struct making m = { .who = &owner, .ctx = session_ctx(session), .wait = 1, .inherit_workspace = 1 };

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
	if (record_step(&old, EVENT_REPLACED, e) < 0 || session_unbind(s, &old, e) < 0)
		return -1;
	s->restored++;
	return 0;
}

int session_restore(struct service *s, const char *session, struct err *e)
{
	autojson json_t *map = NULL;
	uint64_t token, version;
	json_t *name;
	size_t i;
	int r = 0;

	/* another thread restores it: once that is done, nothing is left to do */
	if (session_lock(s, session, &token, e) < 0)
		return -1;
	if (session_load_map(s, session, &map, &version, e) < 0 || session_touch(s, session, e) < 0)
		r = -1;
	json_array_foreach(json_object_get(map, "containers"), i, name)
		if (r == 0)
			r = restore_one(s, session, json_string_value(name), e);
	session_unlock(s, session, token);
	return r;
}

int service_restore(struct service *s, const struct service_who *who, const char *ctx, struct err *e)
{
	char session[SESSION_MAX + 1];

	return session_find(s, who, ctx, session, e) < 0 ? -1 : session_restore(s, session, e);
}

/* ---- the lock in the store ---- */

/* Upholds S46 of SECURITY.md. */
/*
 * The lock of a session in the store: its holder reaps, restores or releases the session. It
 * expires, because a berthd may die. So a living berthd renews its locks at each scan, as an
 * upload, a pull or a place in the queue may take longer. Otherwise another berthd would release
 * the workspace of a restore that still waits for room.
 */

#define LOCK_MS 120000
#define LOCK_WAIT_MS 30000

struct session_lock {
	struct session_lock *next;
	uint64_t token;
	char name[LEDGER_KEY_MAX + 1];
};

static void name_lock(const char *session, char out[LEDGER_KEY_MAX + 1])
{
	_Static_assert(sizeof("lock/reap/") + SESSION_MAX <= LEDGER_KEY_MAX, "no name of a session is cut");
	snprintf(out, LEDGER_KEY_MAX + 1, "reap/%s", session);
}

int session_try_lock(struct service *s, const char *session, uint64_t *ret_token, struct err *e)
{
	struct session_lock *l = calloc(1, sizeof(*l));

	if (!l)
		return err_nomem(e);
	name_lock(session, l->name);
	if (ledger_lock(s->ledger, l->name, s->host, LOCK_MS, &l->token, e) < 0) {
		free(l);
		return -1;
	}
	*ret_token = l->token;
	pthread_mutex_lock(&s->lock);
	l->next = s->session_locks;
	s->session_locks = l;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

int session_lock(struct service *s, const char *session, uint64_t *ret_token, struct err *e)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	uint64_t until = clock_wall_ms() + LOCK_WAIT_MS;
	int r;

	while ((r = session_try_lock(s, session, ret_token, e)) < 0 && e->code == ERR_BUSY &&
	       clock_wall_ms() < until)
		nanosleep(&pause, NULL);
	return r;
}

void session_unlock(struct service *s, const char *session, uint64_t token)
{
	struct session_lock **at, *l;
	struct err ignored;
	char name[LEDGER_KEY_MAX + 1];

	name_lock(session, name);
	pthread_mutex_lock(&s->lock);
	for (at = &s->session_locks; *at && (*at)->token != token; at = &(*at)->next)
		;
	l = *at;
	if (l)
		*at = l->next;
	pthread_mutex_unlock(&s->lock);
	free(l);
	ledger_unlock(s->ledger, name, token, &ignored);
}

/* Under the lock of the service a copy only: the store may be away for long. */
static struct session_lock *copy_locks(struct service *s)
{
	struct session_lock *copies = NULL, *l, *c;

	pthread_mutex_lock(&s->lock);
	for (l = s->session_locks; l && (c = malloc(sizeof(*c))); l = l->next) {
		*c = *l;
		c->next = copies;
		copies = c;
	}
	pthread_mutex_unlock(&s->lock);
	return copies;
}

void session_renew_locks(struct service *s)
{
	struct session_lock *copies = copy_locks(s), *l;
	struct err ignored;

	while ((l = copies)) {
		copies = l->next;
		/* a lock that was released meanwhile cannot be renewed */
		ledger_renew(s->ledger, l->name, l->token, LOCK_MS, &ignored);
		free(l);
	}
}

/* ---- sessions of an older berth ---- */

/*
 * Sessions that an older berth wrote: session/ID, beat/ID and owner/MACHINE/ID, one namespace for
 * all owners. Each becomes the session of the owner that its mapping names. Every step is one
 * batch that other berthds see whole, and what changed in between is left to the next scan.
 */

#define OLD_SESSION "session/"
#define OLD_BEAT "beat/"
#define OLD_OWNER "owner/"

struct old {
	json_t *list;	/* array of {"key", "value", "version"} */
};

static int add_old(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct old *o = ctx;

	json_array_append_new(o->list, json_pack("{s:s,s:s,s:I}", "key", key, "value", value, "version", (json_int_t)version));
	return 0;
}

static json_t *scan_old(struct service *s, const char *prefix, struct err *e)
{
	struct old o = { json_array() };

	if (ledger_scan(s->ledger, prefix, add_old, &o, e) == 0)
		return o.list;
	json_decref(o.list);
	return NULL;
}

static const char *key_in(const json_t *old)
{
	return json_string_value(json_object_get(old, "key"));
}

static const char *value_in(const json_t *old)
{
	return json_string_value(json_object_get(old, "value"));
}

static uint64_t version_in(const json_t *old)
{
	return (uint64_t)json_integer_value(json_object_get(old, "version"));
}

/* The key kind/[MACHINE/]SESSION and its value instead of the old one. */
static int move_old_key(struct service *s, const char *kind, const char *session, const json_t *old, const char *value, uint64_t version, struct err *e)
{
	char key[LEDGER_KEY_MAX + 1];
	struct ledger_op ops[] = {
		{ LEDGER_SET, key, value, version, 0 },
		{ LEDGER_DELETE, key_in(old), NULL, version_in(old), 0 },
	};

	if (snprintf(key, sizeof(key), "%s/%s", kind, session) > LEDGER_KEY_MAX)
		return err_set(e, ERR_CORRUPT, "the key of an older session is too long: %.80s", key);
	/* another process has changed it: the next scan looks again */
	return ledger_commit(s->ledger, ops, ARRAY_LEN(ops), NULL, e) < 0 && e->code != ERR_BUSY ? -1 : 0;
}

static int drop_old_session(struct service *s, const json_t *old, struct err *e)
{
	struct ledger_op op = { LEDGER_DELETE, key_in(old), NULL, version_in(old), 0 };

	return ledger_commit(s->ledger, &op, 1, NULL, e) < 0 && e->code != ERR_BUSY ? -1 : 0;
}

/* Moves a session, also if the owner has a session with that id by now: their sandboxes are joined. */
static int move_session(struct service *s, const json_t *old, const char *session, struct err *e)
{
	autojson json_t *map = json_parse(value_in(old), strlen(value_in(old)), RECORD_MAX, "a session's record", e), *now = NULL;
	autofree char *text = NULL;
	json_t *list, *name, *there;
	uint64_t version;
	size_t i, k;

	if (!map || session_load_map(s, session, &now, &version, e) < 0)
		return -1;
	if (!now)
		return move_old_key(s, "sessions", session, old, value_in(old), LEDGER_ABSENT, e);
	list = json_object_get(now, "containers");
	json_array_foreach(json_object_get(map, "containers"), i, name) {
		json_array_foreach(list, k, there)
			if (json_equal(there, name))
				break;
		if (k == json_array_size(list))
			json_array_append(list, name);
	}
	text = json_dumps(now, JSON_COMPACT);
	return text ? move_old_key(s, "sessions", session, old, text, version, e) : err_nomem(e);
}

/* The old ids, with the names that they get. */
static int name_sessions(const json_t *olds, json_t *names, struct err *e)
{
	json_t *old;
	size_t i;

	json_array_foreach(olds, i, old) {
		autojson json_t *map = json_parse(value_in(old), strlen(value_in(old)), RECORD_MAX, "a session's record", e);
		const char *ctx = key_in(old) + strlen(OLD_SESSION), *owner = json_string_value(json_object_get(map, "owner"));
		char session[SESSION_MAX + 1];

		if (!map || session_name(session, owner ? owner : "", ctx, e) < 0)
			return -1;
		json_object_set_new(names, ctx, json_string(session));
	}
	return 0;
}

static int move_sessions(struct service *s, const json_t *olds, const json_t *names, struct err *e)
{
	json_t *old;
	size_t i;

	json_array_foreach(olds, i, old)
		if (move_session(s, old, json_string_value(json_object_get(names, key_in(old) + strlen(OLD_SESSION))), e) < 0)
			return -1;
	return 0;
}

/* A heartbeat or an owner without a session says nothing. */
static int move_beats(struct service *s, const json_t *names, struct err *e)
{
	autojson json_t *olds = scan_old(s, OLD_BEAT, e);
	json_t *old;
	size_t i;

	json_array_foreach(olds, i, old) {
		const char *session = json_string_value(json_object_get(names, key_in(old) + strlen(OLD_BEAT)));

		if ((session ? move_old_key(s, "beats", session, old, value_in(old), LEDGER_ANY, e) : drop_old_session(s, old, e)) < 0)
			return -1;
	}
	return olds ? 0 : -1;
}

static int move_owners(struct service *s, const json_t *names, struct err *e)
{
	autojson json_t *olds = scan_old(s, OLD_OWNER, e);
	json_t *old;
	size_t i;

	json_array_foreach(olds, i, old) {
		const char *machine = key_in(old) + strlen(OLD_OWNER), *slash = strchr(machine, '/');
		const char *session = slash ? json_string_value(json_object_get(names, slash + 1)) : NULL;
		char kind[64];

		snprintf(kind, sizeof(kind), "owners/%.*s", slash ? (int)(slash - machine) : 0, machine);
		if ((session ? move_old_key(s, kind, session, old, value_in(old), LEDGER_ANY, e) : drop_old_session(s, old, e)) < 0)
			return -1;
	}
	return olds ? 0 : -1;
}

int sessions_move(struct service *s, struct err *e)
{
	autojson json_t *olds = scan_old(s, OLD_SESSION, e), *names = json_object();

	if (!olds || !json_array_size(olds))
		return olds ? 0 : -1;
	/* the sessions last: if berthd is killed in between, the next start moves the rest */
	return name_sessions(olds, names, e) < 0 || move_beats(s, names, e) < 0 || move_owners(s, names, e) < 0 ||
	       move_sessions(s, olds, names, e) < 0 ? -1 : 0;
}
