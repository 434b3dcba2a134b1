/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warm pools: sandboxes made ahead, one list per type and machine in the store.
 *
 * A claim takes the item off the list and writes the record of its new owner in one batch, so
 * two claims cannot take the same one. Then it checks that the sandbox lives and has the present
 * version of its type, and hands over the owner's settings: environment, limits and a workspace
 * directory. A sandbox that is given back is removed, never put back, so no owner gets another's
 * data. Each berthd fills its own share of a list, from one thread, so a list never holds more
 * than configured.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/service/deadline.h"
#include "manager/service/state.h"
#include "manager/zygote/client.h"
#include "manager/zygote/list.h"
#include "manager/zygote/wire.h"
#include "rootfs/store/image.h"

/* ---- types ---- */

/* The parts of a type of sandboxes, and the version that tells two of them apart. */

static uint64_t hash_type_bytes(uint64_t h, const void *p, size_t n)
{
	const unsigned char *b = p;

	while (n--)
		h = (h ^ *b++) * UINT64_C(1099511628211);
	return h;
}

int service_pool_image(struct service *s, const struct conf_pool *p, const char *made, struct image *ret, struct err *e)
{
	char path[sizeof(s->config.state_dir) + 8];
	autoclose int dir = -1;

	if (made) {
		dir = registry_keep_dir(&s->registry, made, e);
		return dir < 0 ? -1 : image_load_pin(dir, ret, e);
	}
	snprintf(path, sizeof(path), "%s/store", s->config.state_dir);
	dir = store_open(path, e);
	return dir < 0 ? -1 : image_load(dir, p->image, ret, e);
}

int service_pool_has_image(const struct conf_pool *p)
{
	return !p->zygote[0] && strcmp(p->image, "host") && p->image[0] != '/' && p->image[0] != '.';
}

int service_pool_version(struct service *s, const struct conf_pool *p, const char *made, char ret[160], struct err *e)
{
	uint64_t h = UINT64_C(14695981039346656037);
	struct image im;

	h = hash_type_bytes(h, p->image, strlen(p->image) + 1);
	h = hash_type_bytes(h, &p->memory_bytes, sizeof(p->memory_bytes));
	h = hash_type_bytes(h, &p->cpu_milli, sizeof(p->cpu_milli));
	h = hash_type_bytes(h, p->options, strlen(p->options) + 1);
	h = hash_type_bytes(h, p->env, strlen(p->env) + 1);
	h = hash_type_bytes(h, p->readonly_mounts, strlen(p->readonly_mounts) + 1);
	if (p->zygote[0])
		return zygotetype_version(s, p, made, h, ret, e);
	if (!service_pool_has_image(p)) {
		snprintf(ret, 160, "%.60s#%016" PRIx64, p->image, h);
		return 0;
	}
	if (service_pool_image(s, p, made, &im, e) < 0)
		return err_wrap(e, "pool %s", p->name);
	snprintf(ret, 160, "%.72s#%016" PRIx64, im.digest, h);
	image_release(&im);
	return 0;
}

/*
 * agentscope has each type twice, base and base_async, for its two kinds of clients; both are
 * made the same way.
 */
static const struct conf_pool *find_type(const struct conf *c, const char *name)
{
	static const char suffix[] = "_async";
	const struct conf_pool *p = conf_pool_find(c, name);
	size_t n = strlen(name), k = strlen(suffix);
	char stem[65];

	if (p || n <= k || n >= sizeof(stem) || strcmp(name + n - k, suffix))
		return p;
	snprintf(stem, sizeof(stem), "%.*s", (int)(n - k), name);
	return conf_pool_find(c, stem);
}

int conf_pool_copy(struct service *s, const char *name, struct conf_pool *ret, size_t *ret_index, struct err *e)
{
	const struct conf_pool *p;
	int r = 0;

	pthread_rwlock_rdlock(&s->conf_lock);
	p = name && name[0] ? find_type(&s->conf, name) : &s->conf.pools[0];
	if (p) {
		*ret = *p;
		if (ret_index)
			*ret_index = (size_t)(p - s->conf.pools);
	} else {
		r = err_set(e, ERR_INVALID, "no sandbox type '%.64s'; hint: [pool.NAME] in berth.toml makes types", name);
	}
	pthread_rwlock_unlock(&s->conf_lock);
	if (r == 0)
		zygotetype_settle(s, ret);
	return r;
}

/* ---- types with a zygote ---- */

/*
 * A type of sandboxes that are made of a zygote: [pool.X] zygote.  What berth zygote create was
 * given decides everything but the workspace.
 */

static json_t *zygote_of(struct service *s, const struct conf_pool *p, struct err *e)
{
	char id[65];
	autoclose int dir = zygote_open(&s->registry, p->zygote, id, e);
	json_t *z = dir < 0 ? NULL : zygote_describe(&s->registry, id, e);

	if (!z)
		err_wrap(e, "pool %s", p->name);
	return z;
}

void zygotetype_settle(struct service *s, struct conf_pool *p)
{
	struct err ignored;
	autojson json_t *z = p->zygote[0] ? zygote_of(s, p, &ignored) : NULL;
	const char *image = json_string_value(json_object_get(z, "image"));

	if (!z)
		return; /* or there is none now; the next request to make a sandbox reports that */
	snprintf(p->image, sizeof(p->image), "%s", image ? image : "");
	p->memory_bytes = (uint64_t)json_integer_value(json_object_get(z, "memory_bytes"));
	p->cpu_milli = (uint64_t)json_integer_value(json_object_get(z, "cpu_milli"));
}

int zygotetype_check(const struct conf_pool *p, const json_t *args, struct err *e)
{
	static const char *const decided[] = {"image",	 "options", "command",
					      "memory", "cpus",	   "environment"};
	size_t i;

	for (i = 0; p->zygote[0] && i < ARRAY_LEN(decided); i++) {
		const json_t *v = json_object_get(args, decided[i]);

		if (v && !json_is_null(v) && (!json_is_object(v) || json_object_size(v)))
			return err_set(e, ERR_INVALID,
				       "\"%s\" cannot be given for the sandbox type %s, as its "
				       "zygote has decided that; hint: leave it out",
				       decided[i], p->name);
	}
	return 0;
}

int zygotetype_version(struct service *s, const struct conf_pool *p, const char *made,
		       uint64_t hash, char ret[160], struct err *e)
{
	autojson json_t *z = NULL;
	const char *id;

	if (!made) {
		z = zygote_of(s, p, e);
		id = json_string_value(json_object_get(z, "id"));
	} else {
		if (record_read(s->registry.sandboxes_fd, made, &z, e) < 0)
			return -1;
		id = json_string_value(json_object_get(record_labels(z), ZYGOTE_LABEL));
	}
	if (!id)
		return z ? err_set(e, ERR_NOT_FOUND, "sandbox %s has ended", made ? made : "") : -1;
	snprintf(ret, 160, "zygote:%s#%016" PRIx64, id, hash);
	return 0;
}

int zygotetype_user(struct service *s, const struct conf_pool *p, char ret[128], struct err *e)
{
	autojson json_t *z = zygote_of(s, p, e);
	json_t *pair;
	size_t i;

	if (!z)
		return -1;
	json_array_foreach (json_object_get(z, "options"), i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		const char *value = json_string_value(json_array_get(pair, 1));

		if (name && value && !strcmp(name, "user"))
			snprintf(ret, 128, "%s", value);
	}
	return 0;
}

/* ---- warm sandboxes ---- */

#define LOOK_AT 16	/* items from which a claim chooses, so that claims at the same time choose
			 * different ones */
#define CLAIM_TRIES 64
#define LOOK_NO_MORE 2
#define BACK_OFF_MAX_MS 30000

void pool_list_key(const char *machine, const char *type, char out[LEDGER_KEY_MAX + 1])
{
	snprintf(out, LEDGER_KEY_MAX + 1, "pool/%s/%s", machine, type);
}

struct items {
	char item[LOOK_AT][140];
	unsigned n;
};

static int take_warm_item(void *ctx, const char *value)
{
	struct items *it = ctx;

	if (it->n < LOOK_AT)
		snprintf(it->item[it->n++], sizeof(it->item[0]), "%s", value);
	return 0;
}

static int add_claim_env(void *ctx, const char *text, struct err *e)
{
	return json_array_append_new(ctx, json_string(text)) < 0 ? err_set(e, ERR_INVALID, "the environment is not valid UTF-8") : 0;
}

static int claim_has(const json_t *args, const char *key)
{
	const json_t *v = json_object_get(args, key);

	return v && !json_is_null(v);
}

static int keeper_ok(int sock, json_t *rq, struct err *e)
{
	autojson json_t *answer = rq ? keeper_call(sock, rq, NULL, 0, NULL, e) : NULL;

	json_decref(rq);
	return answer ? 0 : -1;
}

/* The keeper's settings apply to this run only: the next start reads them from the disk. */
static int remember_claim(struct service *s, const struct record *r, const json_t *args, json_t *env, const char *mount_dir, struct err *e)
{
	autojson json_t *options = json_array();
	uint64_t cpu = record_own_u64(r, "cpu_milli");
	char memory[24], cpus[24];
	json_t *text;
	size_t i;

	json_array_foreach(env, i, text)
		json_array_append_new(options, json_pack("[s,O]", "env", text));
	snprintf(memory, sizeof(memory), "%llu", (unsigned long long)record_own_u64(r, "memory_bytes"));
	snprintf(cpus, sizeof(cpus), "%llu.%03u", (unsigned long long)(cpu / 1000), (unsigned)(cpu % 1000));
	if (claim_has(args, "memory"))
		json_array_append_new(options, json_pack("[s,s]", "memory", memory));
	if (claim_has(args, "cpus"))
		json_array_append_new(options, json_pack("[s,s]", "cpus", cpus));
	return json_array_size(options) || mount_dir ? driver_remember(s, r, options, mount_dir, e) : 0;
}

static int set_claim_limits(int sock, const struct record *r, struct err *e)
{
	json_t *rq = protocol_request(OP_update);

	request_set_memory_bytes(rq, record_own_u64(r, "memory_bytes"));
	request_set_cpu_milli(rq, record_own_u64(r, "cpu_milli"));
	return keeper_ok(sock, rq, e);
}

/* Decides everything that can still be decided now; the keeper's answer shows that it runs, too. */
static int hand_claim_over(struct service *s, struct record *r, const json_t *args, json_t *env, const char *mount_dir, struct err *e)
{
	autoclose int sock = driver_connect(s, r, e);
	struct err ignored;
	json_t *adopt;

	if (sock < 0)
		return -1;
	adopt = protocol_request(OP_adopt);
	request_set_token(adopt, record_str(r, "runtime_token"));
	request_set_env(adopt, json_incref(env));
	if (mount_dir)
		request_set_mount(adopt, json_pack("{s:s,s:s}", "target", WORK_DIR, "source", mount_dir));
	if (keeper_ok(sock, adopt, e) < 0)
		return -1;
	if ((claim_has(args, "memory") || claim_has(args, "cpus")) && set_claim_limits(sock, r, e) < 0)
		return -1;
	if (remember_claim(s, r, args, env, mount_dir, e) < 0)
		return -1;
	if (mount_dir && workspace_remove_spare(r, e) < 0)
		return -1;
	/*
	 * another berthd may have written it meanwhile: then it still names a removed sandbox,
	 * which the release accepts
	 */
	if (mount_dir)
		record_save(s, r, NULL, 0, &ignored);
	return 0;
}

static void set_claim_owner(struct record *r, const struct making *m, uint64_t memory, uint64_t cpu)
{
	json_t *meta = json_object_get(m->args, "meta");
	struct err checked;
	const char *ctx = json_string_value(json_object_get(meta, "session_ctx_id"));

	record_set_own(r, "owner", json_string(m->who->name));
	record_set_own(r, "tenant", json_boolean(tenancy_is_tenant(m->who)));
	if (m->who->request && m->who->request[0])
		record_set_own(r, "request", json_string(m->who->request));
	if (m->mount_dir) {
		record_set_own(r, "spare_workspace", json_string(record_str(r, "mount_dir")));
		record_set_own(r, "own_workspace", json_false());
		json_object_set_new(r->j, "mount_dir", json_string(m->mount_dir));
	}
	record_set_own(r, "memory_bytes", json_integer((json_int_t)memory));
	record_set_own(r, "cpu_milli", json_integer((json_int_t)cpu));
	interval_note(r, m->args, &checked);
	given_note(r, m->args);
	if (json_is_object(meta))
		json_object_set_new(r->j, "meta", json_deep_copy(meta));
	json_object_set_new(r->j, "session_ctx_id", ctx && ctx[0] ? json_string(ctx) : json_null());
	json_object_set_new(r->j, "last_active_at", json_real(wall_seconds()));
	record_step(r, EVENT_OWNED, &checked);	/* it is warm: the caller has looked */
}

/* Releases an unusable sandbox in the background; its place is filled again. */
static void discard(struct service *s, struct record *r)
{
	struct err ignored;

	record_step(r, EVENT_SPOILED, &ignored);
	json_object_set_new(r->j, "recycle_reason", json_string("stale or dead in the pool"));
	record_set_own(r, "retry", json_true());
	record_save(s, r, NULL, 0, &ignored);
	pool_poke(s);
}

/* Claims the item: 1 claimed, 0 look at another, LOOK_NO_MORE, -1. */
static int claim_item(struct service *s, const struct making *m, const char *version, const char *item, json_t *env, struct record *r,
		      struct err *e)
{
	const struct conf_pool *p = m->pool;
	const json_t *args = m->args;
	const char *name = strchr(item, '/'), *ctx;
	char key[LEDGER_KEY_MAX + 1];
	struct ledger_op take = { LEDGER_TAKE, key, item, 0, 0 };
	uint64_t memory, cpu, had_memory, had_cpu;
	struct err why;
	int stale, promised;

	if (!name || record_load(s, NULL, name + 1, 0, r, &why) < 0) {
		pool_list_key(s->machine, p->name, key);
		/* the record is gone: remove the item too */
		ledger_commit(s->ledger, &take, 1, NULL, &why);
		return 0;
	}
	if (!record_is(r, STATE_WARM) || service_limits(args, p, &memory, &cpu, e) < 0) {
		int gone = !record_is(r, STATE_WARM);

		record_close(r);
		return gone ? 0 : -1;
	}
	pool_list_key(s->machine, p->name, key);
	stale = strcmp(version, record_own(r, "version"));
	had_memory = record_own_u64(r, "memory_bytes");
	had_cpu = record_own_u64(r, "cpu_milli");
	/*
	 * a claim that does not fit waits for room or is refused, like a new sandbox; another
	 * berthd does its own counting
	 */
	if (!stale && (memory != had_memory || cpu != had_cpu) &&
	    (!record_is_ours(s, r) || place_change(s, r->name, memory, cpu, &why) < 0)) {
		record_close(r);
		return 0;
	}
	if (!stale)
		set_claim_owner(r, m, memory, cpu);
	ctx = record_str(r, "session_ctx_id");
	if ((ctx[0] ? session_bind(s, r, &take, 1, e) : record_save(s, r, &take, 1, e)) < 0) {
		if (!stale)
			place_change(s, r->name, had_memory, had_cpu, NULL);
		record_close(r);
		return e->code == ERR_BUSY ? 0 : -1;
	}
	promised = stale ? 0 : tenancy_promise(s, m->who, r, memory, cpu, e);
	/* its own workspace counts as the tenant's from now on */
	if (!stale && promised == 0 && (m->mount_dir || workspace_bound(s, r, &why) == 0) &&
	    hand_claim_over(s, r, args, env, m->mount_dir, &why) == 0)
		return 1;
	if (ctx[0])
		session_unbind(s, r, &why);
	discard(s, r);
	record_close(r);
	if (promised < 0)
		return -1;
	/*
	 * if a directory cannot be mounted, the other sandboxes are not tried: a new one reports
	 * the reason
	 */
	return !stale && m->mount_dir ? LOOK_NO_MORE : 0;
}

static void note_claim(struct service *s, uint64_t us)
{
	pthread_mutex_lock(&s->lock);
	s->claim_last_us[s->claims_noted++ % CLAIMS_KEPT] = us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
	pthread_mutex_unlock(&s->lock);
	histogram_observe(&s->claim_took, us);
}

static int is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int pool_claim(struct service *s, const struct making *m, struct record *r, struct err *e)
{
	const struct conf_pool *p = m->pool;
	autojson json_t *env = json_array();
	uint64_t began = clock_us(), memory, cpu;
	char key[LEDGER_KEY_MAX + 1], version[160];
	int tries, got = 0;

	if (!p->size || (m->mount_dir && !is_dir(m->mount_dir)))
		return 0;
	if (service_limits(m->args, p, &memory, &cpu, e) < 0 || tenancy_check(s, m->who, m->args, memory, cpu, e) < 0)
		return -1;
	/* the image is gone: the warm sandboxes cannot be checked, and a new one fetches it */
	if (service_pool_version(s, p, NULL, version, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (!env || service_each_env(m->args, add_claim_env, env, e) < 0)
		return -1;
	pool_list_key(s->machine, p->name, key);
	for (tries = 0; tries < CLAIM_TRIES && got == 0; tries++) {
		struct items it = { .n = 0 };

		if (ledger_list(s->ledger, key, LOOK_AT, take_warm_item, &it, e) < 0)
			return -1;
		if (!it.n)
			break;
		got = claim_item(s, m, version, it.item[(unsigned)(clock_us() / 7) % it.n], env, r, e);
	}
	if (got == LOOK_NO_MORE)
		return 0;
	if (got > 0) {
		s->claimed++;
		note_claim(s, clock_us() - began);
		pool_poke(s);
	}
	return got;
}

/* ---- keeping them filled ---- */

void pool_poke(struct service *s)
{
	pthread_mutex_lock(&s->lock);
	s->poked = 1;
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
}

struct mine {
	struct service *s;
	const char *version;	/* NULL: unknown */
	char stale[LOOK_AT][65], last[65];
	unsigned count, stale_count;
};

static int look_at_mine(void *ctx, const char *item)
{
	struct mine *m = ctx;
	const char *slash = strchr(item, '/');
	autorecord struct record r = { .j = NULL };
	struct err e;

	if (!slash || strncmp(item, m->s->host, (size_t)(slash - item)) || m->s->host[slash - item])
		return 0;
	m->count++;
	snprintf(m->last, sizeof(m->last), "%s", slash + 1);
	if (record_load(m->s, NULL, slash + 1, 0, &r, &e) == 0 && record_is(&r, STATE_WARM) &&
	    ((m->version && strcmp(record_own(&r, "version"), m->version)) || !driver_exists(m->s, record_str(&r, "container_id"))) &&
	    m->stale_count < LOOK_AT)
		snprintf(m->stale[m->stale_count++], sizeof(m->stale[0]), "%s", r.name);
	return 0;
}

/* Does one step for pool i: 1 if it did something, 0 if there is nothing to do, -1. */
static int fill_one(struct service *s, const struct conf_pool *p, struct err *e)
{
	static const struct service_who nobody = { .name = "", .admin = 1 };
	struct making m = { .who = &nobody, .pool = p, .warm = 1,
			    .what = { .image = p->image, .pull = p->pull, .zygote = p->zygote } };
	autorecord struct record r = { .j = NULL };
	struct mine mine = { .s = s };
	int have_image;
	char key[LEDGER_KEY_MAX + 1], version[160];

	/*
	 * without the image no new sandbox can be made, but the existing ones stay until it is
	 * back
	 */
	have_image = p->size && service_pool_version(s, p, NULL, version, e) == 0;
	if (p->size && !have_image && e->code != ERR_NOT_FOUND)
		return -1;
	mine.version = !p->size ? "" : have_image ? version : NULL;
	pool_list_key(s->machine, p->name, key);
	if (ledger_list(s->ledger, key, 100000, look_at_mine, &mine, e) < 0)
		return -1;
	/* surplus ones are removed too, after the size was reduced */
	if (mine.stale_count || mine.count > p->size) {
		if (record_load(s, NULL, mine.stale_count ? mine.stale[0] : mine.last, 0, &r, e) < 0)
			return -1;
		if (!record_is(&r, STATE_WARM))
			return 1;	/* claimed meanwhile */
		return service_release_record(s, &r, 0, e) < 0 ? -1 : 1;
	}
	if (mine.count >= p->size)
		return 0;
	return service_make(s, &m, &r, e) < 0 ? -1 : 1;
}

static void wait_poke(struct service *s, uint64_t ms)
{
	const struct timespec until = deadline_after(ms);

	pthread_mutex_lock(&s->lock);
	while (!s->stopping && !s->poked && !pthread_cond_timedwait(&s->wake, &s->lock, &until))
		;
	s->poked = 0;
	pthread_mutex_unlock(&s->lock);
}

static int is_filler_stopping(struct service *s)
{
	int v;

	pthread_mutex_lock(&s->lock);
	v = s->stopping;
	pthread_mutex_unlock(&s->lock);
	return v;
}

void *pool_filler(void *arg)
{
	struct service *s = arg;
	uint64_t pause_ms = 1000;

	while (!is_filler_stopping(s)) {
		int did = 0, failed = 0;
		struct err e = { 0 };
		size_t i;

		for (i = 0; i < CONF_POOLS_MAX && !is_filler_stopping(s); i++) {
			struct conf_pool p;
			int have, r;

			pthread_rwlock_rdlock(&s->conf_lock);
			have = i < s->conf.pool_count;
			if (have)
				p = s->conf.pools[i];
			pthread_rwlock_unlock(&s->conf_lock);
			if (!have)
				break;
			zygotetype_settle(s, &p);
			r = fill_one(s, &p, &e);
			did |= r > 0;
			/*
			 * lack of room is not a failure: it is tried again when another sandbox
			 * ends
			 */
			failed |= r < 0 && e.code != ERR_LIMIT;
			pthread_mutex_lock(&s->lock);
			if (r < 0)
				snprintf(s->fill_error, sizeof(s->fill_error), "pool %s: %s", p.name, e.msg);
			else if (r > 0)
				s->fill_error[0] = '\0';
			pthread_mutex_unlock(&s->lock);
		}
		if (!failed)
			pause_ms = 1000;
		else if (pause_ms < BACK_OFF_MAX_MS)
			pause_ms *= 2;
		if (!did || failed)
			wait_poke(s, pause_ms);
	}
	return NULL;
}
