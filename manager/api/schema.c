/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/schema.h"

#include <stdio.h>
#include <string.h>

#include "base/jsonschema.h"
#include "base/mem.h"
#include "manager/ops/params.h"

/* ---- schemas ---- */

extern const char schemas_start[], schemas_end[];	/* schemas.json, by schemas.S */

static json_t *documents; /* of set, with the options of a sandbox by name */
static struct jsonschema_set set = { .listed_in = "/openapi.json" };

/* ---- options of a sandbox, from their table -------------------------------------------------- */

#define OPTION_NUMBER_MAX 32	/* bytes of a number with its unit */
#define OPTION_MAX 65536
#define OPTION_ITEMS_MAX 200

/*
 * The member of an object in schemas.json whose further properties are the options of an operation.
 * The document has each with its type; requests are held against "Option", and the reader of options
 * (params_from_json()) says in its own words what a value should be.
 */
#define OPTIONS_OF "berth-options"

static const struct {
	const char *name;
	unsigned of;
} operations[] = {
	{ "create", PARAM_OF_CREATE | PARAM_OF_REQUEST },
	{ "run", PARAM_OF_RUN | PARAM_OF_REQUEST },
	{ "update", PARAM_OF_UPDATE },
	{ "fork", PARAM_OF_FORK },
	{ "zygote", PARAM_OF_ZYGOTE },
};

/* What params_from_json() takes. */
static json_t *types_of(const struct param *p)
{
	switch (p->type) {
	case PARAM_FLAG:
		return json_pack("{s:s}", "type", "boolean");
	case PARAM_SIZE:
	case PARAM_COUNT:
		return json_pack("{s:[s,s],s:i}", "type", "string", "integer", "maxLength", OPTION_NUMBER_MAX);
	case PARAM_MILLI:
	case PARAM_TIME:
		return json_pack("{s:[s,s],s:i}", "type", "string", "number", "maxLength", OPTION_NUMBER_MAX);
	case PARAM_TEXT:
		return p->number_too ? json_pack("{s:[s,s],s:i}", "type", "string", "number", "maxLength", OPTION_MAX) :
				       json_pack("{s:s,s:i}", "type", "string", "maxLength", OPTION_MAX);
	case PARAM_LIST:
		break;
	case PARAM_PAIRS:
		return json_pack("{s:[s,s,s],s:i,s:i,s:{s:s,s:i},s:{s:[s,s],s:i}}", "type", "array", "object", "string", "maxLength",
				 OPTION_MAX, "maxItems", OPTION_ITEMS_MAX, "items", "type", "string", "maxLength", OPTION_MAX,
				 "additionalProperties", "type", "string", "number", "maxLength", OPTION_MAX);
	}
	return json_pack("{s:[s,s,s],s:i,s:i,s:{s:[s,s],s:i}}", "type", "array", "string", "number", "maxLength", OPTION_MAX, "maxItems",
			 OPTION_ITEMS_MAX, "items", "type", "string", "number", "maxLength", OPTION_MAX);
}

static int add_schema_option(json_t *properties, const struct param *p, struct err *e)
{
	json_t *one = types_of(p);
	const char *preset = p->opt.preset;

	if (one && p->opt.help)
		json_object_set_new(one, "description", preset ? json_sprintf("%s (default: %s)", p->opt.help, preset) :
								 json_string(p->opt.help));
	return json_object_set_new(properties, p->opt.name, one) < 0 ? err_nomem(e) : 0;
}

static int add_schema_options(json_t *object, const char *operation, struct err *e)
{
	json_t *properties = json_object_get(object, "properties");
	const struct param *p;
	size_t i = 0;

	while (i < ARRAY_LEN(operations) && strcmp(operations[i].name, operation) != 0)
		i++;
	if (i == ARRAY_LEN(operations))
		return err_set(e, ERR_INTERNAL, "schemas.json names no operation '%.40s'", operation);
	if (!properties && json_object_set_new(object, "properties", properties = json_object()) < 0)
		return err_nomem(e);
	for (p = param_next(PARAM_NONE, operations[i].of); p; p = param_next(p->opt.id, operations[i].of))
		if (param_is_told(p, operations[i].of) && add_schema_option(properties, p, e) < 0)
			return -1;
	return json_object_set_new(object, "additionalProperties", json_false());
}

/* Adds the options to every object below s that names an operation, or (document 0) takes the name away. */
static int expand_schema(json_t *s, int document, struct err *e)
{
	const char *operation = json_string_value(json_object_get(s, OPTIONS_OF)), *key;
	json_t *one;

	if (operation && document && add_schema_options(s, operation, e) < 0)
		return -1;
	if (operation)
		json_object_del(s, OPTIONS_OF);
	json_object_foreach (s, key, one)
		if (json_is_object(one) && expand_schema(one, document, e) < 0)
			return -1;
	return 0;
}

int schema_load(struct err *e)
{
	const char *name;
	size_t n = (size_t)(schemas_end - schemas_start);
	json_t *s;

	if (set.named)
		return 0;
	set.named = json_parse(schemas_start, n, n, "schemas", e);
	if (!set.named)
		return -1;
	documents = json_deep_copy(set.named);
	if (!documents)
		return err_nomem(e);
	if (expand_schema(documents, 1, e) < 0)
		return -1;
	json_object_foreach (set.named, name, s)
		if (expand_schema(s, 0, e) < 0 || jsonschema_known(&set, s, name, e) < 0)
			return -1;
	return 0;
}

json_t *schema_all(void)
{
	return documents;
}

int schema_check(const char *name, const json_t *v, const char *what, struct err *e)
{
	const json_t *s = json_object_get(set.named, name);

	return s ? jsonschema_fit(&set, s, v, what, e) : err_set(e, ERR_INTERNAL, "no schema %s", name);
}
