/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools: their requests to `berth stdio`, and their results from its answers. Their names,
 * descriptions and schemas are in tools.json, which clients get unchanged.
 */
#include "cli/mcp/mcp.h"

#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/jsonschema.h"
#include "base/mem.h"
#include "cli/mcp/toolparts.h"

extern const char mcp_tools_start[], mcp_tools_end[]; /* tools.json, by toolsblob.S */

/* ---- commands ---- */

static int begin_command(struct mcp *m, struct mcp_call *c, struct err *e)
{
	json_t *rq = json_pack("{s:s,s:[s,s,O]}", "op", "exec", "argv", "/bin/sh", "-c",
			       json_object_get(c->arguments, "command"));

	toolparts_copy(rq, c->arguments, "workdir", "user", "stdin");
	toolparts_copy(rq, c->arguments, "checkpoint", NULL, NULL);
	toolparts_env(rq, c->arguments);
	/* berth exec has no limit of its own, and a model forgets to set one */
	if (m->config.timeout_ms && !c->box->given)
		json_object_set_new(rq, "timeout_ms", json_integer((json_int_t)m->config.timeout_ms));
	if (toolparts_timeout(m, c, rq, e) < 0) {
		json_decref(rq);
		return -1;
	}
	return toolcall_send(m, c, rq, e);
}

static int answer_command(struct mcp *m, struct mcp_call *c, json_t *a)
{
	const char *stream = json_string_value(json_object_get(a, "stream"));
	const json_t *verdict = json_object_get(a, "verdict");
	struct err e;

	if (stream)
		return toolparts_output(c, strcmp(stream, "stdout") ? 1 : 0, a, "data", &e);
	return verdict ? toolparts_verdict(m, c, verdict, NULL) : 0;
}

static int begin_code(struct mcp *m, struct mcp_call *c, struct err *e)
{
	json_t *rq =
		json_pack("{s:s,s:O}", "op", "code", "code", json_object_get(c->arguments, "code"));

	json_object_set(rq, "lang", json_object_get(c->arguments, "language"));
	toolparts_env(rq, c->arguments);
	if (toolparts_timeout(m, c, rq, e) < 0) {
		json_decref(rq);
		return -1;
	}
	return toolcall_send(m, c, rq, e);
}

static int answer_code(struct mcp *m, struct mcp_call *c, json_t *a)
{
	struct err e;

	if (toolparts_output(c, 0, a, "stdout", &e) < 0 ||
	    toolparts_output(c, 1, a, "stderr", &e) < 0)
		return -1;
	return toolparts_verdict(m, c, json_object_get(a, "verdict"), a);
}

/* What a call asks of a session: one of these members. */
static const char *shell_verb(const json_t *arguments, struct err *e)
{
	static const char *const verbs[] = { "command", "input", "interrupt", "close" };
	const char *found = NULL;
	size_t i, n = 0;

	for (i = 0; i < ARRAY_LEN(verbs); i++) {
		const json_t *v = json_object_get(arguments, verbs[i]);

		if (v && !json_is_false(v)) {
			found = verbs[i];
			n++;
		}
	}
	if (n == 1)
		return found;
	err_set(e, ERR_INVALID, "give one of \"command\", \"input\", \"interrupt\" and \"close\"");
	return NULL;
}

static json_t *shell_session(const struct mcp_call *c)
{
	json_t *session = json_object_get(c->arguments, "session");

	return session ? json_incref(session) : json_string("main");
}

/* Sends rq, which it consumes, with the session and the time of the call. */
static int send_shell(struct mcp *m, struct mcp_call *c, json_t *rq, int is_run, struct err *e)
{
	json_object_set_new(rq, "session", shell_session(c));
	if (is_run && toolparts_timeout(m, c, rq, e) < 0) {
		json_decref(rq);
		return -1;
	}
	return toolcall_send(m, c, rq, e);
}

static int begin_shell(struct mcp *m, struct mcp_call *c, struct err *e)
{
	const char *verb = shell_verb(c->arguments, e);
	json_t *rq, *given = verb ? json_object_get(c->arguments, verb) : NULL;

	if (!verb)
		return -1;
	if (!strcmp(verb, "close"))
		return send_shell(m, c, json_pack("{s:s}", "op", "session-close"), 0, e);
	if (!strcmp(verb, "input"))
		return send_shell(m, c, json_pack("{s:s,s:O}", "op", "send", "data", given), 0, e);
	if (!strcmp(verb, "interrupt"))
		return send_shell(m, c, json_pack("{s:s,s:s}", "op", "signal", "signal", "INT"), 0,
				  e);
	rq = json_pack("{s:s,s:O}", "op", "sh", "text", given);
	toolparts_copy(rq, c->arguments, "checkpoint", NULL, NULL);
	return send_shell(m, c, rq, 1, e);
}

static int answer_shell(struct mcp *m, struct mcp_call *c, json_t *a)
{
	struct err e;

	if (json_is_true(json_object_get(c->arguments, "close"))) {
		toolcall_finish(m, c, "closed", 6, json_pack("{s:b}", "closed", 1), 0);
		return 0;
	}
	/* it was given input or a signal: now for what the command makes of it */
	if (!json_object_get(a, "status"))
		return send_shell(m, c, json_pack("{s:s}", "op", "sh-wait"), 1, &e);
	if (toolparts_output(c, 0, a, "output", &e) < 0)
		return -1;
	return toolparts_verdict(m, c, json_object_get(a, "verdict"), a);
}

/* ---- files ---- */

static int begin_read(struct mcp *m, struct mcp_call *c, struct err *e)
{
	json_t *max = json_object_get(c->arguments, "max_bytes");
	json_t *rq = json_pack("{s:s,s:O,s:s}", "op", "read", "path",
			       json_object_get(c->arguments, "path"), "encoding", "base64");

	json_object_set_new(rq, "max", max ? json_incref(max) : json_integer(TOOL_READ_BYTES));
	return toolcall_send(m, c, rq, e);
}

static int answer_read(struct mcp *m, struct mcp_call *c, json_t *a)
{
	json_t *data = json_object_get(a, "data"), *bytes = json_object_get(a, "bytes");
	const char *path = json_string_value(json_object_get(c->arguments, "path"));
	json_t *facts, *resource;

	facts = json_pack("{s:s,s:O,s:b}", "path", path, "bytes", bytes, "binary", !data);
	if (data) {
		toolcall_finish(m, c, json_string_value(data), json_string_length(data), facts, 0);
		return 0;
	}
	resource = json_pack("{s:o,s:s,s:O}", "uri", toolparts_uri(c->box->name, path), "mimeType",
			     "application/octet-stream", "blob", json_object_get(a, "data_base64"));
	toolcall_finish_content(
		m, c, json_pack("[{s:s,s:o}]", "type", "resource", "resource", resource), facts, 0);
	return 0;
}

static int begin_resource(struct mcp *m, struct mcp_call *c, struct err *e)
{
	const char *uri = json_string_value(json_object_get(c->arguments, "uri")), *path;
	char sandbox[65];

	if (tool_uri(uri, sandbox, &path, e) < 0)
		return -1;
	return toolcall_send(m, c,
			 json_pack("{s:s,s:s,s:i,s:s}", "op", "read", "path", path, "max",
				   TOOL_READ_MAX, "encoding", "base64"),
			 e);
}

static int answer_resource(struct mcp *m, struct mcp_call *c, json_t *a)
{
	json_t *data = json_object_get(a, "data"), *one;

	one = json_pack("{s:O,s:s}", "uri", json_object_get(c->arguments, "uri"), "mimeType",
			data ? "text/plain" : "application/octet-stream");
	json_object_set(one, data ? "text" : "blob",
			data ? data : json_object_get(a, "data_base64"));
	toolcall_finish_content(m, c, json_pack("[o]", one), NULL, 0);
	return 0;
}

static int begin_write(struct mcp *m, struct mcp_call *c, struct err *e)
{
	json_t *text = json_object_get(c->arguments, "content"), *rq;
	json_t *base64 = json_object_get(c->arguments, "content_base64");

	if (!text == !base64)
		return err_set(e, ERR_INVALID, "give one of \"content\" and \"content_base64\"");
	rq = json_pack("{s:s,s:O,s:b}", "op", "write", "path",
		       json_object_get(c->arguments, "path"), "parents", 1);
	json_object_set(rq, text ? "data" : "data_base64", text ? text : base64);
	toolparts_copy(rq, c->arguments, "append", "mode", NULL);
	return toolcall_send(m, c, rq, e);
}

static int answer_write(struct mcp *m, struct mcp_call *c, json_t *a)
{
	json_t *path = json_object_get(c->arguments, "path");
	autobuf struct buf text = BUF_INIT(MCP_LINE_MAX);
	long long bytes = json_integer_value(json_object_get(a, "bytes"));
	struct err e;

	if (buf_addf(&text, &e, "wrote %lld bytes to %s", bytes, json_string_value(path)) < 0)
		return -1;
	toolcall_finish(m, c, text.data, text.len,
		    json_pack("{s:O,s:I}", "path", path, "bytes", (json_int_t)bytes), 0);
	return 0;
}

static int begin_list(struct mcp *m, struct mcp_call *c, struct err *e)
{
	json_t *rq = json_pack("{s:s}", "op", "ls");

	toolparts_copy(rq, c->arguments, "path", NULL, NULL);
	return toolcall_send(m, c, rq, e);
}

static int answer_list(struct mcp *m, struct mcp_call *c, json_t *a)
{
	json_t *entries = json_object_get(a, "entries"), *list = json_array(), *one;
	autobuf struct buf text = BUF_INIT(MCP_LINE_MAX);
	struct err e;
	size_t i;

	json_array_foreach(entries, i, one)
		if (toolparts_entry(one, list, &text, &e) < 0) {
			json_decref(list);
			return -1;
		}
	if (!text.len && buf_adds(&text, "(empty)", &e) < 0) {
		json_decref(list);
		return -1;
	}
	toolcall_finish(m, c, text.data, text.len, json_pack("{s:o}", "entries", list), 0);
	return 0;
}

/* ---- the network ---- */

static int begin_network(struct mcp *m, struct mcp_call *c, struct err *e)
{
	return toolcall_send(m, c,
			 json_pack("{s:s,s:[s,s,s,s]}", "op", "berth", "args", "network", "inspect",
				   "--json", c->box->id),
			 e);
}

static int begin_network_change(struct mcp *m, struct mcp_call *c, struct err *e)
{
	json_t *args = json_pack("[s,s]", "update", "--json");

	toolparts_each_option(args, c->arguments, "allow_hosts", "--allow-host");
	toolparts_each_option(args, c->arguments, "deny_hosts", "--deny-host");
	if (json_array_size(args) == 2) {
		json_decref(args);
		return err_set(e, ERR_INVALID, "neither \"allow_hosts\" nor \"deny_hosts\" given");
	}
	json_array_append_new(args, json_string("--"));
	json_array_append_new(args, json_string(c->box->id));
	return toolcall_send(m, c, json_pack("{s:s,s:o}", "op", "berth", "args", args), e);
}

static int answer_document(struct mcp *m, struct mcp_call *c, json_t *a)
{
	autofree char *text = NULL;

	json_object_del(a, "id");
	json_object_del(a, "exit_status");
	json_object_del(a, "sandbox");
	text = json_dumps(a, JSON_INDENT(1));
	if (!text)
		return -1;
	toolcall_finish(m, c, text, strlen(text), json_incref(a), 0);
	return 0;
}

/* ---- checkpoints ---- */

static int begin_time(struct mcp *m, struct mcp_call *c, struct err *e)
{
	const char *tool = c->tool->name;
	const int lists = !strcmp(tool, "checkpoint_list");
	json_t *rq = json_pack("{s:s}", "op", lists ? "checkpoints" : tool);

	toolparts_copy(rq, c->arguments, "name", "to", "steps");
	return toolcall_send(m, c, rq, e);
}

/* ---- sandboxes ---- */

static json_t *box_facts(const struct mcp_box *b)
{
	return json_pack("{s:s,s:s,s:s,s:b}", "sandbox", b->name, "id", b->id, "image", b->image,
			 "ready", b->state == BOX_READY);
}

/* First it asks for the sandbox; called again once that is ready. */
static int begin_create(struct mcp *m, struct mcp_call *c, struct err *e)
{
	const char *name = json_string_value(json_object_get(c->arguments, "name"));
	const char *image = json_string_value(json_object_get(c->arguments, "image"));
	char text[160];

	if (!c->box) {
		c->box = box_create(m, name ? name : "", image, e);
		c->waits = !!c->box;
		return c->box ? 0 : -1;
	}
	snprintf(text, sizeof(text), "made sandbox %s", c->box->name);
	toolcall_finish(m, c, text, strlen(text), box_facts(c->box), 0);
	return 0;
}

static int begin_fork(struct mcp *m, struct mcp_call *c, struct err *e)
{
	const char *of = json_string_value(json_object_get(c->arguments, "sandbox"));
	char text[200];

	if (!c->box) {
		c->box = box_fork(m, of ? of : "", c->arguments, e);
		c->waits = !!c->box;
		return c->box ? 0 : -1;
	}
	snprintf(text, sizeof(text), "made sandbox %s", c->box->name);
	toolcall_finish(m, c, text, strlen(text), box_facts(c->box), 0);
	return 0;
}

static int begin_boxes(struct mcp *m, struct mcp_call *c, struct err *e)
{
	autobuf struct buf text = BUF_INIT(65536);
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < MCP_BOXES_MAX; i++) {
		const struct mcp_box *b = &m->boxes[i];

		if (b->state == BOX_FREE)
			continue;
		json_array_append_new(list, box_facts(b));
		if (buf_addf(&text, e, "%s (image %s)\n", b->name, b->image) < 0) {
			json_decref(list);
			return -1;
		}
	}
	if (!text.len && buf_adds(&text, "none yet; the first call makes one", e) < 0) {
		json_decref(list);
		return -1;
	}
	toolcall_finish(m, c, text.data, text.len, json_pack("{s:o}", "sandboxes", list), 0);
	return 0;
}

static int begin_remove(struct mcp *m, struct mcp_call *c, struct err *e)
{
	const char *name = json_string_value(json_object_get(c->arguments, "sandbox"));
	struct mcp_box *b = box_find(m, name);

	if (!b)
		return err_set(e, ERR_NOT_FOUND, "this connection has no sandbox '%.64s'", name);
	if (b->given)
		return err_set(e, ERR_DENIED, "sandbox '%.64s' was not made by this connection",
			       name);
	if (b->state != BOX_READY || b->request)
		return err_set(e, ERR_BUSY, "sandbox '%.64s' is being made or removed", name);
	c->box = b;
	return toolcall_send(m, c, json_pack("{s:s,s:{s:b}}", "op", "rm", "options", "force", 1), e);
}

static int answer_remove(struct mcp *m, struct mcp_call *c, json_t *a)
{
	(void)a;
	box_forget(c->box);
	c->box = NULL;
	toolcall_finish(m, c, "removed", 7, json_pack("{s:b}", "removed", 1), 0);
	return 0;
}

/* ---- the table ---- */

static const struct mcp_tool tools[] = {
	{ "run_command", begin_command, answer_command, 1, 0 },
	{ "run_code", begin_code, answer_code, 1, 0 },
	{ "shell", begin_shell, answer_shell, 1, 0 },
	{ "read_file", begin_read, answer_read, 1, 0 },
	{ "write_file", begin_write, answer_write, 1, 0 },
	{ "list_directory", begin_list, answer_list, 1, 0 },
	{ "checkpoint", begin_time, answer_document, 1, 0 },
	{ "checkpoint_list", begin_time, answer_document, 1, 0 },
	{ "undo", begin_time, answer_document, 1, 0 },
	{ "network_rules", begin_network, answer_document, 1, 0 },
	{ "network_change", begin_network_change, answer_document, 1, 1 },
	{ "sandbox_create", begin_create, NULL, 0, 0 },
	{ "sandbox_fork", begin_fork, NULL, 0, 0 },
	{ "sandbox_list", begin_boxes, NULL, 0, 0 },
	{ "sandbox_remove", begin_remove, answer_remove, 0, 0 },
};

const struct mcp_tool tool_resource = { "resources/read", begin_resource, answer_resource, 1, 0 };

static int is_offered(const struct mcp *m, const struct mcp_tool *t)
{
	return !t->changes_network || m->config.network_changes;
}

const struct mcp_tool *tool_find(const struct mcp *m, const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(tools); i++)
		if (!strcmp(tools[i].name, name) && is_offered(m, &tools[i]))
			return &tools[i];
	return NULL;
}

json_t *tool_list(const struct mcp *m)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < ARRAY_LEN(tools); i++)
		if (is_offered(m, &tools[i]))
			json_array_append(list, json_array_get(m->tools, i));
	return list;
}

json_t *tool_arguments(const struct mcp *m, const char *name)
{
	const struct mcp_tool *t = tool_find(m, name);
	const json_t *one = t ? json_array_get(m->tools, (size_t)(t - tools)) : NULL;

	return json_incref(json_object_get(json_object_get(one, "inputSchema"), "properties"));
}

int tool_check(const struct mcp *m, const struct mcp_tool *t, const json_t *arguments,
	       struct err *e)
{
	static const struct jsonschema_set set = { .listed_in = "tools/list" };
	json_t *schema =
		json_object_get(json_array_get(m->tools, (size_t)(t - tools)), "inputSchema");

	return jsonschema_fit(&set, schema, arguments, "arguments", e);
}

/* The schema tells the time limits of this server: the longest that a call may name, and what one has that names none. */
static int tell_times(const struct mcp *m, json_t *one, struct err *e)
{
	json_t *time = json_object_get(json_object_get(json_object_get(one, "inputSchema"), "properties"), "timeout_ms");
	const char *text = json_string_value(json_object_get(time, "description"));
	const struct mcp_config *c = &m->config;
	json_t *told;

	if (!time)
		return 0;
	told = c->sandbox ? json_sprintf("%s (default: as the sandbox has it)", text) :
	       c->timeout_ms ? json_sprintf("%s (default: %llu)", text, (unsigned long long)c->timeout_ms) :
			       json_sprintf("%s (default: no limit)", text);
	if (json_object_set_new(time, "description", told) < 0 ||
	    json_object_set_new(time, "maximum", json_integer((json_int_t)c->max_timeout_ms)) < 0)
		return err_nomem(e);
	return 0;
}

void tool_settle(const struct mcp_tool *t, json_t *arguments)
{
	json_t *text = json_object_get(arguments, "text");

	if ((t->begin != begin_command && t->begin != begin_shell) || !text || json_object_get(arguments, "command"))
		return;
	json_object_set(arguments, "command", text);
	json_object_del(arguments, "text");
}

int tool_load(struct mcp *m, struct err *e)
{
	static const struct jsonschema_set set = { .listed_in = "tools/list" };
	size_t n = (size_t)(mcp_tools_end - mcp_tools_start), i;

	m->tools = json_parse(mcp_tools_start, n, n, "tools.json", e);
	if (!m->tools)
		return -1;
	for (i = 0; i < ARRAY_LEN(tools); i++) {
		json_t *one = json_array_get(m->tools, i);
		const char *name = json_string_value(json_object_get(one, "name"));

		if (tell_times(m, one, e) < 0)
			return -1;
		if (!name || strcmp(name, tools[i].name))
			return err_set(e, ERR_INTERNAL, "tools.json lacks %s", tools[i].name);
		if (jsonschema_known(&set, json_object_get(one, "inputSchema"), name, e) < 0)
			return -1;
	}
	return 0;
}

int tool_uri(const char *uri, char ret_sandbox[65], const char **ret_path, struct err *e)
{
	static const char scheme[] = "berth://";
	const char *rest = uri + sizeof(scheme) - 1, *slash;

	slash = strncmp(uri, scheme, sizeof(scheme) - 1) ? NULL : strchr(rest, '/');
	if (!slash || slash == rest || slash - rest > 64 || !slash[1])
		return err_set(e, ERR_INVALID,
			       "'%.80s' is not a resource of this server; hint: "
			       "berth://SANDBOX/PATH, such as berth://default/etc/os-release",
			       uri);
	memcpy(ret_sandbox, rest, (size_t)(slash - rest));
	ret_sandbox[slash - rest] = '\0';
	*ret_path = slash;
	return 0;
}
