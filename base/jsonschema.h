/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jsonschema - whether a JSON value has the shape that a JSON Schema gives it.
 *
 * Understood: type (also a list), properties, required, additionalProperties
 * (false or a schema), items, enum, minimum, maximum, minLength, maxLength,
 * maxItems, $ref to a schema of the same set.  Pure.
 */
#ifndef BERTH_BASE_JSONSCHEMA_H
#define BERTH_BASE_JSONSCHEMA_H

#include "base/err.h"
#include "base/json.h"

struct jsonschema_set {
	json_t *named;		/* what "#/components/schemas/NAME" refers to; may be NULL */
	const char *listed_in;	/* where a caller finds the members that are known, for hints */
};

/*
 * Checks the schema s, which messages call name. ERR_INTERNAL if it has a key that
 * jsonschema_fit() does not understand, because nothing would enforce that key, or a $ref
 * without a target.
 */
int jsonschema_known(const struct jsonschema_set *set, const json_t *s, const char *name,
		     struct err *e);
/* Checks v, which messages call what, against s: 0, or -1 with ERR_INVALID. */
int jsonschema_fit(const struct jsonschema_set *set, const json_t *s, const json_t *v,
		   const char *what, struct err *e);

#endif
