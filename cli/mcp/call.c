/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp/mcp.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/mem.h"

#define PROGRESS_MS 250   /* at most so often, and only while there is output */
#define HEARTBEAT_MS 5000 /* and so often without: a client may take silence for a failure */
#define MAX_OUTPUT 65536  /* of one stream, where the call names no max_output_bytes */

static void release_mcp_call(struct mcp_call *c)
{
	json_decref(c->id);
	json_decref(c->token);
	json_decref(c->arguments);
	json_decref(c->first_error);
	collect_release(&c->out[0]);
	collect_release(&c->out[1]);
	*c = (struct mcp_call){ 0 };
}

struct mcp_call *toolcall_of(struct mcp *m, const json_t *id)
{
	size_t i;

	for (i = 0; id && i < MCP_CALLS_MAX; i++)
		if (m->calls[i].used && !m->calls[i].cancelled && json_equal(m->calls[i].id, id))
			return &m->calls[i];
	return NULL;
}

int toolcall_send(struct mcp *m, struct mcp_call *c, json_t *rq, struct err *e)
{
	const char *op = json_string_value(json_object_get(rq, "op"));

	/* "berth" is any command of berth, which has the sandbox among its words */
	if (c->box && op && strcmp(op, "berth"))
		json_object_set_new(rq, "sandbox", json_string(c->box->id));
	c->request = backend_send(m, rq, e);
	return c->request ? 0 : -1;
}

/* ---- results ---- */

/* A resource that cannot be read is an error of the protocol; a tool's failure is a result. */
static int is_resource(const struct mcp_call *c)
{
	return c->tool == &tool_resource;
}

void toolcall_finish_content(struct mcp *m, struct mcp_call *c, json_t *content, json_t *structured,
			 int is_error)
{
	json_t *result = is_resource(c) ? json_pack("{s:o}", "contents", content) :
					  json_pack("{s:o,s:b,s:o*}", "content", content, "isError",
						    is_error, "structuredContent", structured);

	if (c->cancelled) {
		json_decref(result);
	} else {
		if (c->modern && is_resource(c)) {
			json_object_set_new(result, "ttlMs", json_integer(0));
			json_object_set_new(result, "cacheScope", json_string("private"));
		}
		rpc_result(m, c->id, c->modern, result);
	}
	release_mcp_call(c);
}

void toolcall_finish(struct mcp *m, struct mcp_call *c, const char *text, size_t n, json_t *structured,
		 int is_error)
{
	json_t *content =
		json_pack("[{s:s,s:o}]", "type", "text", "text", json_stringn(text ? text : "", n));

	toolcall_finish_content(m, c, content, structured, is_error);
}

/* An error in the words of the tools: the member of the arguments for an option, the whole path. */
static void describe_tool_error(const struct mcp_call *c, const struct err *e, char *ret, size_t n)
{
	static const char option[] = "option --lang: ";
	const char *path = json_string_value(json_object_get(c->arguments, "path"));

	if (!strncmp(e->msg, option, strlen(option)))
		snprintf(ret, n, "language: %s", e->msg + strlen(option));
	else if (path && !strstr(e->msg, path))
		snprintf(ret, n, "%.200s: %s", path, e->msg);
	else
		snprintf(ret, n, "%s", e->msg);
}

/* Ends c with a failure of the tool. */
static void toolcall_fail(struct mcp *m, struct mcp_call *c, const struct err *e)
{
	autobuf struct buf clean = BUF_INIT(8192);
	char text[sizeof(e->msg) + 256];
	struct err ignored;

	if (!is_resource(c)) {
		describe_tool_error(c, e, text, sizeof(text));
		utf8_add(&clean, text, strlen(text), &ignored);	/* a path may be cut */
		toolcall_finish(m, c, clean.data, clean.len, NULL, 1);
		return;
	}
	if (!c->cancelled)
		rpc_error(m, c->id,
			  e->code == ERR_NOT_FOUND ? RPC_NO_RESOURCE : RPC_INTERNAL, e->msg,
			  json_pack("{s:s,s:s}", "code", err_name(e->code), "message", e->msg));
	release_mcp_call(c);
}

/* ---- the way of a call ---- */

static void begin_work(struct mcp *m, struct mcp_call *c)
{
	struct err e = { 0 };

	c->waits = 0;
	c->step = STEP_WORK;
	if (c->box)
		memcpy(c->box_id, c->box->id, sizeof(c->box_id));
	if (c->tool->begin(m, c, &e) < 0)
		toolcall_fail(m, c, &e);
}

/* How much of each stream the call wants. */
static size_t output_wanted(const json_t *arguments)
{
	const json_t *v = json_object_get(arguments, "max_output_bytes");

	return v ? (size_t)json_integer_value(v) : MAX_OUTPUT;
}

void toolcall_begin(struct mcp *m, const struct mcp_request *r, const struct mcp_tool *tool,
		json_t *arguments)
{
	const char *name = json_string_value(json_object_get(arguments, "sandbox"));
	json_t *token = json_object_get(json_object_get(r->params, "_meta"), "progressToken");
	struct mcp_call *c = NULL;
	struct err e = { 0 };
	char of_uri[65];
	const char *path;
	size_t i;

	for (i = 0; i < MCP_CALLS_MAX && !c; i++)
		if (!m->calls[i].used)
			c = &m->calls[i];
	if (!c || m->ending) {
		rpc_error(m, r->id, RPC_INTERNAL, "64 calls are under way; hint: wait for one",
			  NULL);
		json_decref(arguments);
		return;
	}
	*c = (struct mcp_call){ .used = 1,
				.id = json_incref(r->id),
				.modern = r->modern,
				.tool = tool,
				.arguments = arguments,
				.begun_ms = clock_ms() };
	c->token = json_is_string(token) || json_is_integer(token) ? json_incref(token) : NULL;
	collect_init(&c->out[0], output_wanted(arguments));
	collect_init(&c->out[1], output_wanted(arguments));
	if (tool == &tool_resource &&
	    tool_uri(json_string_value(json_object_get(arguments, "uri")), of_uri, &path, &e) == 0)
		name = of_uri;
	if (tool->needs_box) {
		c->box = box_take(m, name ? name : "", &e);
		if (!c->box) {
			toolcall_fail(m, c, &e);
			return;
		}
		c->waits = c->box->state == BOX_MAKING;
	}
	if (!c->waits)
		begin_work(m, c);
}

void toolcall_box_ready(struct mcp *m, struct mcp_box *b, const struct err *e)
{
	size_t i;

	for (i = 0; i < MCP_CALLS_MAX; i++) {
		struct mcp_call *c = &m->calls[i];

		if (!c->used || !c->waits || c->box != b)
			continue;
		if (e || c->cancelled) {
			toolcall_fail(m, c, e ? e : &(struct err){ .code = ERR_BUSY });
			continue;
		}
		begin_work(m, c);
	}
}

void toolcall_cancel(struct mcp *m, struct mcp_call *c)
{
	struct err ignored;

	c->cancelled = 1;
	if (c->request && c->step == STEP_WORK)
		backend_send(
			m,
			json_pack("{s:s,s:I}", "op", "cancel", "request", (json_int_t)c->request),
			&ignored);
}

/* ---- answers ---- */

/* Whether an answer without its sandbox may mean that this has stopped. */
static int may_have_stopped(const struct mcp_call *c, const struct err *e)
{
	return c->box_id[0] && !strcmp(c->box_id, c->box->id) && e->code == ERR_NOT_FOUND &&
	       !c->restarted && !c->cancelled;
}

static void look_whether_it_runs(struct mcp *m, struct mcp_call *c, json_t *error)
{
	struct err e = { 0 };

	c->step = STEP_PING;
	c->first_error = json_incref(error);
	if (toolcall_send(m, c, json_pack("{s:s}", "op", "ping"), &e) < 0)
		toolcall_fail(m, c, &e);
}

/* The result of the look: the first error stays, or the sandbox is started for a second try. */
static void looked(struct mcp *m, struct mcp_call *c, json_t *error)
{
	struct err e = { 0 };

	if (c->step == STEP_PING && error) {
		c->step = STEP_START;
		if (toolcall_send(m, c, json_pack("{s:s}", "op", "start"), &e) < 0)
			toolcall_fail(m, c, &e);
		return;
	}
	if (c->step == STEP_START && !error) {
		c->restarted = 1;
		rpc_log(m, 3, "sandbox %s had stopped and was started again", c->box->id);
		begin_work(m, c);
		return;
	}
	json_take_error(c->step == STEP_START ? error : c->first_error, ERR_INTERNAL, "berth", &e);
	if (c->step == STEP_START && e.code == ERR_NOT_FOUND && !c->box->given) {
		box_forget(c->box);
		err_set(&e, ERR_NOT_FOUND,
			"the sandbox has been removed, with its files; hint: the "
			"next call without \"sandbox\" makes a new one");
	}
	toolcall_fail(m, c, &e);
}

static struct mcp_call *toolcall_of_request(struct mcp *m, uint64_t request)
{
	size_t i;

	for (i = 0; i < MCP_CALLS_MAX; i++)
		if (m->calls[i].used && m->calls[i].request == request)
			return &m->calls[i];
	return NULL;
}

void toolcall_answer(struct mcp *m, json_t *answer)
{
	uint64_t request = (uint64_t)json_integer_value(json_object_get(answer, "id"));
	struct mcp_call *c = request ? toolcall_of_request(m, request) : NULL;
	json_t *error = json_object_get(answer, "error");
	struct err e = { 0 };
	size_t i;

	for (i = 0; request && i < MCP_BOXES_MAX; i++)
		if (m->boxes[i].request == request) {
			box_answer(m, &m->boxes[i], answer);
			return;
		}
	if (!c)
		return; /* of a cancel, or of a call that has ended */
	if (c->step != STEP_WORK) {
		looked(m, c, error);
	} else if (error) {
		json_take_error(error, ERR_INTERNAL, "berth stdio", &e);
		if (may_have_stopped(c, &e))
			look_whether_it_runs(m, c, error);
		else
			toolcall_fail(m, c, &e);
	} else if (c->tool->answer(m, c, answer) < 0) {
		err_nomem(&e);
		toolcall_fail(m, c, &e);
	}
}

/* ---- progress ---- */

static void tell_progress(struct mcp *m, struct mcp_call *c, uint64_t now)
{
	uint64_t total = c->out[0].total_bytes + c->out[1].total_bytes;
	char text[320];

	if (c->last_line[0])
		snprintf(text, sizeof(text), "%s", c->last_line);
	else
		snprintf(text, sizeof(text), "%llu bytes of output", (unsigned long long)total);
	rpc_notify(m, "notifications/progress",
		   json_pack("{s:O,s:f,s:s}", "progressToken", c->token, "progress",
			     (double)(now - c->begun_ms) / 1000, "message", text));
	c->told_ms = now;
	c->last_line[0] = '\0';
}

int toolcall_progress(struct mcp *m, uint64_t now)
{
	int soonest = -1;
	size_t i;

	for (i = 0; i < MCP_CALLS_MAX; i++) {
		struct mcp_call *c = &m->calls[i];
		uint64_t since = c->told_ms ? c->told_ms : c->begun_ms, due;

		if (!c->used || !c->token || c->cancelled)
			continue;
		due = since + (c->last_line[0] ? PROGRESS_MS : HEARTBEAT_MS);
		if (now >= due) {
			tell_progress(m, c, now);
			due = now + HEARTBEAT_MS;
		}
		if (soonest < 0 || (int)(due - now) < soonest)
			soonest = (int)(due - now);
	}
	return soonest;
}
