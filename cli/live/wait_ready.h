/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wait_ready - wait until a sandbox is ready: its health check has succeeded,
 * something listens on a port in it, its log has a line.
 *
 * Health and log wake the waiting; a port is looked for every 100 ms at most, in
 * what the kernel lists, so that nothing is connected to.
 */
#ifndef BERTH_CLI_LIVE_WAIT_READY_H
#define BERTH_CLI_LIVE_WAIT_READY_H

#include <stdint.h>

#include "cli/command.h"
#include "cli/live/wait_log.h"

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
