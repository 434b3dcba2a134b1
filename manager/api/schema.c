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

/* ---- the document of all routes ---- */

static json_t *ref(const char *schema)
{
	char text[128];

	snprintf(text, sizeof(text), "#/components/schemas/%s", schema);
	return json_pack("{s:s}", "$ref", text);
}

static json_t *content(const char *type, json_t *schema)
{
	return json_pack("{s:{s:o}}", type, "schema", schema);
}

static void add_openapi_parameter(json_t *list, const char *name, const char *in, const char *type, int required)
{
	json_t *schema = json_pack("{s:s}", "type", type);

	if (!strcmp(type, "strings"))
		json_object_update_new(schema, json_pack("{s:s,s:{s:s}}", "type", "array",
							 "items", "type", "string"));
	json_array_append_new(list, json_pack("{s:s,s:s,s:b,s:o}", "name", name, "in", in,
					      "required", required, "schema", schema));
}

/* "/a/{id}/{rest...}" as OpenAPI writes it: "/a/{id}/{rest}". */
static void openapi_path_of(const char *pattern, char *out, size_t n)
{
	size_t len = 0;

	for (; *pattern && len + 1 < n; pattern++)
		if (strncmp(pattern, "...}", 4))
			out[len++] = *pattern;
		else
			pattern += 2;
	out[len] = '\0';
}

static json_t *parameters(const struct http_route *r, const char *path)
{
	const char *p, *q = r->query ? r->query : "";
	json_t *list = json_array();
	char name[64], type[16];

	for (p = strchr(path, '{'); p; p = strchr(p + 1, '{')) {
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(p + 1, "}"), p + 1);
		add_openapi_parameter(list, name, "path", "string", 1);
	}
	while (*q) {
		size_t len = strcspn(q, ":!");
		int required = q[len] == '!';

		snprintf(name, sizeof(name), "%.*s", (int)len, q);
		q += len + (size_t)required + 1;
		len = strcspn(q, " ");
		snprintf(type, sizeof(type), "%.*s", (int)len, q);
		q += len + strspn(q + len, " ");
		add_openapi_parameter(list, name, "query", type, required);
	}
	return list;
}

static void add_good(json_t *all, int number, const char *response, const char *types)
{
	json_t *good = json_pack("{s:s}", "description", "done"), *kinds = response ? content("application/json", ref(response)) : json_object();
	const char *p = types ? types : "";
	char status[12], type[80];

	while (*p) {
		size_t n = strcspn(p, ",");

		snprintf(type, sizeof(type), "%.*s", (int)n, p);
		json_object_set_new(kinds, type, json_pack("{s:{s:s,s:s}}", "schema", "type", "string", "format", "binary"));
		p += n + strspn(p + n, ", ");
	}
	if (json_object_size(kinds))
		json_object_set(good, "content", kinds);
	json_decref(kinds);
	snprintf(status, sizeof(status), "%d", number);
	json_object_set_new(all, status, good);
}

static json_t *responses(const struct http_route *r)
{
	json_t *all = json_object(), *wrong = ref("Error");

	add_good(all, r->status ? r->status : 200, r->response, r->type);
	if (r->or_status)
		add_good(all, r->or_status, r->or_response, NULL);
	/* what is refused before the route is found has the one form */
	if (r->shape_error)
		wrong = json_pack("{s:[o,o]}", "anyOf", ref(r->error_schema ? r->error_schema : "Detail"), wrong);
	json_object_set_new(all, "default", json_pack("{s:s,s:o}", "description", "it failed", "content", content("application/json", wrong)));
	return all;
}

static json_t *operation(const struct http_route *r, const char *path)
{
	const char *tag = strncmp(r->pattern, "/v1/", 4) ? r->pattern + 1 : r->pattern + 4;
	json_t *o = json_pack("{s:s,s:[s%],s:o,s:o}", "summary", r->summary, "tags", tag, strcspn(tag, "/"), "parameters",
			      parameters(r, path), "responses", responses(r));

	if (r->body == HTTP_JSON)
		json_object_set_new(o, "requestBody", json_pack("{s:b,s:o}", "required", !(r->flags & HTTP_OPTIONAL), "content",
			content("application/json", r->request ? ref(r->request) : json_pack("{s:s}", "type", "object"))));
	else if (r->body == HTTP_RAW)
		json_object_set_new(o, "requestBody", json_pack("{s:o}", "content", content("application/octet-stream",
			json_pack("{s:s,s:s}", "type", "string", "format", "binary"))));
	if (r->flags & HTTP_OPEN)
		json_object_set_new(o, "security", json_array());
	if (r->flags & HTTP_ADMIN)
		json_object_set_new(o, "description", json_string("Needs an admin token, or the unix socket."));
	return o;
}

static void lower_method(char *out, size_t n, const char *s)
{
	size_t i;

	for (i = 0; s[i] && i + 1 < n; i++)
		out[i] = (char)(s[i] | 0x20);
	out[i] = '\0';
}

json_t *openapi_document(const struct http_route *const *tables, struct err *e)
{
	json_t *paths = json_object(), *item, *doc;
	const struct http_route *r;
	char path[256], method[16];

	for (; *tables; tables++) {
		for (r = *tables; r->method; r++) {
			openapi_path_of(r->pattern, path, sizeof(path));
			lower_method(method, sizeof(method), r->method);
			item = json_object_get(paths, path);
			if (!item) {
				item = json_object();
				json_object_set_new(paths, path, item);
			}
			json_object_set_new(item, method, operation(r, path));
		}
	}
	doc = json_pack("{s:s,s:{s:s,s:s,s:{s:s}},s:o,s:{s:o,s:{s:{s:s,s:s}}},s:[{s:[]}]}", "openapi", "3.0.3", "info", "title",
			"berthd", "version", BERTH_VERSION, "license", "name", "Apache-2.0", "paths", paths, "components", "schemas",
			json_deep_copy(schema_all()), "securitySchemes", "token", "type", "http", "scheme", "bearer", "security", "token");
	if (!doc)
		err_nomem(e);
	return doc;
}
