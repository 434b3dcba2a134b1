/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait_log - a child process that reads a sandbox's log until each of some regular
 * expressions has matched a line of it.
 *
 * The log is hostile, and a regular expression may take time and memory without
 * end: so this has a limit of memory, and whoever waits kills it at the deadline.
 * Of a line that is longer than LOG_LINE bytes, matches of up to half of that are
 * found anywhere in it.
 */
#ifndef BERTH_CLI_LIVE_WAIT_LOG_H
#define BERTH_CLI_LIVE_WAIT_LOG_H

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

#define WAIT_LOGS_MAX 8
#define LOG_LINE 16384
#define LOG_REGEX_MAX 1024	/* bytes of one */

/* The child's report: which expression has matched, or, with e.code, why it ended. */
struct wait_log_news {
	int index;
	struct err e;
};

struct wait_log {
	pid_t pid;
	int fd;		/* its struct wait_log_news come here; -1: none runs */
};

struct wait_log_want {
	const char *const *regex;
	size_t count;
	const char *since;	/* lines from this time on count */
	int main_only;		/* those of a service's main command */
};

/* log_dir_fd is borrowed. */
int wait_log_start(struct wait_log *w, int log_dir_fd, const struct wait_log_want *want,
		   struct err *e);
/* The sandbox has stopped: the child reads what is left of the log, and its end of fd closes. */
void wait_log_last(struct wait_log *w);
/* Kills and reaps it. */
void wait_log_end(struct wait_log *w);

/* ---- pure, for tests: the lines of one stream */

struct log_line {
	char text[LOG_LINE + 1];
	size_t len;
	int cut;	/* the line began before text */
};

typedef void log_line_fn(void *ctx, const struct log_line *l, int ended);
/* Adds n bytes; fn is called for each line that ends, and each full window of one that does not. */
void log_line_add(struct log_line *l, const char *p, size_t n, log_line_fn *fn, void *ctx);

#endif
