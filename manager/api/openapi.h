/* SPDX-License-Identifier: Apache-2.0 */
/* openapi - the OpenAPI 3.0 document of the routes that are served. */
#ifndef BERTH_MANAGER_API_OPENAPI_H
#define BERTH_MANAGER_API_OPENAPI_H

#include "manager/api/http.h"

/* A new reference, or NULL. */
json_t *openapi_document(const struct http_route *const *tables, struct err *e);

#endif
