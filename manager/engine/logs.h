/* SPDX-License-Identifier: Apache-2.0 */
/*
 * logs - the output of a container's main command in the form of docker logs: lines, times, the
 * last N.
 */
#ifndef BERTH_MANAGER_ENGINE_LOGS_H
#define BERTH_MANAGER_ENGINE_LOGS_H

#include "manager/host/journal.h"

#define ENGINE_LOGS_PIECE (4 * JOURNAL_LINE_MAX) /* bytes of one call of put, at most */

struct engine_logs {
	int want[2]; /* stdout, stderr */
	int timestamps;
	int goes_on; /* what is written later is shown, too; without it the log ends where it ends now */
	char since[JOURNAL_TIME], until[JOURNAL_TIME]; /* "": no bound */
	/* which: 0 for stdout, 1 for stderr */
	int (*put)(void *ctx, int which, const char *p, size_t n, struct err *e);
	void *ctx;
	/* its own */
	struct journal_reader reader;
	int opened;
	json_t *first; /* an entry that was read and not shown yet */
	uint64_t skip; /* lines of the beginning that are not shown */
	int within[2]; /* a line of that stream has begun */
};

/* A time of a client: seconds with a fraction, or what berth logs --since takes; "" for "" or "0".
 */
int engine_logs_time(const char *text, char out[JOURNAL_TIME], struct err *e);
/* dir: the sandbox's, borrowed; tail -1: all lines. */
int engine_logs_open(struct engine_logs *l, int dir, int64_t tail, struct err *e);
/* Writes the next entry of the journal: 1; 0 if there is none now. */
int engine_logs_next(struct engine_logs *l, struct err *e);
void engine_logs_close(struct engine_logs *l);

#endif
