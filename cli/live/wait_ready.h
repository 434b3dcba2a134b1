/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait_ready - wait until a sandbox is ready: its health check has succeeded,
 * something listens on a port in it, its log has a line.
 *
 * Health and log wake the waiting; a port is looked for every 100 ms at most, in
 * what the kernel lists, so that nothing is connected to.
 */

/*
 * wait_log - a child process that reads a sandbox's log until each of some regular
 * expressions has matched a line of it.
 *
 * The log is hostile, and a regular expression may take time and memory without
 * end: so this has a limit of memory, and whoever waits kills it at the deadline.
 * Of a line that is longer than LOG_LINE bytes, matches of up to half of that are
 * found anywhere in it.
 */
#ifndef BERTH_CLI_LIVE_WAIT_READY_H
#define BERTH_CLI_LIVE_WAIT_READY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "cli/command.h"

/* ---- a line of the log ---- */

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

#define WAIT_PORTS_MAX 8

enum wait_ready_id {
	WAIT_READY_HEALTHY = 100, WAIT_READY_PORT, WAIT_READY_LOG, WAIT_READY_TIMEOUT
};

#define WAIT_READY_TABLE \
	{ "healthy", 0, OPT_FLAG, NULL, "until its health check has succeeded", \
	  WAIT_READY_HEALTHY }, \
	{ "port", 0, OPT_LIST, "PORT", "until something in it listens on this TCP port", \
	  WAIT_READY_PORT }, \
	{ "log", 0, OPT_LIST, "REGEX", "until a line of its log matches", WAIT_READY_LOG }, \
	{ "timeout", 0, OPT_VALUE, "TIME", \
	  "no longer than this for what it shall be ready by; 0 is for ever (default: 60s)", \
	  WAIT_READY_TIMEOUT }

struct wait_ready {
	int healthy;
	uint16_t ports[WAIT_PORTS_MAX];
	size_t port_count;
	const char *logs[WAIT_LOGS_MAX];	/* POSIX extended regular expressions, borrowed */
	size_t log_count;
	uint64_t timeout_ms;			/* 0: for ever */
	int timed;				/* somebody said so */
};

#define WAIT_READY_INIT { .timeout_ms = 60000 }

/* 1 if id is not one of its options. */
int wait_ready_set(struct wait_ready *w, int id, const char *value, struct err *e);
/* How many conditions there are. */
size_t wait_ready_count(const struct wait_ready *w);
/*
 * Waits until all conditions are met: 0 with the sandbox's id and the time it took. ERR_TIMEOUT,
 * which names the missing one; ERR_UNHEALTHY; ERR_NOT_FOUND if it does not run, or stops
 * meanwhile.
 */
int wait_ready(const struct wait_ready *w, const char *ref, char ret_id[65], uint64_t *ret_ms,
	       struct err *e);

#endif
