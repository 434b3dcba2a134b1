/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools: their requests to `berth stdio`, and their results from its answers. Their names,
 * descriptions and schemas are in tools.json, which clients get unchanged.
 */
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/jsonschema.h"
#include "base/mem.h"
#include "cli/mcp/mcp.h"

#define TOOL_READ_BYTES 262144	/* of a file, where the call names no max_bytes */

#define TOOL_READ_MAX 8388608

/* ---- What several tools share ---- */

/* Copies up to three members, as far as the arguments have them; NULL is none. */
static void toolparts_copy(json_t *rq, json_t *arguments, const char *a, const char *b, const char *c)
{
	const char *const keys[] = { a, b, c };
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (keys[i] && json_object_get(arguments, keys[i]))
			json_object_set(rq, keys[i], json_object_get(arguments, keys[i]));
}

/* "env": an object of strings, as stdio's list of NAME=VALUE. */
static void toolparts_env(json_t *rq, json_t *arguments)
{
	json_t *env = json_object_get(arguments, "env"), *list, *value;
	const char *name;

	if (!env)
		return;
	list = json_array();
	json_object_foreach(env, name, value)
		json_array_append_new(list, json_sprintf("%s=%s", name, json_string_value(value)));
	json_object_set_new(rq, "env", list);
}

/* "timeout_ms" of the call; ERR_LIMIT over the configuration's maximum.  None: the sandbox's. */
static int toolparts_timeout(struct mcp *m, struct mcp_call *c, json_t *rq, struct err *e)
{
	json_t *given = json_object_get(c->arguments, "timeout_ms");
	uint64_t ms = (uint64_t)json_integer_value(given);

	if (!given)
		return 0;
	if (ms > m->config.max_timeout_ms)
		return err_set(e, ERR_LIMIT, "timeout_ms may be at most %llu here",
			       (unsigned long long)m->config.max_timeout_ms);
	json_object_set_new(rq, "timeout_ms", json_integer((json_int_t)ms));
	return 0;
}

/* Appends option and value for each string of the list key. */
static void toolparts_each_option(json_t *args, json_t *arguments, const char *key, const char *option)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(arguments, key), i, one) {
		json_array_append_new(args, json_string(option));
		json_array_append(args, one);
	}
}

/* ---- output ---- */

/* Keeps the last line that has something in it, as text, for the next progress. */
static void note_line(struct mcp_call *c, const char *p, size_t n)
{
	autobuf struct buf text = BUF_INIT(4096);
	size_t end = n, start;
	struct err ignored;

	while (end && (p[end - 1] == '\n' || p[end - 1] == '\r' || p[end - 1] == ' '))
		end--;
	for (start = end; start && p[start - 1] != '\n' && p[start - 1] != '\r'; start--)
		;
	if (start == end ||
	    utf8_add(&text, p + start, end - start < 60 ? end - start : 60, &ignored) < 0)
		return;
	snprintf(c->last_line, sizeof(c->last_line), "%s", text.data);
}

/* Takes the bytes of a's member key, or of key_hex, as output of stream which. */
static int toolparts_output(struct mcp_call *c, int which, const json_t *a, const char *key, struct err *e)
{
	autobuf struct buf b = BUF_INIT(2 * MCP_LINE_MAX);
	int r = json_get_bytes(a, key, &b, "answer", e);

	if (r <= 0 || !b.len)
		return r < 0 ? -1 : 0;
	if (c->token)
		note_line(c, b.data, b.len);
	return collect_add(&c->out[which], b.data, b.len, e);
}

/* ---- verdicts ---- */

/* What of a session goes on, and what can be done about it. */
static int add_session_note(struct buf *text, const char *status, struct err *e)
{
	const char *nl = text->len && text->data[text->len - 1] != '\n' ? "\n" : "";

	if (status && !strcmp(status, "awaiting-input"))
		return buf_addf(text, e,
				"%s[the command waits for input: call shell again with \"input\" "
				"(end it with a newline), or with \"interrupt\"]",
				nl);
	return buf_addf(text, e,
			"%s[the command still runs: call shell again with \"interrupt\" or "
			"\"close\", or use another session]",
			nl);
}

/* Notes for the reader besides the output; nothing for a plain success. */
static int add_verdict_note(struct buf *text, const json_t *verdict, struct err *e)
{
	const char *cause = json_string_value(json_object_get(verdict, "cause"));
	long long status = json_integer_value(json_object_get(verdict, "exit_status"));
	long long ms = json_integer_value(json_object_get(verdict, "wall_ms"));
	const char *nl = text->len && text->data[text->len - 1] != '\n' ? "\n" : "";

	if (cause && !strcmp(cause, "exit"))
		return status ? buf_addf(text, e, "%s[exit status %lld]", nl, status) : 0;
	if (cause && !strcmp(cause, "timeout"))
		return buf_addf(text, e, "%s[timed out after %lld ms; its processes were ended]",
				nl, ms);
	return buf_addf(text, e, "%s[ended: %s, exit status %lld]", nl, cause ? cause : "unknown",
			status);
}

static int add_outputs(struct mcp_call *c, json_t *structured, struct buf *text, struct err *e)
{
	static const char *const names[] = { "stdout", "stderr" };
	int i;

	for (i = 0; i < 2; i++) {
		autobuf struct buf one = BUF_INIT(8u << 20);

		if (collect_text(&c->out[i], &one, e) < 0)
			return -1;
		json_object_set_new(structured, names[i],
				    json_stringn(one.data ? one.data : "", one.len));
		if (c->out[i].dropped_bytes)
			json_object_set_new(structured, i ? "stderr_dropped" : "stdout_dropped",
					    json_integer((json_int_t)c->out[i].dropped_bytes));
		if (!one.len)
			continue;
		if (i && buf_addf(text, e, "%s[stderr]\n",
				  text->len && text->data[text->len - 1] != '\n' ? "\n" : "") < 0)
			return -1;
		if (buf_add(text, one.data, one.len, e) < 0)
			return -1;
	}
	return 0;
}

/* Ends c with its output and what became of the command; more: further members, or NULL. */
static int toolparts_verdict(struct mcp *m, struct mcp_call *c, const json_t *verdict, const json_t *more)
{
	static const char *const kept[] = { "files",	   "language", "session",
					     "fresh_shell", "status" };
	autobuf struct buf text = BUF_INIT(32u << 20);
	const char *cause = json_string_value(json_object_get(verdict, "cause"));
	json_t *structured = json_pack("{s:O*,s:O*,s:O*}", "exit_status",
				       json_object_get(verdict, "exit_status"), "cause",
				       json_object_get(verdict, "cause"), "verdict", verdict);
	struct err e;
	size_t i;

	for (i = 0; i < ARRAY_LEN(kept); i++)
		if (json_object_get(more, kept[i]))
			json_object_set(structured, kept[i], json_object_get(more, kept[i]));
	if (add_outputs(c, structured, &text, &e) < 0 ||
	    (verdict ? add_verdict_note(&text, verdict, &e) :
		       add_session_note(&text, json_string_value(json_object_get(more, "status")),
					&e)) < 0) {
		json_decref(structured);
		return -1;
	}
	if (!text.len && buf_adds(&text, "(no output)", &e) < 0) {
		json_decref(structured);
		return -1;
	}
	toolcall_finish(m, c, text.data, text.len, structured, cause && strcmp(cause, "exit") != 0);
	return 0;
}

/* ---- files ---- */

static char entry_type_mark(const char *type)
{
	return !strcmp(type, "directory") ? '/' : !strcmp(type, "link") ? '@' : '\0';
}

/* One entry of a directory, as a line of text and as an object of list. */
static int toolparts_entry(json_t *entry, json_t *list, struct buf *text, struct err *e)
{
	const char *type = json_string_value(json_object_get(entry, "type"));
	autobuf struct buf name = BUF_INIT(4096), shown = BUF_INIT(16384);
	const char sign[2] = { entry_type_mark(type ? type : ""), 0 };
	json_t *one;

	if (json_get_bytes(entry, "name", &name, "answer", e) < 0 ||
	    utf8_add(&shown, name.data, name.len, e) < 0)
		return -1;
	one = json_pack("{s:s%,s:O?,s:O?,s:O?}", "name", shown.data ? shown.data : "", shown.len,
			"type", json_object_get(entry, "type"), "size",
			json_object_get(entry, "size"), "mtime", json_object_get(entry, "mtime"));
	if (json_array_append_new(list, one) < 0)
		return err_nomem(e);
	return buf_addf(text, e, "%s%s\t%lld\n", shown.data ? shown.data : "", sign,
			(long long)json_integer_value(json_object_get(entry, "size")));
}

/* The resource of that file: a new reference. */
static json_t *toolparts_uri(const char *sandbox, const char *path)
{
	return json_sprintf("berth://%s%s%s", sandbox, *path == '/' ? "" : "/", path);
}

/* ---- The tools ---- */

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

static int begin_list_sandboxes(struct mcp *m, struct mcp_call *c, struct err *e)
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
	{ "list_directory", begin_list_sandboxes, answer_list, 1, 0 },
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
