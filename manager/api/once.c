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
#include "manager/api/api.h"
#include "manager/host/labels.h"
#include "manager/host/record.h"
#include "manager/service/service.h"

#define BUCKETS 1024
#define TURN_LOOK_MS 10
#define OLD_LOOK_MS 50
/* A program that an earlier berthd started, and a pull with it, has ended by then. */
#define EARLIER_MS 600000

struct once_entry {
	struct once_entry *next;	/* of its bucket */
	struct once_entry *older, *newer;	/* among those that are done */
	char key[ONCE_SIZE], body[ONCE_SIZE];
	int done;
	struct once_made made;
};

struct once_table {
	pthread_mutex_t lock;	/* guards what follows */
	struct once_entry *bucket[BUCKETS];
	struct once_entry *oldest, *newest;	/* that are done */
	size_t count;		/* of them */
	int forgot;		/* a key was dropped for a newer one */
	uint64_t began_ms;
};

struct once_table *once_new(void)
{
	struct once_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	pthread_mutex_init(&t->lock, NULL);
	t->began_ms = clock_ms();
	return t;
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
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* ---- entries, with the lock held ---- */

static struct once_entry **once_bucket(struct once_table *t, const char *key)
{
	return &t->bucket[strtoul((const char[]){ key[0], key[1], key[2], '\0' }, NULL, 16) % BUCKETS];
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
	t->forgot = 1;
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

struct once_search {
	const char *key;
	char body[ONCE_SIZE];
	struct once_made *made;
};

/* 1: it is the one.  word: the value of its label. */
static int once_matches(struct once_search *s, const char *word)
{
	const size_t n = strlen(s->key);

	if (!word || strncmp(word, s->key, n) || word[n] != '.')
		return 0;
	snprintf(s->body, sizeof(s->body), "%s", word + n + 1);
	return 1;
}

static int look_at_once_record(void *ctx, const char *id, int kept, json_t *record)
{
	struct once_search *s = ctx;
	const char *name = json_string_value(json_object_get(record, "name"));

	(void)kept;
	/* of the manager's, the record in its store says whose it is */
	if (json_object_get(record_labels(record), LABEL_MANAGED) ||
	    !once_matches(s, json_string_value(json_object_get(record_labels(record), LABEL_REQUEST))))
		return 0;
	snprintf(s->made->id, sizeof(s->made->id), "%s", id);
	snprintf(s->made->name, sizeof(s->made->name), "%s", name ? name : "");
	return 1;
}

static int once_search_registry(struct once_search *s, struct http_request *rq, struct err *e)
{
	struct box b;
	int r = box_open(&b, rq, e);

	if (r == 0)
		r = registry_list(&b.registry, 1, look_at_once_record, s, e);
	box_close(&b);
	return s->made->id[0] ? 1 : r;
}

/* An earlier berthd's program that makes the sandbox is let end first. */
static int once_await_earlier(const struct once *o, struct http_request *rq, struct err *e)
{
	while (service_is_making(o->key))
		if (http_wait(rq, -1, 0, OLD_LOOK_MS, e) < 0)
			return -1;
	return 0;
}

static int once_search(const struct once *o, struct http_request *rq, struct once_made *ret, struct err *e)
{
	struct once_search s = { .key = o->key, .made = ret };
	char word[ONCE_WORD_SIZE];
	int r;

	*ret = (struct once_made){ .id = "" };
	if (once_await_earlier(o, rq, e) < 0)
		return -1;
	r = once_search_registry(&s, rq, e);
	if (r == 0 && api_of(rq)->manager) {
		r = service_find_request(api_of(rq)->manager, o->key, ret->name, word, sizeof(word), e);
		if (r > 0)
			once_matches(&s, word);
	}
	return r > 0 && strcmp(s.body, o->body) ? once_differs(rq, e) : r;
}

/* ---- turns ---- */

enum once_step { ONCE_FAILED = -1, ONCE_TURN, ONCE_DONE, ONCE_WAIT, ONCE_SEARCH };

static enum once_step once_look(struct once *o, struct http_request *rq, struct once_made *ret, struct err *e)
{
	struct once_table *t = o->table;
	struct once_entry *x;
	enum once_step step;

	pthread_mutex_lock(&t->lock);
	x = once_find(t, o->key);
	if (x)
		step = strcmp(x->body, o->body) ? ONCE_FAILED : x->done ? ONCE_DONE : ONCE_WAIT;
	else
		step = t->forgot || clock_ms() - t->began_ms < EARLIER_MS ? ONCE_SEARCH : ONCE_TURN;
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
