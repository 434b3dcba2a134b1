/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp/mcp.h"

#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/mcprev.h"
#include "base/mem.h"

#define LIST_TTL_MS 300000 /* how long a client may keep a list: it never changes */

/* Newest first. A client that asks for another revision gets the newest of its era. */
static const char *const legacy[] = { MCPREV_LEGACY };

static const char instructions[] =
	"Commands, code and files of a sandbox: an isolated Linux environment that is made at the "
	"first call and removed when this connection ends. Use run_command for one command, shell "
	"for a session that keeps its directory and variables, run_code for a program's text. "
	"Nothing in the sandbox reaches the user's own files unless they were shared with it.";

json_t *method_versions(int modern)
{
	json_t *list = json_array();
	size_t i;

	if (modern)
		json_array_append_new(list, json_string(MCPREV_MODERN));
	for (i = 0; !modern && i < ARRAY_LEN(legacy); i++)
		json_array_append_new(list, json_string(legacy[i]));
	return list;
}

static json_t *capabilities(int modern)
{
	json_t *c = json_pack("{s:{},s:{}}", "tools", "resources");

	if (!modern)
		json_object_set_new(c, "logging", json_object());
	return c;
}

static void initialize(struct mcp *m, const struct mcp_request *r)
{
	const char *wanted = json_string_value(json_object_get(r->params, "protocolVersion"));
	const char *version = legacy[0];
	size_t i;

	if (!wanted) {
		rpc_error(m, r->id, RPC_INVALID_PARAMS, "params lacks protocolVersion", NULL);
		return;
	}
	for (i = 0; i < ARRAY_LEN(legacy); i++)
		if (!strcmp(legacy[i], wanted))
			version = legacy[i];
	rpc_result(m, r->id, 0,
		   json_pack("{s:s,s:o,s:{s:s,s:s,s:s},s:s}", "protocolVersion", version,
			     "capabilities", capabilities(0), "serverInfo", "name", "berth",
			     "title", "berth sandboxes", "version", BERTH_VERSION, "instructions",
			     instructions));
}

/*
 * How long a client may cache the answer, and whether it may share it (revision 2026-07-28,
 * caching).
 */
static json_t *cached(const struct mcp_request *r, json_t *result)
{
	if (r->modern) {
		json_object_set_new(result, "ttlMs", json_integer(LIST_TTL_MS));
		json_object_set_new(result, "cacheScope", json_string("private"));
	}
	return result;
}

static void discover(struct mcp *m, const struct mcp_request *r)
{
	rpc_result(m, r->id, 1,
		   cached(r, json_pack("{s:o,s:o,s:s}", "supportedVersions", method_versions(1),
				       "capabilities", capabilities(1), "instructions",
				       instructions)));
}

static void ping(struct mcp *m, const struct mcp_request *r)
{
	rpc_result(m, r->id, 0, json_object());
}

static void set_level(struct mcp *m, const struct mcp_request *r)
{
	int level = rpc_level(json_string_value(json_object_get(r->params, "level")));

	if (level < 0) {
		rpc_error(m, r->id, RPC_INVALID_PARAMS, "level is not one of RFC 5424's", NULL);
		return;
	}
	m->log_level = level;
	rpc_result(m, r->id, 0, json_object());
}

/* Every list of ours is one page: there is no cursor to continue from. */
static int first_page(struct mcp *m, const struct mcp_request *r)
{
	if (!json_object_get(r->params, "cursor"))
		return 1;
	rpc_error(m, r->id, RPC_INVALID_PARAMS, "unknown cursor", NULL);
	return 0;
}

static void list_tools(struct mcp *m, const struct mcp_request *r)
{
	if (first_page(m, r))
		rpc_result(m, r->id, r->modern,
			   cached(r, json_pack("{s:o}", "tools", tool_list(m))));
}

static void list_resources(struct mcp *m, const struct mcp_request *r)
{
	if (first_page(m, r))
		rpc_result(m, r->id, r->modern, cached(r, json_pack("{s:[]}", "resources")));
}

static void list_templates(struct mcp *m, const struct mcp_request *r)
{
	if (first_page(m, r))
		rpc_result(m, r->id, r->modern,
			   cached(r, json_pack("{s:[{s:s,s:s,s:s,s:s}]}", "resourceTemplates",
					       "uriTemplate", "berth://{sandbox}/{+path}", "name",
					       "sandbox-file", "title", "File of a sandbox",
					       "description",
					       "A file by its absolute path; the sandbox is "
					       "'default' or one that sandbox_create named.")));
}

static void read_resource(struct mcp *m, const struct mcp_request *r)
{
	json_t *uri = json_object_get(r->params, "uri");
	char sandbox[65];
	const char *path;
	struct err e;

	if (!json_is_string(uri) || tool_uri(json_string_value(uri), sandbox, &path, &e) < 0) {
		rpc_error(m, r->id, RPC_INVALID_PARAMS,
			  json_is_string(uri) ? e.msg : "params lacks uri",
			  json_is_string(uri) ? json_pack("{s:O}", "uri", uri) : NULL);
		return;
	}
	toolcall_begin(m, r, &tool_resource, json_pack("{s:O}", "uri", uri));
}

/* What a model can mend is the result of the tool, not an error of the protocol (SEP-1303). */
static void refuse_arguments(struct mcp *m, const struct mcp_request *r, const char *name,
			     const struct err *e)
{
	autojson json_t *known = tool_arguments(m, name);
	autobuf struct buf text = BUF_INIT(4096), clean = BUF_INIT(16384);
	const char *hint = strstr(e->msg, "; hint: tools/list"), *one;
	json_t *ignored, *result;
	struct err full;
	size_t n = 0;

	buf_addf(&text, &full, "%.*s; %s takes", hint ? (int)(hint - e->msg) : (int)strlen(e->msg),
		 e->msg, name);
	json_object_foreach(known, one, ignored)
		buf_addf(&text, &full, "%s%s", n++ ? ", " : " ", one);
	if (!n)
		buf_addf(&text, &full, " no arguments");
	utf8_add(&clean, text.data ? text.data : "", text.len, &full);	/* the name may be cut */
	result = json_pack("{s:[{s:s,s:s%}],s:b}", "content", "type", "text", "text",
			   clean.data ? clean.data : "", clean.len, "isError", 1);
	rpc_result(m, r->id, r->modern, result);
}

static void call_tool(struct mcp *m, const struct mcp_request *r)
{
	json_t *arguments = json_object_get(r->params, "arguments");
	const char *name = json_string_value(json_object_get(r->params, "name"));
	const struct mcp_tool *tool = name ? tool_find(m, name) : NULL;
	char text[160];
	struct err e;

	if (!tool) {
		snprintf(text, sizeof(text), "Unknown tool: %.100s", name ? name : "(none named)");
		rpc_error(m, r->id, RPC_INVALID_PARAMS, text, NULL);
		return;
	}
	arguments = arguments ? json_incref(arguments) : json_object();
	tool_settle(tool, arguments);
	if (tool_check(m, tool, arguments, &e) < 0) {
		refuse_arguments(m, r, name, &e);
		json_decref(arguments);
		return;
	}
	toolcall_begin(m, r, tool, arguments);
}

static const struct {
	const char *name;
	unsigned eras;
	mcp_method *fn;
} methods[] = {
	{ "initialize", METHOD_LEGACY, initialize },
	{ "ping", METHOD_LEGACY, ping },
	{ "logging/setLevel", METHOD_LEGACY, set_level },
	{ "server/discover", METHOD_MODERN, discover },
	{ "tools/list", METHOD_LEGACY | METHOD_MODERN, list_tools },
	{ "tools/call", METHOD_LEGACY | METHOD_MODERN, call_tool },
	{ "resources/list", METHOD_LEGACY | METHOD_MODERN, list_resources },
	{ "resources/templates/list", METHOD_LEGACY | METHOD_MODERN, list_templates },
	{ "resources/read", METHOD_LEGACY | METHOD_MODERN, read_resource },
};

mcp_method *method_find(const char *name, int modern)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(methods); i++)
		if (!strcmp(methods[i].name, name) &&
		    (methods[i].eras & (modern ? METHOD_MODERN : METHOD_LEGACY)))
			return methods[i].fn;
	return NULL;
}
