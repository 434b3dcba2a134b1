/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/pings.h"

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
#include "manager/keeper/request.h"
#include "manager/keeper/wire.h"

struct batch {
	json_t *records[PINGS_AT_ONCE];	/* borrowed */
	int socks[PINGS_AT_ONCE];
	size_t count;
};

/* Adds the sandbox to the batch, with its request sent, when its keeper takes it. */
static void ask(struct batch *b, struct registry *r, json_t *record, const char *id, json_t *ping)
{
	struct err ignored;
	autoclose int sock = keeper_connect_within(r, id, PINGS_MS, &ignored);

	if (sock < 0 || wire_request(sock, ping, NULL, 0, &ignored) < 0)
		return;
	b->records[b->count] = record;
	b->socks[b->count++] = take_fd(&sock);
}

static void collect(struct batch *b, pings_fn *answered)
{
	const uint64_t until = clock_ms() + PINGS_MS;
	size_t i;

	for (i = 0; i < b->count; i++) {
		const uint64_t now = clock_ms();
		autojson json_t *answer = NULL;
		struct err ignored;
		size_t fds;

		/* past the deadline those that have answered already still count */
		if (wire_recv(b->socks[i], now < until ? (int)(until - now) : 0, &answer, NULL, 0, &fds, &ignored) == 1)
			answered(b->records[i], answer);
		fd_close(&b->socks[i]);
	}
	b->count = 0;
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct range_note *)a)->id, ((const struct range_note *)b)->id);
}

/* The keepers' notes, by id, for those that wrote one; the caller frees it. */
static struct range_note *read_notes(struct registry *r, size_t *ret_count)
{
	struct range_note *notes = NULL;
	struct err ignored;
	size_t count = 0, i, n = 0;

	if (ranges_read(r, &notes, &count, &ignored) < 0)
		return NULL;
	for (i = 0; i < count; i++)
		if (notes[i].standing && !notes[i].id[sizeof(notes[i].id) - 1])
			notes[n++] = notes[i];
	qsort(notes, n, sizeof(notes[0]), by_id);
	*ret_count = n;
	return notes;
}

/* In the keeper's words (keeper_whole.c). */
static int answer_for(const struct range_note *note, uint64_t now, json_t *record,
		      pings_fn *answered)
{
	autojson json_t *answer = NULL;
	struct standing s;

	if (!ranges_standing(note, &s))
		return 0;
	answer = json_pack("{s:s,s:i,s:i,s:I}", "state", "running", "commands", s.is_main,
			   "sessions", (int)s.sessions, "idle_ms",
			   (json_int_t)(s.is_main || now < s.since_ms ? 0 : now - s.since_ms));
	if (answer && s.is_main)
		json_object_set_new(answer, "busy", json_string(KEEPER_LOG_MAIN " runs"));
	if (!answer)
		return 0;
	answered(record, answer);
	return 1;
}

static void ask_all(struct registry *r, json_t *list, const struct range_note *notes, size_t count,
		    pings_fn *answered)
{
	autojson json_t *ping = protocol_request(OP_ping);
	const uint64_t now = clock_ms();
	struct batch b = { .count = 0 };
	struct range_note key = { .version = 0 };
	json_t *record;
	size_t i;

	if (!ping)
		return;
	json_array_foreach(list, i, record) {
		const char *id = record_id(record);
		const struct range_note *note;

		if (!id[0] || record_status(record) != RECORD_RUNNING)
			continue;
		snprintf(key.id, sizeof(key.id), "%s", id);
		note = count ? bsearch(&key, notes, count, sizeof(key), by_id) : NULL;
		if (note && answer_for(note, now, record, answered))
			continue;
		ask(&b, r, record, id, ping);
		if (b.count == PINGS_AT_ONCE)
			collect(&b, answered);
	}
	collect(&b, answered);
}

void pings_ask(struct registry *r, json_t *list, pings_fn *answered)
{
	ask_all(r, list, NULL, 0, answered);
}

void pings_look(struct registry *r, json_t *list, pings_fn *answered)
{
	size_t count = 0;
	struct range_note *notes = NULL;

	if (json_array_size(list) >= PINGS_MANY)
		notes = read_notes(r, &count);
	ask_all(r, list, notes, count, answered);
	free(notes);
}
