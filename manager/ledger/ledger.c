/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ledger/ledger.h"

#include <stdio.h>
#include <string.h>

#include "manager/ledger/storeurl.h"

#define LOCK_PREFIX "lock/"

int ledger_open(struct ledger **ret, const struct ledger_options *o, struct err *e)
{
	struct storeurl url;

	if (storeurl_parse(o->url, "store.url", &url, e) < 0)
		return -1;
	return url.kind == STORE_SQLITE ? ledger_sqlite_open(ret, url.path, o, e) : ledger_redis_open(ret, &url, o, e);
}

void ledger_close(struct ledger *s)
{
	if (s)
		s->ops->close(s);
}

const char *ledger_name(const struct ledger *s)
{
	return s->ops->name;
}

int ledger_ping(struct ledger *s, struct err *e)
{
	return s->ops->ping(s, e);
}

static int check_ledger_key(const char *key, struct err *e)
{
	const char *p;

	if (!key || !key[0] || strlen(key) > LEDGER_KEY_MAX)
		return err_set(e, ERR_INVALID, "a key of the store has 1 to %d bytes", LEDGER_KEY_MAX);
	for (p = key; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return err_set(e, ERR_INVALID, "a key of the store has a control character in it");
	return 0;
}

static int changes_key(enum ledger_kind kind)
{
	return kind == LEDGER_SET || kind == LEDGER_DELETE || kind == LEDGER_TOUCH;
}

int ledger_commit(struct ledger *s, const struct ledger_op *ops, size_t n, uint64_t *ret_version, struct err *e)
{
	uint64_t version;
	size_t i, j;

	if (!n || n > LEDGER_OPS_MAX)
		return err_set(e, ERR_LIMIT, "a batch of the store has 1 to %d changes, not %zu", LEDGER_OPS_MAX, n);
	for (i = 0; i < n; i++) {
		if (check_ledger_key(ops[i].key, e) < 0)
			return -1;
		for (j = 0; j < i; j++)
			if (changes_key(ops[j].kind) && ops[i].kind < LEDGER_PUSH && !strcmp(ops[i].key, ops[j].key))
				return err_set(e, ERR_INVALID, "a batch changes %.80s twice", ops[i].key);
		if (ops[i].value && strlen(ops[i].value) > LEDGER_VALUE_MAX)
			return err_set(e, ERR_LIMIT, "the value of %.80s has more than %u bytes", ops[i].key, LEDGER_VALUE_MAX);
	}
	return s->ops->commit(s, ops, n, ret_version ? ret_version : &version, e);
}

int ledger_get(struct ledger *s, const char *key, struct buf *out, uint64_t *ret_version, struct err *e)
{
	uint64_t version;

	if (check_ledger_key(key, e) < 0)
		return -1;
	return s->ops->get(s, key, out, ret_version ? ret_version : &version, e);
}

int ledger_scan(struct ledger *s, const char *prefix, ledger_each *each, void *ctx, struct err *e)
{
	char after[LEDGER_KEY_MAX + 1] = "";
	int more = 1, r = 0;

	while (more && r == 0) {
		more = 0;
		r = s->ops->page(s, prefix, after, each, ctx, &more, e);
	}
	return r;
}

int ledger_list(struct ledger *s, const char *list, size_t max, ledger_item *each, void *ctx, struct err *e)
{
	return check_ledger_key(list, e) < 0 ? -1 : s->ops->list(s, list, max, each, ctx, e);
}

static int lock_key(char out[LEDGER_KEY_MAX + 1], const char *name, struct err *e)
{
	return snprintf(out, LEDGER_KEY_MAX + 1, LOCK_PREFIX "%s", name) > LEDGER_KEY_MAX ?
	       err_set(e, ERR_INVALID, "the name of a lock is too long") : 0;
}

int ledger_lock(struct ledger *s, const char *name, const char *owner, uint64_t ttl_ms, uint64_t *ret_token, struct err *e)
{
	char key[LEDGER_KEY_MAX + 1];
	struct ledger_op op = { LEDGER_SET, key, owner, LEDGER_ABSENT, ttl_ms };

	if (lock_key(key, name, e) < 0)
		return -1;
	if (ledger_commit(s, &op, 1, ret_token, e) < 0)
		return e->code == ERR_BUSY ? err_set(e, ERR_BUSY, "the lock %.80s is held by another", name) : -1;
	return 0;
}

static int lock_change(struct ledger *s, const char *name, enum ledger_kind kind, uint64_t token, uint64_t ttl_ms, struct err *e)
{
	char key[LEDGER_KEY_MAX + 1];
	struct ledger_op op = { kind, key, NULL, token, ttl_ms };

	if (lock_key(key, name, e) < 0)
		return -1;
	if (ledger_commit(s, &op, 1, NULL, e) < 0)
		return e->code == ERR_BUSY ? err_set(e, ERR_BUSY, "the lock %.80s has passed to another", name) : -1;
	return 0;
}

int ledger_renew(struct ledger *s, const char *name, uint64_t token, uint64_t ttl_ms, struct err *e)
{
	return lock_change(s, name, LEDGER_TOUCH, token, ttl_ms, e);
}

int ledger_unlock(struct ledger *s, const char *name, uint64_t token, struct err *e)
{
	return lock_change(s, name, LEDGER_DELETE, token, 0, e);
}
