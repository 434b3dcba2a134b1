/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request for a sandbox: its arguments and permissions, a warm sandbox or a new one, its name
 * and its owner.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/labels.h"
#include "manager/objects/storage.h"
#include "manager/ops/call.h"
#include "manager/ops/params.h"
#include "manager/service/dlog.h"
#include "manager/service/state.h"

/* ---- the request ---- */

/*
 * A mount_dir that is not allowed counts as none, as agentscope's clients expect: they get a
 * workspace of their own.
 */
static int read_mount_dir(struct service *s, const struct service_who *who, struct making *m, struct err *e)
{
	int allowed;

	pthread_rwlock_rdlock(&s->conf_lock);
	allowed = s->conf.allow_mount_dir && who->admin;
	pthread_rwlock_unlock(&s->conf_lock);
	if (m->mount_dir && m->mount_dir[0] && !allowed)
		dlog_note(DLOG_WARNING, "%s asks for mount_dir %.200s, which is not allowed, and gets the default; hint: [session] "
			  "allow_mount_dir, and an administrator's token", who->name, m->mount_dir);
	if (!m->mount_dir || !m->mount_dir[0] || !allowed) {
		m->mount_dir = NULL;
		return 0;
	}
	if (m->mount_dir[0] != '/' || strchr(m->mount_dir, ':') || strlen(m->mount_dir) > 500)
		return err_set(e, ERR_INVALID, "mount_dir is not an absolute path without a colon");
	return 0;
}

static int is_own_path(const char *path)
{
	static const char *const own[] = { "archives", "checkpoints" };
	size_t i, n;

	for (i = 0; i < ARRAY_LEN(own); i++) {
		n = strlen(own[i]);
		if (!strncmp(path, own[i], n) && (!path[n] || path[n] == '/'))
			return 1;
	}
	return 0;
}

static int read_create_request(struct service *s, const struct service_who *who, const json_t *args, struct making *m, struct err *e)
{
	json_t *meta = NULL;

	if (json_get_obj(args, "meta", &meta, "request", e) < 0 || json_get_str(args, "mount_dir", &m->mount_dir, "request", e) < 0 ||
	    json_get_str(args, "storage_path", &m->storage_path, "request", e) < 0 ||
	    (meta && json_get_str(meta, "session_ctx_id", &m->ctx, "request's meta", e) < 0))
		return -1;
	if (m->ctx && !m->ctx[0])
		m->ctx = NULL;
	if ((m->ctx && session_check_ctx(m->ctx, e) < 0) || interval_check(args, e) < 0)
		return -1;
	if (read_mount_dir(s, who, m, e) < 0)
		return -1;
	if (m->storage_path && !m->storage_path[0])
		m->storage_path = NULL;
	if (m->storage_path && !s->storage)
		return err_set(e, ERR_INVALID, "storage_path is given, but there is no storage; hint: [storage] url in berth.toml");
	if (m->storage_path && storage_check_path(m->storage_path, e) < 0)
		return -1;
	if (m->storage_path && !who->admin) {
		/* each tenant has a tree of its own, and cannot name another's folder */
		snprintf(m->tenants_path, sizeof(m->tenants_path), "tenants/%s/%s", who->name, m->storage_path);
		m->storage_path = m->tenants_path;
		return storage_check_path(m->storage_path, e);
	}
	if (m->storage_path && is_own_path(m->storage_path))
		return err_set(e, ERR_INVALID,
			       "storage_path archives/ and checkpoints/ are berthd's own");
	return 0;
}

/* Copies the stored folder into the workspace that a warm sandbox has already. */
static int fill_claimed(struct service *s, const struct service_who *who, struct record *r, const char *storage_path, struct err *e)
{
	struct err ignored;

	if (workspace_download(s, storage_path, record_str(r, "mount_dir"), e) == 0 && service_check_asker(who, e) == 0) {
		json_object_set_new(r->j, "storage_path", json_string(storage_path));
		if (record_save(s, r, NULL, 0, e) == 0)
			return 0;
	}
	/*
	 * its record names no storage_path, so a half-finished download is not stored over the
	 * folder
	 */
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
	char owner[64], session[SESSION_MAX + 1];
	uint64_t pid = 0;
	int got = 0;

	if (json_get_str(args, "sandbox_type", &type, "request", e) < 0 || json_get_str(args, "name", &name, "request", e) < 0 ||
	    json_get_u64(args, "owner_pid", &pid, "request", e) < 0 || conf_pool_copy(s, type, &pool, NULL, e) < 0 ||
	    read_create_request(s, who, args, &m, e) < 0) {
		/* a corrupt value is the caller's fault here */
		e->code = e->code == ERR_CORRUPT ? ERR_INVALID : e->code;
		return -1;
	}
	if (name && !path_is_name(name))
		return err_set(e, ERR_INVALID, "name '%.80s' is malformed", name);
	if (pid && (!who->admin || !m.ctx))
		return err_set(e, ERR_INVALID, "owner_pid needs an administrator and a session");
	if (pid && owner_name(pid > INT32_MAX ? INT32_MAX : (int)pid, owner, e) < 0)
		return -1;
	if (chosen_read(&m, &pool, e) < 0)
		return -1;
	if (from_pool && !m.chosen)
		got = pool_claim(s, &m, &r, e);
	if (got < 0 || (got && m.storage_path && fill_claimed(s, who, &r, m.storage_path, e) < 0))
		return -1;
	if (!got) {
		s->claim_missed += from_pool != 0;
		if (service_make(s, &m, &r, e) < 0)
			return -1;
	}
	if (name && given_take(s, &r, name, NULL, e) < 0) {
		struct err ignored;

		service_release_record(s, &r, 0, &ignored);
		return -1;
	}
	if (m.ctx && (session_name(session, who->name, m.ctx, e) < 0 || session_touch(s, session, e) < 0))
		return -1;
	if (pid && owner_watch(s, session, owner, e) < 0)
		return -1;
	memcpy(ret_name, r.name, sizeof(r.name));
	return 0;
}

/* ---- making it ---- */

/*
 * Making a sandbox: admission, the record written ahead, berth create with the options of its type, and the record that
 * acknowledges it; or else all of that undone.
 */

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

/* The lines of a key of the configuration as values of an option; option NULL: each is NAME or NAME=VALUE. */
static void set_lines(json_t *call, const char *option, const char *lines)
{
	char line[4096], *value;

	while (*lines) {
		size_t n = strcspn(lines, "\n");

		snprintf(line, sizeof(line), "%.*s", (int)n, lines);
		lines += n + (lines[n] == '\n');
		value = option ? NULL : strchr(line, '=');
		if (value)
			*value++ = '\0';
		if (line[0] && option)
			call_text(call, option, line);
		else if (line[0])
			call_set(call, line, value ? json_string(value) : json_true());
	}
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
			return err_set(e, ERR_INVALID, "environment variable %.80s is not a string", name);
		if (!name[0] || strchr(name, '='))
			return err_set(e, ERR_INVALID, "'%.80s' is not a name of an environment variable", name);
		if (asprintf(&text, "%s=%s", name, json_string_value(v)) < 0)
			return err_nomem(e);
		r = each(ctx, text, e);
		if (r < 0)
			return -1;
	}
	return 0;
}

static int set_create_env(void *call, const char *text, struct err *e)
{
	(void)e;
	call_text(call, "env", text);
	return 0;
}

/* A limit, which may be among the options. */
static int limit_in_args(const json_t *args, const char *name, const json_t **ret, struct err *e)
{
	const json_t *own = json_object_get(args, name);
	const json_t *option = json_object_get(json_object_get(args, "options"), name);

	if (own && !json_is_null(own) && option)
		return err_set(e, ERR_INVALID, "\"%s\" is given twice, also as an option", name);
	*ret = option ? option : own;
	return 0;
}

static int read_asked_limit(enum param_id id, const json_t *v, uint64_t *ret, struct err *e)
{
	uint64_t n;

	if (!v || json_is_null(v))
		return 0;
	if (param_number(param_of(id), v, &n, e) < 0)
		return -1;
	if (n == UINT64_MAX)
		return err_set(e, ERR_INVALID, "\"%s\" cannot be unlimited here; hint: the pool's limits hold without it",
			       param_of(id)->opt.name);
	*ret = n;
	return 0;
}

/* Numbers of a request, or the pool's. */
int service_limits(const json_t *args, const struct conf_pool *p, uint64_t *ret_memory, uint64_t *ret_cpu, struct err *e)
{
	const json_t *m = NULL, *c = NULL;

	*ret_memory = p->memory_bytes;
	*ret_cpu = p->cpu_milli;
	return limit_in_args(args, "memory", &m, e) < 0 || limit_in_args(args, "cpus", &c, e) < 0 ||
	       read_asked_limit(PARAM_MEMORY, m, ret_memory, e) < 0 || read_asked_limit(PARAM_CPUS, c, ret_cpu, e) < 0 ? -1 : 0;
}

/* Sets the limits; for a type with a zygote these are the zygote's. */
static void set_create_limits(json_t *call, const struct record *r)
{
	const uint64_t milli = record_own_u64(r, "cpu_milli");

	call_set(call, "memory", json_integer((json_int_t)record_own_u64(r, "memory_bytes")));
	call_set(call, "cpus", json_sprintf("%" PRIu64 ".%03u", milli / 1000, (unsigned)(milli % 1000)));
	call_text(call, "workdir", WORK_DIR);
}

/* Makes the call with the options of the type, which those of the request replace. */
static json_t *create_call_of_type(const struct record *r, const struct making *m, struct err *e)
{
	const char *mount_dir = record_str(r, "mount_dir");
	json_t *call = call_of("create", NULL), *asked;

	call_text(call, "mark", LABEL_MANAGED "=berthd");
	if (!m->pool->zygote[0])
		set_create_limits(call, r);
	if (mount_dir[0])
		call_set(call, "volume", json_sprintf("%s:" WORK_DIR WORK_WORDS, mount_dir));
	set_lines(call, "volume", m->pool->readonly_mounts);
	set_lines(call, "env", m->pool->env);
	if (service_each_env(m->args, set_create_env, call, e) < 0) {
		json_decref(call);
		return NULL;
	}
	set_lines(call, NULL, m->pool->options);
	asked = createargs_call(&m->what, e);
	if (!asked) {
		json_decref(call);
		return NULL;
	}
	call_options(call, json_object_get(asked, "options"));
	call_text(call, "name", r->name);
	call_operands(call, json_object_get(asked, "operands"));
	json_decref(asked);
	return call;
}

static int create_sandbox(struct service *s, struct record *r, const struct making *m, struct err *e)
{
	json_t *call = create_call_of_type(r, m, e);
	autobuf struct buf out = BUF_INIT(65536);
	autojson json_t *answer = NULL;
	char version[160];
	const char *id;

	if (!call || driver_berth(s, call, &out, e) < 0)
		return -1;
	answer = json_parse(out.data ? out.data : "", out.len, 65536, "berth's answer", e);
	id = json_string_value(json_object_get(answer, "id"));
	if (!answer || !id || !path_is_name(id))
		return answer ? err_set(e, ERR_INTERNAL, "berth create printed no id") : -1;
	json_object_set_new(r->j, "container_id", json_string(id));
	/* the version of the image that it was made from: the name may mean another image by now */
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
			 "state", record_state_name(STATE_CREATING), "created_at", wall_seconds(), "updated_at", wall_seconds(), "last_active_at",
			 "recycled_at", "released_at", "recycle_reason");
	if (!r->j)
		return err_set(e, ERR_INVALID, "the request is not valid UTF-8");
	json_object_set_new(r->j, "berth", json_pack("{s:s,s:I,s:I,s:s,s:s,s:b,s:b}", "owner", owner, "memory_bytes",
			    (json_int_t)memory, "cpu_milli", (json_int_t)cpu, "version", "", "status", record_run_name(RUN_RUNS),
			    "own_workspace", 1, "tenant", tenancy_is_tenant(m->who)));
	if (m->who && m->who->request && m->who->request[0])
		record_set_own(r, "request", json_string(m->who->request));
	record_set_home(s, r);
	r->version = LEDGER_ABSENT;
	given_note(r, m->args);
	return chosen_note(r, m, e) < 0 ? -1 : interval_note(r, m->args, e);
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
	/* written ahead: after a crash this record leads to everything that follows */
	if (record_save(s, r, NULL, 0, e) < 0 || (!m->mount_dir && workspace_make(s, r, e) < 0))
		return -1;
	if (m->storage_path && !m->inherit_workspace && workspace_download(s, m->storage_path, dir, e) < 0)
		return -1;
	return create_sandbox(s, r, m, e);
}

static int settle_made_record(struct service *s, const struct making *m, struct record *r, struct err *e)
{
	char key[LEDGER_KEY_MAX + 1], item[160];
	struct ledger_op op = { LEDGER_PUSH, key, item, 0, 0 };

	if (m->warm) {
		if (record_step(r, EVENT_POOLED, e) < 0)
			return -1;
		pool_list_key(s->machine, m->pool->name, key);
		snprintf(item, sizeof(item), "%s/%s", s->host, r->name);
		return record_save(s, r, &op, 1, e);
	}
	if (record_step(r, EVENT_OWNED, e) < 0)
		return -1;
	json_object_set_new(r->j, "last_active_at", json_real(wall_seconds()));
	return m->ctx ? session_bind(s, r, NULL, 0, e) : record_save(s, r, NULL, 0, e);
}

/* Undoes a sandbox that was never acknowledged. */
static void unmake_sandbox(struct service *s, struct record *r, const struct making *m, const struct err *why)
{
	struct err e;

	/* after any error: the remains have the record's name, and the next start looks for it */
	if (driver_remove_name(s, r->name, &e) == 0 && (m->mount_dir || workspace_remove(s, r, &e) == 0))
		record_delete(s, r, &e);
	service_failed(s, "make", r->name, why);
}

/* Fails if the client has gone: the new sandbox would have no owner. */
int service_check_asker(const struct service_who *who, struct err *e)
{
	return who && who->gone && who->gone(who->gone_ctx) ? err_set(e, ERR_NET, "the client has gone") : 0;
}

int service_make(struct service *s, const struct making *m, struct record *ret, struct err *e)
{
	struct admission_asker asker = { .gone = m->who ? m->who->gone : NULL, .ctx = m->who ? m->who->gone_ctx : NULL };
	uint64_t memory, cpu;
	int r;

	*ret = (struct record){ .j = NULL };
	if (service_limits(m->args, m->pool, &memory, &cpu, e) < 0 ||
	    tenancy_check(s, m->who, m->inherit_workspace ? NULL : m->args, memory, cpu, e) < 0)
		return -1;
	if (first_record(s, m, ret, e) < 0 || place_enter(s, ret->name, memory, cpu, m->wait ? &asker : NULL, e) < 0) {
		tenancy_blunt(m->who, e);
		record_close(ret);
		return -1;
	}
	r = make_in_place(s, m, ret, e);
	if (r == 0)
		r = tenancy_promise(s, m->who, ret, memory, cpu, e);
	if (r == 0)
		r = service_check_asker(m->who, e);
	if (r == 0)
		r = settle_made_record(s, m, ret, e);
	if (r < 0) {
		unmake_sandbox(s, ret, m, e);
		place_drop(s, ret->name);
		record_close(ret);
		return -1;
	}
	place_made(s, ret->name, record_str(ret, "container_id"));
	s->created++;
	return 0;
}
