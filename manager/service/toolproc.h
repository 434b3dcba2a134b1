/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toolproc - the processes in sandboxes that answer one line with another: the interpreter of a
 * sandbox's cells, and its MCP servers.
 *
 * One is known by its sandbox and its name. A user holds its lock from toolproc_take() to
 * toolproc_give(), so it has one request at a time; it is not freed while it has users.
 */
#ifndef BERTH_MANAGER_SERVICE_TOOLPROC_H
#define BERTH_MANAGER_SERVICE_TOOLPROC_H

#include <pthread.h>

#include "manager/service/lineproc.h"

struct service_use;

struct toolproc {
	struct toolproc *next;
	char sandbox[65], name[65];
	pthread_mutex_t lock; /* one request at a time */
	struct lineproc proc;
	int running, users, doomed;
	uint64_t used_ms;
	json_t *config, *tools; /* of an MCP server */
	json_int_t next_id;
};

struct tools {
	pthread_mutex_t lock; /* the list */
	struct toolproc *all;
};

/* One that is on no list. */
void toolproc_free(struct toolproc *p);
/*
 * Takes those of the sandbox with the name (NULL: any) off the list, with idle_before_ms only
 * those unused since; one in use ends when its user is done.
 */
void toolproc_drop(struct tools *t, const char *sandbox, const char *name, uint64_t idle_before_ms);
/* The one of that name with its lock held; with make a new one if there is none, else NULL. */
struct toolproc *toolproc_take(struct tools *t, const char *sandbox, const char *name, int make,
			       struct err *e);
/* failed: it cannot be used any more. */
void toolproc_give(struct tools *t, struct toolproc *p, int failed);
/* Starts argv unless it runs, on a connection of its own, so that it outlives this request. */
int toolproc_start(struct service_use *u, struct toolproc *p, json_t *argv, json_t *env,
		   struct err *e);

#endif
