/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp/mcp.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mcprev.h"
#include "base/mem.h"

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
static int is_modern(const char *method, const json_t *meta)
{
	return !strcmp(method, "server/discover") || json_object_get(meta, MCPREV_META_VERSION) ||
	       json_object_get(meta, MCPREV_META_CAPABILITIES);
}

/* 0, or -1 when an error was sent. */
static int check_modern(struct mcp *m, const json_t *id, const json_t *meta)
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

static void request(struct mcp *m, json_t *id, const char *method, json_t *params)
{
	json_t *meta = json_object_get(params, "_meta");
	struct mcp_request r = { .id = id, .params = params, .modern = is_modern(method, meta) };
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
	if (r.modern && check_modern(m, id, meta) < 0)
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
		request(m, id, method, params);
	else
		notification(m, method, params);
}

/*
 * A message that is JSON, but not what we take (a NUL in a string, a key twice, nested too deep):
 * its id is looked for, as a client waits for the answer to that.  Not in one of nothing but brackets (S54).
 */
static void refuse(struct mcp *m, const char *line, size_t n, const struct err *why)
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
		refuse(m, line, n, &e);
}
