/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The embedded store: one SQLite file in WAL mode, one connection, one mutex.
 *
 * A batch is BEGIN IMMEDIATE ... COMMIT.  synchronous=NORMAL by default: a commit
 * is in the WAL file when it is answered, so it survives this process and an
 * orderly reboot; FULL adds an fsync for the power cut.
 */
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "manager/ledger/ledger.h"

#define SCHEMA_VERSION 2	/* 1: sessions without owners in their keys (manager/service/session.c) */
#define PAGE_KEYS 200
#define BUSY_MS 5000

enum statement {
	S_BEGIN, S_COMMIT, S_ROLLBACK, S_NEXT, S_GET, S_SET, S_DELETE, S_TOUCH, S_PUSH, S_TAKE, S_PAGE, S_LIST, S_PURGE,
	S_COUNT,
};

static const char *const texts[S_COUNT] = {
	[S_BEGIN] = "BEGIN IMMEDIATE",
	[S_COMMIT] = "COMMIT",
	[S_ROLLBACK] = "ROLLBACK",
	[S_NEXT] = "UPDATE counter SET n = n + 1 RETURNING n",
	[S_GET] = "SELECT version, value FROM kv WHERE key = ?1 AND (expires = 0 OR expires > ?2)",
	[S_SET] = "INSERT INTO kv(key, value, version, expires) VALUES(?1, ?2, ?3, ?4) "
		  "ON CONFLICT(key) DO UPDATE SET value = ?2, version = ?3, expires = ?4",
	[S_DELETE] = "DELETE FROM kv WHERE key = ?1",
	[S_TOUCH] = "UPDATE kv SET expires = ?2 WHERE key = ?1",
	[S_PUSH] = "INSERT INTO list(name, item) VALUES(?1, ?2)",
	[S_TAKE] = "DELETE FROM list WHERE seq = (SELECT seq FROM list WHERE name = ?1 AND item = ?2 ORDER BY seq LIMIT 1)",
	[S_PAGE] = "SELECT key, value, version FROM kv WHERE key > ?1 AND key >= ?2 AND key < ?3 AND "
		   "(expires = 0 OR expires > ?4) ORDER BY key LIMIT ?5",
	[S_LIST] = "SELECT item FROM list WHERE name = ?1 ORDER BY seq LIMIT ?2",
	[S_PURGE] = "DELETE FROM kv WHERE expires > 0 AND expires <= ?1",
};

struct sqlite_ledger {
	struct ledger base;
	pthread_mutex_t lock;
	sqlite3 *db;
	sqlite3_stmt *st[S_COUNT];
	unsigned commits;
};

static struct sqlite_ledger *sqlite_of(struct ledger *s)
{
	return (struct sqlite_ledger *)s;
}

static int sqlite_failed(struct sqlite_ledger *s, const char *what, struct err *e)
{
	int code = sqlite3_extended_errcode(s->db);

	return err_set(e, (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB ? ERR_CORRUPT : ERR_SYS,
		       "%s the store: %s", what, sqlite3_errmsg(s->db));
}

/* Wall clock, because expiry must survive a reboot, too. */
static sqlite3_int64 now_ms(void)
{
	return (sqlite3_int64)clock_wall_ms();
}

static sqlite3_stmt *take_statement(struct sqlite_ledger *s, enum statement which)
{
	sqlite3_reset(s->st[which]);
	sqlite3_clear_bindings(s->st[which]);
	return s->st[which];
}

static int step_statement(struct sqlite_ledger *s, enum statement which, const char *what, struct err *e)
{
	int r = sqlite3_step(s->st[which]);

	if (r != SQLITE_DONE && r != SQLITE_ROW)
		sqlite_failed(s, what, e);
	if (r != SQLITE_ROW)
		sqlite3_reset(s->st[which]);
	return r == SQLITE_ROW ? 1 : r == SQLITE_DONE ? 0 : -1;
}

/* The version of a living key, LEDGER_ABSENT for none. */
static int sqlite_key_version(struct sqlite_ledger *s, const char *key, uint64_t *ret, struct err *e)
{
	sqlite3_stmt *q = take_statement(s, S_GET);
	int r;

	sqlite3_bind_text(q, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_int64(q, 2, now_ms());
	r = step_statement(s, S_GET, "read", e);
	*ret = r > 0 ? (uint64_t)sqlite3_column_int64(q, 0) : LEDGER_ABSENT;
	sqlite3_reset(q);
	return r < 0 ? -1 : 0;
}

static int expect(struct sqlite_ledger *s, const struct ledger_op *op, struct err *e)
{
	uint64_t version;

	if (op->version == LEDGER_ANY)
		return 0;
	if (sqlite_key_version(s, op->key, &version, e) < 0)
		return -1;
	return version == op->version ? 0 : err_set(e, ERR_BUSY, "%.100s was changed by another", op->key);
}

static int sqlite_change(struct sqlite_ledger *s, const struct ledger_op *op, uint64_t version, struct err *e)
{
	static const enum statement of_kind[] = {
		[LEDGER_SET] = S_SET, [LEDGER_DELETE] = S_DELETE, [LEDGER_TOUCH] = S_TOUCH, [LEDGER_PUSH] = S_PUSH, [LEDGER_TAKE] = S_TAKE,
	};
	sqlite3_int64 expires = op->ttl_ms ? now_ms() + (sqlite3_int64)op->ttl_ms : 0;
	enum statement which;
	sqlite3_stmt *q;

	if (op->kind != LEDGER_PUSH && op->kind != LEDGER_TAKE && expect(s, op, e) < 0)
		return -1;
	if (op->kind == LEDGER_CHECK)
		return 0;
	which = of_kind[op->kind];
	q = take_statement(s, which);
	sqlite3_bind_text(q, 1, op->key, -1, SQLITE_STATIC);
	if (op->kind == LEDGER_TOUCH)
		sqlite3_bind_int64(q, 2, expires);
	else if (op->kind != LEDGER_DELETE)
		sqlite3_bind_text(q, 2, op->value, -1, SQLITE_STATIC);
	if (op->kind == LEDGER_SET) {
		sqlite3_bind_int64(q, 3, (sqlite3_int64)version);
		sqlite3_bind_int64(q, 4, expires);
	}
	if (step_statement(s, which, "write to", e) < 0)
		return -1;
	if (op->kind == LEDGER_TAKE && sqlite3_changes(s->db) != 1)
		return err_set(e, ERR_BUSY, "%.100s was taken from %.80s by another", op->value, op->key);
	return 0;
}

static int commit_locked(struct sqlite_ledger *s, const struct ledger_op *ops, size_t n, uint64_t *ret_version, struct err *e)
{
	struct err ignored;
	sqlite3_stmt *q;
	uint64_t version;
	size_t i;

	take_statement(s, S_BEGIN);
	if (step_statement(s, S_BEGIN, "lock", e) < 0)
		return -1;
	q = take_statement(s, S_NEXT);
	if (step_statement(s, S_NEXT, "count in", e) < 1)
		goto undo;
	version = (uint64_t)sqlite3_column_int64(q, 0);
	sqlite3_reset(q);
	for (i = 0; i < n; i++)
		if (sqlite_change(s, &ops[i], version, e) < 0)
			goto undo;
	if (s->commits++ % 1000 == 0) {
		sqlite3_bind_int64(take_statement(s, S_PURGE), 1, now_ms());
		if (step_statement(s, S_PURGE, "clear", e) < 0)
			goto undo;
	}
	take_statement(s, S_COMMIT);
	if (step_statement(s, S_COMMIT, "commit to", e) < 0)
		goto undo;
	*ret_version = version;
	return 0;
undo:
	sqlite3_reset(s->st[S_NEXT]);
	take_statement(s, S_ROLLBACK);
	step_statement(s, S_ROLLBACK, "undo in", &ignored);
	return -1;
}

static int sqlite_commit(struct ledger *base, const struct ledger_op *ops, size_t n, uint64_t *ret_version, struct err *e)
{
	struct sqlite_ledger *s = sqlite_of(base);
	int r;

	pthread_mutex_lock(&s->lock);
	r = commit_locked(s, ops, n, ret_version, e);
	pthread_mutex_unlock(&s->lock);
	return r;
}

static int sqlite_get(struct ledger *base, const char *key, struct buf *out, uint64_t *ret_version, struct err *e)
{
	struct sqlite_ledger *s = sqlite_of(base);
	sqlite3_stmt *q;
	int r;

	pthread_mutex_lock(&s->lock);
	q = take_statement(s, S_GET);
	sqlite3_bind_text(q, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_int64(q, 2, now_ms());
	r = step_statement(s, S_GET, "read", e);
	if (r > 0) {
		*ret_version = (uint64_t)sqlite3_column_int64(q, 0);
		if (buf_add(out, sqlite3_column_text(q, 1), (size_t)sqlite3_column_bytes(q, 1), e) < 0)
			r = -1;
	}
	sqlite3_reset(q);
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* Rows are copied out first: each may call the store again. */
struct row {
	char *key, *value;
	uint64_t version;
};

static void free_rows(struct row *rows, size_t n)
{
	while (n--) {
		free(rows[n].key);
		free(rows[n].value);
	}
	free(rows);
}

static int read_rows(struct sqlite_ledger *s, enum statement which, struct row *rows, size_t max, size_t *ret_n, struct err *e)
{
	sqlite3_stmt *q = s->st[which];
	int r = 0;

	*ret_n = 0;
	while (*ret_n < max && (r = step_statement(s, which, "read", e)) > 0) {
		struct row *row = &rows[*ret_n];

		row->key = strdup((const char *)sqlite3_column_text(q, 0));
		if (which == S_PAGE) {
			row->value = strdup((const char *)sqlite3_column_text(q, 1));
			row->version = (uint64_t)sqlite3_column_int64(q, 2);
		}
		++*ret_n;
		if (!row->key || (which == S_PAGE && !row->value)) {
			r = err_nomem(e);
			break;
		}
	}
	sqlite3_reset(q);
	return r < 0 ? -1 : 0;
}

static int sqlite_page(struct ledger *base, const char *prefix, char after[LEDGER_KEY_MAX + 1], ledger_each *each, void *ctx,
		       int *ret_more, struct err *e)
{
	struct sqlite_ledger *s = sqlite_of(base);
	struct row *rows = calloc(PAGE_KEYS, sizeof(*rows));
	char end[LEDGER_KEY_MAX + 2];
	size_t n = 0, i;
	sqlite3_stmt *q;
	int r;

	if (!rows)
		return err_nomem(e);
	/* 0xff is not a byte of UTF-8: it ends the range */
	snprintf(end, sizeof(end), "%s\xff", prefix);
	pthread_mutex_lock(&s->lock);
	q = take_statement(s, S_PAGE);
	sqlite3_bind_text(q, 1, after, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 2, prefix, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 3, end, -1, SQLITE_STATIC);
	sqlite3_bind_int64(q, 4, now_ms());
	sqlite3_bind_int(q, 5, PAGE_KEYS);
	r = read_rows(s, S_PAGE, rows, PAGE_KEYS, &n, e);
	pthread_mutex_unlock(&s->lock);
	for (i = 0; i < n && r == 0; i++)
		r = each(ctx, rows[i].key, rows[i].value, rows[i].version);
	if (n)
		snprintf(after, LEDGER_KEY_MAX + 1, "%s", rows[n - 1].key);
	*ret_more = n == PAGE_KEYS;
	free_rows(rows, n);
	return r;
}

static int sqlite_list(struct ledger *base, const char *list, size_t max, ledger_item *each, void *ctx, struct err *e)
{
	struct sqlite_ledger *s = sqlite_of(base);
	size_t n = 0, i;
	struct row *rows;
	sqlite3_stmt *q;
	int r;

	if (max > 100000)
		max = 100000;
	rows = calloc(max ? max : 1, sizeof(*rows));
	if (!rows)
		return err_nomem(e);
	pthread_mutex_lock(&s->lock);
	q = take_statement(s, S_LIST);
	sqlite3_bind_text(q, 1, list, -1, SQLITE_STATIC);
	sqlite3_bind_int64(q, 2, (sqlite3_int64)max);
	r = read_rows(s, S_LIST, rows, max, &n, e);
	pthread_mutex_unlock(&s->lock);
	for (i = 0; i < n && r == 0; i++)
		r = each(ctx, rows[i].key);
	free_rows(rows, n);
	return r;
}

static void sqlite_close(struct ledger *base)
{
	struct sqlite_ledger *s = sqlite_of(base);
	int i;

	for (i = 0; i < S_COUNT; i++)
		sqlite3_finalize(s->st[i]);
	sqlite3_close(s->db);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static int sqlite_ping(struct ledger *base, struct err *e)
{
	autobuf struct buf none = BUF_INIT(0);
	uint64_t version;

	return sqlite_get(base, "ping", &none, &version, e) < 0 ? -1 : 0;
}

static const struct ledger_ops sqlite_ops = {
	.name = "sqlite", .commit = sqlite_commit, .get = sqlite_get, .page = sqlite_page, .list = sqlite_list,
	.ping = sqlite_ping, .close = sqlite_close,
};

static int set_up_sqlite(struct sqlite_ledger *s, const struct ledger_options *o, struct err *e)
{
	sqlite3_stmt *q = NULL;
	int version = -1;

	sqlite3_busy_timeout(s->db, BUSY_MS);
	if (sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW)
		version = sqlite3_column_int(q, 0);
	sqlite3_finalize(q);
	if (version < 0)
		return sqlite_failed(s, "read", e);
	if (version > SCHEMA_VERSION)
		return err_set(e, ERR_UNSUPPORTED, "the store was written by a newer berth (version %d, this one knows %d)", version,
			       SCHEMA_VERSION);
	if (sqlite3_exec(s->db, o->sync_full ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", NULL, NULL, NULL) ||
	    sqlite3_exec(s->db, "PRAGMA journal_mode=WAL; PRAGMA trusted_schema=OFF;"
			 "BEGIN IMMEDIATE;"
			 "CREATE TABLE IF NOT EXISTS kv(key TEXT PRIMARY KEY, value TEXT NOT NULL, version INTEGER NOT NULL,"
			 " expires INTEGER NOT NULL) WITHOUT ROWID;"
			 "CREATE INDEX IF NOT EXISTS kv_expires ON kv(expires) WHERE expires > 0;"
			 "CREATE TABLE IF NOT EXISTS list(seq INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, item TEXT NOT NULL);"
			 "CREATE INDEX IF NOT EXISTS list_item ON list(name, item);"
			 "CREATE TABLE IF NOT EXISTS counter(n INTEGER NOT NULL);"
			 "INSERT INTO counter SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM counter);"
			 "PRAGMA user_version=2; COMMIT;", NULL, NULL, NULL))
		return sqlite_failed(s, "set up", e);
	return 0;
}

int ledger_sqlite_open(struct ledger **ret, const char *path, const struct ledger_options *o, struct err *e)
{
	struct sqlite_ledger *s = calloc(1, sizeof(*s));
	int i;

	if (!s)
		return err_nomem(e);
	s->base.ops = &sqlite_ops;
	pthread_mutex_init(&s->lock, NULL);
	/* the directory is 0700 and ours; umask keeps the file 0600 */
	if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
			    NULL) != SQLITE_OK) {
		err_set(e, ERR_SYS, "open the store %.200s: %s", path, s->db ? sqlite3_errmsg(s->db) : "out of memory");
		goto fail;
	}
	if (set_up_sqlite(s, o, e) < 0)
		goto fail;
	for (i = 0; i < S_COUNT; i++) {
		if (sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &s->st[i], NULL) != SQLITE_OK) {
			sqlite_failed(s, "prepare", e);
			goto fail;
		}
	}
	*ret = &s->base;
	return 0;
fail:
	sqlite_close(&s->base);
	return -1;
}
