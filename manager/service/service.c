/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/service/service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "manager/keeper.h"
#include "manager/rename.h"
#include "manager/service/state.h"
#include "manager/service/storage.h"
#include "rootfs/image.h"

#define ARGV_MAX 400
#define USE_TRIES 4
#define RELEASE_TRIES 5

/* ---- places: what of admission is taken by whom ---- */

struct place {
	struct place *next;
	char name[65];
	uint64_t memory_bytes, cpu_milli;
	int being_made;
};

void place_add(struct service *s, const char *name, uint64_t memory_bytes, uint64_t cpu_milli, int being_made)
{
	struct place *p = calloc(1, sizeof(*p));

	if (!p)
		abort();	/* a limit that cannot be counted must not be passed */
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->memory_bytes = memory_bytes;
	p->cpu_milli = cpu_milli;
	p->being_made = being_made;
	pthread_mutex_lock(&s->lock);
	p->next = s->places;
	s->places = p;
	pthread_mutex_unlock(&s->lock);
}

void place_made(struct service *s, const char *name)
{
	struct place *p;

	pthread_mutex_lock(&s->lock);
	for (p = s->places; p; p = p->next)
		if (!strcmp(p->name, name))
			p->being_made = 0;
	pthread_mutex_unlock(&s->lock);
}

void place_drop(struct service *s, const char *name)
{
	struct place **at, *p = NULL;

	pthread_mutex_lock(&s->lock);
	for (at = &s->places; *at; at = &(*at)->next) {
		if (!strcmp((*at)->name, name)) {
			p = *at;
			*at = p->next;
			break;
		}
	}
	pthread_mutex_unlock(&s->lock);
	if (p)
		admission_leave(&s->admission, p->memory_bytes, p->cpu_milli);
	free(p);
}

/* Under the lock: the place, or NULL. */
static struct place *find_place(const struct service *s, const char *name)
{
	struct place *p = s->places;

	while (p && strcmp(p->name, name))
		p = p->next;
	return p;
}

int place_has(struct service *s, const char *name)
{
	int found;

	pthread_mutex_lock(&s->lock);
	found = find_place(s, name) != NULL;
	pthread_mutex_unlock(&s->lock);
	return found;
}

int place_change(struct service *s, const char *name, uint64_t memory_bytes, uint64_t cpu_milli, struct err *e)
{
	struct place *p;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	p = find_place(s, name);
	if (p)
		r = admission_change(&s->admission, (uint64_t[]){ p->memory_bytes, memory_bytes },
				     (uint64_t[]){ p->cpu_milli, cpu_milli }, e);
	if (p && r == 0) {
		p->memory_bytes = memory_bytes;
		p->cpu_milli = cpu_milli;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* Those whose records another berthd has ended; one that is being made has no record at first. */
void places_check(struct service *s)
{
	char (*names)[65] = NULL;
	struct place *p;
	size_t n = 0, i;
	struct err e;

	pthread_mutex_lock(&s->lock);
	for (p = s->places; p; p = p->next)
		n += !p->being_made;
	names = calloc(n ? n : 1, sizeof(*names));
	for (p = s->places, i = 0; names && p; p = p->next)
		if (!p->being_made)
			memcpy(names[i++], p->name, sizeof(p->name));
	pthread_mutex_unlock(&s->lock);
	for (i = 0; names && i < n; i++) {
		autorecord struct record r = { .j = NULL };

		if (record_load(s, NULL, names[i], 0, &r, &e) < 0 ? e.code == ERR_NOT_FOUND :
		    record_is_over(&r) || record_is(&r, "recycled"))
			place_drop(s, names[i]);
	}
	free(names);
}

void places_free(struct service *s)
{
	struct place *p;

	while ((p = s->places)) {
		s->places = p->next;
		free(p);
	}
}

/* ---- making one ---- */

static int random_session_id(char out[26], struct err *e)
{
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	unsigned char raw[25];
	size_t i;

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "get random bytes");
	for (i = 0; i < sizeof(raw); i++)
		out[i] = digits[raw[i] % 36];
	out[25] = '\0';
	return 0;
}

static int hex_token(char out[33], struct err *e)
{
	unsigned char raw[16];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "get random bytes");
	hex_format(out, raw, sizeof(raw));
	return 0;
}

static uint64_t hash(uint64_t h, const void *p, size_t n)
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
	return strcmp(p->image, "host") && p->image[0] != '/' && p->image[0] != '.';
}

int service_pool_version(struct service *s, const struct conf_pool *p, const char *made, char ret[160], struct err *e)
{
	uint64_t h = UINT64_C(14695981039346656037);
	struct image im;

	h = hash(h, p->image, strlen(p->image) + 1);
	h = hash(h, &p->memory_bytes, sizeof(p->memory_bytes));
	h = hash(h, &p->cpu_milli, sizeof(p->cpu_milli));
	h = hash(h, p->options, strlen(p->options) + 1);
	h = hash(h, p->env, strlen(p->env) + 1);
	h = hash(h, p->readonly_mounts, strlen(p->readonly_mounts) + 1);
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

int conf_pool_copy(struct service *s, const char *name, struct conf_pool *ret, size_t *ret_index, struct err *e)
{
	const struct conf_pool *p;
	int r = 0;

	pthread_rwlock_rdlock(&s->conf_lock);
	p = name && name[0] ? conf_pool_find(&s->conf, name) : &s->conf.pools[0];
	if (p) {
		*ret = *p;
		if (ret_index)
			*ret_index = (size_t)(p - s->conf.pools);
	} else {
		r = err_set(e, ERR_INVALID, "no sandbox type '%.64s'; hint: [pool.NAME] in berth.toml makes types", name);
	}
	pthread_rwlock_unlock(&s->conf_lock);
	return r;
}

struct argv {
	const char *v[ARGV_MAX];
	char *owned[ARGV_MAX];
	size_t n;
	int full;
};

static void push(struct argv *a, const char *s)
{
	char *copy = a->n + 1 < ARGV_MAX ? strdup(s) : NULL;

	if (!copy) {
		a->full = 1;
		return;
	}
	a->owned[a->n] = copy;
	a->v[a->n++] = copy;
	a->v[a->n] = NULL;
}

static void push_lines(struct argv *a, const char *lines, int kind)
{
	char line[4096], mount[4200];
	const char *eq;

	while (*lines) {
		size_t n = strcspn(lines, "\n");

		snprintf(line, sizeof(line), "%.*s", (int)n, lines);
		lines += n + (lines[n] == '\n');
		if (!line[0])
			continue;
		if (kind == 'e') {
			push(a, "--env");
			push(a, line);
		} else if (kind == 'm') {
			push(a, "--volume");
			push(a, line);
		} else {
			eq = strchr(line, '=');
			snprintf(mount, sizeof(mount), "--%.*s", (int)(eq ? eq - line : (ptrdiff_t)strlen(line)), line);
			push(a, mount);
			if (eq)
				push(a, eq + 1);
		}
	}
}

static void free_argv(struct argv *a)
{
	size_t i;

	for (i = 0; i < a->n; i++)
		free(a->owned[i]);
	free(a);
}

/* Each NAME=VALUE of args' environment: calls each. */
int service_each_env(const json_t *args, int (*each)(void *ctx, const char *text, struct err *e), void *ctx, struct err *e)
{
	json_t *env = NULL, *v;
	const char *name;
	int r = 0;

	if (args && json_get_obj(args, "environment", &env, "request", e) < 0)
		return -1;
	json_object_foreach(env, name, v) {
		autofree char *text = NULL;

		if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
			return err_set(e, ERR_INVALID, "environment variable %.80s is no string", name);
		if (!name[0] || strchr(name, '='))
			return err_set(e, ERR_INVALID, "'%.80s' is no name of an environment variable", name);
		if (asprintf(&text, "%s=%s", name, json_string_value(v)) < 0)
			return err_nomem(e);
		r = each(ctx, text, e);
		if (r < 0)
			return -1;
	}
	return 0;
}

static int push_env(void *ctx, const char *text, struct err *e)
{
	struct argv *a = ctx;

	(void)e;
	push(a, "--env");
	push(a, text);
	return 0;
}

/* Numbers of a request, or the pool's. */
int service_limits(const json_t *args, const struct conf_pool *p, uint64_t *ret_memory, uint64_t *ret_cpu, struct err *e)
{
	const json_t *m = json_object_get(args, "memory"), *c = json_object_get(args, "cpus");
	double cpus;

	*ret_memory = p->memory_bytes;
	*ret_cpu = p->cpu_milli;
	if (json_is_string(m)) {
		if (num_size(json_string_value(m), "memory", 512 << 10, 1ULL << 60, ret_memory, e) < 0)
			return -1;
	} else if (json_is_integer(m) && json_integer_value(m) >= 512 << 10) {
		*ret_memory = (uint64_t)json_integer_value(m);
	} else if (m && !json_is_null(m)) {
		return err_set(e, ERR_INVALID, "\"memory\" is no size; hint: bytes, or such as \"512m\"");
	}
	if (json_is_number(c)) {
		cpus = json_number_value(c);
		if (!(cpus >= 0.01 && cpus <= 4096))
			return err_set(e, ERR_INVALID, "\"cpus\" is out of range; hint: 0.01 to 4096");
		*ret_cpu = (uint64_t)(cpus * 1000 + 0.5);
	} else if (c && !json_is_null(c)) {
		return err_set(e, ERR_INVALID, "\"cpus\" is no number");
	}
	return 0;
}

static int build_argv(struct argv *a, const struct record *r, const struct making *m, struct err *e)
{
	char text[1200];
	const char *mount_dir = record_str(r, "mount_dir");

	push(a, "berth");
	push(a, "create");
	push(a, "--json");
	push(a, "--name");
	push(a, r->name);
	push(a, "--memory");
	snprintf(text, sizeof(text), "%" PRIu64, record_own_u64(r, "memory_bytes"));
	push(a, text);
	push(a, "--cpus");
	snprintf(text, sizeof(text), "%" PRIu64 ".%03u", record_own_u64(r, "cpu_milli") / 1000,
		 (unsigned)(record_own_u64(r, "cpu_milli") % 1000));
	push(a, text);
	push(a, "--pull");
	push(a, m->pool->pull);
	push(a, "--workdir");
	push(a, WORK_DIR);
	if (mount_dir[0]) {
		snprintf(text, sizeof(text), "%s:" WORK_DIR ":rw", mount_dir);
		push(a, "--volume");
		push(a, text);
	}
	push_lines(a, m->pool->readonly_mounts, 'm');
	push_lines(a, m->pool->env, 'e');
	if (service_each_env(m->args, push_env, a, e) < 0)
		return -1;
	push_lines(a, m->pool->options, 'o');
	push(a, "--");
	push(a, m->pool->image);
	return a->full ? err_set(e, ERR_LIMIT, "more than %d options and variables", ARGV_MAX) : 0;
}

static int create_sandbox(struct service *s, struct record *r, const struct making *m, struct err *e)
{
	struct argv *a = calloc(1, sizeof(*a));
	autobuf struct buf out = BUF_INIT(65536);
	autojson json_t *answer = NULL;
	char version[160];
	const char *id;
	int result;

	if (!a)
		return err_nomem(e);
	result = build_argv(a, r, m, e);
	if (result == 0)
		result = driver_berth(s, a->v, &out, e);
	free_argv(a);
	if (result < 0)
		return -1;
	answer = json_parse(out.data ? out.data : "", out.len, 65536, "berth's answer", e);
	id = json_string_value(json_object_get(answer, "id"));
	if (!answer || !id || !path_is_name(id))
		return answer ? err_set(e, ERR_INTERNAL, "berth create told no id") : -1;
	json_object_set_new(r->j, "container_id", json_string(id));
	/* of what it was made from: the name may stand for another image by now, and before for none */
	if (service_pool_version(s, m->pool, id, version, e) < 0)
		return -1;
	record_set_own(r, "version", json_string(version));
	return workspace_give(s, r, m->pool, e);
}

static int first_record(struct service *s, const struct making *m, struct record *r, struct err *e)
{
	const char *owner = m->who && m->who->name ? m->who->name : "";
	char session_id[26], token[33];
	uint64_t memory, cpu;
	json_t *meta;

	if (service_limits(m->args, m->pool, &memory, &cpu, e) < 0 || random_session_id(session_id, e) < 0 || hex_token(token, e) < 0)
		return -1;
	snprintf(r->name, sizeof(r->name), NAME_PREFIX "%s", session_id);
	meta = json_object_get(m->args, "meta");
	r->j = json_pack("{s:s,s:s,s:s,s:s,s:[],s:n,s:s?,s:s,s:s,s:o,s:I,s:s,s:s?,s:s,s:f,s:f,s:n,s:n,s:n,s:n}",
			 "session_id", session_id, "container_id", "", "container_name", r->name, "url", "", "ports", "mount_dir",
			 "storage_path", m->storage_path, "runtime_token", token, "version", m->pool->image,
			 "meta", json_is_object(meta) ? json_deep_copy(meta) : json_object(), "timeout",
			 (json_int_t)(m->pool->timeout_ms / 1000), "sandbox_type", m->pool->name, "session_ctx_id", m->ctx,
			 "state", "creating", "created_at", wall_seconds(), "updated_at", wall_seconds(), "last_active_at",
			 "recycled_at", "released_at", "recycle_reason");
	if (!r->j)
		return err_set(e, ERR_INVALID, "the request is not valid UTF-8");
	json_object_set_new(r->j, "berth", json_pack("{s:s,s:s,s:s,s:s,s:s,s:I,s:I,s:s,s:s,s:b}", "host", s->host, "machine",
			    s->machine, "state_dir", s->config.state_dir, "run_dir", s->config.run_dir, "owner", owner,
			    "memory_bytes", (json_int_t)memory, "cpu_milli", (json_int_t)cpu, "version", "", "status", "running",
			    "own_workspace", 1));
	r->version = LEDGER_ABSENT;
	return interval_note(r, m->args, e);
}

static int make_in_place(struct service *s, const struct making *m, struct record *r, struct err *e)
{
	char dir[512];

	if (m->mount_dir)
		snprintf(dir, sizeof(dir), "%s", m->mount_dir);
	else
		workspace_path(s, record_str(r, "session_id"), dir);
	record_set_own(r, "own_workspace", json_boolean(!m->mount_dir));
	json_object_set_new(r->j, "mount_dir", json_string(dir));
	/* written ahead: whatever follows is found by this record after a crash */
	if (record_save(s, r, NULL, 0, e) < 0 || (!m->mount_dir && workspace_make(r, e) < 0))
		return -1;
	if (m->storage_path && !m->inherit_workspace && workspace_download(s, m->storage_path, dir, e) < 0)
		return -1;
	return create_sandbox(s, r, m, e);
}

static int settle(struct service *s, const struct making *m, struct record *r, struct err *e)
{
	char key[LEDGER_KEY_MAX + 1], item[160];
	struct ledger_op op = { LEDGER_PUSH, key, item, 0, 0 };

	if (m->warm) {
		record_set_state(r, "warm");
		pool_list_key(s->machine, m->pool->name, key);
		snprintf(item, sizeof(item), "%s/%s", s->host, r->name);
		return record_save(s, r, &op, 1, e);
	}
	record_set_state(r, "running");
	json_object_set_new(r->j, "last_active_at", json_real(wall_seconds()));
	return m->ctx ? session_bind(s, r, m->ctx, NULL, 0, e) : record_save(s, r, NULL, 0, e);
}

/* Of one that was never acknowledged. */
static void unmake(struct service *s, struct record *r, const struct making *m)
{
	struct err e;

	/* whatever it says: what is left is under the record's name, and the next start looks for it */
	if (driver_remove_name(s, r->name, &e) == 0 && (m->mount_dir || workspace_remove(s, r, &e) == 0))
		record_delete(s, r, &e);
	s->failed++;
}

/* Who asked for it is not there any more: what is made for him nobody would own. */
static int check_asker(const struct service_who *who, struct err *e)
{
	return who && who->gone && who->gone(who->gone_ctx) ? err_set(e, ERR_NET, "the client has gone") : 0;
}

int service_make(struct service *s, const struct making *m, struct record *ret, struct err *e)
{
	struct admission_asker asker = { m->who ? m->who->gone : NULL, m->who ? m->who->gone_ctx : NULL };
	uint64_t memory, cpu;
	int r;

	*ret = (struct record){ .j = NULL };
	if (service_limits(m->args, m->pool, &memory, &cpu, e) < 0)
		return -1;
	if (admission_enter(&s->admission, memory, cpu, m->wait ? &asker : NULL, e) < 0)
		return -1;
	r = first_record(s, m, ret, e);
	if (r < 0) {
		admission_leave(&s->admission, memory, cpu);
		record_close(ret);
		return -1;
	}
	place_add(s, ret->name, memory, cpu, 1);
	r = make_in_place(s, m, ret, e);
	if (r == 0)
		r = check_asker(m->who, e);
	if (r == 0)
		r = settle(s, m, ret, e);
	if (r < 0) {
		unmake(s, ret, m);
		place_drop(s, ret->name);
		record_close(ret);
		return -1;
	}
	place_made(s, ret->name);
	s->created++;
	return 0;
}

/* ---- create ---- */

static int read_args(struct service *s, const struct service_who *who, const json_t *args, struct making *m, struct err *e)
{
	json_t *meta = NULL;
	int allowed;

	if (json_get_obj(args, "meta", &meta, "request", e) < 0 || json_get_str(args, "mount_dir", &m->mount_dir, "request", e) < 0 ||
	    json_get_str(args, "storage_path", &m->storage_path, "request", e) < 0 ||
	    (meta && json_get_str(meta, "session_ctx_id", &m->ctx, "request's meta", e) < 0))
		return -1;
	if (m->ctx && !m->ctx[0])
		m->ctx = NULL;
	if ((m->ctx && session_check_ctx(m->ctx, e) < 0) || interval_check(args, e) < 0)
		return -1;
	if (m->mount_dir && m->mount_dir[0]) {
		pthread_rwlock_rdlock(&s->conf_lock);
		allowed = s->conf.allow_mount_dir;
		pthread_rwlock_unlock(&s->conf_lock);
		if (!allowed || !who->admin)
			return err_set(e, ERR_DENIED, "mount_dir is not allowed; hint: [session] allow_mount_dir, and an administrator's token");
		if (m->mount_dir[0] != '/' || strchr(m->mount_dir, ':') || strlen(m->mount_dir) > 500)
			return err_set(e, ERR_INVALID, "mount_dir is not an absolute path without a colon");
	} else {
		m->mount_dir = NULL;
	}
	if (m->storage_path && !m->storage_path[0])
		m->storage_path = NULL;
	if (m->storage_path && !s->storage)
		return err_set(e, ERR_INVALID, "storage_path is given, but there is no storage; hint: [storage] url in berth.toml");
	if (m->storage_path && storage_check_path(m->storage_path, e) < 0)
		return -1;
	if (m->storage_path && !who->admin) {
		/* each has a tree of its own: what another has stored cannot be named */
		snprintf(m->tenants_path, sizeof(m->tenants_path), "tenants/%s/%s", who->name, m->storage_path);
		m->storage_path = m->tenants_path;
		return storage_check_path(m->storage_path, e);
	}
	if (m->storage_path && (!strcmp(m->storage_path, "archives") || !strncmp(m->storage_path, "archives/", 9)))
		return err_set(e, ERR_INVALID, "storage_path archives/ is berthd's own");
	return 0;
}

static int rename_sandbox(struct service *s, const struct record *r, const char *name, struct err *e)
{
	struct registry reg;
	int result = registry_open(&reg, &s->config, e);

	if (result < 0)
		return -1;
	result = registry_rename(&reg, record_str(r, "container_id"), name, e);
	registry_close(&reg);
	return result;
}

/* What is stored comes into the workspace that a warm one has already. */
static int fill_claimed(struct service *s, const struct service_who *who, struct record *r, const char *storage_path, struct err *e)
{
	struct err ignored;

	if (workspace_download(s, storage_path, record_str(r, "mount_dir"), e) == 0 && check_asker(who, e) == 0) {
		json_object_set_new(r->j, "storage_path", json_string(storage_path));
		if (record_save(s, r, NULL, 0, e) == 0)
			return 0;
	}
	/* its record names no storage_path, so what came half is not stored over what is there */
	service_release_record(s, r, 0, &ignored);
	return -1;
}

int service_create(struct service *s, const struct service_who *who, const json_t *args, int from_pool, char ret_name[65],
		   struct err *e)
{
	struct making m = { .who = who, .args = args, .wait = 1 };
	const char *type = NULL, *name = NULL;
	autorecord struct record r = { .j = NULL };
	struct conf_pool pool;
	char owner[64];
	uint64_t pid = 0;
	int got = 0;

	if (json_get_str(args, "sandbox_type", &type, "request", e) < 0 || json_get_str(args, "name", &name, "request", e) < 0 ||
	    json_get_u64(args, "owner_pid", &pid, "request", e) < 0 || conf_pool_copy(s, type, &pool, NULL, e) < 0 ||
	    read_args(s, who, args, &m, e) < 0) {
		/* what is corrupt elsewhere is the asker's fault here */
		e->code = e->code == ERR_CORRUPT ? ERR_INVALID : e->code;
		return -1;
	}
	if (name && !path_is_name(name))
		return err_set(e, ERR_INVALID, "name '%.80s' is malformed", name);
	if (pid && (!who->admin || !m.ctx))
		return err_set(e, ERR_INVALID, "owner_pid needs an administrator and a session");
	if (pid && owner_name(pid > INT32_MAX ? INT32_MAX : (int)pid, owner, e) < 0)
		return -1;
	m.pool = &pool;
	if (from_pool)
		got = pool_claim(s, &m, &r, e);
	if (got < 0 || (got && m.storage_path && fill_claimed(s, who, &r, m.storage_path, e) < 0))
		return -1;
	if (!got) {
		s->claim_missed += from_pool != 0;
		if (service_make(s, &m, &r, e) < 0)
			return -1;
	}
	if (name && rename_sandbox(s, &r, name, e) < 0) {
		struct err ignored;

		service_release_record(s, &r, 0, &ignored);
		return -1;
	}
	if (m.ctx && session_touch(s, m.ctx, e) < 0)
		return -1;
	if (pid && owner_watch(s, m.ctx, owner, e) < 0)
		return -1;
	memcpy(ret_name, r.name, sizeof(r.name));
	return 0;
}

/* ---- release ---- */

/* Before anything of it goes: an archive was uploaded when it was made, a reaped one when it was reaped. */
static int store_first(struct service *s, struct record *r, struct err *e)
{
	if (record_is(r, "warm") || !strcmp(record_own(r, "status"), "archived") || !record_str(r, "storage_path")[0] || !s->storage ||
	    json_is_true(json_object_get(json_object_get(r->j, "berth"), "stored")))
		return 0;
	if (driver_stop(s, r, e) < 0)
		return -1;
	if (workspace_upload(s, r, e) < 0) {
		size_t n = strlen(e->msg);

		snprintf(e->msg + n, sizeof(e->msg) - n, "%s \"discard\": true releases it without", strstr(e->msg, "; hint: ") ? ", or" : "; hint:");
		return -1;
	}
	record_set_own(r, "stored", json_true());
	return 0;
}

/* The steps, each of which may be done again: a record says released only when nothing is left. */
static int take_away(struct service *s, struct record *r, int discard, struct err *e)
{
	const char *ctx = record_str(r, "session_ctx_id");

	if (driver_remove(s, r, e) < 0 || archive_drop(s, r, discard, e) < 0)
		return -1;
	/* of an archive there is none but what a crash left, and the path may be one of its last host */
	if ((record_is_ours(s, r) || strcmp(record_own(r, "status"), "archived")) &&
	    (workspace_remove_spare(r, e) < 0 ||
	     (json_is_true(json_object_get(json_object_get(r->j, "berth"), "own_workspace")) && workspace_remove(s, r, e) < 0)))
		return -1;
	json_object_set_new(r->j, "released_at", json_real(wall_seconds()));
	json_object_set_new(r->j, "recycled_at", json_null());
	record_set_state(r, "released");
	if (ctx[0])
		return session_unbind(s, r, ctx, e);
	return record_save(s, r, NULL, 0, e);
}

static void drop_from_pool(struct service *s, const struct record *r)
{
	char key[LEDGER_KEY_MAX + 1], item[160];
	struct ledger_op op = { LEDGER_TAKE, key, item, 0, 0 };
	struct err ignored;

	pool_list_key(record_own(r, "machine"), record_str(r, "sandbox_type"), key);
	snprintf(item, sizeof(item), "%s/%s", record_own(r, "host"), r->name);
	ledger_commit(s->ledger, &op, 1, NULL, &ignored);
}

int service_release_gone(struct service *s, const char *name, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	int gone;

	/* whoever has it alone may be bringing it back; once it is gone nobody can */
	if (oplock_try_alone(s->ops, name, e) < 0)
		return -1;
	gone = record_load(s, NULL, name, 0, &r, e) == 0 && record_is(&r, "running") && strcmp(record_own(&r, "status"), "archived") &&
	       record_is_ours(s, &r) && !driver_exists(s, record_str(&r, "container_id"));
	oplock_alone_end(s->ops, name);
	return gone ? service_release_record(s, &r, 0, e) : 0;
}

static int is_refused(const struct err *e)
{
	return e->code == ERR_LIMIT || e->code == ERR_INVALID;
}

static int change_failed(struct record *r, void *ctx, struct err *e)
{
	const struct err *why = ctx;
	char text[sizeof(why->msg)];

	(void)e;
	log_clean(text, sizeof(text), why->msg, 0);	/* it may name a file of any bytes */
	record_set_own(r, "failed_ms", json_integer((json_int_t)clock_wall_ms()));
	record_set_own(r, "refused", json_boolean(is_refused(why)));
	record_set_own(r, "failed", json_string(text));
	record_set_state(r, record_str(r, "state"));
	return 1;
}

void service_note_failed(struct service *s, const char *name, const struct err *why)
{
	struct err copy = *why, ignored;

	record_change(s, name, change_failed, &copy, &ignored);
}

struct release {
	uint64_t drain_ms;
	int discard;
	int if_due;	/* nobody asked: see DUE_DELETE */
	int was_warm;
};

/* 1 when it was the pool's and is somebody's now, who has it then, or is not due any more. */
static int release_alone(struct service *s, struct record *r, const char *name, const struct release *how, struct err *e)
{
	struct err ignored;
	int result, whole;

	record_close(r);
	/* as it is now that nobody else works on it */
	if (record_load(s, NULL, name, 0, r, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (record_is(r, "warm")) {
		drop_from_pool(s, r);
		record_close(r);
		if (record_load(s, NULL, name, 0, r, e) < 0)
			return e->code == ERR_NOT_FOUND ? 0 : -1;
	}
	/* the pool's when it was chosen, but a claim was first */
	if (how->was_warm && record_is(r, "running"))
		return 1;
	if (record_is_over(r))
		return 0;
	if (how->if_due && !session_is_due(s, r, DUE_DELETE))
		return 1;
	tools_forget(s, r->name);
	result = how->discard ? 0 : store_first(s, r, e);
	/* what cannot be stored is its owner's to mend: it is all there, and stays in use */
	whole = result < 0 && is_refused(e);
	if (result == 0)
		result = take_away(s, r, how->discard, e);
	if (result == 0) {
		s->released++;
	} else if (whole) {
		service_note_failed(s, name, e);
		s->failed++;
	} else if (e->code != ERR_BUSY) {
		/* not released: what is left is tried again when somebody asks, and by cleanup */
		record_set_state(r, "error");
		json_object_set_new(r->j, "recycle_reason", json_string(e->msg));
		record_save(s, r, NULL, 0, &ignored);
		s->failed++;
	}
	return result;
}

static int release_record(struct service *s, struct record *r, struct release how, struct err *e)
{
	char name[65];
	int result, tries = 0;

	how.was_warm = record_is(r, "warm");
	memcpy(name, r->name, sizeof(name));
	/* one that somebody works in or starts is not due: his connections are not cut for it */
	if ((how.if_due ? oplock_try_alone(s->ops, name, e) : oplock_alone(s->ops, name, how.drain_ms, e)) < 0)
		return -1;
	/* its steps may be done again: when another berthd has changed the record meanwhile, all of it is looked at anew */
	do
		result = release_alone(s, r, name, &how, e);
	while (result < 0 && e->code == ERR_BUSY && !storage_use_stopped_ms() && tries++ < RELEASE_TRIES);
	if (result == 0)
		place_drop(s, name);
	oplock_alone_end(s->ops, name);
	pool_poke(s);
	return result < 0 ? -1 : 0;
}

static int release_locked(struct service *s, struct record *r, struct release how, struct err *e)
{
	char ctx[CTX_MAX + 1] = "";
	uint64_t token;
	int result;

	/* one that was reaped may be coming back right now, on the workspace that would go */
	if (record_is(r, "recycled"))
		snprintf(ctx, sizeof(ctx), "%s", record_str(r, "session_ctx_id"));
	if (ctx[0] && session_lock(s, ctx, &token, e) < 0)
		return -1;
	result = release_record(s, r, how, e);
	if (ctx[0])
		session_unlock(s, ctx, token);
	return result;
}

int service_release_record(struct service *s, struct record *r, uint64_t drain_ms, struct err *e)
{
	return release_locked(s, r, (struct release){ .drain_ms = drain_ms }, e);
}

int service_delete_due(struct service *s, const char *name, struct err *e)
{
	autorecord struct record r = { .j = NULL };

	return record_load(s, NULL, name, 0, &r, e) < 0 ? -1 : release_record(s, &r, (struct release){ .if_due = 1 }, e);
}

uint64_t service_drain_ms(struct service *s)
{
	uint64_t ms;

	pthread_rwlock_rdlock(&s->conf_lock);
	ms = s->conf.drain_timeout_ms;
	pthread_rwlock_unlock(&s->conf_lock);
	return ms;
}

int service_release(struct service *s, const struct service_who *who, const char *identity, int discard, struct err *e)
{
	int tries = 0, was_recycled;

	do {
		autorecord struct record r = { .j = NULL };

		if (record_load(s, who, identity, 1, &r, e) < 0)
			return e->code == ERR_NOT_FOUND ? 0 : -1;
		was_recycled = record_is(&r, "recycled");
		if (release_locked(s, &r, (struct release){ .drain_ms = service_drain_ms(s), .discard = discard }, e) < 0)
			return -1;
		/* when it was restored in between, what it is now goes */
	} while (was_recycled && ++tries < RELEASE_TRIES);
	return 0;
}

/* ---- start, stop, archive, look ---- */

struct new_status {
	const char *status, *stamp;
};

static int change_status(struct record *r, void *ctx, struct err *e)
{
	const struct new_status *n = ctx;

	(void)e;
	if (!record_is(r, "running") || !strcmp(record_own(r, "status"), n->status) ||
	    (!strcmp(n->status, "stopped") && strcmp(record_own(r, "status"), "running")))
		return 0;	/* released meanwhile, or another berthd saw it first */
	record_set_own(r, "status", json_string(n->status));
	if (n->stamp)
		record_set_own(r, n->stamp, json_integer((json_int_t)clock_wall_ms()));
	/* it would be due for that stop when it is archived by hand next */
	if (!strcmp(n->status, "running"))
		json_object_del(json_object_get(r->j, "berth"), "stopped_ms");
	record_set_state(r, record_str(r, "state"));
	return 1;
}

/* It is so already; a berthd that shares the store may have changed the record since r was loaded, which stays as it is. */
static int set_status(struct service *s, const struct record *r, const char *status, const char *stamp, struct err *e)
{
	struct new_status n = { status, stamp };

	return record_change(s, r->name, change_status, &n, e);
}

/* Under the lock of one who is alone, with a fresh record. */
static int alone(struct service *s, const struct service_who *who, const char *identity, struct record *r, uint64_t drain, struct err *e)
{
	char name[65];

	if (record_load(s, who, identity, 1, r, e) < 0)
		return -1;
	memcpy(name, r->name, sizeof(name));
	record_close(r);
	if (oplock_alone(s->ops, name, drain, e) < 0)
		return -1;
	if (record_load(s, who, name, 0, r, e) == 0) {
		if (record_is(r, "running"))
			return 0;
		err_set(e, ERR_NOT_FOUND, "sandbox %s is %s", name, record_str(r, "state"));
	}
	record_close(r);
	oplock_alone_end(s->ops, name);
	return -1;
}

int service_stop(struct service *s, const struct service_who *who, const char *identity, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	int result;

	if (alone(s, who, identity, &r, service_drain_ms(s), e) < 0)
		return -1;
	tools_forget(s, r.name);
	result = driver_stop(s, &r, e);
	if (result == 0 && !strcmp(record_own(&r, "status"), "running"))
		result = set_status(s, &r, "stopped", "stopped_ms", e);
	oplock_alone_end(s->ops, r.name);
	return result;
}

int service_note_stopped(struct service *s, const char *name, struct err *e)
{
	static const struct service_who manager = { .name = "", .admin = 1 };
	autorecord struct record r = { .j = NULL };
	autojson json_t *state = NULL;
	int result = 0;

	if (alone(s, &manager, name, &r, 0, e) < 0)
		return -1;
	state = driver_ping(s, &r, e);
	if (!state && e->code == ERR_NOT_FOUND && !strcmp(record_own(&r, "status"), "running"))
		result = set_status(s, &r, "stopped", "stopped_ms", e);
	oplock_alone_end(s->ops, r.name);
	return result;
}

static int start_record(struct service *s, struct record *r, struct err *e)
{
	autojson json_t *state = driver_ping(s, r, e);

	if (!state) {
		if (e->code != ERR_NOT_FOUND)
			return -1;
		if (!strcmp(record_own(r, "status"), "archived") && archive_restore(s, r, e) < 0)
			return -1;
		if (driver_start(s, r, e) < 0 && e->code != ERR_EXISTS)
			return -1;
	}
	return strcmp(record_own(r, "status"), "running") ? set_status(s, r, "running", NULL, e) : 0;
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

/* Of one that the caller has alone. */
static int archive_alone(struct service *s, struct record *r, struct err *e)
{
	int result;

	tools_forget(s, r->name);
	result = strcmp(record_own(r, "status"), "archived") ? driver_stop(s, r, e) : 0;
	if (result == 0 && strcmp(record_own(r, "status"), "archived"))
		result = archive_make(s, r, e);
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

json_t *service_info(struct service *s, const struct service_who *who, const char *identity, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	const char *ctx;
	uint64_t last;
	struct err ignored;

	if (record_load(s, who, identity, 1, &r, e) < 0)
		return NULL;
	ctx = record_str(&r, "session_ctx_id");
	last = ctx[0] && record_is(&r, "running") ? session_last_ms(s, ctx, &ignored) : 0;
	if (last)
		json_object_set_new(r.j, "last_active_at", json_real((double)last / 1000));
	mcp_hide(&r);
	return json_incref(r.j);
}

int service_status(struct service *s, const struct service_who *who, const char *identity, char ret[16], struct err *e)
{
	autorecord struct record r = { .j = NULL };
	autojson json_t *state = NULL;

	if (record_load(s, who, identity, 1, &r, e) < 0)
		return -1;
	if (!record_is(&r, "running") && !record_is(&r, "warm")) {
		snprintf(ret, 16, "%s", record_str(&r, "state"));
		return 0;
	}
	if (!strcmp(record_own(&r, "status"), "archived")) {
		snprintf(ret, 16, "archived");
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
	const char *ctx = record_str(r, "session_ctx_id");
	struct conf_pool pool;
	struct err ignored;

	if (record_is(r, "recycled"))
		return service_restore(s, who, ctx, e) < 0 ? -1 : 1;
	if (!record_is(r, "running") && !record_is(r, "warm"))
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
	int tries, r = 1;

	*u = (struct service_use){ .service = s, .who = who, .sock = -1 };
	for (tries = 0; r == 1 && tries < USE_TRIES; tries++) {
		autorecord struct record rec = { .j = NULL };

		if (record_load(s, who, identity, 1, &rec, e) < 0)
			return -1;
		/* before anything else: who is about to reap it looks again once he has it alone */
		if (record_str(&rec, "session_ctx_id")[0] && !record_is(&rec, "released") &&
		    session_touch(s, record_str(&rec, "session_ctx_id"), e) < 0)
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

/* ---- all of them ---- */

struct lister {
	struct service *s;
	const struct service_who *who;
	json_t *out, *at;	/* at: name to place in out, of a list: one that ends in between is met twice */
	int for_cleanup;
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

static int list_one(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct lister *l = ctx;
	struct err ignored;
	struct record r = { .j = json_parse(value, strlen(value), RECORD_MAX, key, &ignored), .version = version };

	if (r.j && (l->who->admin || !strcmp(record_own(&r, "owner"), l->who->name)) && !record_is(&r, "creating") &&
	    (!l->for_cleanup || ((record_is(&r, "running") || record_is(&r, "warm") || record_is(&r, "error") ||
	     record_is(&r, "recycled")) && record_is_ours(l->s, &r)))) {
		mcp_hide(&r);
		if (l->for_cleanup)
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
	struct lister l = { s, who, json_array(), at, 0 };

	if (record_scan_all(s, list_one, &l, e) < 0) {
		json_decref(l.out);
		return NULL;
	}
	return l.out;
}

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
	struct lister l = { s, who, json_array(), NULL, 1 };
	struct cleaner c = { .s = s, .who = who, .names = l.out, .drain = service_drain_ms(s), .discard = discard,
			     .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t t[CLEANERS];
	size_t i, n;
	int r = ledger_scan(s->ledger, RECORD_PREFIX, list_one, &l, e) < 0 ? -1 : 0;

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
		r = c.failed ? err_wrap(e, "%u of %zu sandboxes could not be released, %u were not come to in time; the first",
					c.failed, json_array_size(l.out), c.late) :
		    err_set(e, ERR_TIMEOUT, "%u of %zu sandboxes were not released in time", c.late, json_array_size(l.out));
	}
	json_decref(l.out);
	return r;
}
