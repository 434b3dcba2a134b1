/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /v1/sandboxes: the records of all sandboxes that the caller may see, with what their keepers say.
 *
 * berthd keeps the text of each sandbox as the list shows it (boxindex.h). The text is valid
 * as long as the file of the record is the same and, for a running sandbox, as long as its keeper
 * notes that nothing in it changes (host/ranges.h). So a list reads again only what has changed.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/box.h"
#include "manager/api/boxindex.h"
#include "manager/host/filter.h"
#include "manager/host/names.h"
#include "manager/host/ranges.h"
#include "manager/host/record.h"
#include "manager/keeper/pings.h"

#define FRESH_MS PINGS_REMEMBERED_MS
#define STALE_MS 60000	/* no keeper's answer is older */
#define AGAIN_MAX 32	/* keepers that one list asks again although nothing has changed */
#define LIST_TEXT_MAX (256u << 20)
#define LIMIT_MAX 10000

static const char *const live_keys[] = {
	"idle_ms",
	"health",
	"busy",
	"commands",
	"sessions",
	"uptime_ms",
	"cpu_ms",
	"memory_bytes",
	"peak_memory_bytes",
	"pids",
	"oom_kills",
	"read_bytes",
	"write_bytes",
	"memory_limit_bytes",
	"cpu_limit_milli",
	"pids_limit",
};

void boxlist_add_live(json_t *record, const json_t *answer)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(live_keys); i++)
		json_object_set(record, live_keys[i], json_object_get(answer, live_keys[i]));
}

/* ---- one list ---- */

struct item {
	json_t *record;		/* NULL: its text is known */
	size_t at, len;		/* in known */
	struct boxindex_stamp stamp;
	int kept;
};

struct boxlist {
	struct box *box;
	struct boxindex *index;	/* NULL: this caller's list is not remembered */
	struct filter filter;
	size_t limit;		/* 0: none */
	struct range_note *notes;
	size_t note_count;
	struct item *items;
	size_t count, cap;
	struct buf known;
	struct boxindex_stamp stamp;	/* of the file that is looked at */
	unsigned again;
	uint64_t now;
	char last[65];
	int more;		/* the next sandbox did not fit any more */
	struct err *e;
};

static void set_stamp(struct boxindex_stamp *s, const struct stat *st)
{
	memset(s, 0, sizeof(*s));	/* compared as bytes */
	s->ino = st->st_ino;
	s->size = st->st_size;
	s->mtime.tv_sec = st->st_mtim.tv_sec;
	s->mtime.tv_nsec = st->st_mtim.tv_nsec;
	s->ctime.tv_sec = st->st_ctim.tv_sec;
	s->ctime.tv_nsec = st->st_ctim.tv_nsec;
}

/* Room for one more: NULL, with l->more or the error. */
static struct item *add_item(struct boxlist *l, const char *id, int kept)
{
	struct item *i;

	if (l->limit && l->count == l->limit) {
		l->more = 1;
		return NULL;
	}
	if (l->count == l->cap) {
		void *more = realloc(l->items, (l->cap + 256) * sizeof(*l->items));

		if (!more) {
			err_nomem(l->e);
			return NULL;
		}
		l->items = more;
		l->cap += 256;
	}
	snprintf(l->last, sizeof(l->last), "%s", id);
	i = &l->items[l->count++];
	*i = (struct item){ .kept = kept, .stamp = l->stamp };
	return i;
}

static int is_same_note(const struct boxindex_entry *n, const struct range_note *note)
{
	return note && note->standing == n->standing && note->since[0] == n->since[0] && note->since[1] == n->since[1];
}

/* Tells whether the entry still says what is so. */
static int is_valid(struct boxlist *l, const struct boxindex_entry *n, int kept)
{
	uint64_t age = l->now - n->at_ms;

	if (n->kept != kept || memcmp(&n->stamp, &l->stamp, sizeof(n->stamp)) != 0)
		return 0;
	if (!n->asked)
		return 1;
	if (age >= STALE_MS || !is_same_note(n, pings_note(l->notes, l->note_count, n->id)))
		return 0;
	if (age < FRESH_MS || l->again == AGAIN_MAX)
		return 1;
	l->again++;
	return 0;
}

static int add_known_text(struct buf *b, const struct boxindex_entry *n, uint64_t now, struct err *e)
{
	if (buf_add(b, n->text, n->len, e) < 0)
		return -1;
	return !n->asked ? buf_adds(b, "}", e) :
			   buf_addf(b, e, ",\"idle_ms\":%lld,\"uptime_ms\":%lld}",
				  (long long)(now < n->since_ms ? 0 : now - n->since_ms),
				  (long long)(n->uptime_ms + (json_int_t)(now - n->at_ms)));
}

static int is_in_index(void *ctx, const char *id, int kept, const struct stat *record)
{
	struct boxlist *l = ctx;
	struct boxindex_entry *n;
	struct item *i;
	int known = 0;

	set_stamp(&l->stamp, record);
	if (!l->index)
		return 0;
	pthread_mutex_lock(&l->index->lock);
	n = *boxindex_place(l->index, id);
	if (n && is_valid(l, n, kept) && (!l->limit || l->count < l->limit) && (i = add_item(l, id, kept))) {
		n->used_ms = l->now;
		i->at = l->known.len;
		known = add_known_text(&l->known, n, l->now, l->e) == 0;
		i->len = l->known.len - i->at;
		l->count -= !known;
	}
	pthread_mutex_unlock(&l->index->lock);
	return known;
}

static int add_box_record(void *ctx, const char *id, int kept, json_t *record)
{
	struct boxlist *l = ctx;
	struct item *i;

	if (!box_allowed(l->box, id))
		return 0;
	if (kept)
		record_settle_kept(record);
	if (!filter_matches(&l->filter, record))
		return 0;
	i = add_item(l, id, kept);
	if (i)
		i->record = json_incref(record);
	return i ? 0 : l->more ? 1 : -1;
}

/* Asks the keepers of those that are not known. */
static int ask_unknown(struct boxlist *l, struct pings_memory *m, struct err *e)
{
	autojson json_t *list = json_array();
	size_t i;

	for (i = 0; i < l->count; i++)
		if (l->items[i].record && json_array_append(list, l->items[i].record) < 0)
			return err_nomem(e);
	if (!list)
		return err_nomem(e);
	pings_remember(&l->box->registry, list, m, boxlist_add_live);
	return 0;
}

/* Keeps the text of a sandbox that stands still, or does not run. */
static void keep_entry(struct boxlist *l, const struct item *i)
{
	const char *id = record_id(i->record);
	const int asked = !i->kept && record_status(i->record) == RECORD_RUNNING;
	const struct range_note *note = asked ? pings_note(l->notes, l->note_count, id) : NULL;
	const json_t *uptime = json_object_get(i->record, "uptime_ms");
	autojson json_t *plain = json_copy(i->record);
	autofree char *text = NULL;
	struct boxindex_entry *n, **place;
	struct standing s = { 0 };
	size_t len;

	if (!plain || (asked && (!note || !ranges_standing(note, &s) || s.is_main || !uptime)))
		return;
	if (asked) {
		json_object_del(plain, "idle_ms");
		json_object_del(plain, "uptime_ms");
	}
	text = json_dumps(plain, JSON_COMPACT);
	len = text ? strlen(text) - 1 : 0;
	n = text ? malloc(sizeof(*n) + len) : NULL;
	if (!n)
		return;
	memset(n, 0, sizeof(*n));
	snprintf(n->id, sizeof(n->id), "%s", id);
	n->kept = i->kept;
	n->asked = asked;
	n->stamp = i->stamp;
	if (note) {
		n->standing = note->standing;
		memcpy(n->since, note->since, sizeof(n->since));
	}
	n->at_ms = n->used_ms = l->now;
	n->since_ms = s.since_ms;
	n->uptime_ms = json_integer_value(uptime);
	n->len = len;
	memcpy(n->text, text, len);
	pthread_mutex_lock(&l->index->lock);
	place = boxindex_place(l->index, id);
	if (*place) {
		struct boxindex_entry *old = *place;

		n->next = old->next;
		free(old);
	}
	*place = n;
	pthread_mutex_unlock(&l->index->lock);
}

static int add_item_text(struct boxlist *l, const struct item *i, struct buf *out, struct err *e)
{
	autofree char *text = NULL;

	if (!i->record)
		return buf_add(out, l->known.data + i->at, i->len, e);
	if (l->index)
		keep_entry(l, i);
	text = json_dumps(i->record, JSON_COMPACT);
	return text ? buf_adds(out, text, e) : err_nomem(e);
}

static int reply_list(struct http_request *rq, struct boxlist *l, struct err *e)
{
	struct buf out = BUF_INIT(LIST_TEXT_MAX);
	int r = buf_reserve(&out, l->known.len + 4096, e);
	size_t i;

	if (r == 0)
		r = buf_adds(&out, "{\"sandboxes\":[", e);
	for (i = 0; i < l->count && r == 0; i++) {
		r = i ? buf_adds(&out, ",", e) : 0;
		if (r == 0)
			r = add_item_text(l, &l->items[i], &out, e);
	}
	if (r == 0)
		r = l->more ? buf_addf(&out, e, "],\"next\":\"%s\"}\n", l->last) : buf_adds(&out, "]}\n", e);
	if (r == 0)
		return http_reply_data(rq, 0, "application/json", out.data, out.len, e);
	buf_release(&out);
	return -1;
}

/* ?label=K=V&label=... and ?filter=KEY=VALUE&..., as berth ps takes them. */
static int add_box_filters(struct http_request *rq, struct boxlist *l, struct err *e)
{
	const char *v;
	size_t i;

	for (i = 0; (v = http_query_each(rq, "label", i)); i++)
		if (filter_add_label(&l->filter, v, e) < 0)
			return -1;
	for (i = 0; (v = http_query_each(rq, "filter", i)); i++)
		if (filter_add(&l->filter, v, e) < 0)
			return -1;
	l->limit = (size_t)http_query_u64(rq, "limit", 0);
	if (http_query(rq, "limit") && (!l->limit || l->limit > LIMIT_MAX))
		return err_set(e, ERR_INVALID, "limit must be 1 to %d", LIMIT_MAX);
	return 0;
}

static int make_boxlist(struct http_request *rq, struct boxlist *l, struct err *e)
{
	const struct names_look look = { .all = !http_query_bool(rq, "running"), .after = http_query(rq, "after"),
					 .known = is_in_index, .each = add_box_record, .ctx = l };
	const struct http_who *who = http_who(rq);

	if (add_box_filters(rq, l, e) < 0)
		return -1;
	/* a caller that sees all, without a look at the owners or the members of the records */
	if (who->admin && !who->only[0] && !l->filter.count)
		l->index = api_of(rq)->boxes;
	l->now = clock_ms();
	if (l->index) {
		boxindex_drop_unused(l->index, l->now, STALE_MS);
		l->notes = pings_notes(&l->box->registry, &l->note_count);
	}
	/* a sandbox whose keeper was killed does not run */
	if (names_look(&l->box->registry, &look, e) < 0)
		return -1;
	return ask_unknown(l, api_of(rq)->pings, e);
}

int boxlist_get(struct http_request *rq, struct err *e)
{
	struct boxlist l = { .filter = { .keys = filter_sandbox_keys }, .known = BUF_INIT(LIST_TEXT_MAX), .e = e };
	struct box b;
	int r = box_open(&b, rq, e);
	size_t i;

	l.box = &b;
	if (r == 0)
		r = make_boxlist(rq, &l, e);
	if (r == 0)
		r = reply_list(rq, &l, e);
	box_close(&b);
	for (i = 0; i < l.count; i++)
		json_decref(l.items[i].record);
	free(l.items);
	free(l.notes);
	buf_release(&l.known);
	return r;
}
