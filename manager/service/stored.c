/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of the storage and its owners: checkpoints in pieces, folders of workspaces, and the
 * sums of both.
 */
#include "manager/service/stored.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "manager/host/tenant.h"
#include "manager/objects/storage.h"
#include "manager/service/state.h"

/* ---- what a tenant, and all together, have there ---- */

int storedsum_read(struct service *s, const char *whose, struct storedsum *ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT(32);
	int got;

	memset(ret, 0, sizeof(*ret));
	snprintf(ret->key, sizeof(ret->key), "stored-bytes/%s%s", whose[0] ? "t/" : "all", whose);
	got = ledger_get(s->ledger, ret->key, &b, &ret->version, e);
	if (got < 0)
		return -1;
	if (!got) {
		ret->version = LEDGER_ABSENT;
		return 0;
	}
	return buf_add(&b, "", 1, e) < 0 ? -1 : num_u64(b.data, "bytes in the storage", 0, INT64_MAX, &ret->bytes, e);
}

struct ledger_op storedsum_set(struct storedsum *t, uint64_t more, uint64_t less)
{
	const uint64_t v = t->bytes + more;

	snprintf(t->value, sizeof(t->value), "%" PRIu64, v > less ? v - less : 0);
	return (struct ledger_op){ .kind = LEDGER_SET, .key = t->key, .value = t->value, .version = t->version };
}

int storedsum_limit(struct service *s, const char *whose, uint64_t *ret, struct err *e)
{
	struct tenant t;

	if (tenant_load(&t, &s->config, whose, e) < 0)
		return -1;
	*ret = t.stored_bytes;
	return 0;
}

/* ---- checkpoints ---- */

#define PREFIX "stored/"
#define STORED_RECORD_MAX 65536
#define TRIES STOREDSUM_TRIES
#define KEY_SIZE 200
#define WHOSE_SIZE 65
#define PLACE_SIZE 400

struct stored {
	struct service *s;
	char key[KEY_SIZE], whose[WHOSE_SIZE];
	json_t *doc;
	uint64_t version, pieces;
	uint64_t limits[2]; /* limits of the owner, and of all; 0: none */
};

static int check_storage_given(const struct service *s, struct err *e)
{
	if (s->storage)
		return 0;
	err_set(e, ERR_UNSUPPORTED, "there is no storage for checkpoints");
	return err_hint(e, "[storage] url in berth.toml");
}

static int stored_key_of(const char *whose, const char *name, char ret[KEY_SIZE], struct err *e)
{
	if (whose[0] && (!path_is_name(whose) || strlen(whose) >= WHOSE_SIZE)) {
		err_set(e, ERR_INVALID, "'%.80s' is not a tenant's name", whose);
		return err_hint(e, "a-z 0-9 _ . -, at most 64 of them");
	}
	if (!path_is_name(name) || strlen(name) > 64) {
		err_set(e, ERR_INVALID, "'%.80s' is not a name for a stored checkpoint", name);
		return err_hint(e, "a-z 0-9 _ . -, at most 64 of them");
	}
	snprintf(ret, KEY_SIZE, PREFIX "%s%s%s/%s", whose[0] ? "t" : "o", whose[0] ? "/" : "",
		 whose, name);
	return 0;
}

static const char *stored_text_of(const json_t *record, const char *member)
{
	const char *s = json_string_value(json_object_get(record, member));

	return s ? s : "";
}

static uint64_t stored_count_of(const json_t *record, const char *member)
{
	return (uint64_t)json_integer_value(json_object_get(record, member));
}

/* Gives the place of its pieces. */
static int folder_of(const json_t *record, char ret[PLACE_SIZE], struct err *e)
{
	const char *whose = stored_text_of(record, "tenant");

	snprintf(ret, PLACE_SIZE, "checkpoints/%s%s%s/%s/%s", whose[0] ? "t" : "o",
		 whose[0] ? "/" : "", whose, stored_text_of(record, "name"), stored_text_of(record, "upload"));
	return storage_check_path(ret, e);
}

/* The piece's key in the storage. */
static int stored_piece_key(const json_t *record, uint64_t i, char ret[PLACE_SIZE], struct err *e)
{
	if (folder_of(record, ret, e) < 0)
		return -1;
	snprintf(ret + strlen(ret), PLACE_SIZE - strlen(ret), "/%06" PRIu64, i);
	return 0;
}

static int delete_key(void *ctx, const char *key, struct err *e)
{
	return storage_delete(((struct service *)ctx)->storage, key, e);
}

/* Deletes the pieces that the record counts, and one that a killed berthd had not finished. */
static int delete_pieces(struct service *s, const json_t *record, uint64_t pieces, struct err *e)
{
	char place[PLACE_SIZE];
	uint64_t i;

	for (i = 0; i < pieces; i++)
		if (stored_piece_key(record, i, place, e) < 0 || storage_delete(s->storage, place, e) < 0)
			return -1;
	return folder_of(record, place, e) < 0 ?
		       -1 :
		       storage_each(s->storage, place, delete_key, s, e);
}

/* ---- sums --------------------------------------------------------------------------- */

struct sums {
	struct storedsum of[2];
	size_t n;
};

/* Reads the sum of all, and of the owner if that is a tenant. */
static int read_sums(struct service *s, const char *whose, struct sums *ret, struct err *e)
{
	ret->n = whose[0] ? 2 : 1;
	return storedsum_read(s, "", &ret->of[0], e) < 0 || (whose[0] && storedsum_read(s, whose, &ret->of[1], e) < 0) ? -1 : 0;
}

static int check_stored_limits(const struct stored *u, const struct sums *t, struct err *e)
{
	if (t->n > 1 && t->of[1].bytes + STORED_PIECE > u->limits[1]) {
		err_set(e, ERR_LIMIT,
			"the stored data of tenant %s may take %" PRIu64 " bytes", u->whose,
			u->limits[1]);
		return err_hint(e, "remove some, or [tenant] stored_bytes in berth.toml");
	}
	if (u->limits[0] && t->of[0].bytes + STORED_PIECE > u->limits[0]) {
		err_set(e, ERR_LIMIT, "the storage has no room for more checkpoints");
		return err_hint(e, "remove some, or [storage] checkpoint_bytes in berth.toml");
	}
	return 0;
}

/* Puts into ops the sums with so many bytes more, or less. */
static size_t set_sums(struct sums *t, uint64_t more, uint64_t less, struct ledger_op *ops)
{
	size_t i;

	for (i = 0; i < t->n; i++)
		ops[i] = storedsum_set(&t->of[i], more, less);
	return t->n;
}

/* ---- records ------------------------------------------------------------------------ */

static int load_stored(struct service *s, const char *key, json_t **ret, uint64_t *ret_version,
		struct err *e)
{
	autobuf struct buf b = BUF_INIT(STORED_RECORD_MAX);
	int got = ledger_get(s->ledger, key, &b, ret_version, e);

	if (got < 0)
		return -1;
	if (!got)
		return err_set(e, ERR_NOT_FOUND, "no checkpoint is stored as '%.64s'",
			       strrchr(key, '/') + 1);
	*ret = json_parse(b.data ? b.data : "", b.len, STORED_RECORD_MAX, key, e);
	return *ret ? 0 : -1;
}

/* The record is not the one that we know. */
static int tell_other(const struct stored *u, struct err *e)
{
	if (u->version != LEDGER_ABSENT)
		return err_set(e, ERR_NOT_FOUND, "the checkpoint was removed while it was stored");
	err_set(e, ERR_EXISTS, "a checkpoint is stored under that name");
	return err_hint(e, "another name, or remove that one");
}

/* Writes it, with the sums when more or less than nothing is to be counted. */
static int save_stored(struct stored *u, uint64_t more, struct err *e)
{
	struct ledger_op ops[3];
	autofree char *text = NULL;
	struct sums t;
	int tries;

	json_object_set_new(u->doc, "pieces", json_integer((json_int_t)u->pieces));
	text = json_dumps(u->doc, JSON_COMPACT);
	if (!text)
		return err_nomem(e);
	for (tries = 0; tries < TRIES; tries++) {
		size_t n = 1;
		uint64_t now;
		json_t *other = NULL;

		ops[0] = (struct ledger_op){ .kind = LEDGER_SET, .key = u->key, .value = text,
					     .version = u->version };
		if (more) {
			if (read_sums(u->s, u->whose, &t, e) < 0 || check_stored_limits(u, &t, e) < 0)
				return -1;
			n += set_sums(&t, more, 0, ops + 1);
		}
		if (ledger_commit(u->s->ledger, ops, n, &u->version, e) == 0)
			return 0;
		if (e->code != ERR_BUSY)
			return -1;
		/* the other sum, or the record itself */
		now = LEDGER_ABSENT;
		if (load_stored(u->s, u->key, &other, &now, e) < 0 && e->code != ERR_NOT_FOUND)
			return -1;
		json_decref(other);
		if (now != u->version)
			return tell_other(u, e);
	}
	return err_set(e, ERR_BUSY, "others store checkpoints all the time; hint: try again");
}

/* The record goes, with what it counts for.  Another may do the same: it is done once. */
static int forget_stored(struct service *s, const char *key, const json_t *doc, uint64_t version,
		  struct err *e)
{
	const uint64_t bytes = stored_count_of(doc, "pieces") * STORED_PIECE;
	struct ledger_op ops[3];
	struct sums t;
	int tries;

	for (tries = 0; tries < TRIES; tries++) {
		json_t *now = NULL;
		int other;

		ops[0] = (struct ledger_op){ .kind = LEDGER_DELETE, .key = key,
					     .version = version };
		if (read_sums(s, stored_text_of(doc, "tenant"), &t, e) < 0)
			return -1;
		if (ledger_commit(s->ledger, ops, 1 + set_sums(&t, 0, bytes, ops + 1), NULL, e) ==
		    0)
			return 0;
		if (e->code != ERR_BUSY)
			return -1;
		if (load_stored(s, key, &now, &version, e) < 0)
			return e->code == ERR_NOT_FOUND ? 0 : -1;
		other = strcmp(stored_text_of(now, "upload"), stored_text_of(doc, "upload"));
		json_decref(now);
		if (other) /* it is gone, and the name belongs to another */
			return 0;
	}
	return -1;
}

/* Removes it, its pieces first: a record that stays shows which could not be removed. */
static int remove_stored(struct service *s, const char *key, json_t *doc, uint64_t version,
		     struct err *e)
{
	struct stored u = { s, "", "", doc, version, stored_count_of(doc, "pieces"), { 0, 0 } };

	snprintf(u.key, sizeof(u.key), "%s", key);
	json_object_set_new(doc, "state", json_string("removing"));
	if (save_stored(&u, 0, e) < 0)
		return -1;
	if (delete_pieces(s, doc, u.pieces, e) < 0)
		return -1;
	return forget_stored(s, key, doc, u.version, e);
}

/* ---- one that is sent ------------------------------------------------------------------ */

static int read_stored_limits(struct stored *u, struct err *e)
{
	struct service *s = u->s;

	pthread_rwlock_rdlock(&s->conf_lock);
	u->limits[0] = s->conf.storage_checkpoint_bytes;
	pthread_rwlock_unlock(&s->conf_lock);
	return u->whose[0] ? storedsum_limit(s, u->whose, &u->limits[1], e) : 0;
}

static void stored_free(struct stored *u)
{
	json_decref(u->doc);
	free(u);
}

int stored_begin(struct service *s, const char *whose, const char *name, struct stored **ret,
		 struct err *e)
{
	struct stored *u;
	uint64_t chance;
	char upload[24], key[SEAL_KEY_SIZE];
	int result;

	if (check_storage_given(s, e) < 0)
		return -1;
	if (getrandom(&chance, sizeof(chance), 0) != (ssize_t)sizeof(chance))
		return err_sys(e, "get random bytes");
	u = calloc(1, sizeof(*u));
	if (!u)
		return err_nomem(e);
	u->s = s;
	snprintf(u->whose, sizeof(u->whose), "%s", whose);
	snprintf(upload, sizeof(upload), "%016" PRIx64, chance);
	result = stored_key_of(whose, name, u->key, e);
	if (result == 0)
		result = seal_key(key, e);
	if (result == 0)
		result = read_stored_limits(u, e);
	if (result == 0) {
		u->doc = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:I}", "name", name, "tenant", whose,
				   "state", "storing", "upload", upload, "seal_key", key, "home", s->home,
				   "berthd", (json_int_t)s->started_ms, "created_ms",
				   (json_int_t)clock_wall_ms());
		result = u->doc ? save_stored(u, 0, e) : err_nomem(e);
	}
	if (result == 0) {
		*ret = u;
		return 0;
	}
	stored_free(u);
	return -1;
}

int stored_add(struct stored *u, const void *data, size_t n, struct err *e)
{
	autobuf struct buf piece = BUF_INIT(STORED_OBJECT);
	char place[PLACE_SIZE];
	int result;

	if (stored_piece_key(u->doc, u->pieces, place, e) < 0 ||
	    seal_add(stored_text_of(u->doc, "seal_key"), u->pieces, data, n, &piece, e) < 0)
		return -1;
	u->pieces++;
	json_object_set_new(u->doc, "bytes",
			    json_integer((json_int_t)(stored_count_of(u->doc, "bytes") + n)));
	result = save_stored(u, STORED_PIECE, e);
	if (result < 0)
		u->pieces--;
	return result < 0 ? -1 : storage_put(u->s->storage, place, piece.data, piece.len, e);
}

json_t *stored_end(struct stored *u, json_t *members, struct err *e)
{
	json_t *ret = NULL;

	json_object_update(u->doc, members);
	json_decref(members);
	json_object_set_new(u->doc, "state", json_string("stored"));
	if (save_stored(u, 0, e) < 0) {
		stored_abort(u);
		return NULL;
	}
	ret = json_incref(u->doc);
	stored_free(u);
	return ret;
}

void stored_abort(struct stored *u)
{
	struct err ignored;

	if (!u)
		return;
	json_object_set_new(u->doc, "pieces", json_integer((json_int_t)u->pieces));
	/* if another process removes it, the last piece may have come after that */
	if (remove_stored(u->s, u->key, u->doc, u->version, &ignored) < 0) {
		delete_pieces(u->s, u->doc, u->pieces, &ignored);
		atomic_store(&u->s->stored_looked, 0);
	}
	stored_free(u);
}

/* ---- those that are there -------------------------------------------------------------- */

struct listing {
	const char *whose;
	json_t *list;
};

static int add_listed(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct listing *l = ctx;
	struct err ignored;
	json_t *one = json_parse(value, strlen(value), STORED_RECORD_MAX, key, &ignored);

	(void)version;
	if (one && (!l->whose || !strcmp(l->whose, stored_text_of(one, "tenant"))))
		json_array_append(l->list, one);
	json_decref(one);
	return 0;
}

json_t *stored_list(struct service *s, const char *whose, struct err *e)
{
	struct listing l = { .whose = whose, .list = json_array() };
	char prefix[KEY_SIZE];

	snprintf(prefix, sizeof(prefix), PREFIX "%s%s%s", !whose ? "" : whose[0] ? "t/" : "o/",
		 whose ? whose : "", whose && whose[0] ? "/" : "");
	if (check_storage_given(s, e) == 0 && ledger_scan(s->ledger, prefix, add_listed, &l, e) == 0)
		return l.list;
	json_decref(l.list);
	return NULL;
}

json_t *stored_find(struct service *s, const char *whose, const char *name, struct err *e)
{
	char key[KEY_SIZE];
	uint64_t version;
	json_t *doc;

	if (check_storage_given(s, e) < 0 || stored_key_of(whose, name, key, e) < 0 ||
	    load_stored(s, key, &doc, &version, e) < 0)
		return NULL;
	if (!strcmp(stored_text_of(doc, "state"), "stored"))
		return doc;
	err_set(e, ERR_NOT_FOUND, "checkpoint '%.64s' is not stored: it is %s", name,
		stored_text_of(doc, "state"));
	json_decref(doc);
	return NULL;
}

static int check_seal(struct service *s, const json_t *record, uint64_t i, struct buf *piece,
		      struct err *e)
{
	const char *key = stored_text_of(record, "seal_key");
	int any;

	if (key[0])
		return seal_take(key, i, piece, e);
	pthread_rwlock_rdlock(&s->conf_lock);
	any = s->conf.storage_accept_unsigned;
	pthread_rwlock_unlock(&s->conf_lock);
	if (any)
		return 0;
	err_set(e, ERR_CORRUPT, "an older berth stored it, and nothing says what it was");
	return err_hint(e, "if nobody else can write the storage, [storage] accept_unsigned = true in berth.toml");
}

int stored_piece(struct service *s, const json_t *record, uint64_t i, struct buf *ret,
		 struct err *e)
{
	char place[PLACE_SIZE];
	int got;

	if (i >= stored_count_of(record, "pieces"))
		return 0;
	if (stored_piece_key(record, i, place, e) < 0)
		return -1;
	got = storage_get(s->storage, place, ret, e);
	if (got > 0 && check_seal(s, record, i, ret, e) < 0)
		return err_wrap(e, "piece %" PRIu64 " of checkpoint '%.64s'", i, stored_text_of(record, "name"));
	return got ? got :
		     err_set(e, ERR_NOT_FOUND,
			     "piece %" PRIu64 " of checkpoint '%.64s' is not in the storage", i,
			     stored_text_of(record, "name"));
}

int stored_remove(struct service *s, const char *whose, const char *name, struct err *e)
{
	char key[KEY_SIZE];
	int tries = 0, r;

	if (check_storage_given(s, e) < 0 || stored_key_of(whose, name, key, e) < 0)
		return -1;
	do { /* again if another process has added a piece, or removes it, too */
		autojson json_t *doc = NULL;
		uint64_t version;

		if (load_stored(s, key, &doc, &version, e) < 0)
			return -1;
		r = remove_stored(s, key, doc, version, e);
	} while (r < 0 && e->code == ERR_NOT_FOUND && ++tries < TRIES);
	return r;
}

/* Tells whether it is of this state directory, and no running berthd sends it. */
static int is_stored_left(const struct service *s, const json_t *record)
{
	const char *state = stored_text_of(record, "state");

	return !strcmp(stored_text_of(record, "home"), s->home) &&
	       (!strcmp(state, "removing") ||
		(!strcmp(state, "storing") && stored_count_of(record, "berthd") != s->started_ms));
}

void stored_look(struct service *s)
{
	autojson json_t *all = NULL;
	struct err e;
	json_t *one;
	size_t i;

	/* there can be new ones only after a start, or an error */
	if (!s->storage || atomic_exchange(&s->stored_looked, 1))
		return;
	all = stored_list(s, NULL, &e);
	if (!all)
		atomic_store(&s->stored_looked, 0);
	json_array_foreach (all, i, one)
		if (is_stored_left(s, one) &&
		    stored_remove(s, stored_text_of(one, "tenant"), stored_text_of(one, "name"), &e) < 0 &&
		    e.code != ERR_NOT_FOUND)
			atomic_store(&s->stored_looked, 0);
}

/* ---- folders of workspaces ---- */

#define STEP (64u << 20)	/* bytes that are counted at once: a write of the ledger each */

struct counted {
	struct service *s;
	char whose[65], key[200];
	uint64_t limit;
	uint64_t before, held;	/* the bytes that it counted for, and counts for now */
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
			err_set(e, ERR_LIMIT, "the stored data of tenant %s may take %" PRIu64 " bytes",
				c->whose, c->limit);
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

/* Counts in steps, but the last one as small as it must be. */
static int more(void *ctx, uint64_t bytes, struct err *e)
{
	struct counted *c = ctx;
	struct err ignored;

	if (bytes <= c->held)
		return 0;
	return count_as(c, bytes + STEP, 1, &ignored) == 0 ? 0 : count_as(c, bytes, 1, e);
}

/*
 * Returns 1 with the folder locked in the ledger: of two that stored it at once, one could count
 * down bytes that the other still sends. 0: it is the operator's, and is not counted.
 */
static int begin_counted_folder(struct service *s, const char *path, struct counted *c, struct err *e)
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
	/* bytes that could not be counted down are counted at the next time */
	if (c->held != st.kept)
		count_as(c, st.kept, 0, &ignored);
	return 0;
}

int storedfolder_put(struct service *s, const char *path, int dir_fd, struct err *e)
{
	struct storage_stats ignored = { 0 };
	struct counted c;
	int counts = begin_counted_folder(s, path, &c, e), r;

	if (counts < 1)
		return counts < 0 ? -1 : storage_put_folder(s->storage, path, dir_fd, NULL, &ignored, e);
	r = put_counted(&c, path, dir_fd, e);
	session_unlock(s, c.key, c.lock);
	return r;
}
