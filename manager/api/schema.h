/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema - the shapes of JSON bodies, as JSON Schema: requests are checked against the schemas
 * that /openapi.json shows.
 *
 * base/jsonschema.h lists the supported keys. Pure, but for schema_load(), which is called once
 * before any thread.
 */
#ifndef BERTH_MANAGER_API_SCHEMA_H
#define BERTH_MANAGER_API_SCHEMA_H

#include "base/err.h"
#include "base/json.h"

/* Parses the built-in schemas; an unknown key or $ref is ERR_INTERNAL. */
int schema_load(struct err *e);
/*
 * Checks v, which the error calls what: 0, or -1 with ERR_INVALID that says where v does not fit.
 */
int schema_check(const char *name, const json_t *v, const char *what, struct err *e);
/* All of them, borrowed: name -> schema. */
json_t *schema_all(void);

#endif
