/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journals of a keeper: events of its sandbox for berth events, and for berth logs the
 * output of commands whose descriptors it holds (detached ones and those of shell sessions; a
 * foreground exec writes to the caller's own descriptors). Both are written after the client has
 * its answer.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/host/journal.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/sandbox/supervise.h"
#include "runtime/sandbox/writable.h"

#define PIECE 16384		/* bytes of output in one entry */
#define WRITE 81920		/* bytes of entries for one write */
#define LOG_LINES_MAX (WRITE + JOURNAL_ESCAPE * PIECE + 4096)
#define COMMAND_MAX (256u << 10)	/* bytes of one stream of a command */

void keeper_event(struct keeper *k, const char *event, json_t *members)
{
	if (!k->events.name)
		k->events = JOURNAL_INIT(k->registry->state_fd, EVENTS_FILE, EVENTS_BYTES);
	events_add_to(&k->events, event, k->claim.id, members);
}

static void tell_disk_errors(struct keeper *k)
{
	if (k->disk_errors > k->disk_errors_told)
		keeper_event(k, "disk-errors", json_pack("{s:I}", "count", (json_int_t)k->disk_errors));
	k->disk_errors_told = k->disk_errors;
}

void keeper_disk(struct keeper *k, struct verdict_facts *f)
{
	struct err ignored;

	if (supervise_disk(&k->sandbox, f, &ignored) < 0)
		return;
	if (f->has_disk_errors)
		k->disk_errors = f->disk_errors;
	else	/* the journal is on the host's disk, too: it has room again */
		tell_disk_errors(k);
}

void keeper_disk_last(struct keeper *k)
{
	struct statfs fs;
	autoclose int top = -1;

	if (k->for_files || k->spec->passing || k->sandbox.base_fd < 0 || k->sandbox.host_fd < 0 || fstatfs(k->sandbox.host_fd, &fs) < 0)
		return;
	if ((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize < k->spec->disk_bytes) {
		top = openat(k->sandbox.base_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)!syncfs(top);	/* what failed, the kernel has counted */
	}
	k->disk_errors = writable_errors(k->sandbox.base_fd);
	tell_disk_errors(k);
}

static uint64_t disk_next(struct keeper *k)
{
	return layerguard_next(&k->sandbox.guard);
}

static void disk_check(struct keeper *k, uint64_t now)
{
	if (layerguard_check(&k->sandbox.guard, now) && k->trimmed)
		k->trim = 1;
}

const struct keeper_part keeper_part_disk = { .next = disk_next, .check = disk_check };

#define EVENT_TEXT 200

/* Returns the length of a text for an event: its beginning, in whole characters. */
static size_t text_length(const char *text)
{
	size_t n = text ? strnlen(text, EVENT_TEXT) : 0;

	while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	return n;
}

void keeper_event_exec(struct keeper *k, const struct keeper_command *c)
{
	const char *text = c->text ? c->text : "";
	char id[24];

	snprintf(id, sizeof(id), "c%u", c->seq);
	keeper_event(k, "exec", json_pack("{s:s,s:s#}", "command", id, "text", text,
					  text_length(text)));
}

/* The end of a command: an event of its own where a limit ended it. */
void keeper_event_end(struct keeper *k, const char *ordinary, const struct verdict *v, json_t *members)
{
	const char *cause = verdict_cause_name(v->cause);

	json_object_set_new(members, "cause", json_string(cause));
	json_object_set_new(members, "exit_status", json_integer(verdict_exit_status(v)));
	json_object_set_new(members, "wall_ms", json_integer((json_int_t)v->facts.wall_ms));
	if (v->cause == CAUSE_SILENT)
		cause = verdict_cause_name(CAUSE_TIMEOUT);
	keeper_event(k, !strcmp(cause, "timeout") || !strcmp(cause, "oom") ? cause : ordinary, members);
}

/*
 * Text unchanged; bytes that are not text as the characters with their numbers, 0 as U+0100,
 * marked by "bytes".
 */
static int add_log_data(struct buf *line, const char *p, size_t n, struct err *e)
{
	const size_t at = line->len;
	const int r = journal_add_text(line, p, n, e);
	char *q;
	size_t i;

	if (r <= 0)
		return r;
	line->len = at;
	if (buf_reserve(line, n * JOURNAL_ESCAPE + 2, e) < 0)
		return -1;
	q = line->data + line->len;
	*q++ = '"';
	for (i = 0; i < n; i++) {
		const unsigned char c = (unsigned char)p[i];

		if (!c || c >= 0x80) {
			*q++ = (char)(c ? 0xc0 | c >> 6 : 0xc4);
			*q++ = (char)(0x80 | (c & 0x3f));
		} else if (c < 0x20 || c == '"' || c == '\\') {
			q += journal_escape(c, q);
		} else {
			*q++ = (char)c;
		}
	}
	*q++ = '"';
	line->len = (size_t)(q - line->data);
	return buf_adds(line, ",\"bytes\":true", e);
}

static struct journal *keeper_output_log(struct keeper *k)
{
	struct err ignored;

	if (!k->registry->config->log_bytes)
		return NULL;
	if (!k->log.name) {
		k->log_dir_fd = registry_keep_dir(k->registry, k->claim.id, &ignored);
		k->log = JOURNAL_INIT(k->log_dir_fd, KEEPER_LOG, k->registry->config->log_bytes / 2);
	}
	return k->log_dir_fd < 0 ? NULL : &k->log;
}

static size_t log_piece(const char *p, size_t n)
{
	size_t part = n < PIECE ? n : PIECE, back;

	/* do not cut within a character */
	for (back = 0; part < n && back < 4 && ((unsigned char)p[part - back] & 0xc0) == 0x80; back++)
		;
	return part - back;
}

/* One entry of output, without its end: the journal adds the time. */
static int add_log_entry(struct buf *lines, const char *source, const char *stream, const char *p, size_t n, struct err *e)
{
	if (buf_adds(lines, "{\"source\":", e) < 0 || journal_add_text(lines, source, strlen(source), e) != 0 ||
	    buf_addf(lines, e, ",\"stream\":\"%s\",\"data\":", stream) < 0 || add_log_data(lines, p, n, e) < 0)
		return -1;
	return journal_end_line(lines, e);
}

/*
 * A log that is written for ever costs our time, which the sandbox does not pay: so several
 * entries are one write.
 */
static void keeper_log(struct keeper *k, const char *source, const char *stream, const char *p,
		       size_t n)
{
	struct journal *log = n ? keeper_output_log(k) : NULL;
	struct buf *lines = &k->log_lines;
	const size_t most = log && log->max_bytes / 4 < WRITE ? (size_t)(log->max_bytes / 4) : WRITE;
	struct err ignored;
	size_t part;

	lines->max = LOG_LINES_MAX;
	lines->len = 0;
	for (; log && n; p += part, n -= part) {
		part = log_piece(p, n);
		if (add_log_entry(lines, source, stream, p, part, &ignored) < 0)
			return;
		if (n > part && lines->len < most)
			continue;
		if (journal_add_lines(log, lines->data, lines->len, &ignored) < 0)
			return;
		lines->len = 0;
	}
}

void keeper_log_dropped(struct keeper *k, const char *source, const char *stream, uint64_t n)
{
	struct journal *log = n ? keeper_output_log(k) : NULL;
	struct err ignored;

	if (log)
		journal_add(log, json_pack("{s:s,s:s,s:I}", "source", source, "stream", stream, "dropped", (json_int_t)n), &ignored);
}

void keeper_log_command(struct keeper *k, struct keeper_command *c, int which, const char *p, size_t n)
{
	static const char *const streams[] = { "stdout", "stderr" };
	char source[24];
	uint64_t room = c->logged[which] < COMMAND_MAX ? COMMAND_MAX - c->logged[which] : 0;

	if (keeper_main_is(k, c)) {
		c->logged[which] += n;
		keeper_log(k, keeper_main_source(k), streams[which], p, n);
		return;
	}
	if (c->tty || c->session >= 0 || c->check || !c->detached)
		return;
	snprintf(source, sizeof(source), "c%u", c->seq);
	n = n < room ? n : (size_t)room;
	c->logged[which] += n;
	keeper_log(k, source, streams[which], p, n);
}

/* The beginning and the end of it, as its client got it. */
void keeper_log_session(struct keeper *k, const struct keeper_session *s, const char *stream, const char *p, size_t head, size_t n,
			uint64_t dropped)
{
	char source[80];
	size_t half = COMMAND_MAX / 2;

	snprintf(source, sizeof(source), "session %s", s->name);
	if (n > COMMAND_MAX && !dropped)
		head = half;
	if (n <= COMMAND_MAX && !dropped) {
		keeper_log(k, source, stream, p, n);
		return;
	}
	if (head > half)
		dropped += head - half;
	keeper_log(k, source, stream, p, head < half ? head : half);
	p += head;
	n -= head;
	if (n > half) {
		dropped += n - half;
		p += n - half;
		n = half;
	}
	keeper_log_dropped(k, source, stream, dropped);
	keeper_log(k, source, stream, p, n);
}

void keeper_journal_end(struct keeper *k)
{
	buf_release(&k->log_lines);
	if (k->events.name)
		journal_close(&k->events);
	if (k->log.name) {
		journal_close(&k->log);
		fd_close(&k->log_dir_fd);
	}
}
