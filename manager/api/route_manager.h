/* SPDX-License-Identifier: Apache-2.0 */
/* route_manager - what the routes of the manager share. */
#ifndef BERTH_MANAGER_API_ROUTE_MANAGER_H
#define BERTH_MANAGER_API_ROUTE_MANAGER_H

#include "manager/api/api.h"
#include "manager/api/once.h"
#include "manager/service/service.h"

extern const struct http_route agentscope_routes[], manager_routes[], proxy_routes[];

struct service *manager_of(struct http_request *rq);
struct service_who manager_who(struct http_request *rq);
/* The same for a request that makes a sandbox; o lasts as long.  With a key the sandbox waits for a client that has gone. */
struct service_who manager_who_once(struct http_request *rq, const struct once *o);
/* Without a key the sandbox is released if the reply cannot be sent. */
void manager_undo_unsent(struct http_request *rq, const struct once *o, const char *name);
/* Writes into the record where its workspace is served, as the client reached us: "url", and in "ports" that port. */
void manager_tell_url(const struct http_request *rq, json_t *record);
/* {"detail": ..., "code": ...} */
json_t *manager_detail(const struct err *e);
/* Starts the service; and ends it. */
int manager_start(struct api *a, struct err *e);
/* Uploads and downloads that requests wait for end after grace_ms. */
void manager_ending(struct api *a, unsigned grace_ms);
/* As service_end(). */
int manager_end(struct api *a, struct err *e);

#endif
