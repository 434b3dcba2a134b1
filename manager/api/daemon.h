/* SPDX-License-Identifier: Apache-2.0 */
/* daemon - what berthd consists of: the table of all routes, and the threads behind them. */
#ifndef BERTH_MANAGER_API_DAEMON_H
#define BERTH_MANAGER_API_DAEMON_H

#include "manager/api/api.h"

/* All routes, in the order they are tried; the last table is NULL. */
extern const struct http_route *const daemon_routes[];

/* Starts the threads, after api_init(), and after signals are blocked. */
int daemon_start(struct api *a, struct err *e);
/* api_reload(), and ends the MCP sessions whose token has its role no longer. */
int daemon_reload(struct api *a, struct err *e);
/* Ends the threads, and api_release(). */
void daemon_end(struct api *a);
/* http_options.on_audit: publishes the audit line of a request that changed something. */
void daemon_on_audit(void *context, const json_t *line);

#endif
