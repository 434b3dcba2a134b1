/* SPDX-License-Identifier: Apache-2.0 */
/* logs - GET /containers/{id}/logs: the journal of a sandbox as Docker's stream. */
#ifndef BERTH_MANAGER_DOCKER_LOGS_H
#define BERTH_MANAGER_DOCKER_LOGS_H

#include "manager/api/http.h"
#include "manager/host/journal.h"

struct box;
struct http_request;

/* A time of a query as the journal has it; "" where it is absent.  -1 with 400. */
int docker_query_time(struct http_request *rq, const char *name, char out[JOURNAL_TIME],
		      struct err *e);
/* What the log of b has now, to a connection that became a stream; tty: without frames. */
int docker_logs_send(struct box *b, struct http_request *rq, int fd, int tty, const int want[2],
		     struct err *e);
int docker_logs(struct http_request *rq, struct err *e);

#endif
