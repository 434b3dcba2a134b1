/* SPDX-License-Identifier: Apache-2.0 */
/* berth logs: the output of the detached commands and shell sessions of a sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper_log.h"

#define TAIL_BYTES (256u << 20)
#define PARTS_MAX 16		/* unfinished lines at once */
#define PART_BYTES 65536u	/* of one; a longer line gets several stamps */

enum {
	OPT_FOLLOW = 1, OPT_SINCE, OPT_FROM, OPT_SOURCE, OPT_TAIL, OPT_TIMESTAMPS, OPT_JSON,
	OPT_ALL,
};

static const struct opt options[] = {
	{ "all", 'a', OPT_FLAG, NULL,
	  "of a service, also what detached commands and sessions wrote", OPT_ALL },
	{ "follow", 'f', OPT_FLAG, NULL, "go on with what comes, until the sandbox stops", OPT_FOLLOW },
	{ "since", 0, OPT_VALUE, "TIME", "only from then on: 10m (ago), or 2026-11-21T08:00:00Z", OPT_SINCE },
	{ "from", 0, OPT_VALUE, "CURSOR", "go on where a reader that saw this cursor stopped", OPT_FROM },
	{ "source", 's', OPT_VALUE, "NAME", "only of this command (c3) or session (main)", OPT_SOURCE },
	{ "tail", 'n', OPT_VALUE, "N", "only the last N lines (default: all)", OPT_TAIL },
	{ "timestamps", 't', OPT_FLAG, NULL, "begin each line with its time and source", OPT_TIMESTAMPS },
	{ "json", 0, OPT_FLAG, NULL, "print JSON objects, one a line, each with its cursor; errors too", OPT_JSON },
};

struct logs {
	int follow, json, timestamps, all;
	int main_only;		/* a service's own output, both streams apart */
	const char *source;
	char since[JOURNAL_TIME];
	uint64_t from, tail, lost;
	int has_tail;
	int to;			/* the descriptor for what comes next */
	struct buf held;	/* for --tail */
	struct buf runs;	/* of held, to which descriptor it goes: struct run each */
	struct part *parts;	/* for --timestamps, the oldest first */
	size_t part_count;
};

/* The begin of a line that one source wrote to one stream: its stamp is of its first byte. */
struct part {
	char head[140];		/* the stamp, and the source's name, which is what parts are told apart by */
	const char *source;	/* in head */
	int is_stderr, to;
	struct buf text;
};

struct run {
	size_t end;		/* in held */
	int to;
};

static int set_logs_option(void *ctx, int id, const char *value, struct err *e)
{
	struct logs *l = ctx;

	switch (id) {
	case OPT_SINCE:
		return journal_since(value, l->since, e);
	case OPT_FROM:
		return num_u64(value, "cursor", 0, INT64_MAX, &l->from, e);
	case OPT_SOURCE:
		l->source = value;
		return 0;
	case OPT_ALL:
		l->all = 1;
		return 0;
	case OPT_TAIL:
		l->has_tail = 1;
		return num_u64(value, "lines", 0, INT64_MAX, &l->tail, e);
	default:
		*(id == OPT_FOLLOW ? &l->follow : id == OPT_JSON ? &l->json : &l->timestamps) = 1;
		return 0;
	}
}

static int is_log_entry_wanted(const struct logs *l, const json_t *entry)
{
	const char *time = json_string_value(json_object_get(entry, "time"));
	const char *source = json_string_value(json_object_get(entry, "source"));

	if (!time || !source || (l->since[0] && strcmp(time, l->since) < 0))
		return 0;
	if (l->main_only)
		return !strcmp(source, KEEPER_LOG_MAIN) || !strcmp(source, KEEPER_LOG_INIT);
	return !l->source || !strcmp(source, l->source) || (!strncmp(source, "session ", 8) && !strcmp(source + 8, l->source));
}

static int write_or_hold_log(struct logs *l, const char *p, size_t n, struct err *e)
{
	struct run *last = l->runs.len ? (struct run *)(l->runs.data + l->runs.len) - 1 : NULL;
	struct run next = { l->held.len + n, l->to };

	if (!l->has_tail)
		return io_write_all(l->to, p, n) < 0 ? err_sys(e, "write the output") : 0;
	if (buf_add(&l->held, p, n, e) < 0)
		return -1;
	if (!last || last->to != l->to)
		return buf_add(&l->runs, (const char *)&next, sizeof(next), e);
	last->end = l->held.len;
	return 0;
}

static int is_stderr(const json_t *entry)
{
	const char *stream = json_string_value(json_object_get(entry, "stream"));

	return stream && !strcmp(stream, "stderr");
}

/* ---- lines with a stamp ---- */

/* Prints a line, or what there is of it, and lets it go. */
static int end_part(struct logs *l, struct part *p, struct err *e)
{
	int r;

	l->to = p->to;
	r = write_or_hold_log(l, p->head, strlen(p->head), e) < 0 || write_or_hold_log(l, " ", 1, e) < 0 ||
		write_or_hold_log(l, p->text.data, p->text.len, e) < 0 ||
	    write_or_hold_log(l, "\n", 1, e) < 0 ? -1 : 0;
	buf_release(&p->text);
	l->part_count--;
	memmove(p, p + 1, (size_t)(l->parts + l->part_count - p) * sizeof(*p));
	return r;
}

static int end_parts(struct logs *l, struct err *e)
{
	int r = 0;

	while (r == 0 && l->part_count)
		r = end_part(l, l->parts, e);
	return r;
}

static int begin_part(struct logs *l, const json_t *entry, struct part **ret, struct err *e)
{
	struct part *p;
	int n;

	if (!l->parts && !(l->parts = calloc(PARTS_MAX, sizeof(*l->parts))))
		return err_nomem(e);
	if (l->part_count == PARTS_MAX && end_part(l, l->parts, e) < 0)
		return -1;
	l->to = l->main_only && is_stderr(entry) ? STDERR_FILENO : STDOUT_FILENO;
	p = &l->parts[l->part_count++];
	*p = (struct part){ .is_stderr = is_stderr(entry), .to = l->to, .text = BUF_INIT(PART_BYTES) };
	n = snprintf(p->head, sizeof(p->head), "%.40s ", json_string_value(json_object_get(entry, "time")));
	p->source = p->head + n;
	snprintf(p->head + n, sizeof(p->head) - (size_t)n, "%.90s", json_string_value(json_object_get(entry, "source")));
	*ret = p;
	return 0;
}

/* The unfinished line of that source and stream, or NULL. */
static struct part *find_part(const struct logs *l, const json_t *entry)
{
	const char *source = json_string_value(json_object_get(entry, "source"));
	size_t i;

	for (i = 0; i < l->part_count; i++)
		if (l->parts[i].is_stderr == is_stderr(entry) && !strncmp(l->parts[i].source, source, 90))
			return &l->parts[i];
	return NULL;
}

static int show_stamped(struct logs *l, const json_t *entry, const char *text, size_t n, struct err *e)
{
	struct part *p = find_part(l, entry);

	while (n) {
		const char *nl = memchr(text, '\n', n);
		size_t part = nl ? (size_t)(nl - text) : n, room;

		if (!p && begin_part(l, entry, &p, e) < 0)
			return -1;
		room = PART_BYTES - 1 - p->text.len;
		if (part > room) {
			part = room;
			nl = NULL;
		}
		if (buf_add(&p->text, text, part, e) < 0)
			return -1;
		if (nl || part == room) {
			if (end_part(l, p, e) < 0)
				return -1;
			p = NULL;
		}
		text += part + (nl != NULL);
		n -= part + (nl != NULL);
	}
	return 0;
}

/* ---- */

static int show_journal_entry(struct logs *l, json_t *entry, struct err *e)
{
	const json_t *data = json_object_get(entry, "data");
	size_t n = json_string_length(data);
	autofree char *text = NULL;
	char head[200];

	l->to = l->main_only && !l->json && is_stderr(entry) ? STDERR_FILENO : STDOUT_FILENO;
	if (l->json) {
		text = json_dumps(entry, JSON_COMPACT);
		return !text || write_or_hold_log(l, text, strlen(text), e) < 0 || write_or_hold_log(l, "\n", 1, e) < 0 ? err_sys(e, "write to stdout") : 0;
	}
	if (!data && l->timestamps) {
		struct part *p = find_part(l, entry);

		if ((p && end_part(l, p, e) < 0) || begin_part(l, entry, &p, e) < 0 ||
		    buf_addf(&p->text, e, "[%lld bytes were not kept]", (long long)json_integer_value(json_object_get(entry, "dropped"))) < 0)
			return -1;
		return end_part(l, p, e);
	}
	if (!data) {
		snprintf(head, sizeof(head), "[%lld bytes of %s were not kept]\n",
			 (long long)json_integer_value(json_object_get(entry, "dropped")),
			 json_string_value(json_object_get(entry, "source")));
		return write_or_hold_log(l, head, strlen(head), e);
	}
	text = malloc(n + 1);
	if (!text)
		return err_nomem(e);
	memcpy(text, json_string_value(data), n);
	if (json_is_true(json_object_get(entry, "bytes")))
		n = keeper_log_bytes(text, n);
	return l->timestamps ? show_stamped(l, entry, text, n, e) : write_or_hold_log(l, text, n, e);
}

static int drain_log(struct logs *l, struct journal_reader *r, struct err *e)
{
	json_t *entry;
	int got, failed;

	while ((got = journal_next(r, &entry, e)) > 0) {
		failed = is_log_entry_wanted(l, entry) ? show_journal_entry(l, entry, e) : 0;
		json_decref(entry);
		if (failed < 0)
			return -1;
	}
	if (r->lost != l->lost)
		log_note("berth logs", "%llu bytes of the log were too old to be kept", (unsigned long long)(r->lost - l->lost));
	l->lost = r->lost;
	return got;
}

/* The last lines of what was held back; from then on nothing is. */
static int flush_tail(struct logs *l, struct err *e)
{
	const char *start = l->held.data, *p = start ? start + l->held.len : NULL;
	size_t at, i;
	uint64_t lines = 0;
	int r = 0;

	if (!l->has_tail || !p) {
		l->has_tail = 0;
		return 0;
	}
	/* the newline at the very end ends the last line */
	for (p -= l->held.len > 0 && p[-1] == '\n'; p > start; p--)
		if (p[-1] == '\n' && ++lines >= l->tail)
			break;
	if (!l->tail)
		p = start + l->held.len;
	l->has_tail = 0;
	at = (size_t)(p - start);
	for (i = 0; r == 0 && i < l->runs.len / sizeof(struct run); i++) {
		const struct run *run = (const struct run *)l->runs.data + i;

		l->to = run->to;
		if (run->end > at)
			r = write_or_hold_log(l, start + at, run->end - at, e);
		at = run->end > at ? run->end : at;
	}
	buf_release(&l->held);
	buf_release(&l->runs);
	return r;
}

static int read_whole_log(struct logs *l, int dir, int sock, struct err *e)
{
	struct journal_reader r;
	autoclose int watch = -1;
	int result, over = sock < 0;

	if (l->follow && (watch = journal_watch(dir, e)) < 0)
		return -1;
	result = journal_open(&r, dir, KEEPER_LOG, l->from, e);
	/* a writer may be as fast as we are */
	if (!l->follow)
		r.end = journal_end(dir, KEEPER_LOG);
	if (result == 0)
		result = drain_log(l, &r, e);
	/* of a log that goes on the rest of those lines may come */
	if (result == 0 && (!l->follow || over))
		result = end_parts(l, e);
	if (result == 0)
		result = flush_tail(l, e);
	while (result == 0 && l->follow && !over) {
		struct pollfd p[3] = { { .fd = watch, .events = POLLIN }, { .fd = STDOUT_FILENO }, { .fd = sock, .events = POLLIN } };

		if (poll(p, 3, -1) < 0 && errno != EINTR)
			result = err_sys(e, "wait for the log");
		if (p[1].revents & (POLLERR | POLLHUP))
			break;
		/* a keeper says nothing unasked: readable is its end, after which one more look has all */
		over = p[2].revents != 0;
		journal_drain(watch);
		if (result == 0)
			result = drain_log(l, &r, e);
	}
	if (result == 0)
		result = end_parts(l, e);
	journal_reader_close(&r);
	return result;
}

static int is_service(struct sandbox_ref *s)
{
	struct err ignored;
	autojson json_t *record = record_load_kept(&s->registry, s->id, &ignored);

	return record_service(record);
}

static int logs_of(struct logs *l, const char *ref, struct err *e)
{
	struct sandbox_ref s;
	autoclose int dir = -1;
	int r;

	sandbox_ref_init(&s);
	r = sandbox_ref_find(&s, ref, e);
	if (r == 0) {
		dir = openat(s.registry.kept_fd, s.id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir < 0)
			r = errno == ENOENT ? err_set(e, ERR_INVALID, "sandbox %s does not last and has no log", s.id) :
					      err_sys(e, "open the directory of sandbox %s", s.id);
	}
	if (r == 0)
		l->main_only = !l->all && !l->source && is_service(&s);
	if (r == 0 && l->follow && !s.kept) {
		s.sock = keeper_connect(&s.registry, s.id, e);
		r = s.sock < 0 && e->code != ERR_NOT_FOUND ? -1 : 0;
	}
	if (r == 0)
		r = read_whole_log(l, dir, s.sock, e);
	sandbox_ref_close(&s);
	while (l->part_count)
		buf_release(&l->parts[--l->part_count].text);
	free(l->parts);
	buf_release(&l->held);
	buf_release(&l->runs);
	return r;
}

static int run_logs(const struct command *self, int argc, char **argv)
{
	struct logs l = { .to = STDOUT_FILENO, .held = BUF_INIT(TAIL_BYTES), .runs =
			  BUF_INIT(TAIL_BYTES) };
	struct err e = { 0 };
	int rest, help = 0, r;

	r = command_options(self, argc, argv, set_logs_option, &l, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth logs ID");
	if (r == 0)
		r = logs_of(&l, argv[rest], &e);
	return r < 0 ? command_fail(self, &e, l.json) : 0;
}

const struct command cmd_logs = {
	.name = "logs",
	.args = "SANDBOX",
	.summary = "show what a service, or a sandbox's detached commands and sessions wrote",
	.detail = "Of a service its main command's output, the two streams apart.  Of stopped\n"
		  "sandboxes, too.  The output of berth exec goes to its caller, not to the log.  The\n"
		  "last [manager] log_size of it is kept, of one command at most 256 KiB a stream.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = run_logs,
};
