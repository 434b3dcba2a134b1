/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/pings.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "manager/host/ranges.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/keeper_log.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

struct batch {
	json_t *records[PINGS_AT_ONCE];	/* borrowed */
	const struct range_note *notes[PINGS_AT_ONCE];	/* the notes before the request, or NULL */
	int socks[PINGS_AT_ONCE];
	size_t count;
	struct pings_memory *memory;	/* or NULL */
};

/* ---- answers that are remembered -------------------------------------------------------- */

struct pings_memory {
	pthread_mutex_t lock;
	json_t *answers;	/* id -> {"note", "since", "at", "answer"} */
};

struct pings_memory *pings_memory_new(struct err *e)
{
	struct pings_memory *m = calloc(1, sizeof(*m));

	if (m && (m->answers = json_object())) {
		pthread_mutex_init(&m->lock, NULL);
		return m;
	}
	free(m);
	err_nomem(e);
	return NULL;
}

void pings_memory_free(struct pings_memory *m)
{
	if (!m)
		return;
	json_decref(m->answers);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static json_int_t since_of(const struct range_note *n)
{
	return (json_int_t)((uint64_t)n->since[1] << 32 | n->since[0]);
}

/* Tells whether an answer is worth remembering: a main command's use changes while nothing else does. */
static int is_worth(const struct range_note *n)
{
	struct standing s;

	return n && ranges_standing(n, &s) && !s.is_main;
}

static void remember_ping(struct pings_memory *m, const char *id, const struct range_note *n,
		     const json_t *answer)
{
	json_t *copy;

	if (!m || !is_worth(n) || !(copy = json_deep_copy(answer)))
		return;
	pthread_mutex_lock(&m->lock);
	json_object_set_new(m->answers, id,
			    json_pack("{s:I,s:I,s:I,s:o}", "note", (json_int_t)n->standing, "since",
				      since_of(n), "at", (json_int_t)clock_ms(), "answer", copy));
	pthread_mutex_unlock(&m->lock);
}

static json_int_t ping_member(const json_t *one, const char *name)
{
	return json_integer_value(json_object_get(one, name));
}

/* A copy of the answer, which is one thread's, or NULL when the sandbox has moved since. */
static json_t *recall(struct pings_memory *m, const char *id, const struct range_note *n,
		      uint64_t now)
{
	json_t *one, *answer = NULL;
	uint64_t passed = 0;
	struct standing s;

	if (!m || !is_worth(n))
		return NULL;
	ranges_standing(n, &s);
	pthread_mutex_lock(&m->lock);
	one = json_object_get(m->answers, id);
	passed = now - (uint64_t)ping_member(one, "at");
	if (one && ping_member(one, "note") == (json_int_t)n->standing &&
	    ping_member(one, "since") == since_of(n) && passed < PINGS_REMEMBERED_MS)
		answer = json_deep_copy(json_object_get(one, "answer"));
	pthread_mutex_unlock(&m->lock);
	if (!answer)
		return NULL;
	json_object_set_new(answer, "idle_ms",
			    json_integer(now < s.since_ms ? 0 : (json_int_t)(now - s.since_ms)));
	json_object_set_new(answer, "uptime_ms",
			    json_integer(ping_member(answer, "uptime_ms") + (json_int_t)passed));
	return answer;
}

/* Drops old entries, so that there are no more than sandboxes that answered lately. */
static void drop_old(struct pings_memory *m, uint64_t now)
{
	const char *id;
	json_t *one;
	void *next;

	pthread_mutex_lock(&m->lock);
	json_object_foreach_safe(m->answers, next, id, one)
		if (now - (uint64_t)ping_member(one, "at") >= PINGS_REMEMBERED_MS)
			json_object_del(m->answers, id);
	pthread_mutex_unlock(&m->lock);
}

/* ---- asking ----------------------------------------------------------------------------- */

/* Adds the sandbox to the batch, with its request sent, when its keeper takes it. */
static void ask_ping(struct batch *b, struct registry *r, json_t *record, const struct range_note *note,
		json_t *ping)
{
	struct err ignored;
	autoclose int sock = keeper_connect_within(r, record_id(record), PINGS_MS, &ignored);

	if (sock < 0 || wire_request(sock, ping, NULL, 0, &ignored) < 0)
		return;
	b->records[b->count] = record;
	b->notes[b->count] = note;
	b->socks[b->count++] = take_fd(&sock);
}

static void collect_pings(struct batch *b, pings_fn *answered)
{
	const uint64_t until = clock_ms() + PINGS_MS;
	size_t i;

	for (i = 0; i < b->count; i++) {
		const uint64_t now = clock_ms();
		autojson json_t *answer = NULL;
		struct err ignored;
		size_t fds;

		/* past the deadline those that have answered already still count */
		if (wire_recv(b->socks[i], now < until ? (int)(until - now) : 0, &answer, NULL, 0,
			      &fds, &ignored) == 1) {
			answered(b->records[i], answer);
			remember_ping(b->memory, record_id(b->records[i]), b->notes[i], answer);
		}
		fd_close(&b->socks[i]);
	}
	b->count = 0;
}

static int compare_note_ids(const void *a, const void *b)
{
	return strcmp(((const struct range_note *)a)->id, ((const struct range_note *)b)->id);
}

struct range_note *pings_notes(struct registry *r, size_t *ret_count)
{
	struct range_note *notes = NULL;
	struct err ignored;
	size_t count = 0, i, n = 0;

	*ret_count = 0;
	if (ranges_read(r, &notes, &count, &ignored) < 0)
		return NULL;
	for (i = 0; i < count; i++)
		if (notes[i].standing && !notes[i].id[sizeof(notes[i].id) - 1])
			notes[n++] = notes[i];
	if (n)
		qsort(notes, n, sizeof(notes[0]), compare_note_ids);
	*ret_count = n;
	return notes;
}

const struct range_note *pings_note(const struct range_note *notes, size_t count, const char *id)
{
	struct range_note key = { .version = 0 };

	snprintf(key.id, sizeof(key.id), "%s", id);
	return count ? bsearch(&key, notes, count, sizeof(key), compare_note_ids) : NULL;
}

/* Makes an answer from the note, in the keeper's words (keeper_whole.c); NULL if the keeper must be asked. */
static json_t *answer_for(const struct range_note *note, uint64_t now)
{
	json_t *answer;
	struct standing s;

	if (!note || !ranges_standing(note, &s))
		return NULL;
	answer = json_pack("{s:s,s:i,s:i,s:I}", "state", "running", "commands", s.is_main,
			   "sessions", (int)s.sessions, "idle_ms",
			   (json_int_t)(s.is_main || now < s.since_ms ? 0 : now - s.since_ms));
	if (answer && s.is_main)
		json_object_set_new(answer, "busy", json_string(KEEPER_LOG_MAIN " runs"));
	return answer;
}

/* notes: NULL with a count of 0, when each keeper is to be asked. */
static void ask_all(struct registry *r, json_t *list, enum protocol_op op, const struct range_note *notes, size_t count,
		    struct pings_memory *memory, pings_fn *answered)
{
	autojson json_t *ping = protocol_request(op);
	const uint64_t now = clock_ms();
	struct batch b = { .count = 0, .memory = memory };
	json_t *record;
	size_t i;

	if (!ping)
		return;
	json_array_foreach(list, i, record) {
		const char *id = record_id(record);
		autojson json_t *known = NULL;
		const struct range_note *note;

		if (!id[0] || record_status(record) != RECORD_RUNNING)
			continue;
		note = pings_note(notes, count, id);
		known = memory ? recall(memory, id, note, now) : answer_for(note, now);
		if (known)
			answered(record, known);
		else
			ask_ping(&b, r, record, note, ping);
		if (b.count == PINGS_AT_ONCE)
			collect_pings(&b, answered);
	}
	collect_pings(&b, answered);
}

void pings_ask(struct registry *r, json_t *list, pings_fn *answered)
{
	ask_all(r, list, OP_ping, NULL, 0, NULL, answered);
}

void pings_stats(struct registry *r, json_t *list, pings_fn *answered)
{
	ask_all(r, list, OP_stats, NULL, 0, NULL, answered);
}

static void look_at_records(struct registry *r, json_t *list, struct pings_memory *m, pings_fn *answered)
{
	size_t count = 0;
	struct range_note *notes = NULL;

	if (json_array_size(list) >= PINGS_MANY)
		notes = pings_notes(r, &count);
	ask_all(r, list, OP_ping, notes, count, m, answered);
	free(notes);
}

void pings_look(struct registry *r, json_t *list, pings_fn *answered)
{
	look_at_records(r, list, NULL, answered);
}

void pings_remember(struct registry *r, json_t *list, struct pings_memory *m, pings_fn *answered)
{
	drop_old(m, clock_ms());
	look_at_records(r, list, m, answered);
}
