/* SPDX-License-Identifier: Apache-2.0 */
/* boxcreate - POST /v1/sandboxes: a plain sandbox, or one that the manager keeps. */
#ifndef BERTH_MANAGER_API_BOXCREATE_H
#define BERTH_MANAGER_API_BOXCREATE_H

#include "manager/api/http.h"

int boxcreate_post(struct http_request *rq, struct err *e);

#endif
