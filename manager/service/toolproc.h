/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolproc - the processes in sandboxes that answer one line with another: the interpreter of a
 * sandbox's cells, and its MCP servers.
 *
 * A process is known by its sandbox and its name. A user holds its lock from toolproc_take() to
 * toolproc_give(), so it has one request at a time; it is not freed while it has users.
 */
#ifndef BERTH_MANAGER_SERVICE_TOOLPROC_H
#define BERTH_MANAGER_SERVICE_TOOLPROC_H

#include <pthread.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

/*
 * lineproc - a program in a sandbox that is sent a line and answers a line: the Python kernel, MCP
 * servers. It ends with its connection to the keeper, and so with berthd, too. Its output is
 * hostile: lines are bounded, and only parsed.
 */

#define LINE_MAX_BYTES (32u << 20)

struct lineproc {
	int sock, in_fd, out_fd;	/* our ends; -1 if it does not run */
	struct buf pending;
};

/* Starts argv. Takes over sock, a connection to the keeper. argv, env: arrays, borrowed; env may be NULL. */
int lineproc_start(struct lineproc *p, int sock, json_t *argv, json_t *env, struct err *e);
void lineproc_stop(struct lineproc *p);
/* Sends j and a newline. */
int lineproc_send(struct lineproc *p, const json_t *j, struct err *e);
/*
 * Receives the next line, as JSON: ERR_TIMEOUT after timeout_ms, ERR_NET if gone() says that the
 * client left, ERR_NOT_FOUND if the program has ended; after any of these it cannot be used any
 * more.
 */
json_t *lineproc_receive(struct lineproc *p, uint64_t timeout_ms, int (*gone)(void *ctx), void *ctx, struct err *e);

struct service_use;

struct toolproc {
	struct toolproc *next;
	char sandbox[65], name[65];
	pthread_mutex_t lock; /* one request at a time */
	struct lineproc proc;
	int running, users, doomed;
	uint64_t used_ms;
	json_t *config, *tools; /* for an MCP server */
	json_int_t next_id;
};

struct tools {
	pthread_mutex_t lock; /* the list */
	struct toolproc *all;
};

/* Frees one that is on no list. */
void toolproc_free(struct toolproc *p);
/*
 * Takes those of the sandbox with the name (NULL: any) off the list, with idle_before_ms only those
 * unused since; one in use ends when its user is done.
 */
void toolproc_drop(struct tools *t, const char *sandbox, const char *name, uint64_t idle_before_ms);
/* Returns the one of that name with its lock held; if there is none, with make a new one, else NULL. */
struct toolproc *toolproc_take(struct tools *t, const char *sandbox, const char *name, int make,
			       struct err *e);
/* Releases it; failed: it cannot be used any more. */
void toolproc_give(struct tools *t, struct toolproc *p, int failed);
/* Starts argv unless it runs, on a connection of its own, so that it outlives this request. */
int toolproc_start(struct service_use *u, struct toolproc *p, json_t *argv, json_t *env,
		   struct err *e);

#endif
