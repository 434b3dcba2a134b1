/* SPDX-License-Identifier: Apache-2.0 */
/* The OpenAPI 3.0 document of the routes that are served. */
#include <stdio.h>
#include <string.h>

#include "base/jsonschema.h"
#include "base/mem.h"
#include "manager/api/openapi.h"
#include "manager/api/schema.h"
#include "manager/ops/params.h"

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
	if (r->flags & HTTP_ONCE)
		add_openapi_parameter(list, "Idempotency-Key", "header", "string", 0);
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
