/* SPDX-License-Identifier: Apache-2.0 */
/* logs - GET /containers/{id}/logs: the journal of a sandbox as Docker's stream. */
#ifndef BERTH_MANAGER_DOCKER_LOGS_H
#define BERTH_MANAGER_DOCKER_LOGS_H

#include "manager/api/http.h"

int docker_logs(struct http_request *rq, struct err *e);

#endif
