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

static void count_lines(const struct engine_logs *l, const json_t *entry, uint64_t *lines,
			int *ends)
{
	autofree char *p = NULL;
	size_t n = 0, i;

	if (log_entry_stream(l, entry) < 0 || !(p = log_entry_bytes(entry, &n)))
		return;
	for (i = 0; i < n; i++)
		*lines += p[i] == '\n';
	if (n)
		*ends = p[n - 1] == '\n';
}

/* An entry that is only counted is not kept in memory. */
static int set_tail(struct engine_logs *l, int dir, int64_t n, struct err *e)
{
	struct journal_reader r;
	uint64_t lines = 0;
	json_t *entry;
	int got, ends = 1;

	if (n < 0)
		return 0;
	if (journal_open(&r, dir, KEEPER_LOG, 0, e) < 0)
		return -1;
	while ((got = journal_next(&r, &entry, e)) > 0) {
		count_lines(l, entry, &lines, &ends);
		json_decref(entry);
	}
	journal_reader_close(&r);
	lines += !ends;
	l->skip = lines > (uint64_t)n ? lines - (uint64_t)n : 0;
	return got;
}

int engine_logs_open(struct engine_logs *l, int dir, int64_t tail, struct err *e)
{
	if (set_tail(l, dir, tail, e) < 0 || journal_open(&l->reader, dir, KEEPER_LOG, 0, e) < 0)
		return -1;
	l->opened = 1;
	return 0;
}

void engine_logs_close(struct engine_logs *l)
{
	if (l->opened)
		journal_reader_close(&l->reader);
	l->opened = 0;
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
	json_t *entry;
	int got = journal_next(&l->reader, &entry, e), r;

	if (got <= 0)
		return got;
	r = show_log_entry(l, entry, e);
	json_decref(entry);
	return r < 0 ? -1 : 1;
}
