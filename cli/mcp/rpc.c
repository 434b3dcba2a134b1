/* SPDX-License-Identifier: Apache-2.0 */
/* JSON-RPC with the client: messages, and the methods of both eras of the protocol. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/mcprev.h"
#include "base/mem.h"
#include "cli/mcp/mcp.h"

/* ---- Messages ---- */

/* ---- to the client ---- */

static void send_message(struct mcp *m, json_t *message)
{
	size_t n = message ? json_dumpb(message, NULL, 0, JSON_COMPACT) : 0, start = m->out.len;
	struct err e;

	if (!n || buf_reserve(&m->out, n + 1, &e) < 0) {
		m->lost = 1; /* an answer that cannot be kept: the client would wait for ever */
	} else {
		json_dumpb(message, m->out.data + start, n, JSON_COMPACT);
		m->out.data[start + n] = '\n';
		m->out.len += n + 1;
	}
	json_decref(message);
}

void rpc_result(struct mcp *m, const json_t *id, int modern, json_t *result)
{
	if (modern && json_object_set_new(result, "resultType", json_string("complete")) == 0)
		json_object_set_new(result, "_meta",
				    json_pack("{s:{s:s,s:s}}", MCPREV_META_SERVER, "name", "berth",
					      "version", BERTH_VERSION));
	send_message(m, json_pack("{s:s,s:O,s:o}", "jsonrpc", "2.0", "id", id, "result", result));
}

void rpc_error(struct mcp *m, const json_t *id, int code, const char *message, json_t *data)
{
	json_t *error = json_pack("{s:i,s:s,s:o*}", "code", code, "message", message, "data", data);

	send_message(m, json_pack("{s:s,s:O?,s:o}", "jsonrpc", "2.0", "id", id, "error", error));
}

void rpc_notify(struct mcp *m, const char *method, json_t *params)
{
	send_message(m, json_pack("{s:s,s:s,s:o}", "jsonrpc", "2.0", "method", method, "params",
				  params));
}

static const char *const levels[] = { "debug", "info",     "notice", "warning",
				      "error", "critical", "alert",  "emergency" };

int rpc_level(const char *name)
{
	int i;

	for (i = 0; name && i < (int)ARRAY_LEN(levels); i++)
		if (!strcmp(levels[i], name))
			return i;
	return -1;
}

void rpc_log(struct mcp *m, int level, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	if (level < m->log_level)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	rpc_notify(m, "notifications/message",
		   json_pack("{s:s,s:s,s:s}", "level", levels[level], "logger", "berth", "data",
			     text));
}

/* ---- from the client ---- */

/* A request of the revision without sessions carries its version and what its client can do. */
static int is_modern_request(const char *method, const json_t *meta)
{
	return !strcmp(method, "server/discover") || json_object_get(meta, MCPREV_META_VERSION) ||
	       json_object_get(meta, MCPREV_META_CAPABILITIES);
}

/* 0, or -1 when an error was sent. */
static int check_modern_meta(struct mcp *m, const json_t *id, const json_t *meta)
{
	const json_t *version = json_object_get(meta, MCPREV_META_VERSION);

	if (!json_is_string(version)) {
		rpc_error(m, id, RPC_INVALID_PARAMS, "params._meta lacks "
				  MCPREV_META_VERSION, NULL);
		return -1;
	}
	if (strcmp(json_string_value(version), MCPREV_MODERN)) {
		rpc_error(m, id, RPC_UNSUPPORTED_VERSION, "Unsupported protocol version",
			  json_pack("{s:o,s:O}", "supported", method_versions(1), "requested",
				    version));
		return -1;
	}
	if (!json_is_object(json_object_get(meta, MCPREV_META_CAPABILITIES))) {
		rpc_error(m, id, RPC_INVALID_PARAMS, "params._meta lacks "
				  MCPREV_META_CAPABILITIES, NULL);
		return -1;
	}
	return 0;
}

static void notification(struct mcp *m, const char *method, const json_t *params)
{
	struct mcp_call *c;

	if (strcmp(method, "notifications/cancelled"))
		return;
	c = toolcall_of(m, json_object_get(params, "requestId"));
	if (c)
		toolcall_cancel(m, c);
}

static void handle_rpc_request(struct mcp *m, json_t *id, const char *method, json_t *params)
{
	json_t *meta = json_object_get(params, "_meta");
	struct mcp_request r = { .id = id, .params = params, .modern = is_modern_request(method, meta) };
	mcp_method *fn;
	char text[160];

	if (!json_is_string(id) && !json_is_integer(id) && !json_is_real(id)) {
		rpc_error(m, NULL, RPC_INVALID_REQUEST, "id is neither a string nor a number",
			  NULL);
		return;
	}
	if (toolcall_of(m, id)) {
		rpc_error(m, id, RPC_INVALID_REQUEST, "a request with this id is under way", NULL);
		return;
	}
	if (r.modern && check_modern_meta(m, id, meta) < 0)
		return;
	fn = method_find(method, r.modern);
	if (!fn) {
		snprintf(text, sizeof(text), "Method not found: %.100s", method);
		rpc_error(m, id, RPC_NO_METHOD, text, NULL);
		return;
	}
	fn(m, &r);
}

static void message(struct mcp *m, const json_t *j)
{
	json_t *id = json_object_get(j, "id"), *params = json_object_get(j, "params");
	const char *version = json_string_value(json_object_get(j, "jsonrpc"));
	const char *method = json_string_value(json_object_get(j, "method"));

	if (!json_is_object(j)) {
		rpc_error(m, NULL, RPC_INVALID_REQUEST, "a message is one JSON object", NULL);
		return;
	}
	if (!version || strcmp(version, "2.0") || (params && !json_is_object(params))) {
		rpc_error(m, id, RPC_INVALID_REQUEST,
			  "not a message of JSON-RPC 2.0 with params by name", NULL);
		return;
	}
	if (!method) {
		/* an answer to a request of ours, but we never send any */
		if (!json_object_get(j, "result") && !json_object_get(j, "error"))
			rpc_error(m, id, RPC_INVALID_REQUEST, "no method", NULL);
		return;
	}
	if (id)
		handle_rpc_request(m, id, method, params);
	else
		notification(m, method, params);
}

/*
 * A message that is JSON, but not what we take (a NUL in a string, a key twice, nested too deep):
 * its id is looked for, as a client waits for the answer to that.  Not in one of nothing but brackets (S54).
 */
static void refuse_rpc_line(struct mcp *m, const char *line, size_t n, const struct err *why)
{
	autojson json_t *j = json_memory(line, n) > MCP_LINE_MAX ? NULL : json_loadb(line, n, JSON_ALLOW_NUL, NULL);
	json_t *id = json_object_get(j, "id");

	if (json_is_string(id) || json_is_integer(id))
		rpc_error(m, id, RPC_INVALID_PARAMS, why->msg, NULL);
	else
		rpc_error(m, NULL, j ? RPC_INVALID_REQUEST : RPC_PARSE_ERROR, why->msg, NULL);
}

void rpc_line(struct mcp *m, const char *line, size_t n)
{
	struct err e = { 0 };
	autojson json_t *j = json_parse(line, n, MCP_LINE_MAX, "message", &e);

	if (j)
		message(m, j);
	else
		refuse_rpc_line(m, line, n, &e);
}

/* ---- Methods ---- */

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

static void answer_initialize(struct mcp *m, const struct mcp_request *r)
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

static void answer_mcp_ping(struct mcp *m, const struct mcp_request *r)
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
	{ "initialize", METHOD_LEGACY, answer_initialize },
	{ "ping", METHOD_LEGACY, answer_mcp_ping },
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
