/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger - the mappings of the manager: records, lists, locks; SQLite or Redis.
 *
 * All changes go through one primitive, ledger_commit(): a batch that happens whole or not at
 * all, and whose checks see no other writer in between. Each value has a version from one
 * counter that never goes back, so a version also is a fencing token. A lock is a key with a
 * time to live, and its version is its token. A batch that begins with LEDGER_CHECK of the lock
 * is refused once another has the lock.
 *
 * Keys are text of 1 to LEDGER_KEY_MAX bytes without control characters; values are text. All
 * functions may be called from any thread. Results of ledger_commit() survive the death of this
 * process (SQLite: WAL; with [store] sync = "full" a power cut too; Redis: as Redis persists).
 */
#ifndef BERTH_MANAGER_LEDGER_LEDGER_H
#define BERTH_MANAGER_LEDGER_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define LEDGER_KEY_MAX 512
#define LEDGER_VALUE_MAX (4u << 20)
#define LEDGER_OPS_MAX 64
#define LEDGER_ABSENT UINT64_C(0)	/* as a version: the key must not exist */
#define LEDGER_ANY UINT64_MAX		/* as a version: any */

enum ledger_kind {
	LEDGER_CHECK,	/* key has this version */
	LEDGER_SET,	/* key gets value, if it has this version; lives ttl_ms (0: for ever) */
	LEDGER_DELETE,	/* key goes, if it has this version */
	LEDGER_TOUCH,	/* key, which has this version, lives ttl_ms from now on; the version stays */
	LEDGER_PUSH,	/* value goes to the end of the list key */
	LEDGER_TAKE,	/* value leaves the list key, where it must be */
};

struct ledger_op {
	enum ledger_kind kind;
	const char *key;
	const char *value;
	uint64_t version;
	uint64_t ttl_ms;
};

struct ledger;

/* The settings of a [store] section; strings are borrowed during ledger_open() only. */
struct ledger_options {
	const char *url;		/* "sqlite:/PATH", "redis://HOST:PORT/DB", "redis+unix:/PATH" */
	const char *user, *password;	/* for Redis; "" means none */
	const char *prefix;		/* of all keys in Redis */
	uint64_t retry_ms;		/* how long a lost connection is tried again */
	int sync_full;			/* SQLite: fsync at each commit */
};

/*
 * ERR_CONFIG for a malformed url, ERR_NET if Redis cannot be reached, ERR_UNSUPPORTED for data
 * of a newer berth.
 */
int ledger_open(struct ledger **ret, const struct ledger_options *o, struct err *e);
void ledger_close(struct ledger *s);
/*
 * Tries once, instead of [store] retry times, whether the store answers: ERR_NET if Redis does
 * not.
 */
int ledger_ping(struct ledger *s, struct err *e);
/* "sqlite" or "redis". */
const char *ledger_name(const struct ledger *s);

/*
 * All of ops or nothing; after its change a key does not occur again in the batch.  ERR_BUSY when a version or a list is not as the batch
 * says: read again and decide again.  ERR_NET when Redis stayed away; then it is
 * not known whether the batch happened.  A connection lost in between is not such
 * a case: the batch is sent again under its own number and happens once.
 * *ret_version, when not NULL, is what every LEDGER_SET of the batch got.
 */
int ledger_commit(struct ledger *s, const struct ledger_op *ops, size_t n, uint64_t *ret_version, struct err *e);
/* 1 with the value in out and its version, 0 without one. */
int ledger_get(struct ledger *s, const char *key, struct buf *out, uint64_t *ret_version, struct err *e);

typedef int ledger_each(void *ctx, const char *key, const char *value, uint64_t version);
typedef int ledger_item(void *ctx, const char *value);

/* Every key that starts with prefix, in order of bytes, until each returns non-zero, which is then returned. */
int ledger_scan(struct ledger *s, const char *prefix, ledger_each *each, void *ctx, struct err *e);
/* The items of a list from its head, at most max. */
int ledger_list(struct ledger *s, const char *list, size_t max, ledger_item *each, void *ctx, struct err *e);

/*
 * Locks. ledger_lock() is ERR_BUSY while another holds the lock; *ret_token is larger than every
 * earlier token. renew and unlock are ERR_BUSY if the lock is no longer ours.
 */
int ledger_lock(struct ledger *s, const char *name, const char *owner, uint64_t ttl_ms, uint64_t *ret_token, struct err *e);
int ledger_renew(struct ledger *s, const char *name, uint64_t token, uint64_t ttl_ms, struct err *e);
int ledger_unlock(struct ledger *s, const char *name, uint64_t token, struct err *e);

/* ---- for the back ends only ---- */

struct ledger_ops {
	const char *name;
	int (*commit)(struct ledger *s, const struct ledger_op *ops, size_t n, uint64_t *ret_version, struct err *e);
	int (*get)(struct ledger *s, const char *key, struct buf *out, uint64_t *ret_version, struct err *e);
	/* up to a page of keys above after (or from prefix on when after is ""); *ret_more when there may be others */
	int (*page)(struct ledger *s, const char *prefix, char after[LEDGER_KEY_MAX + 1], ledger_each *each, void *ctx,
		    int *ret_more, struct err *e);
	int (*list)(struct ledger *s, const char *list, size_t max, ledger_item *each, void *ctx, struct err *e);
	int (*ping)(struct ledger *s, struct err *e);
	void (*close)(struct ledger *s);
};

struct ledger {
	const struct ledger_ops *ops;
};

int ledger_sqlite_open(struct ledger **ret, const char *path, const struct ledger_options *o, struct err *e);
struct storeurl;
int ledger_redis_open(struct ledger **ret, const struct storeurl *url, const struct ledger_options *o, struct err *e);

#endif
