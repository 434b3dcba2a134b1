/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lineproc - a program in a sandbox that is sent a line and answers a line: the
 * Python kernel, MCP servers.  It ends with its connection to the keeper, so with
 * berthd, too.  What it says is hostile: lines are bounded, and only parsed.
 */
#ifndef BERTH_MANAGER_SERVICE_LINEPROC_H
#define BERTH_MANAGER_SERVICE_LINEPROC_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define LINE_MAX_BYTES (32u << 20)

struct lineproc {
	int sock, in_fd, out_fd;	/* our ends; -1 if it does not run */
	struct buf pending;
};

/* Takes over sock, a connection to the keeper.  argv, env: arrays, borrowed; env may be NULL. */
int lineproc_start(struct lineproc *p, int sock, json_t *argv, json_t *env, struct err *e);
void lineproc_stop(struct lineproc *p);
/* Sends j and a newline. */
int lineproc_send(struct lineproc *p, const json_t *j, struct err *e);
/*
 * The next line, as JSON: ERR_TIMEOUT after timeout_ms, ERR_NET when gone says so, ERR_NOT_FOUND
 * when it has ended; after any of them it is of no more use.
 */
json_t *lineproc_receive(struct lineproc *p, uint64_t timeout_ms, int (*gone)(void *ctx), void *ctx, struct err *e);

#endif
