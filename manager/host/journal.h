/* SPDX-License-Identifier: Apache-2.0 */
/*
 * journal - a bounded log of JSON objects, one a line, that many processes write and read.
 *
 * It has a file NAME and its predecessor NAME.1, together at most twice the given size; the
 * oldest lines are dropped. Whole lines are one write(2) under a lock, so readers see whole lines in
 * one order. The first line of a file, {"base":N}, is the number of bytes before it. So a
 * position in the journal (a cursor) stays valid when the files change, and the number of lost
 * bytes is known exactly.
 */
#ifndef BERTH_MANAGER_HOST_JOURNAL_H
#define BERTH_MANAGER_HOST_JOURNAL_H

#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"

#define JOURNAL_LINE_MAX (256u << 10)

struct journal {
	int dir_fd;		/* borrowed */
	const char *name;	/* borrowed; at most 60 bytes */
	uint64_t max_bytes;	/* of one file */
	int fd;			/* -1: not open yet */
	int stuck;		/* the lock was not obtained last time */
};

#define JOURNAL_INIT(dirfd, filename, bytes) ((struct journal){ (dirfd), (filename), (bytes), -1, 0 })

/*
 * Adds "time" (UTC, milliseconds) and writes entry, which it consumes. ERR_BUSY if another process
 * holds the lock for a second.
 */
int journal_add(struct journal *j, json_t *entry, struct err *e);
/* Writes entries that have their time, each a line: one write under the lock. */
int journal_add_lines(struct journal *j, const char *lines, size_t n, struct err *e);
/*
 * Adds n bytes to a line as a string of JSON with its quotes. 0; 1 if they are not UTF-8 without
 * NUL, with a part of them added; -1.
 */
int journal_add_text(struct buf *line, const char *p, size_t n, struct err *e);
#define JOURNAL_ESCAPE 6
/* Writes what stands in a string for c, which is below 0x20, a quote or a backslash, and not 0; returns its length. */
size_t journal_escape(unsigned char c, char *out);
/* Ends a line that begins an object with at least one member: adds "time", the brace and the newline. */
int journal_end_line(struct buf *line, struct err *e);
void journal_close(struct journal *j);

struct journal_reader {
	int dir_fd;
	const char *name;
	int fd;
	uint64_t base;		/* base of the open file */
	uint64_t at;		/* the next byte to read, counted from the journal's first */
	uint64_t lost;		/* bytes that were dropped before they could be read */
	uint64_t end;		/* where it stops: UINT64_MAX, or what a caller sets, as journal_end() */
	struct buf b;		/* bytes read but not returned yet; they begin at `at` */
	size_t done;
};

/* Reads from cursor on (0: from the oldest there is); a journal that does not exist is empty. */
int journal_open(struct journal_reader *r, int dir_fd, const char *name, uint64_t cursor, struct err *e);
/* The cursor after the last entry of now; 0 if there is no journal. */
uint64_t journal_end(int dir_fd, const char *name);
/*
 * Returns 1 with the next entry (a new reference), whose "cursor" continues after it; 0 if there is
 * none now.
 */
int journal_next(struct journal_reader *r, json_t **ret, struct err *e);
void journal_reader_close(struct journal_reader *r);
/* Returns a descriptor that becomes readable when something changed; drain it with journal_drain(). */
int journal_watch(int dir_fd, struct err *e);
void journal_drain(int watch_fd);

/* Size of a time such as "2026-11-21T08:16:11.123Z"; times compare as text. */
#define JOURNAL_TIME 32
void journal_time(const struct timespec *t, char out[JOURNAL_TIME]);
/* Reads an argument of --since: a time ago ("10m"), or a date as above, possibly shortened. */
int journal_since(const char *text, char out[JOURNAL_TIME], struct err *e);

/* ---- the events of this host ---- */

/*
 * Events of the sandboxes on this host, in the journal state_dir/events.
 *
 * Best effort: a failure to write an event stops nothing.
 */

#define EVENTS_FILE "events"
#define EVENTS_BYTES (1u << 20)	/* bytes of one of its two files */

/* Adds {"event":EVENT,"id":ID, members}; members (may be NULL) is consumed. */
void events_add(struct registry *r, const char *event, const char *id, json_t *members);
/* As events_add(), for a journal that stays open: JOURNAL_INIT(r->state_fd, EVENTS_FILE, EVENTS_BYTES). */
void events_add_to(struct journal *j, const char *event, const char *id, json_t *members);
/* Tells whether only the journal shows that the event happened, and no file of the sandbox. */
int events_is_own(const char *event);

#endif
