/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/schema.h"

#include "base/jsonschema.h"

extern const char schemas_start[], schemas_end[];	/* schemas.json, by schemas.S */

static struct jsonschema_set set = { .listed_in = "/openapi.json" };

int schema_load(struct err *e)
{
	const char *name;
	size_t n = (size_t)(schemas_end - schemas_start);
	json_t *s;

	if (set.named)
		return 0;
	set.named = json_parse(schemas_start, n, n, "schemas", e);
	json_object_foreach(set.named, name, s)
		if (jsonschema_known(&set, s, name, e) < 0)
			return -1;
	return set.named ? 0 : -1;
}

json_t *schema_all(void)
{
	return set.named;
}

int schema_check(const char *name, const json_t *v, const char *what, struct err *e)
{
	const json_t *s = json_object_get(set.named, name);

	return s ? jsonschema_fit(&set, s, v, what, e) : err_set(e, ERR_INTERNAL, "no schema %s", name);
}
