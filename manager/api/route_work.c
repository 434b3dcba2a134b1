/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes on the results of work in a sandbox: snippets of code, its changes, images of them, its
 * network.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/host/journal.h"
#include "manager/keeper/wire.h"

#define OUTPUT_MAX (32u << 20)

/*
 * The answer of a command on the sandbox of {id}, which must be the caller's, or on a checkpoint of
 * it.  call has the options; more is the operand after the sandbox.
 */
static json_t *work_at(struct http_request *rq, json_t *call, const char *checkpoint, const char *more,
		       int in_fd, struct err *e)
{
	struct box b;
	const int r = box_find(&b, rq, e);

	box_close(&b);
	if (r < 0) {
		json_decref(call);
		return NULL;
	}
	call_sandbox(call, b.id, checkpoint);
	if (more)
		call_operand(call, more);
	return spawn_json_fed(rq, call, 0, in_fd, e);
}

static json_t *run_work(struct http_request *rq, json_t *call, int in_fd, struct err *e)
{
	return work_at(rq, call, NULL, NULL, in_fd, e);
}

static int reply_work(struct http_request *rq, json_t *j, struct err *e)
{
	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int post_code(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq), *silent = json_object_get(body, "max_silent_ms");
	const char *code = json_string_value(json_object_get(body, "code")), *name;
	autoclose int fd = wire_data(code, strlen(code), e);
	json_t *call, *v;

	if (fd < 0)
		return -1;
	call = call_of("code", NULL);
	json_object_foreach ((json_t *)(size_t)body, name, v)
		if (strcmp(name, "code") && strcmp(name, "max_silent_ms"))
			call_set(call, name, json_incref(v));
	if (silent)
		call_set(call, "max-silent-time", json_sprintf("%" JSON_INTEGER_FORMAT "ms", json_integer_value(silent)));
	return reply_work(rq, run_work(rq, call, fd, e), e);
}

static int get_diff(struct http_request *rq, struct err *e)
{
	json_t *call = call_of("diff", NULL);

	call_text(call, "from", http_query(rq, "from"));
	call_text(call, "to", http_query(rq, "to"));
	call_set(call, "patch", json_boolean(http_query_bool(rq, "patch")));
	return reply_work(rq, run_work(rq, call, -1, e), e);
}

static int post_sandbox_commit(struct http_request *rq, struct err *e)
{
	static const char *const allowed[] = {
		"env", "cmd", "entrypoint", "workdir", "user", "label", "author", "message",
		"compression", "no-pause", NULL,
	};
	const json_t *body = http_json(rq);
	json_t *options = json_object_get(body, "options"), *call, *j;

	if (api_check_options(rq, options, allowed, e) < 0)
		return -1;
	call = call_of("commit", NULL);
	call_flag(call, "quiet");
	call_options(call, options);
	spawn_tenant(rq, call);
	j = work_at(rq, call, json_string_value(json_object_get(body, "checkpoint")),
		    json_string_value(json_object_get(body, "image")), -1, e);
	if (j)
		api_show_image_names(rq, j);
	return reply_work(rq, j, e);
}

static int get_sandbox_network(struct http_request *rq, struct err *e)
{
	return reply_work(rq, run_work(rq, call_of("network inspect", NULL), -1, e), e);
}

static void set_each(struct http_request *rq, json_t *call, const char *name)
{
	json_t *list = json_array();
	const char *v;
	size_t i;

	for (i = 0; (v = http_query_each(rq, name, i)); i++)
		json_array_append_new(list, json_string(v));
	call_set(call, name, list);
}

/* An expression costs memory and time outside of every sandbox: a tenant follows the log itself. */
static int get_ready(struct http_request *rq, struct err *e)
{
	const int healthy = http_query_bool(rq, "healthy");
	const char *timeout = http_query(rq, "timeout");
	json_t *call;
	struct box b;
	int r = box_find(&b, rq, e);

	box_close(&b);
	if (r < 0)	/* a missing sandbox is reported first */
		return -1;
	if (http_query(rq, "log") && !http_who(rq)->admin) {
		err_set(e, ERR_DENIED, "log is for administrators");
		return err_hint(e, "GET /v1/sandboxes/{id}/logs?follow=true");
	}
	if (!healthy && !http_query(rq, "port") && !http_query(rq, "log"))
		return err_set(e, ERR_INVALID, "none of healthy, port and log is given");
	call = call_of("wait", NULL);
	call_set(call, "healthy", json_boolean(healthy));
	set_each(rq, call, "port");
	set_each(rq, call, "log");
	call_text(call, "timeout", timeout ? timeout : "60s");
	return reply_work(rq, run_work(rq, call, -1, e), e);
}

/* The program writes an object a line. */
static json_t *parse_object_lines(char *lines, struct err *e)
{
	json_t *list = json_array(), *one;
	char *line, *save = NULL;

	for (line = lines ? strtok_r(lines, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
		one = json_parse(line, strlen(line), OUTPUT_MAX, "berth's answer", e);
		if (!one) {
			json_decref(list);
			return NULL;
		}
		json_array_append_new(list, one);
	}
	return list;
}

static int get_network_log(struct http_request *rq, struct err *e)
{
	const int follow = http_query_bool(rq, "follow");
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);
	json_t *call, *list;
	struct box b;
	int r = box_find(&b, rq, e);

	box_close(&b);
	if (r < 0 || (follow && http_endless(rq, e) < 0))
		return -1;
	call = call_of("network log", b.id, NULL);
	call_set(call, "denied", json_boolean(http_query_bool(rq, "denied")));
	call_set(call, "follow", json_boolean(follow));
	if (follow)
		return spawn_reply(rq, call, "application/x-ndjson", e);
	if (spawn_berth(rq, call, 0, -1, &out, e) < 0)
		return -1;
	list = parse_object_lines(out.data, e);
	return list ? http_reply_json(rq, 0, json_pack("{s:o}", "requests", list), e) : -1;
}

/* The journal's entries, an object a line, or with text its bytes. */
static int get_logs(struct http_request *rq, struct err *e)
{
	static const char *const values[] = { "since", "from", "source", "tail" }, *const flags[] = { "follow", "timestamps" };
	const int text = http_query_bool(rq, "text");
	char since[JOURNAL_TIME];
	json_t *call;
	struct box b;
	size_t i;
	int r;

	/* a program that writes text reports errors as text, so we check for errors here first */
	if (http_query(rq, "since") && journal_since(http_query(rq, "since"), since, e) < 0)
		return -1;
	r = box_find(&b, rq, e);
	box_close(&b);
	if (r < 0)
		return -1;
	call = call_of("logs", b.id, NULL);
	if (text)
		json_object_del(json_object_get(call, "options"), "json");
	for (i = 0; i < ARRAY_LEN(values); i++)
		call_text(call, values[i], http_query(rq, values[i]));
	for (i = 0; i < ARRAY_LEN(flags); i++)
		call_set(call, flags[i], json_boolean(http_query_bool(rq, flags[i])));
	return spawn_reply(rq, call, text ? "application/octet-stream" : "application/x-ndjson", e);
}

static int get_config(struct http_request *rq, struct err *e)
{
	return reply_work(rq, spawn_json(rq, call_of("config show", NULL), 0, e), e);
}

#define SANDBOX "/v1/sandboxes/{id}"

const struct http_route work_routes[] = {
	{ "POST", SANDBOX "/code", post_code, "run a snippet, and list the files it made", HTTP_JSON, .request = "Code",
	  .response = "CodeResult" },
	{ "GET", SANDBOX "/logs", get_logs, "what its commands and sessions wrote: an object a line, or with text the bytes; with follow as it comes",
	  .query = "follow:boolean since:string from:integer source:string tail:integer timestamps:boolean text:boolean",
	  .type = "application/x-ndjson, application/octet-stream" },
	{ "GET", SANDBOX "/ready", get_ready,
	  "wait until it is healthy, listens on ports and has matching lines in its log",
	  .query = "healthy:boolean port:strings log:strings timeout:string",
	  .response = "SandboxReady" },
	{ "GET", SANDBOX "/diff", get_diff, "what it changed against its image, or a checkpoint",
	  .query = "from:string to:string patch:boolean", .response = "Diff" },
	{ "POST", SANDBOX "/commit", post_sandbox_commit, "make an image of what it changed", HTTP_JSON, .request = "Commit",
	  .response = "Document", .status = 201 },
	{ "GET", SANDBOX "/network", get_sandbox_network, "its network: rules, counters, budgets", .response = "Document" },
	{ "GET", SANDBOX "/network/log", get_network_log, "the requests it made, and how each was answered; with follow as they come, an object a line",
	  .query = "denied:boolean follow:boolean",
	  .response = "NetworkLog", .type = "application/x-ndjson" },
	{ "GET", "/v1/system/config", get_config, "the configuration in force", .flags = HTTP_ADMIN, .response = "Document" },
	{ NULL },
};
