/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/docker/logs.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/keeper_log.h"

#define PIECE_MAX (4 * JOURNAL_LINE_MAX)

struct logs {
	struct box box;
	int dir, watch;
	struct journal_reader reader;
	int opened;
	int want[2], tty, follow, timestamps, over;
	char since[JOURNAL_TIME], until[JOURNAL_TIME];
	uint64_t skip; /* lines of the beginning that are not shown */
	int within[2]; /* a line of that stream has begun */
	struct buf out;
	size_t sent;
};

static void logs_free(void *ctx)
{
	struct logs *l = ctx;

	if (l->opened)
		journal_reader_close(&l->reader);
	fd_close(&l->watch);
	fd_close(&l->dir);
	box_close(&l->box);
	buf_release(&l->out);
	free(l);
}

/* "1700000000.123456789", seconds, as clients send a time; or one as the journal has it. */
int docker_query_time(struct http_request *rq, const char *name, char out[JOURNAL_TIME],
		      struct err *e)
{
	const char *v = http_query(rq, name);
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
		return docker_fail(rq, 400, e, "invalid value of %s: %.40s", name, v);
	journal_time(&t, out);
	return 0;
}

static const char *text_of(const json_t *entry, const char *key)
{
	const char *s = json_string_value(json_object_get(entry, key));

	return s ? s : "";
}

/* 0 or 1, its stream, when the entry is one of those that are wanted; else -1. */
static int stream_of(const struct logs *l, const json_t *entry)
{
	const char *source = text_of(entry, "source"), *time = text_of(entry, "time");
	int which = !strcmp(text_of(entry, "stream"), "stderr");

	if (strcmp(source, KEEPER_LOG_MAIN) || !json_is_string(json_object_get(entry, "data")) ||
	    !l->want[which] || (l->since[0] && strcmp(time, l->since) < 0) ||
	    (l->until[0] && strcmp(time, l->until) > 0))
		return -1;
	return which;
}

/* Its bytes, to be freed. */
static char *bytes_of(const json_t *entry, size_t *ret_n)
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

static void count_lines(const struct logs *l, const json_t *entry, uint64_t *lines, int *ends)
{
	autofree char *p = NULL;
	size_t n = 0, i;

	if (stream_of(l, entry) < 0 || !(p = bytes_of(entry, &n)))
		return;
	for (i = 0; i < n; i++)
		*lines += p[i] == '\n';
	if (n)
		*ends = p[n - 1] == '\n';
}

/* What is counted first need not be held. */
static int set_tail(struct logs *l, struct http_request *rq, struct err *e)
{
	const char *text = http_query(rq, "tail");
	struct journal_reader r;
	uint64_t lines = 0;
	json_t *entry;
	int got, ends = 1;
	long n;

	if (!text || !text[0] || !strcmp(text, "all"))
		return 0;
	if (docker_query_int(rq, "tail", 0, &n, e) < 0)
		return -1;
	if (n < 0)
		return 0;
	if (journal_open(&r, l->dir, KEEPER_LOG, 0, e) < 0)
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

/* ---- what is shown -------------------------------------------------------------------------- */

static int add_bytes(struct logs *l, int which, const char *p, size_t n, struct err *e)
{
	unsigned char head[8];

	engine_frame(head, which + 1, (uint32_t)n);
	return (!l->tty && buf_add(&l->out, head, sizeof(head), e) < 0) ||
			       buf_add(&l->out, p, n, e) < 0
		       ? -1
		       : 0;
}

/* A line, or what there is of it: Docker's times have nine digits. */
static int add_line(struct logs *l, int which, const char *time, const char *p, size_t n,
		    struct err *e)
{
	autobuf struct buf line = BUF_INIT(PIECE_MAX);

	if (!l->timestamps)
		return add_bytes(l, which, p, n, e);
	if (!l->within[which] &&
	    buf_addf(&line, e, "%.*s000000Z ", (int)strcspn(time, "Z"), time) < 0)
		return -1;
	return buf_add(&line, p, n, e) < 0 ? -1 : add_bytes(l, which, line.data, line.len, e);
}

static int add_entry(struct logs *l, const json_t *entry, struct err *e)
{
	int which = stream_of(l, entry);
	autofree char *bytes = NULL;
	size_t n = 0, part;
	char *p;

	if (which < 0)
		return 0;
	bytes = p = bytes_of(entry, &n);
	if (!p)
		return err_nomem(e);
	for (; l->skip && n; n -= part, p += part) {
		char *nl = memchr(p, '\n', n);

		part = nl ? (size_t)(nl + 1 - p) : n;
		l->skip -= nl != NULL;
	}
	/* in one piece where no line needs its time */
	for (; n; n -= part, p += part) {
		char *nl = l->timestamps ? memchr(p, '\n', n) : NULL;

		part = nl ? (size_t)(nl + 1 - p) : n;
		if (add_line(l, which, text_of(entry, "time"), p, part, e) < 0)
			return -1;
		l->within[which] = p[part - 1] != '\n';
	}
	return 0;
}

/* The next entries, until there is something to send: 1; 0 when there are none now. */
static int fill(struct logs *l, struct err *e)
{
	json_t *entry;
	int got, r = 0;

	while (!l->out.len && r == 0) {
		got = journal_next(&l->reader, &entry, e);
		if (got <= 0)
			return got;
		r = add_entry(l, entry, e);
		json_decref(entry);
	}
	return r < 0 ? -1 : 1;
}

static int await_news(struct logs *l, struct http_request *rq, struct err *e)
{
	struct pollfd p[2] = { { .fd = l->watch, .events = POLLIN },
			       { .fd = l->box.sock, .events = POLLIN } };

	if (http_poll(rq, p, 2, -1, e) < 0)
		return -1;
	/* a keeper says nothing unasked: readable is its end, after which one more look has all */
	l->over = p[1].revents != 0;
	journal_drain(l->watch);
	return 0;
}

static ssize_t logs_read(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct logs *l = ctx;
	struct err e;
	size_t n;
	int r;

	while (!l->out.len) {
		r = fill(l, &e);
		if (r < 0)
			return -1;
		if (r == 0 && l->over)
			return 0;
		if (r == 0 && await_news(l, rq, &e) < 0)
			return -1;
	}
	n = l->out.len - l->sent < max ? l->out.len - l->sent : max;
	memcpy(buf, l->out.data + l->sent, n);
	l->sent += n;
	if (l->sent == l->out.len)
		l->sent = l->out.len = 0;
	return (ssize_t)n;
}

static int open_log(struct logs *l, struct http_request *rq, struct err *e)
{
	l->dir = openat(l->box.registry.kept_fd, l->box.id,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (l->dir < 0)
		return docker_fail(rq, 404, e, "No such container: %.200s", docker_called(rq));
	if (set_tail(l, rq, e) < 0)
		return -1;
	if (l->follow && http_endless(rq, e) < 0)
		return -1;
	if (l->follow && !l->box.kept)
		l->box.sock = keeper_connect(&l->box.registry, l->box.id, e);
	l->over = l->box.sock < 0;
	if (!l->over && (l->watch = journal_watch(l->dir, e)) < 0)
		return -1;
	if (journal_open(&l->reader, l->dir, KEEPER_LOG, 0, e) < 0)
		return -1;
	l->opened = 1;
	return 0;
}

static int begin(struct logs *l, struct http_request *rq, struct err *e)
{
	struct engine_loaded d;

	if (docker_find(&l->box, rq, e) < 0 || docker_load(&d, &l->box, 0, e) < 0)
		return -1;
	l->tty = engine_is_tty(&d.v);
	engine_loaded_release(&d);
	l->want[0] = docker_query_flag(rq, "stdout");
	l->want[1] = docker_query_flag(rq, "stderr");
	l->follow = docker_query_flag(rq, "follow");
	l->timestamps = docker_query_flag(rq, "timestamps");
	if (!l->want[0] && !l->want[1])
		return docker_fail(rq, 400, e,
				   "Bad parameters: you must choose at least one stream");
	if (docker_query_time(rq, "since", l->since, e) < 0 ||
	    docker_query_time(rq, "until", l->until, e) < 0)
		return -1;
	return open_log(l, rq, e);
}

int docker_logs(struct http_request *rq, struct err *e)
{
	struct logs *l = calloc(1, sizeof(*l));
	struct http_stream st = { logs_read, logs_free, l };

	if (!l)
		return err_nomem(e);
	box_clear(&l->box);
	l->dir = l->watch = -1;
	l->out = BUF_INIT(PIECE_MAX);
	if (begin(l, rq, e) < 0) {
		logs_free(l);
		return -1;
	}
	return http_reply_stream(rq, 200, l->tty ? DOCKER_RAW_STREAM : DOCKER_FRAMES, &st, e);
}
