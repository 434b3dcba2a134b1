/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/logs.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "manager/keeper/keeper_log.h"

int engine_logs_time(const char *v, char out[JOURNAL_TIME], struct err *e)
{
	struct timespec t = { 0 };
	char *end;

	out[0] = '\0';
	if (!v || !v[0] || !strcmp(v, "0"))
		return 0;
	t.tv_sec = (time_t)strtoll(v, &end, 10);
	if (*end == '.')
		t.tv_nsec = (long)(strtod(end, NULL) * 1e9);
	else if (*end)
		return journal_since(v, out, e);
	if (t.tv_sec < 0 || t.tv_sec > 253402300799 || t.tv_nsec < 0 || t.tv_nsec > 999999999)
		return err_set(e, ERR_INVALID, "invalid time: %.40s", v);
	journal_time(&t, out);
	return 0;
}

static const char *log_entry_text(const json_t *entry, const char *key)
{
	const char *s = json_string_value(json_object_get(entry, key));

	return s ? s : "";
}

/* The stream of the entry, 0 or 1, if it is wanted; else -1. */
static int log_entry_stream(const struct engine_logs *l, const json_t *entry)
{
	const char *source = log_entry_text(entry, "source"), *time = log_entry_text(entry, "time");
	int which = !strcmp(log_entry_text(entry, "stream"), "stderr");

	if (strcmp(source, KEEPER_LOG_MAIN) || !json_is_string(json_object_get(entry, "data")) ||
	    !l->want[which] || (l->since[0] && strcmp(time, l->since) < 0) ||
	    (l->until[0] && strcmp(time, l->until) > 0))
		return -1;
	return which;
}

/* Its bytes, to be freed. */
static char *log_entry_bytes(const json_t *entry, size_t *ret_n)
{
	const json_t *data = json_object_get(entry, "data");
	size_t n = json_string_length(data);
	char *p = malloc(n + 1);

	if (!p)
		return NULL;
	memcpy(p, json_string_value(data), n);
	*ret_n = json_is_true(json_object_get(entry, "bytes")) ? keeper_log_bytes(p, n) : n;
	return p;
}

/* ---- the last lines ------------------------------------------------------------------------ */

/* How many lines end in the entry; *ends: whether its last byte ends one. */
static uint64_t count_lines(const struct engine_logs *l, const json_t *entry, int *ends)
{
	autofree char *p = NULL;
	uint64_t lines = 0;
	size_t n = 0, i;

	if (log_entry_stream(l, entry) < 0 || !(p = log_entry_bytes(entry, &n)))
		return 0;
	for (i = 0; i < n; i++)
		lines += p[i] == '\n';
	if (n)
		*ends = p[n - 1] == '\n';
	return lines;
}

/*
 * The search for the last lines: one reader goes ahead to the end, and the log's own follows it with
 * so many lines between them. No line is kept in memory, and none is counted that was dropped.
 */
struct tail_search {
	struct journal_reader ahead;
	uint64_t lines; /* that end between the two, the entry l->first included */
	uint64_t first; /* of these in l->first */
	int ends;
};

/* Takes the log's reader past l->first, to the next entry: 1; 0 if there is none. */
static int pass_first(struct engine_logs *l, struct tail_search *t, struct err *e)
{
	int ignored = 0, got;

	json_decref(l->first);
	l->first = NULL;
	t->lines -= t->first;
	t->first = 0;
	got = journal_next(&l->reader, &l->first, e);
	if (got > 0)
		t->first = count_lines(l, l->first, &ignored);
	return got;
}

/* Lines were dropped under a reader: both begin anew at the oldest there is, which is later each time. */
static int search_again(struct engine_logs *l, struct tail_search *t, int dir, struct err *e)
{
	const uint64_t end = l->reader.end, stop = t->ahead.end;

	json_decref(l->first);
	l->first = NULL;
	journal_reader_close(&t->ahead);
	journal_reader_close(&l->reader);
	t->lines = t->first = 0;
	t->ends = 1;
	if (journal_open(&t->ahead, dir, KEEPER_LOG, 0, e) < 0 || journal_open(&l->reader, dir, KEEPER_LOG, 0, e) < 0)
		return -1;
	l->reader.end = end;
	t->ahead.end = stop;
	return 1;
}

static int go_ahead(struct engine_logs *l, struct tail_search *t, int dir, uint64_t n, struct err *e)
{
	const uint64_t lost = t->ahead.lost, mine = l->reader.lost;
	json_t *entry;
	int got = journal_next(&t->ahead, &entry, e);

	if (got <= 0)
		return got;
	t->lines += count_lines(l, entry, &t->ends);
	json_decref(entry);
	/* one more than n stays: the first of them may have begun in an entry before */
	while (got > 0 && t->ahead.lost == lost && l->reader.lost == mine && l->reader.at < t->ahead.at &&
	       (!l->first || t->lines - t->first > n))
		got = pass_first(l, t, e);
	if (got < 0)
		return -1;
	return t->ahead.lost != lost || l->reader.lost != mine ? search_again(l, t, dir, e) : 1;
}

static int find_tail(struct engine_logs *l, int dir, uint64_t end, uint64_t n, struct err *e)
{
	struct tail_search t = { .ends = 1 };
	int got = journal_open(&t.ahead, dir, KEEPER_LOG, 0, e);

	t.ahead.end = end;
	if (got == 0)
		do
			got = go_ahead(l, &t, dir, n, e);
		while (got > 0);
	journal_reader_close(&t.ahead);
	t.lines += !t.ends;
	l->skip = t.lines > n ? t.lines - n : 0;
	return got;
}

int engine_logs_open(struct engine_logs *l, int dir, int64_t tail, struct err *e)
{
	const uint64_t end = journal_end(dir, KEEPER_LOG);

	if (journal_open(&l->reader, dir, KEEPER_LOG, 0, e) < 0)
		return -1;
	l->opened = 1;
	if (!l->goes_on)
		l->reader.end = end;
	return tail < 0 ? 0 : find_tail(l, dir, end, (uint64_t)tail, e);
}

void engine_logs_close(struct engine_logs *l)
{
	if (l->opened)
		journal_reader_close(&l->reader);
	l->opened = 0;
	json_decref(l->first);
	l->first = NULL;
}

/* ---- what is shown -------------------------------------------------------------------------- */

/* A line, or what there is of it: Docker's times have nine digits. */
static int show_log_line(struct engine_logs *l, int which, const char *time, const char *p, size_t n,
		    struct err *e)
{
	autobuf struct buf line = BUF_INIT(ENGINE_LOGS_PIECE);

	if (!l->timestamps)
		return l->put(l->ctx, which, p, n, e);
	if (!l->within[which] &&
	    buf_addf(&line, e, "%.*s000000Z ", (int)strcspn(time, "Z"), time) < 0)
		return -1;
	return buf_add(&line, p, n, e) < 0 ? -1 : l->put(l->ctx, which, line.data, line.len, e);
}

static int show_log_entry(struct engine_logs *l, const json_t *entry, struct err *e)
{
	int which = log_entry_stream(l, entry);
	autofree char *bytes = NULL;
	size_t n = 0, part;
	char *p;

	if (which < 0)
		return 0;
	bytes = p = log_entry_bytes(entry, &n);
	if (!p)
		return err_nomem(e);
	for (; l->skip && n; n -= part, p += part) {
		char *nl = memchr(p, '\n', n);

		part = nl ? (size_t)(nl + 1 - p) : n;
		l->skip -= nl != NULL;
	}
	/* line by line, as Docker's log has them: clients take each piece for a line */
	for (; n; n -= part, p += part) {
		char *nl = memchr(p, '\n', n);

		part = nl ? (size_t)(nl + 1 - p) : n;
		if (show_log_line(l, which, log_entry_text(entry, "time"), p, part, e) < 0)
			return -1;
		l->within[which] = p[part - 1] != '\n';
	}
	return 0;
}

int engine_logs_next(struct engine_logs *l, struct err *e)
{
	json_t *entry = l->first;
	int got = entry ? 1 : journal_next(&l->reader, &entry, e), r;

	l->first = NULL;
	if (got <= 0)
		return got;
	r = show_log_entry(l, entry, e);
	json_decref(entry);
	return r < 0 ? -1 : 1;
}
