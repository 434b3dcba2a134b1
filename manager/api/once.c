/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/once.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/api/api.h"
#include "manager/host/labels.h"
#include "manager/host/record.h"
#include "manager/service/service.h"

#define BUCKETS 1024
#define TURN_LOOK_MS 10
#define OLD_LOOK_MS 50
/* A program that an earlier berthd started, and a pull with it, has ended by then. */
#define EARLIER_MS 600000
#define INDEX_MIN 16384

struct once_entry {
	struct once_entry *next;	/* of its bucket */
	struct once_entry *older, *newer;	/* among those that are done */
	char key[ONCE_SIZE], body[ONCE_SIZE];
	int done;
	struct once_made made;
};

/* A key that a sandbox carries. */
struct once_carried {
	struct once_carried *next;	/* of its bucket */
	char key[ONCE_SIZE], body[ONCE_SIZE];
	struct once_made made;
};

/*
 * The keys that sandboxes carry, of those that are not among the entries: read once, and from then
 * on each entry that is dropped goes here.  What has gone since is found out when its key comes, and
 * all of it when most may have gone, by reading again.
 */
struct once_index {
	pthread_mutex_t lock;	/* guards what follows */
	struct once_carried *bucket[BUCKETS];
	size_t count, max;	/* max 0: it was not read yet */
};

struct once_table {
	struct once_index index;
	pthread_mutex_t lock;	/* guards what follows; taken before that of index */
	struct once_entry *bucket[BUCKETS];
	struct once_entry *oldest, *newest;	/* that are done */
	size_t count;		/* of them */
	uint64_t began_ms;
};

struct once_table *once_new(void)
{
	struct once_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	pthread_mutex_init(&t->lock, NULL);
	pthread_mutex_init(&t->index.lock, NULL);
	t->began_ms = clock_ms();
	return t;
}

/* ---- the index, with its lock held ---- */

static unsigned once_bucket_of(const char *key)
{
	return (unsigned)strtoul((const char[]){ key[0], key[1], key[2], '\0' }, NULL, 16) % BUCKETS;
}

static void once_empty_index(struct once_index *x)
{
	size_t i;

	for (i = 0; i < BUCKETS; i++)
		while (x->bucket[i]) {
			struct once_carried *c = x->bucket[i];

			x->bucket[i] = c->next;
			free(c);
		}
	x->count = x->max = 0;
}

static struct once_carried **once_carried_at(struct once_index *x, const char *key)
{
	struct once_carried **at = &x->bucket[once_bucket_of(key)];

	while (*at && strcmp((*at)->key, key))
		at = &(*at)->next;
	return at;
}

/* -1 without memory: the index is read anew. */
static int once_carry(struct once_index *x, const char *key, const char *body, const struct once_made *made)
{
	struct once_carried **at = once_carried_at(x, key), *c;

	if (*at)
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c) {
		x->max = 0;
		return -1;
	}
	snprintf(c->key, sizeof(c->key), "%s", key);
	snprintf(c->body, sizeof(c->body), "%s", body);
	c->made = *made;
	*at = c;
	x->count++;
	return 0;
}

static void once_uncarry(struct once_index *x, const char *key)
{
	struct once_carried **at = once_carried_at(x, key), *c = *at;

	if (!c)
		return;
	*at = c->next;
	x->count--;
	free(c);
}

void once_free(struct once_table *t)
{
	size_t i;

	if (!t)
		return;
	for (i = 0; i < BUCKETS; i++)
		while (t->bucket[i]) {
			struct once_entry *x = t->bucket[i];

			t->bucket[i] = x->next;
			free(x);
		}
	once_empty_index(&t->index);
	pthread_mutex_destroy(&t->index.lock);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* ---- entries, with the lock held ---- */

static struct once_entry **once_bucket(struct once_table *t, const char *key)
{
	return &t->bucket[once_bucket_of(key)];
}

static struct once_entry *once_find(struct once_table *t, const char *key)
{
	struct once_entry *x;

	for (x = *once_bucket(t, key); x && strcmp(x->key, key); x = x->next)
		;
	return x;
}

static struct once_entry *once_add(struct once_table *t, const struct once *o)
{
	struct once_entry *x = calloc(1, sizeof(*x)), **at = once_bucket(t, o->key);

	if (!x)
		return NULL;
	memcpy(x->key, o->key, sizeof(x->key));
	memcpy(x->body, o->body, sizeof(x->body));
	x->next = *at;
	*at = x;
	return x;
}

static void once_drop(struct once_table *t, struct once_entry *x)
{
	struct once_entry **at = once_bucket(t, x->key);

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	free(x);
}

static void once_settle(struct once_table *t, struct once_entry *x, const struct once_made *made)
{
	struct once_entry *oldest = t->oldest;

	x->made = *made;
	x->done = 1;
	x->older = t->newest;
	if (t->newest)
		t->newest->newer = x;
	else
		t->oldest = x;
	t->newest = x;
	if (++t->count <= ONCE_MAX)
		return;
	t->oldest = oldest->newer;
	t->oldest->older = NULL;
	t->count--;
	pthread_mutex_lock(&t->index.lock);
	once_carry(&t->index, oldest->key, oldest->body, &oldest->made);
	pthread_mutex_unlock(&t->index.lock);
	once_drop(t, oldest);
}

/* ---- the key of a request ---- */

static int once_hash(const char *const *texts, char ret[ONCE_SIZE], struct err *e)
{
	unsigned char raw[EVP_MAX_MD_SIZE];
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	int good = c && EVP_DigestInit_ex(c, EVP_sha256(), NULL);

	/* with its NUL, so that no two lists of texts are one */
	for (; good && *texts; texts++)
		good = EVP_DigestUpdate(c, *texts, strlen(*texts) + 1);
	good = good && EVP_DigestFinal_ex(c, raw, NULL);
	EVP_MD_CTX_free(c);
	if (!good)
		return err_set(e, ERR_INTERNAL, "libcrypto made no digest");
	hex_format(ret, raw, (ONCE_SIZE - 1) / 2);
	return 0;
}

static int is_once_key(const char *key)
{
	const char *p;

	for (p = key; *p; p++)
		if (*p < '!' || *p > '~')
			return 0;
	return p > key && p - key <= ONCE_KEY_MAX;
}

/* 0 without a key. */
static int once_read_key(struct once *o, struct http_request *rq, struct err *e)
{
	const char *key = http_header(rq, "Idempotency-Key");
	autofree char *body = NULL;

	*o = (struct once){ .table = NULL };
	if (!key)
		return 0;
	if (!is_once_key(key))
		return err_set(e, ERR_INVALID, "the Idempotency-Key is not 1 to %d printable characters without blanks; hint: a new UUID "
			       "for each sandbox that is wanted", ONCE_KEY_MAX);
	body = json_dumps(http_json(rq), JSON_COMPACT | JSON_SORT_KEYS);
	if (!body)
		return err_nomem(e);
	if (once_hash((const char *const[]){ http_who(rq)->admin ? "admin" : "tenant", http_who(rq)->name, http_pattern(rq), key, NULL },
		      o->key, e) < 0 ||
	    once_hash((const char *const[]){ body, NULL }, o->body, e) < 0)
		return -1;
	snprintf(o->word, sizeof(o->word), "%s.%s", o->key, o->body);
	o->table = api_of(rq)->once;
	return 1;
}

static int once_differs(struct http_request *rq, struct err *e)
{
	http_error_status(rq, 422);
	return err_set(e, ERR_INVALID, "this Idempotency-Key came with another body before; hint: a new key for a new sandbox");
}

/* ---- what carries the key already ---- */

struct once_reading {
	struct once_index *index;
	const char *key;	/* the only one that is wanted; NULL: all */
	int failed;
};

/* word: the value of a sandbox's label, KEY.BODY. */
static int once_read_word(struct once_reading *r, const char *word, const struct once_made *made)
{
	char key[ONCE_SIZE];
	const char *dot = word ? strchr(word, '.') : NULL;

	if (!dot || (size_t)(dot - word) >= sizeof(key))
		return 0;
	snprintf(key, sizeof(key), "%.*s", (int)(dot - word), word);
	if (strlen(key) < 3 || (r->key && strcmp(key, r->key)))
		return 0;
	r->failed |= once_carry(r->index, key, dot + 1, made) < 0;
	return r->key != NULL;
}

static int look_at_once_record(void *ctx, const char *id, int kept, json_t *record)
{
	const char *name = json_string_value(json_object_get(record, "name"));
	struct once_made made = { .id = "" };

	(void)kept;
	/* of the manager's, the record in its store says whose it is */
	if (json_object_get(record_labels(record), LABEL_MANAGED))
		return 0;
	snprintf(made.id, sizeof(made.id), "%s", id);
	snprintf(made.name, sizeof(made.name), "%s", name ? name : "");
	return once_read_word(ctx, json_string_value(json_object_get(record_labels(record), LABEL_REQUEST)), &made);
}

static int look_at_once_request(void *ctx, const char *name, const char *word)
{
	struct once_made made = { .id = "" };

	snprintf(made.name, sizeof(made.name), "%s", name);
	return once_read_word(ctx, word, &made);
}

/* Reads the keys of all sandboxes, or the one that is wanted. */
static int once_read_all(struct once_reading *r, struct http_request *rq, struct err *e)
{
	struct box b;
	int result = box_open(&b, rq, e);

	if (result == 0)
		result = registry_list(&b.registry, 1, look_at_once_record, r, e);
	box_close(&b);
	if (result == 0 && api_of(rq)->manager)
		result = service_each_request(api_of(rq)->manager, look_at_once_request, r, e);
	return result < 0 || !r->failed ? result < 0 ? -1 : 0 : err_nomem(e);
}

static int once_is_there(struct http_request *rq, const struct once_made *made)
{
	struct err ignored;
	struct box b;
	int there = 0;

	if (!made->id[0])
		return api_of(rq)->manager && service_has(api_of(rq)->manager, made->name);
	if (box_open(&b, rq, &ignored) == 0) {
		autoclose int kept = registry_kept_dir(&b.registry, made->id);

		there = kept >= 0 || path_has(b.registry.sandboxes_fd, made->id);
	}
	box_close(&b);
	return there;
}

/* What programs of an earlier berthd still make would be missed by an index that is read now. */
static int once_is_early(const struct once_table *t)
{
	return clock_ms() - t->began_ms < EARLIER_MS && service_is_earlier_making();
}

/*
 * Reads the index where it has not been read, or may be mostly of sandboxes that have gone; early:
 * only the wanted key, whose own program has ended. The index's lock is held.
 */
static int once_fill_index(struct once_index *x, const struct once *o, int early, struct http_request *rq, struct err *e)
{
	struct once_reading r = { .index = x };

	if (x->max && x->count < x->max)
		return 0;
	if (early) {
		r.key = o->key;
		return once_read_all(&r, rq, e);
	}
	once_empty_index(x);
	if (once_read_all(&r, rq, e) < 0)
		return -1;
	x->max = 2 * x->count < INDEX_MIN ? INDEX_MIN : 2 * x->count;
	return 0;
}

static int once_is_read(struct once_index *x)
{
	int read;

	pthread_mutex_lock(&x->lock);
	read = x->max > 0;
	pthread_mutex_unlock(&x->lock);
	return read;
}

static int once_search(const struct once *o, struct http_request *rq, struct once_made *ret, struct err *e)
{
	struct once_index *x = &o->table->index;
	char body[ONCE_SIZE] = "";
	const int early = !once_is_read(x) && once_is_early(o->table);
	struct once_carried *c;
	int r;

	*ret = (struct once_made){ .id = "" };
	while (early && service_is_making(o->key))
		if (http_wait(rq, -1, 0, OLD_LOOK_MS, e) < 0)
			return -1;
	pthread_mutex_lock(&x->lock);
	r = once_fill_index(x, o, early, rq, e);
	c = r < 0 ? NULL : *once_carried_at(x, o->key);
	if (c) {
		*ret = c->made;
		memcpy(body, c->body, sizeof(body));
		r = once_is_there(rq, ret);
		if (!r)
			once_uncarry(x, o->key);
	}
	pthread_mutex_unlock(&x->lock);
	return r > 0 && strcmp(body, o->body) ? once_differs(rq, e) : r;
}

/* ---- turns ---- */

enum once_step { ONCE_FAILED = -1, ONCE_DONE = 1, ONCE_WAIT, ONCE_SEARCH };

static enum once_step once_look(struct once *o, struct http_request *rq, struct once_made *ret, struct err *e)
{
	struct once_table *t = o->table;
	struct once_entry *x;
	enum once_step step;

	pthread_mutex_lock(&t->lock);
	x = once_find(t, o->key);
	step = !x ? ONCE_SEARCH : strcmp(x->body, o->body) ? ONCE_FAILED : x->done ? ONCE_DONE : ONCE_WAIT;
	if (step == ONCE_DONE)
		*ret = x->made;
	else if (step == ONCE_FAILED)
		once_differs(rq, e);
	else if (step != ONCE_WAIT && !once_add(t, o))
		step = (enum once_step)err_nomem(e);
	pthread_mutex_unlock(&t->lock);
	return step;
}

int once_begin(struct once *o, struct http_request *rq, struct once_made *ret, struct err *e)
{
	enum once_step step;
	int r = once_read_key(o, rq, e);

	if (r <= 0)
		return r;
	while ((step = once_look(o, rq, ret, e)) == ONCE_WAIT)
		if (http_wait(rq, -1, 0, TURN_LOOK_MS, e) < 0) {
			step = ONCE_FAILED;
			break;
		}
	r = step == ONCE_SEARCH ? once_search(o, rq, ret, e) : (int)step;
	if (step == ONCE_SEARCH && r != 0)
		once_end(o, r > 0 ? ret : NULL);
	if (r != 0)
		o->table = NULL;
	return r;
}

void once_end(struct once *o, const struct once_made *made)
{
	struct once_entry *x;

	if (!o->table)
		return;
	pthread_mutex_lock(&o->table->lock);
	x = once_find(o->table, o->key);
	if (x && made)
		once_settle(o->table, x, made);
	else if (x)
		once_drop(o->table, x);
	pthread_mutex_unlock(&o->table->lock);
	o->table = NULL;
}

int once_replayed(struct http_request *rq, struct err *e)
{
	http_audit(rq, "replayed", "true");
	return http_reply_header(rq, "Idempotency-Replayed", "true", e);
}
