/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp/toolparts.h"

#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/mem.h"

void toolparts_copy(json_t *rq, json_t *arguments, const char *a, const char *b, const char *c)
{
	const char *const keys[] = { a, b, c };
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (keys[i] && json_object_get(arguments, keys[i]))
			json_object_set(rq, keys[i], json_object_get(arguments, keys[i]));
}

void toolparts_env(json_t *rq, json_t *arguments)
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

int toolparts_timeout(struct mcp *m, struct mcp_call *c, json_t *rq, struct err *e)
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

void toolparts_each_option(json_t *args, json_t *arguments, const char *key, const char *option)
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

int toolparts_output(struct mcp_call *c, int which, const json_t *a, const char *key, struct err *e)
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
static int add_status(struct buf *text, const char *status, struct err *e)
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
static int add_end(struct buf *text, const json_t *verdict, struct err *e)
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

int toolparts_verdict(struct mcp *m, struct mcp_call *c, const json_t *verdict, const json_t *more)
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
	    (verdict ? add_end(&text, verdict, &e) :
		       add_status(&text, json_string_value(json_object_get(more, "status")),
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

static char mark(const char *type)
{
	return !strcmp(type, "directory") ? '/' : !strcmp(type, "link") ? '@' : '\0';
}

int toolparts_entry(json_t *entry, json_t *list, struct buf *text, struct err *e)
{
	const char *type = json_string_value(json_object_get(entry, "type"));
	autobuf struct buf name = BUF_INIT(4096), shown = BUF_INIT(16384);
	const char sign[2] = { mark(type ? type : ""), 0 };
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

json_t *toolparts_uri(const char *sandbox, const char *path)
{
	return json_sprintf("berth://%s%s%s", sandbox, *path == '/' ? "" : "/", path);
}
