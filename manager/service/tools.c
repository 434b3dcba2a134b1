/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tools of a sandbox, as agentscope calls them: a shell command, a cell of a stateful Python,
 * and the tools of MCP servers that run in the sandbox, or that it reaches (mcp.c).
 *
 * Kernel and servers live as long as berthd and the sandbox, and until they were unused for
 * [session] auto_stop. Servers are in the sandbox's record (mcp.c) and start again at the next
 * use. Results have the shape of MCP's CallToolResult; a tool that fails is such a result, and a
 * fault of ours or the caller's is an error.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/service/state.h"
#include "manager/service/toolproc.h"

#define OUTPUT_MAX (16u << 20)
#define KERNEL "python"
#define BUILT_IN "generic"	/* the name by which list_tools calls our own tools */
#define MCP_WAIT_MS 30000

extern const char kernel_py[];

struct tools *tools_new(struct err *e)
{
	struct tools *t = calloc(1, sizeof(*t));

	if (!t) {
		err_nomem(e);
		return NULL;
	}
	pthread_mutex_init(&t->lock, NULL);
	return t;
}

void tools_free(struct tools *t)
{
	struct toolproc *p;

	if (!t)
		return;
	while ((p = t->all)) {
		t->all = p->next;
		toolproc_free(p);
	}
	pthread_mutex_destroy(&t->lock);
	free(t);
}

void tools_forget(struct service *s, const char *name)
{
	toolproc_drop(s->tools, name, NULL, 0);
}

void tools_expire(struct service *s, uint64_t idle_ms)
{
	uint64_t now = clock_wall_ms();

	if (idle_ms && now > idle_ms)
		toolproc_drop(s->tools, NULL, NULL, now - idle_ms);
}

/* ---- results ---- */

static json_t *text_item(const char *text, size_t n, const char *description)
{
	json_t *t = json_stringn(text ? text : "", n);

	if (!t) {
		/* output of a sandbox is bytes: those that are not UTF-8 are shown as '?' */
		char *clean = malloc(n + 1);
		size_t i;

		for (i = 0; clean && text && i < n; i++)
			clean[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
		t = json_stringn(clean ? clean : "", clean ? n : 0);
		free(clean);
	}
	return json_pack("{s:s,s:o,s:n,s:n,s:s}", "type", "text", "text", t, "annotations", "meta", "description", description);
}

static json_t *result_of(json_t *content, int is_error)
{
	return json_pack("{s:n,s:o,s:n,s:b}", "meta", "content", content, "structuredContent", "isError", is_error);
}

static const char *need_text(const json_t *arguments, const char *key, struct err *e)
{
	const char *v = NULL;

	if (json_get_str(arguments, key, &v, "arguments", e) < 0) {
		e->code = ERR_INVALID;
		return NULL;
	}
	if (!v || !v[0]) {
		err_set(e, ERR_INVALID, "\"%s\" is required", key);
		return NULL;
	}
	return v;
}

/* Returns the code in the form of Python's returncode: negative for a signal. */
static int return_code(const json_t *verdict)
{
	const json_t *code = json_object_get(verdict, "exit_code"), *signal = json_object_get(verdict, "signal");

	if (json_is_integer(code))
		return (int)json_integer_value(code);
	return json_is_integer(signal) ? -(int)json_integer_value(signal) : -1;
}

static json_t *run_shell(struct service_use *u, const json_t *arguments, struct err *e)
{
	const char *command = need_text(arguments, "command", e), *cause;
	struct service_output out = { .out = BUF_INIT(OUTPUT_MAX), .err = BUF_INIT(OUTPUT_MAX) };
	autojson json_t *argv = command ? json_pack("[s,s,s]", "/bin/sh", "-c", command) : NULL;
	json_t *content, *result = NULL;
	struct err ignored;
	char code[16];

	if (!command)
		return NULL;
	if (service_exec(u, argv, NULL, NULL, u->timeout_ms, &out, e) == 0) {
		cause = json_string_value(json_object_get(out.verdict, "cause"));
		if (cause && strcmp(cause, "exit") && strcmp(cause, "signal"))
			buf_addf(&out.err, &ignored, "%sberth: the command ended by %s\n", out.err.len ? "\n" : "", cause);
		if (out.out_dropped || out.err_dropped)
			buf_addf(&out.err, &ignored, "berth: %llu bytes of output were dropped\n",
				 (unsigned long long)(out.out_dropped + out.err_dropped));
		content = json_array();
		json_array_append_new(content, text_item(out.out.data, out.out.len, "stdout"));
		if (out.err.len)
			json_array_append_new(content, text_item(out.err.data, out.err.len, "stderr"));
		snprintf(code, sizeof(code), "%d", return_code(out.verdict));
		json_array_append_new(content, text_item(code, strlen(code), "returncode"));
		result = result_of(content, out.err.len != 0);
	}
	json_decref(out.verdict);
	buf_release(&out.out);
	buf_release(&out.err);
	return result;
}

static json_t *run_cell(struct service_use *u, const json_t *arguments, struct err *e)
{
	struct tools *t = u->service->tools;
	const char *code = need_text(arguments, "code", e), *out, *err;
	autojson json_t *argv = json_pack("[s,s,s,s]", "python3", "-u", "-c", kernel_py), *rq = NULL, *answer = NULL;
	struct toolproc *p;
	json_t *content;

	if (!code)
		return NULL;
	p = toolproc_take(t, u->name, KERNEL, 1, e);
	if (!p)
		return NULL;
	if (toolproc_start(u, p, argv, NULL, e) < 0) {
		toolproc_give(t, p, 1);
		if (e->code == ERR_EXEC_NOT_FOUND || e->code == ERR_EXEC)
			err_set(e, ERR_UNSUPPORTED, "the image has no python3 for run_ipython_cell");
		return NULL;
	}
	rq = json_pack("{s:s}", "code", code);
	if (lineproc_send(&p->proc, rq, e) == 0)
		answer = lineproc_receive(&p->proc, u->timeout_ms, u->who ? u->who->gone : NULL, u->who ? u->who->gone_ctx : NULL, e);
	toolproc_give(t, p, !answer);
	if (!answer) {
		err_wrap(e, "the Python of this sandbox was ended and will start afresh");
		return NULL;
	}
	out = json_string_value(json_object_get(answer, "stdout"));
	err = json_string_value(json_object_get(answer, "stderr"));
	content = json_array();
	json_array_append_new(content, text_item(out ? out : "", out ? strlen(out) : 0, "stdout"));
	if (err && err[0])
		json_array_append_new(content, text_item(err, strlen(err), "stderr"));
	return result_of(content, err && err[0]);
}

/* ---- MCP servers in the sandbox ---- */

/* Makes one request of JSON-RPC; notifications and requests of the server in between are skipped. */
static json_t *rpc(struct service_use *u, struct toolproc *p, const char *method, json_t *params, uint64_t wait_ms, struct err *e)
{
	json_int_t id = ++p->next_id;
	autojson json_t *rq = json_pack("{s:s,s:I,s:s,s:o}", "jsonrpc", "2.0", "id", id, "method", method, "params", params);
	const char *why;
	int i;

	if (!rq || lineproc_send(&p->proc, rq, e) < 0)
		return NULL;
	for (i = 0; i < 10000; i++) {
		autojson json_t *answer = lineproc_receive(&p->proc, wait_ms, u->who ? u->who->gone : NULL,
							   u->who ? u->who->gone_ctx : NULL, e);

		if (!answer)
			return NULL;
		if (json_object_get(answer, "method") || json_integer_value(json_object_get(answer, "id")) != id)
			continue;
		why = json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
		if (json_object_get(answer, "error")) {
			err_set(e, ERR_INVALID, "MCP server %s: %.300s", p->name, why ? why : "an error without a message");
			return NULL;
		}
		return json_incref(json_object_get(answer, "result"));
	}
	err_set(e, ERR_LIMIT, "MCP server %s did not answer", p->name);
	return NULL;
}

static int add_pair(void *ctx, const char *text, struct err *e)
{
	return json_array_append_new(ctx, json_string(text)) < 0 ? err_nomem(e) : 0;
}

static int start_server(struct service_use *u, struct toolproc *p, struct err *e)
{
	autojson json_t *argv = NULL, *env = json_array(), *wrapped = NULL, *hello = NULL, *list = NULL, *ready = NULL;
	json_t *tools;

	if (p->running)
		return 0;
	wrapped = json_pack("{s:O?}", "environment", json_object_get(p->config, "env"));
	if (service_each_env(wrapped, add_pair, env, e) < 0 || !(argv = mcp_argv(p->config, env, e)))
		return err_wrap(e, "MCP server %s", p->name);
	if (toolproc_start(u, p, argv, env, e) < 0) {
		if (e->code == ERR_EXEC_NOT_FOUND && json_object_get(p->config, "url"))
			err_set(e, ERR_UNSUPPORTED, "the image has no python3, which speaks to servers with \"url\"");
		return err_wrap(e, "MCP server %s", p->name);
	}
	hello = rpc(u, p, "initialize", json_pack("{s:s,s:{},s:{s:s,s:s}}", "protocolVersion", "2025-06-18", "capabilities", "clientInfo",
						  "name", "berthd", "version", BERTH_VERSION), MCP_WAIT_MS, e);
	ready = json_pack("{s:s,s:s}", "jsonrpc", "2.0", "method", "notifications/initialized");
	if (!hello || lineproc_send(&p->proc, ready, e) < 0)
		return err_wrap(e, "MCP server %s", p->name);
	list = rpc(u, p, "tools/list", json_object(), MCP_WAIT_MS, e);
	tools = json_object_get(list, "tools");
	if (!list)
		return err_wrap(e, "MCP server %s", p->name);
	/* a thread that lists tools holds this lock, not the server's */
	pthread_mutex_lock(&u->service->tools->lock);
	json_decref(p->tools);
	p->tools = json_is_array(tools) ? json_incref(tools) : json_array();
	pthread_mutex_unlock(&u->service->tools->lock);
	return 0;
}

/* Adds a server: 1, or 0 if the name exists already; the existing server stays. */
static int add_server(struct service_use *u, const char *name, const json_t *config, int overwrite, struct err *e)
{
	struct service *s = u->service;
	struct toolproc *p;
	int failed;

	if (mcp_remember(s, u->name, name, config, 1, e) < 0)
		return -1;
	if (overwrite)
		toolproc_drop(s->tools, u->name, name, 0);
	p = toolproc_take(s->tools, u->name, name, 1, e);
	if (!p)
		return -1;
	if (p->config && !overwrite) {
		toolproc_give(s->tools, p, 0);
		return 0;
	}
	json_decref(p->config);
	p->config = json_deep_copy(config);
	failed = start_server(u, p, e) < 0 || mcp_remember(s, u->name, name, config, 0, e) < 0;
	toolproc_give(s->tools, p, failed);
	if (failed)
		toolproc_drop(s->tools, u->name, name, 0);	/* the old ones come back from the record */
	return failed ? -1 : 1;
}

/*
 * Servers of the record that berthd does not know, or without known tools: 0, -1 with the reason
 * why one of them does not start.
 */
static int revive_mcp_servers(struct service_use *u, int start_them, struct err *e)
{
	struct tools *t = u->service->tools;
	autojson json_t *servers = mcp_servers(u->service, u->name, e);
	const char *name;
	json_t *config;
	int r = servers ? 0 : -1;

	json_object_foreach(servers, name, config) {
		struct toolproc *p = toolproc_take(t, u->name, name, 1, e);
		int failed;

		if (!p)
			return -1;
		if (!p->config)
			p->config = json_deep_copy(config);
		failed = start_them && !p->tools && start_server(u, p, e) < 0;
		toolproc_give(t, p, failed);
		r = failed ? -1 : r;
	}
	return r;
}

static int check_server(const char *name, const json_t *config, struct err *e)
{
	return name[0] && strlen(name) <= 64 && strcmp(name, KERNEL) && strcmp(name, BUILT_IN) && json_is_object(config) ? 0 :
	       err_set(e, ERR_INVALID, "'%.64s' is not a good name or configuration of an MCP server", name);
}

json_t *service_add_mcp(struct service *s, const struct service_who *who, const char *identity, const json_t *configs,
			int overwrite, struct err *e)
{
	const json_t *servers = json_object_get(configs, "mcpServers");
	autojson json_t *added = json_array();
	struct service_use u;
	const char *name;
	json_t *config;
	int r = 0;

	if (!json_is_object(servers)) {
		err_set(e, ERR_INVALID, "\"server_configs\" has no object \"mcpServers\"");
		return NULL;
	}
	json_object_foreach((json_t *)(size_t)servers, name, config)
		if (check_server(name, config, e) < 0)
			return NULL;
	if (service_use(s, who, identity, &u, e) < 0)
		return NULL;
	if (!overwrite)
		r = revive_mcp_servers(&u, 0, e);
	json_object_foreach((json_t *)(size_t)servers, name, config) {
		r = r < 0 ? -1 : add_server(&u, name, config, overwrite, e);
		if (r > 0)
			json_array_append_new(added, json_string(name));
	}
	service_use_end(&u);
	return r < 0 ? NULL : json_incref(added);
}

/* ---- lists ---- */

static json_t *generic(const char *name, const char *description, const char *parameter, const char *what)
{
	return json_pack("{s:s,s:{s:s,s:{s:s,s:s,s:{s:s,s:{s:{s:s,s:s}},s:[s]}}}}", "name", name, "json_schema", "type", "function",
			 "function", "name", name, "description", description, "parameters", "type", "object", "properties", parameter,
			 "type", "string", "description", what, "required", parameter);
}

static json_t *schema_of(const json_t *tool)
{
	json_t *parameters = json_object_get(tool, "inputSchema"), *description = json_object_get(tool, "description");

	return json_pack("{s:O,s:{s:s,s:{s:O,s:O?,s:O?}}}", "name", json_object_get(tool, "name"), "json_schema", "type", "function",
			 "function", "name", json_object_get(tool, "name"), "description", description, "parameters", parameters);
}

json_t *service_list_tools(struct service *s, const struct service_who *who, const char *identity, const char *type, struct err *e)
{
	json_t *all = json_object(), *one, *tool;
	struct service_use u;
	struct toolproc *p;
	struct err ignored;
	size_t i;

	if (service_use(s, who, identity, &u, e) < 0) {
		json_decref(all);
		return NULL;
	}
	/* a server that does not start has no tools, and does not hide the others' */
	revive_mcp_servers(&u, 1, &ignored);
	json_object_set_new(all, BUILT_IN, json_pack("{s:o,s:o}",
		"run_ipython_cell", generic("run_ipython_cell", "Run a cell of Python; its state is kept.", "code", "Python code to execute"),
		"run_shell_command", generic("run_shell_command", "Run a shell command.", "command", "Shell command to execute")));
	pthread_mutex_lock(&s->tools->lock);
	for (p = s->tools->all; p; p = p->next) {
		if (strcmp(p->sandbox, u.name) || !strcmp(p->name, KERNEL))
			continue;
		one = json_object();
		json_array_foreach(p->tools, i, tool)
			if (json_is_string(json_object_get(tool, "name")))
				json_object_set_new(one, json_string_value(json_object_get(tool, "name")), schema_of(tool));
		json_object_set_new(all, p->name, one);
	}
	pthread_mutex_unlock(&s->tools->lock);
	service_use_end(&u);
	if (type) {
		one = json_object_get(all, type);
		one = json_pack("{s:o}", type, one ? json_incref(one) : json_object());
		json_decref(all);
		return one;
	}
	return all;
}

/* The server that has the tool: its name. */
static int find_server(struct tools *t, const char *sandbox, const char *tool, char name[65])
{
	struct toolproc *p;
	json_t *one;
	size_t i;
	int found = 0;

	pthread_mutex_lock(&t->lock);
	for (p = t->all; p && !found; p = p->next) {
		if (strcmp(p->sandbox, sandbox) || !p->tools)
			continue;
		json_array_foreach(p->tools, i, one) {
			const char *n = json_string_value(json_object_get(one, "name"));

			if (n && !strcmp(n, tool)) {
				snprintf(name, 65, "%s", p->name);
				found = 1;
			}
		}
	}
	pthread_mutex_unlock(&t->lock);
	return found;
}

static json_t *call_server(struct service_use *u, const char *tool, const json_t *arguments, struct err *e)
{
	struct tools *t = u->service->tools;
	json_t *result = NULL;
	struct toolproc *p;
	char server[65];

	if (!find_server(t, u->name, tool, server)) {
		int r = revive_mcp_servers(u, 1, e);

		if (!find_server(t, u->name, tool, server)) {
			if (r == 0)
				err_set(e, ERR_NOT_FOUND, "no tool '%.80s' in this sandbox; hint: list_tools", tool);
			return NULL;
		}
	}
	p = toolproc_take(t, u->name, server, 0, e);
	if (!p) {
		err_set(e, ERR_NOT_FOUND, "MCP server %s has gone", server);
		return NULL;
	}
	/* an ended one is started again */
	if (start_server(u, p, e) == 0)
		result = rpc(u, p, "tools/call", json_pack("{s:s,s:o}", "name", tool, "arguments",
							   arguments ? json_deep_copy(arguments) : json_object()), u->timeout_ms, e);
	toolproc_give(t, p, !result && e->code != ERR_INVALID);
	if (result && !json_object_get(result, "isError"))
		json_object_set_new(result, "isError", json_false());
	return result;
}

json_t *service_call_tool(struct service *s, const struct service_who *who, const char *identity, const char *tool,
			  const json_t *arguments, struct err *e)
{
	struct service_use u;
	json_t *result;

	if (service_use(s, who, identity, &u, e) < 0)
		return NULL;
	if (!strcmp(tool, "run_shell_command"))
		result = run_shell(&u, arguments, e);
	else if (!strcmp(tool, "run_ipython_cell"))
		result = run_cell(&u, arguments, e);
	else
		result = call_server(&u, tool, arguments, e);
	service_use_end(&u);
	return result;
}
