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
#include "manager/service/args.h"
#include "manager/host/journal.h"
#include "manager/keeper/wire.h"

#define OUTPUT_MAX (32u << 20)

/* ID, or ID@CHECKPOINT. */
static int add_box(struct args *a, const struct box *b, const char *checkpoint, struct err *e)
{
	char text[sizeof(b->id) + 80];
	int n = snprintf(text, sizeof(text), "%s%s%s", b->id, checkpoint ? "@" : "",
			 checkpoint ? checkpoint : "");

	return n < (int)sizeof(text) ? args_add(a, text, e) :
				       err_set(e, ERR_NOT_FOUND,
					       "no checkpoint has a name that long");
}

/*
 * berth WORDS --json OPTIONS -- ID[@CHECKPOINT] [MORE] on the sandbox of {id}, which must be the
 * caller's.
 */
static json_t *work_at(struct http_request *rq, const char *const *words, json_t *options,
		       const char *checkpoint, const char *more, int in_fd, struct err *e)
{
	struct args a = { .n = 0 };
	json_t *j = NULL;
	struct box b;

	if (box_find(&b, rq, e) == 0 && args_add(&a, "berth", e) == 0 && args_words(&a, words, e) == 0 &&
	    args_add(&a, "--json", e) == 0 && args_options(&a, options, e) == 0 && args_add(&a, "--", e) == 0 &&
	    add_box(&a, &b, checkpoint, e) == 0 && (!more || args_add(&a, more, e) == 0))
		j = spawn_json_fed(rq, (const char *const *)a.v, 0, in_fd, e);
	box_close(&b);
	args_release(&a);
	return j;
}

static json_t *work(struct http_request *rq, const char *const *words, json_t *options,
		    const char *more, int in_fd, struct err *e)
{
	return work_at(rq, words, options, NULL, more, in_fd, e);
}

static int reply(struct http_request *rq, json_t *j, struct err *e)
{
	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int post_code(struct http_request *rq, struct err *e)
{
	static const char *const words[] = { "code", NULL };
	const char *code = json_string_value(json_object_get(http_json(rq), "code"));
	autojson json_t *options = json_copy(http_json(rq));
	autoclose int fd = wire_data(code, strlen(code), e);

	if (fd < 0)
		return -1;
	json_object_del(options, "code");
	if (json_object_get(options, "max_silent_ms")) {
		char text[32];

		snprintf(text, sizeof(text), "%lldms",
			 (long long)json_integer_value(json_object_get(options, "max_silent_ms")));
		json_object_del(options, "max_silent_ms");
		json_object_set_new(options, "max-silent-time", json_string(text));
	}
	return reply(rq, work(rq, words, options, NULL, fd, e), e);
}

static int get_diff(struct http_request *rq, struct err *e)
{
	static const char *const words[] = { "diff", NULL };
	autojson json_t *options =
		json_pack("{s:s*,s:s*,s:b}", "from", http_query(rq, "from"), "to",
			  http_query(rq, "to"), "patch", http_query_bool(rq, "patch"));

	return reply(rq, work(rq, words, options, NULL, -1, e), e);
}

static int post_commit(struct http_request *rq, struct err *e)
{
	static const char *const allowed[] = {
		"env", "cmd", "entrypoint", "workdir", "user", "label", "author", "message",
		"compression", "no-pause", NULL,
	};
	const char *words[] = { "commit", "--quiet", NULL, NULL, NULL };
	const json_t *body = http_json(rq);
	json_t *options = json_object_get(body, "options"), *j;

	if (api_check_options(rq, options, allowed, e) < 0)
		return -1;
	if (!http_who(rq)->admin) {
		words[2] = "--tenant";
		words[3] = http_who(rq)->name;
	}
	j = work_at(rq, words, options, json_string_value(json_object_get(body, "checkpoint")),
		    json_string_value(json_object_get(body, "image")), -1, e);
	if (j)
		api_show_image_names(rq, j);
	return reply(rq, j, e);
}

static int get_network(struct http_request *rq, struct err *e)
{
	static const char *const words[] = { "network", "inspect", NULL };

	return reply(rq, work(rq, words, NULL, NULL, -1, e), e);
}

static void set_each(struct http_request *rq, json_t *options, const char *name)
{
	json_t *list = json_array();
	const char *v;
	size_t i;

	for (i = 0; (v = http_query_each(rq, name, i)); i++)
		json_array_append_new(list, json_string(v));
	json_object_set_new(options, name, list);
}

/* An expression costs memory and time outside of every sandbox: a tenant follows the log itself. */
static int get_ready(struct http_request *rq, struct err *e)
{
	static const char *const words[] = { "wait", NULL };
	autojson json_t *options = json_object();
	const char *timeout = http_query(rq, "timeout");
	struct box b;
	int r = box_find(&b, rq, e);

	box_close(&b);
	if (r < 0)	/* a missing sandbox is reported first */
		return -1;
	if (http_query(rq, "log") && !http_who(rq)->admin) {
		err_set(e, ERR_DENIED, "log is for administrators");
		return err_hint(e, "GET /v1/sandboxes/{id}/logs?follow=true");
	}
	if (http_query_bool(rq, "healthy"))
		json_object_set_new(options, "healthy", json_true());
	if (!json_object_size(options) && !http_query(rq, "port") && !http_query(rq, "log"))
		return err_set(e, ERR_INVALID, "none of healthy, port and log is given");
	set_each(rq, options, "port");
	set_each(rq, options, "log");
	json_object_set_new(options, "timeout", json_string(timeout ? timeout : "60s"));
	return reply(rq, work(rq, words, options, NULL, -1, e), e);
}

static int follow_network_log(struct http_request *rq, struct box *b, struct err *e)
{
	int denied = http_query_bool(rq, "denied"), r;
	const char *argv[] = { "berth", "network", "log", "--json", "--follow", denied ? "--denied" : "--", denied ? "--" : b->id,
			       denied ? b->id : NULL, NULL };

	r = http_endless(rq, e) < 0 ? -1 : spawn_reply(rq, argv, "application/x-ndjson", e);
	box_close(b);
	return r;
}

/* The program writes an object a line. */
static int get_network_log(struct http_request *rq, struct err *e)
{
	const char *argv[] = { "berth", "network", "log", "--json", http_query_bool(rq, "denied") ? "--denied" : "--", NULL, NULL, NULL };
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);
	json_t *list, *one;
	struct box b;
	char *line, *save = NULL;
	int r = box_find(&b, rq, e);

	if (r == 0 && http_query_bool(rq, "follow"))
		return follow_network_log(rq, &b, e);
	argv[5] = http_query_bool(rq, "denied") ? "--" : b.id;
	argv[6] = http_query_bool(rq, "denied") ? b.id : NULL;
	if (r == 0)
		r = spawn_berth(rq, argv, 0, -1, &out, e);
	box_close(&b);
	if (r < 0)
		return -1;
	list = json_array();
	for (line = out.data ? strtok_r(out.data, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save)) {
		one = json_parse(line, strlen(line), OUTPUT_MAX, "berth's answer", e);
		if (!one) {
			json_decref(list);
			return -1;
		}
		json_array_append_new(list, one);
	}
	return http_reply_json(rq, 0, json_pack("{s:o}", "requests", list), e);
}

/* The journal's entries, an object a line, or with text its bytes. */
static int get_logs(struct http_request *rq, struct err *e)
{
	static const char *const values[] = { "since", "from", "source", "tail" }, *const flags[] = { "follow", "timestamps" };
	const int text = http_query_bool(rq, "text");
	struct args a = { .n = 0 };
	char since[JOURNAL_TIME];
	struct box b;
	size_t i;
	int r;

	/* a program that writes text reports errors as text, so we check for errors here first */
	if (http_query(rq, "since") && journal_since(http_query(rq, "since"), since, e) < 0)
		return -1;
	r = box_find(&b, rq, e);

	if (r == 0 && (args_add(&a, "berth", e) < 0 || args_add(&a, "logs", e) < 0 || (!text && args_add(&a, "--json", e) < 0)))
		r = -1;
	for (i = 0; r == 0 && i < ARRAY_LEN(values); i++) {
		autojson json_t *v = http_query(rq, values[i]) ? json_string(http_query(rq, values[i])) : NULL;

		r = v ? args_option(&a, values[i], v, e) : 0;
	}
	for (i = 0; r == 0 && i < ARRAY_LEN(flags); i++)
		r = http_query_bool(rq, flags[i]) ? args_option(&a, flags[i], json_true(), e) : 0;
	if (r == 0 && (args_add(&a, "--", e) < 0 || args_add(&a, b.id, e) < 0))
		r = -1;
	if (r == 0)
		r = spawn_reply(rq, (const char *const *)a.v, text ? "application/octet-stream" : "application/x-ndjson", e);
	box_close(&b);
	args_release(&a);
	return r;
}

static int get_config(struct http_request *rq, struct err *e)
{
	static const char *const argv[] = { "berth", "config", "show", "--json", NULL };

	return reply(rq, spawn_json(rq, argv, 0, e), e);
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
	{ "POST", SANDBOX "/commit", post_commit, "make an image of what it changed", HTTP_JSON, .request = "Commit",
	  .response = "Document", .status = 201 },
	{ "GET", SANDBOX "/network", get_network, "its network: rules, counters, budgets", .response = "Document" },
	{ "GET", SANDBOX "/network/log", get_network_log, "the requests it made, and how each was answered; with follow as they come, an object a line",
	  .query = "denied:boolean follow:boolean",
	  .response = "NetworkLog", .type = "application/x-ndjson" },
	{ "GET", "/v1/system/config", get_config, "the configuration in force", .flags = HTTP_ADMIN, .response = "Document" },
	{ NULL },
};
