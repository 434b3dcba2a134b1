/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "manager/ledger/ledger.h"
#include "manager/ledger/redisconn.h"
#include "manager/ledger/storeurl.h"

/* ---- connections to one server ---- */

#define CONNECT_MS 2000
#define CALL_MS 5000

static int expect_ok(redisReply *r, const char *what, redisContext *c, struct err *e)
{
	int ok = r && r->type != REDIS_REPLY_ERROR;

	if (!r)
		err_set(e, ERR_NET, "%s Redis: %s", what, c->errstr);
	else if (!ok)
		err_set(e, ERR_NET, "%s Redis: %.200s", what, r->str);
	if (r)
		freeReplyObject(r);
	return ok ? 0 : -1;
}

static int redis_log_in(struct redisconn *s, redisContext *c, struct err *e)
{
	if (s->password[0]) {
		redisReply *r = s->user[0] ? redisCommand(c, "AUTH %s %s", s->user, s->password) :
					     redisCommand(c, "AUTH %s", s->password);

		if (expect_ok(r, "log in to", c, e) < 0)
			return -1;
	}
	if (s->db && expect_ok(redisCommand(c, "SELECT %llu", (unsigned long long)s->db),
			       "select the database of", c, e) < 0)
		return -1;
	return 0;
}

static int load_scripts(struct redisconn *s, redisContext *c, struct err *e)
{
	int i;

	for (i = 0; i < s->script_count; i++) {
		redisReply *r = redisCommand(c, "SCRIPT LOAD %s", s->scripts[i]);

		/* the hash of a text is the same on every connection: written under no lock, once
		 */
		if (r && r->type == REDIS_REPLY_STRING && r->len == 40 && !s->sha[i][0])
			memcpy(s->sha[i], r->str, 41);
		if (expect_ok(r, "load a script into", c, e) < 0)
			return -1;
	}
	return 0;
}

static redisContext *dial(struct redisconn *s, struct err *e)
{
	struct timeval limit = { CONNECT_MS / 1000, 0 }, call = { CALL_MS / 1000, 0 };
	redisContext *c = s->path[0] ? redisConnectUnixWithTimeout(s->path, limit) :
				       redisConnectWithTimeout(s->host, s->port, limit);

	if (!c) {
		err_nomem(e);
		return NULL;
	}
	if (c->err)
		err_set(e, ERR_NET, "reach Redis at %s: %s", s->path[0] ? s->path : s->host,
			c->errstr);
	else if (redisSetTimeout(c, call) != REDIS_OK)
		err_set(e, ERR_NET, "set up the connection to Redis");
	else if (redis_log_in(s, c, e) == 0)
		return c;
	redisFree(c);
	return NULL;
}

/* A slot for the caller; its connection may be NULL. */
static int take_slot(struct redisconn *s)
{
	int i;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		int dead = -1;

		for (i = 0; i < REDISCONN_MAX; i++) {
			if (s->used[i])
				continue;
			if (s->c[i])
				break;
			dead = i;
		}
		if (i == REDISCONN_MAX)
			i = dead;
		if (i >= 0)
			break;
		pthread_cond_wait(&s->freed, &s->lock);
	}
	s->used[i] = 1;
	pthread_mutex_unlock(&s->lock);
	return i;
}

static void give_slot(struct redisconn *s, int i)
{
	pthread_mutex_lock(&s->lock);
	s->used[i] = 0;
	pthread_cond_signal(&s->freed);
	pthread_mutex_unlock(&s->lock);
}

/* An answer that says "not now": a server that starts, or has just become a replica. */
static int is_passing(const redisReply *r)
{
	static const char *const words[] = { "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN",
					     "TRYAGAIN", "BUSY " };
	size_t i;

	for (i = 0; r->type == REDIS_REPLY_ERROR && i < ARRAY_LEN(words); i++)
		if (!strncmp(r->str, words[i], strlen(words[i])))
			return 1;
	return 0;
}

static redisReply *try_once(struct redisconn *s, int slot, int script, int argc, const char **argv,
			    const size_t *len, struct err *e)
{
	redisReply *r;
	int again;

	if (!s->c[slot]) {
		s->c[slot] = dial(s, e);
		if (!s->c[slot])
			return NULL;
	}
	for (again = 0; again < 2; again++) {
		if (script >= 0)
			argv[1] = s->sha[script];
		r = redisCommandArgv(s->c[slot], argc, argv, len);
		if (!r || script < 0 || r->type != REDIS_REPLY_ERROR ||
		    strncmp(r->str, "NOSCRIPT", 8))
			break;
		freeReplyObject(r); /* a server that was restarted has forgotten them */
		r = NULL;
		if (load_scripts(s, s->c[slot], e) < 0)
			break;
	}
	if (!r) {
		err_set(e, ERR_NET, "lost the connection to Redis: %s", s->c[slot]->errstr);
	} else if (is_passing(r)) {
		err_set(e, ERR_NET, "Redis is not ready: %.200s", r->str);
		freeReplyObject(r);
		r = NULL;
	} else {
		return r;
	}
	redisFree(s->c[slot]);
	s->c[slot] = NULL;
	return NULL;
}

redisReply *redisconn_call(struct redisconn *s, int script, int argc, const char **argv,
			   const size_t *len, struct err *e)
{
	uint64_t until = clock_ms() + s->retry_ms, pause_ms = 5;
	int slot = take_slot(s);
	redisReply *r;

	while (!(r = try_once(s, slot, script, argc, argv, len, e)) && e->code == ERR_NET &&
	       clock_ms() + pause_ms < until) {
		struct timespec t = { .tv_nsec = (long)pause_ms * 1000000 };

		nanosleep(&t, NULL);
		pause_ms = pause_ms < 250 ? pause_ms * 2 : 250;
	}
	give_slot(s, slot);
	if (r && r->type == REDIS_REPLY_ERROR) {
		err_set(e, ERR_NET, "Redis refused: %.300s", r->str);
		freeReplyObject(r);
		return NULL;
	}
	return r;
}

int redisconn_ping(struct redisconn *s, struct err *e)
{
	redisContext *c = dial(s, e);
	int r;

	if (!c)
		return -1;
	r = expect_ok(redisCommand(c, "PING"), "be answered by", c, e);
	redisFree(c);
	return r;
}

void redisconn_init(struct redisconn *s, const char *const *scripts, int count)
{
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->freed, NULL);
	s->scripts = scripts;
	s->script_count = count;
}

int redisconn_open(struct redisconn *s, struct err *e)
{
	int i;

	s->c[0] = dial(s, e);
	if (!s->c[0] || load_scripts(s, s->c[0], e) < 0)
		return -1;
	for (i = 0; i < s->script_count; i++)
		if (!s->sha[i][0])
			return err_set(e, ERR_NET, "Redis did not take a script");
	return 0;
}

void redisconn_close(struct redisconn *s)
{
	int i;

	for (i = 0; i < REDISCONN_MAX; i++)
		if (s->c[i])
			redisFree(s->c[i]);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->freed);
	explicit_bzero(s->password, sizeof(s->password));
}

/* ---- the store ---- */

/*
 * The shared store: Redis, by hiredis.
 *
 *   PREFIX:k:KEY   hash {v: version, d: value}, with a time to live or without
 *   PREFIX:l:NAME  list
 *   PREFIX:index   sorted set of all keys, all scores 0: a scan by prefix is a range
 *   PREFIX:seq     the counter of versions
 *   PREFIX:req:ID  what the batch ID was answered, for a minute
 *
 * A batch is one Lua script, which Redis runs alone.  It first checks all, then
 * changes all.  When the connection is lost before the answer came, the same
 * batch is sent again with the same ID and answered from PREFIX:req:ID if it
 * happened.  Put the prefix in braces ("{berth}") for a Redis cluster.
 */

#define PAGE_KEYS 200
#define ARGS_MAX (LEDGER_OPS_MAX * 5 + 16)

/* KEYS: seq, index, req, then one a change.  ARGV: five a change: kind, name, value, version ("*": any), ttl. */
static const char commit_script[] =
	"local done = redis.call('GET', KEYS[3]) if done then return done end\n"
	"local n = #KEYS - 3\n"
	"local function version(i)\n"
	"  local v = redis.call('HGET', KEYS[3+i], 'v') return v or '0' end\n"
	"local taken = {}\n"
	"for i = 1, n do\n"
	"  local a = (i-1)*5 local kind, want = ARGV[a+1], ARGV[a+4]\n"
	"  if kind == 'take' then\n"
	"    local id = KEYS[3+i] .. '\\0' .. ARGV[a+3]\n"
	"    local have = 0\n"
	"    for _, x in ipairs(redis.call('LRANGE', KEYS[3+i], 0, -1)) do if x == ARGV[a+3] then have = have + 1 end end\n"
	"    taken[id] = (taken[id] or 0) + 1\n"
	"    if have < taken[id] then return 'busy ' .. i end\n"
	"  elseif kind ~= 'push' and want ~= '*' and version(i) ~= want then return 'busy ' .. i end\n"
	"end\n"
	"local v = redis.call('INCR', KEYS[1])\n"
	"for i = 1, n do\n"
	"  local a = (i-1)*5 local kind, name, value, ttl = ARGV[a+1], ARGV[a+2], ARGV[a+3], tonumber(ARGV[a+5])\n"
	"  local key = KEYS[3+i]\n"
	"  if kind == 'set' then\n"
	"    redis.call('HSET', key, 'v', v, 'd', value)\n"
	"    if ttl > 0 then redis.call('PEXPIRE', key, ttl) else redis.call('PERSIST', key) end\n"
	"    redis.call('ZADD', KEYS[2], 0, name)\n"
	"  elseif kind == 'delete' then redis.call('DEL', key) redis.call('ZREM', KEYS[2], name)\n"
	"  elseif kind == 'touch' then if ttl > 0 then redis.call('PEXPIRE', key, ttl) else redis.call('PERSIST', key) end\n"
	"  elseif kind == 'push' then redis.call('RPUSH', key, value)\n"
	"  elseif kind == 'take' then redis.call('LREM', key, 1, value)\n"
	"  end\n"
	"end\n"
	"redis.call('SET', KEYS[3], tostring(v), 'PX', 60000)\n"
	"return tostring(v)\n";

/* KEYS: index.  ARGV: from, to, count, prefix of the keys.  Answers name, value, version, ...; the last name first. */
static const char page_script[] =
	"local names = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])\n"
	"local out = { tostring(#names), names[#names] or '' }\n"
	"for _, name in ipairs(names) do\n"
	"  local r = redis.call('HMGET', ARGV[4] .. name, 'd', 'v')\n"
	"  if r[1] then out[#out+1] = name out[#out+1] = r[1] out[#out+1] = r[2]\n"
	"  else redis.call('ZREM', KEYS[1], name) end\n"
	"end\n"
	"return out\n";

enum script { COMMIT, PAGE, SCRIPTS };
static const char *const scripts[] = { commit_script, page_script };
_Static_assert(ARRAY_LEN(scripts) == SCRIPTS && SCRIPTS <= REDISCONN_SCRIPTS, "each script has its text");

struct redis_ledger {
	struct ledger base;
	struct redisconn conn;
	char prefix[64];
	uint64_t requests;	/* with nonce: the ID of a batch */
	uint64_t nonce;
};

static struct redis_ledger *redis_of(struct ledger *s)
{
	return (struct redis_ledger *)s;
}

/* ---- operations --------------------------------------------------------------- */

struct args {
	const char *v[ARGS_MAX];
	size_t len[ARGS_MAX];
	char *owned[ARGS_MAX];
	int n, owned_n;
	int failed;
};

static void arg(struct args *a, const char *s)
{
	a->len[a->n] = strlen(s);
	a->v[a->n++] = s;
}

static void argf(struct args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void argf(struct args *a, const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	if (!s) {
		a->failed = 1;
		arg(a, "");
		return;
	}
	a->owned[a->owned_n++] = s;
	arg(a, s);
}

static void free_args(struct args *a)
{
	while (a->owned_n)
		free(a->owned[--a->owned_n]);
	free(a);
}

static const char *const kinds[] = {
	[LEDGER_CHECK] = "check", [LEDGER_SET] = "set", [LEDGER_DELETE] = "delete", [LEDGER_TOUCH] = "touch", [LEDGER_PUSH] = "push",
	[LEDGER_TAKE] = "take",
};

static void change_args(struct args *a, const struct ledger_op *op)
{
	arg(a, kinds[op->kind]);
	arg(a, op->key);
	arg(a, op->value ? op->value : "");
	if (op->version == LEDGER_ANY)
		arg(a, "*");
	else
		argf(a, "%llu", (unsigned long long)op->version);
	argf(a, "%llu", (unsigned long long)op->ttl_ms);
}

static int commit_answer(const redisReply *r, const struct ledger_op *ops, size_t n, uint64_t *ret_version, struct err *e)
{
	size_t i;

	if (r->type != REDIS_REPLY_STRING)
		return err_set(e, ERR_INTERNAL, "Redis answered a batch with something else than a string");
	if (!strncmp(r->str, "busy ", 5)) {
		i = strtoul(r->str + 5, NULL, 10);
		return err_set(e, ERR_BUSY, "%.100s was changed by another", i && i <= n ? ops[i - 1].key : "a key");
	}
	return num_u64(r->str, "the version from Redis", 1, UINT64_MAX - 1, ret_version, e);
}

static int redis_commit(struct ledger *base, const struct ledger_op *ops, size_t n, uint64_t *ret_version, struct err *e)
{
	struct redis_ledger *s = redis_of(base);
	struct args *a = calloc(1, sizeof(*a));
	uint64_t request = __atomic_add_fetch(&s->requests, 1, __ATOMIC_RELAXED);
	redisReply *r = NULL;
	int result = -1;
	size_t i;

	if (!a)
		return err_nomem(e);
	arg(a, "EVALSHA");
	arg(a, "");	/* the script's hash */
	argf(a, "%zu", n + 3);
	argf(a, "%s:seq", s->prefix);
	argf(a, "%s:index", s->prefix);
	argf(a, "%s:req:%016llx%llx", s->prefix, (unsigned long long)s->nonce, (unsigned long long)request);
	for (i = 0; i < n; i++)
		argf(a, "%s:%c:%s", s->prefix, ops[i].kind == LEDGER_PUSH || ops[i].kind == LEDGER_TAKE ? 'l' : 'k', ops[i].key);
	for (i = 0; i < n; i++)
		change_args(a, &ops[i]);
	a->len[1] = 40;
	if (a->failed)
		err_nomem(e);
	else
		r = redisconn_call(&s->conn, COMMIT, a->n, a->v, a->len, e);
	if (r) {
		result = commit_answer(r, ops, n, ret_version, e);
		freeReplyObject(r);
	}
	free_args(a);
	return result;
}

static int redis_get(struct ledger *base, const char *key, struct buf *out, uint64_t *ret_version, struct err *e)
{
	struct redis_ledger *s = redis_of(base);
	struct args *a = calloc(1, sizeof(*a));
	redisReply *r = NULL;
	int result = -1;

	if (!a)
		return err_nomem(e);
	arg(a, "HMGET");
	argf(a, "%s:k:%s", s->prefix, key);
	arg(a, "d");
	arg(a, "v");
	if (a->failed)
		err_nomem(e);
	else
		r = redisconn_call(&s->conn, -1, a->n, a->v, a->len, e);
	if (r && (r->type != REDIS_REPLY_ARRAY || r->elements != 2))
		err_set(e, ERR_INTERNAL, "Redis answered HMGET with something else than two values");
	else if (r && r->element[0]->type == REDIS_REPLY_STRING && r->element[1]->type == REDIS_REPLY_STRING)
		result = buf_add(out, r->element[0]->str, (size_t)r->element[0]->len, e) < 0 ||
			 num_u64(r->element[1]->str, "the version from Redis", 1, UINT64_MAX - 1, ret_version, e) < 0 ? -1 : 1;
	else if (r)
		result = 0;
	if (r)
		freeReplyObject(r);
	free_args(a);
	return result;
}

static int page_answer(const redisReply *r, char after[LEDGER_KEY_MAX + 1], ledger_each *each, void *ctx, int *ret_more,
		       struct err *e)
{
	uint64_t count, version;
	size_t i;
	int result = 0;

	if (r->type != REDIS_REPLY_ARRAY || r->elements < 2 || (r->elements - 2) % 3)
		return err_set(e, ERR_INTERNAL, "Redis answered a scan with something else than a list");
	if (num_u64(r->element[0]->str, "the count from Redis", 0, PAGE_KEYS, &count, e) < 0)
		return -1;
	for (i = 2; i < r->elements && result == 0; i += 3) {
		if (num_u64(r->element[i + 2]->str, "the version from Redis", 1, UINT64_MAX - 1, &version, e) < 0)
			return -1;
		result = each(ctx, r->element[i]->str, r->element[i + 1]->str, version);
	}
	snprintf(after, LEDGER_KEY_MAX + 1, "%s", r->element[1]->str);
	*ret_more = count == PAGE_KEYS;
	return result;
}

static int redis_page(struct ledger *base, const char *prefix, char after[LEDGER_KEY_MAX + 1], ledger_each *each, void *ctx,
		      int *ret_more, struct err *e)
{
	struct redis_ledger *s = redis_of(base);
	struct args *a = calloc(1, sizeof(*a));
	redisReply *r = NULL;
	int result = -1;

	if (!a)
		return err_nomem(e);
	arg(a, "EVALSHA");
	arg(a, "");
	a->len[1] = 40;
	arg(a, "1");
	argf(a, "%s:index", s->prefix);
	if (after[0])
		argf(a, "(%s", after);
	else if (prefix[0])
		argf(a, "[%s", prefix);
	else
		arg(a, "-");
	if (prefix[0])
		argf(a, "(%s\xff", prefix);
	else
		arg(a, "+");
	argf(a, "%d", PAGE_KEYS);
	argf(a, "%s:k:", s->prefix);
	if (a->failed)
		err_nomem(e);
	else
		r = redisconn_call(&s->conn, PAGE, a->n, a->v, a->len, e);
	if (r) {
		result = page_answer(r, after, each, ctx, ret_more, e);
		freeReplyObject(r);
	}
	free_args(a);
	return result;
}

static int redis_list(struct ledger *base, const char *list, size_t max, ledger_item *each, void *ctx, struct err *e)
{
	struct redis_ledger *s = redis_of(base);
	struct args *a = calloc(1, sizeof(*a));
	redisReply *r = NULL;
	int result = -1;
	size_t i;

	if (!a)
		return err_nomem(e);
	if (max > 100000)
		max = 100000;
	arg(a, "LRANGE");
	argf(a, "%s:l:%s", s->prefix, list);
	arg(a, "0");
	argf(a, "%lld", (long long)max - 1);
	if (a->failed)
		err_nomem(e);
	else
		r = redisconn_call(&s->conn, -1, a->n, a->v, a->len, e);
	if (r && r->type != REDIS_REPLY_ARRAY) {
		err_set(e, ERR_INTERNAL, "Redis answered LRANGE with something else than a list");
	} else if (r) {
		result = 0;
		for (i = 0; max && i < r->elements && result == 0; i++)
			result = each(ctx, r->element[i]->str);
	}
	if (r)
		freeReplyObject(r);
	free_args(a);
	return result;
}

static int redis_ping(struct ledger *base, struct err *e)
{
	return redisconn_ping(&redis_of(base)->conn, e);
}

static void redis_close(struct ledger *base)
{
	redisconn_close(&redis_of(base)->conn);
	free(redis_of(base));
}

static const struct ledger_ops redis_ops = {
	.name = "redis", .commit = redis_commit, .get = redis_get, .page = redis_page, .list = redis_list, .ping = redis_ping,
	.close = redis_close,
};

/* ---- open ----------------------------------------------------------------------- */

static int copy_redis_setting(char *out, size_t n, const char *s, const char *what, struct err *e)
{
	return (size_t)snprintf(out, n, "%s", s) >= n ? err_set(e, ERR_CONFIG, "%s is too long", what) : 0;
}

static int fill_in_redis(struct redis_ledger *s, const struct storeurl *url, const struct ledger_options *o,
		   struct err *e)
{
	struct redisconn *c = &s->conn;

	if (copy_redis_setting(c->user, sizeof(c->user), o->user ? o->user : "", "store.user", e) < 0 ||
	    copy_redis_setting(c->password, sizeof(c->password), o->password ? o->password : "",
		 "the password of Redis", e) < 0 ||
	    copy_redis_setting(s->prefix, sizeof(s->prefix), o->prefix ? o->prefix : "berth", "store.prefix",
		 e) < 0)
		return -1;
	if (url->kind == STORE_REDIS_UNIX)
		memcpy(c->path, url->path, sizeof(c->path));
	memcpy(c->host, url->host, sizeof(c->host));
	c->port = url->port;
	c->db = url->db;
	c->retry_ms = o->retry_ms;
	return 0;
}

int ledger_redis_open(struct ledger **ret, const struct storeurl *url, const struct ledger_options *o, struct err *e)
{
	struct redis_ledger *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return err_nomem(e);
	s->base.ops = &redis_ops;
	redisconn_init(&s->conn, scripts, SCRIPTS);
	r = getrandom(&s->nonce, sizeof(s->nonce), 0) != (ssize_t)sizeof(s->nonce) ?
		    err_sys(e, "get random bytes") : fill_in_redis(s, url, o, e);
	if (r == 0)
		r = redisconn_open(&s->conn, e);
	if (r < 0) {
		redis_close(&s->base);
		return -1;
	}
	*ret = &s->base;
	return 0;
}
