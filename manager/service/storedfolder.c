/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/service/storedfolder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/num.h"
#include "manager/objects/storage_folder.h"
#include "manager/service/state.h"
#include "manager/service/storedsum.h"

#define STEP (64u << 20)	/* bytes that are counted at once: a write of the ledger each */

struct counted {
	struct service *s;
	char whose[65], key[200];
	uint64_t limit;
	uint64_t before, held;	/* what it counted for, and does now */
	uint64_t lock;
};

static int read_folder(struct counted *c, uint64_t *ret, uint64_t *ret_version, struct err *e)
{
	autobuf struct buf b = BUF_INIT(32);
	int got = ledger_get(c->s->ledger, c->key, &b, ret_version, e);

	*ret = 0;
	if (got < 0)
		return -1;
	if (!got) {
		*ret_version = LEDGER_ABSENT;
		return 0;
	}
	return buf_add(&b, "", 1, e) < 0 ? -1 : num_u64(b.data, "bytes of a folder", 0, INT64_MAX, ret, e);
}

/* may_grow: never less than what it counts for, whoever counted that. */
static int count_as(struct counted *c, uint64_t bytes, int may_grow, struct err *e)
{
	int tries;

	for (tries = 0; tries < STOREDSUM_TRIES; tries++) {
		struct ledger_op ops[2];
		struct storedsum sum;
		uint64_t now, version, want;
		char value[24];

		if (read_folder(c, &now, &version, e) < 0 || storedsum_read(c->s, c->whose, &sum, e) < 0)
			return -1;
		want = may_grow && now > bytes ? now : bytes;
		if (want > now && sum.bytes + (want - now) > c->limit) {
			err_set(e, ERR_LIMIT, "what tenant %s stores may take %" PRIu64 " bytes", c->whose, c->limit);
			return err_hint(e, "store fewer files, remove stored checkpoints, or [tenant] stored_bytes in berth.toml");
		}
		snprintf(value, sizeof(value), "%" PRIu64, want);
		ops[0] = (struct ledger_op){ .kind = LEDGER_SET, .key = c->key, .value = value, .version = version };
		ops[1] = storedsum_set(&sum, want, now);
		if (ledger_commit(c->s->ledger, ops, 2, NULL, e) == 0) {
			c->held = want;
			return 0;
		}
		if (e->code != ERR_BUSY)
			return -1;
	}
	return err_set(e, ERR_BUSY, "others store all the time; hint: try again");
}

/* In steps, but the last one as small as it must be. */
static int more(void *ctx, uint64_t bytes, struct err *e)
{
	struct counted *c = ctx;
	struct err ignored;

	if (bytes <= c->held)
		return 0;
	return count_as(c, bytes + STEP, 1, &ignored) == 0 ? 0 : count_as(c, bytes, 1, e);
}

/*
 * 1, with the folder locked in the ledger: of two that stored it at once, one could count down what the other
 * still sends.  0: it is the operator's, and counts nowhere.
 */
static int begin(struct service *s, const char *path, struct counted *c, struct err *e)
{
	static const char tree[] = "tenants/";
	const char *name = path + strlen(tree), *slash;
	char hex[65];
	uint64_t version;

	slash = strncmp(path, tree, strlen(tree)) ? NULL : strchr(name, '/');
	if (!slash)
		return 0;
	memset(c, 0, sizeof(*c));
	c->s = s;
	if ((size_t)(slash - name) >= sizeof(c->whose))
		return err_set(e, ERR_INVALID, "'%.80s' is not a tenant's folder", path);
	memcpy(c->whose, name, (size_t)(slash - name));
	if (storage_sha256(path, strlen(path), hex, e) < 0)
		return -1;
	snprintf(c->key, sizeof(c->key), "stored-folder/t/%s/%s", c->whose, hex);
	if (storedsum_limit(s, c->whose, &c->limit, e) < 0 || session_lock(s, c->key, &c->lock, e) < 0)
		return -1;
	if (read_folder(c, &c->before, &version, e) < 0) {
		session_unlock(s, c->key, c->lock);
		return -1;
	}
	c->held = c->before;
	return 1;
}

static int put_counted(struct counted *c, const char *path, int dir_fd, struct err *e)
{
	const struct storage_room room = { .more = more, .ctx = c };
	struct storage_stats st = { 0 };
	struct err ignored;

	if (storage_put_folder(c->s->storage, path, dir_fd, &room, &st, e) < 0) {
		/* unless the manifest came to the storage all the same: then it counts for too much until it is stored again */
		if (c->held != c->before && !st.may_be_there)
			count_as(c, c->before, 0, &ignored);
		return -1;
	}
	/* what could not be counted down is counted at the next time */
	if (c->held != st.kept)
		count_as(c, st.kept, 0, &ignored);
	return 0;
}

int storedfolder_put(struct service *s, const char *path, int dir_fd, struct err *e)
{
	struct storage_stats ignored = { 0 };
	struct counted c;
	int counts = begin(s, path, &c, e), r;

	if (counts < 1)
		return counts < 0 ? -1 : storage_put_folder(s->storage, path, dir_fd, NULL, &ignored, e);
	r = put_counted(&c, path, dir_fd, e);
	session_unlock(s, c.key, c.lock);
	return r;
}
