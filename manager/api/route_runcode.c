/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /run_code: the request and the reply of SandboxFusion's run_code, as verl and others send
 * and read them (a compile and a run stage, files in and out).
 *
 * Each request has a sandbox of its own, of the configuration's image, without a network, which is
 * removed before the reply.  What the program does is told with status 200, as the original does:
 * Success, Failed (it failed), SandboxError (we failed, and may be asked again).  A request that is
 * wrong is a 422 with "detail".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/execution.h"
#include "manager/api/http.h"
#include "manager/api/route_manager.h"
#include "manager/api/runlang.h"
#include "manager/host/labels.h"
#include "manager/keeper/fileclient.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

#define PLACE "/tmp/run_code"
#define STAGE_MS_MAX 3600000
#define STAGE_MS 10000		/* timeout of a stage that has none, as in SandboxFusion */
#define SPARE_MS 120000		/* time for everything else than the stages */
#define FILE_MS 60000
#define OUTPUT_MAX (1u << 20)	/* of each stream; the middle of more is dropped */
#define FETCH_MAX (8u << 20)	/* of all files that are fetched */

struct run {
	struct http_request *rq;
	const struct runlang *lang;
	uint64_t compile_ms, run_ms, memory_bytes;
	char id[65];
	json_t *reply;
	struct http_hold hold;	/* files that are fetched */
};

/* ---- the request ------------------------------------------------------------------- */

static json_t *runcode_error_detail(const struct err *e)
{
	return manager_detail(e);
}

static int refuse_runcode(struct http_request *rq, struct err *e, const char *text)
{
	http_error_status(rq, 422);
	return err_set(e, ERR_INVALID, "%s", text);
}

/* Seconds, with a fraction; null and numbers up to 0 mean the default. */
static int read_seconds(struct http_request *rq, const char *key, uint64_t *ret, struct err *e)
{
	const json_t *v = json_object_get(http_json(rq), key);
	double s = json_number_value(v);
	char text[100];

	*ret = STAGE_MS;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_number(v) || s > STAGE_MS_MAX / 1000.0) {
		snprintf(text, sizeof(text), "body.%s is not a number of seconds up to %d", key,
			 STAGE_MS_MAX / 1000);
		return refuse_runcode(rq, e, text);
	}
	if (s > 0)
		*ret = (uint64_t)(s * 1000) + 1;
	return 0;
}

static int read_strings(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq), *stdin_text = json_object_get(body, "stdin");
	const json_t *files = json_object_get(body, "files"), *fetch;
	const char *name;
	json_t *v;
	size_t i;

	fetch = json_object_get(body, "fetch_files");
	if (!json_is_string(json_object_get(body, "code")))
		return refuse_runcode(rq, e, "body.code is not text");
	if (stdin_text && !json_is_string(stdin_text) && !json_is_null(stdin_text))
		return refuse_runcode(rq, e, "body.stdin is not text");
	if ((files && !json_is_object(files)) || (fetch && !json_is_array(fetch)))
		return refuse_runcode(rq, e, "body.files is an object, and body.fetch_files an array");
	json_object_foreach((json_t *)(size_t)files, name, v)
		if (!name[0] || (!json_is_string(v) && !json_is_null(v)))
			return refuse_runcode(rq, e, "body.files has a value that is not text in base64");
	json_array_foreach(fetch, i, v)
		if (!json_is_string(v) || !json_string_length(v))
			return refuse_runcode(rq, e, "body.fetch_files has an element that is not a path");
	return 0;
}

static int read_request(struct run *r, struct err *e)
{
	const json_t *body = http_json(r->rq), *mb = json_object_get(body, "memory_limit_MB");
	const char *name = json_string_value(json_object_get(body, "language"));
	char text[512];

	r->lang = name ? runlang_find(name) : NULL;
	if (!r->lang) {
		snprintf(text, sizeof(text), "body.language is not one of %s", runlang_names());
		return refuse_runcode(r->rq, e, text);
	}
	if (mb && !json_is_integer(mb) && !json_is_null(mb))
		return refuse_runcode(r->rq, e, "body.memory_limit_MB is not a whole number");
	if (json_integer_value(mb) > 1 << 20)
		return refuse_runcode(r->rq, e, "body.memory_limit_MB is over 1048576");
	if (json_integer_value(mb) > 0)
		r->memory_bytes = (uint64_t)json_integer_value(mb) << 20;
	return read_strings(r->rq, e) < 0 ||
		       read_seconds(r->rq, "compile_timeout", &r->compile_ms, e) < 0 ||
		       read_seconds(r->rq, "run_timeout", &r->run_ms, e) < 0 ?
		       -1 :
		       0;
}

/* ---- the sandbox -------------------------------------------------------------------- */

/* It is removed by itself, too, if this berthd is killed. */
static int make_runcode_sandbox(struct run *r, struct err *e)
{
	char ttl[32], memory[32];
	autojson json_t *body = NULL, *own = NULL, *made = NULL;

	snprintf(ttl, sizeof(ttl), "%llums",
		 (unsigned long long)(r->compile_ms + r->run_ms + SPARE_MS));
	own = json_pack("{s:[s]}", "mark", LABEL_FACE "=run_code");
	body = json_pack("{s:{s:s,s:s}}", "options", "ttl", ttl, "user", "root");
	if (r->memory_bytes) {
		snprintf(memory, sizeof(memory), "%llu", (unsigned long long)r->memory_bytes);
		json_object_set_new(json_object_get(body, "options"), "memory",
				    json_string(memory));
	}
	made = api_create(r->rq, body, own, e);
	if (!made)
		return -1;
	snprintf(r->id, sizeof(r->id), "%s", json_string_value(json_object_get(made, "id")));
	return 0;
}

/* A connection to its keeper of its own. */
static int open_runcode_sandbox(struct run *r, struct box *b, struct err *e)
{
	if (box_open(b, r->rq, e) < 0)
		return -1;
	snprintf(b->id, sizeof(b->id), "%s", r->id);
	b->sock = keeper_connect(&b->registry, b->id, e);
	return b->sock < 0 ? -1 : 0;
}

static void remove_box(struct run *r)
{
	struct err ignored;
	struct box b;

	if (!r->id[0])
		return;
	if (box_open(&b, r->rq, &ignored) == 0) {
		snprintf(b.id, sizeof(b.id), "%s", r->id);
		execution_remove_box(&b, 0);
	}
	box_close(&b);
}

/* ---- files --------------------------------------------------------------------------- */

/* An absolute path stays as it is; others are below PLACE. */
static int runcode_file_place(const char *name, char *ret, size_t size, struct err *e)
{
	if ((size_t)snprintf(ret, size, "%s%s", name[0] == '/' ? "" : PLACE "/", name) < size)
		return 0;
	return err_set(e, ERR_INVALID, "the name of a file is too long");
}

static int write_runcode_file(struct box *b, const char *name, const void *data, size_t n, struct err *e)
{
	char path[4096];
	const char *argv[] = { "write", "p", "", path, NULL };
	struct filecounts ignored;
	autoclose int fd = -1;

	if (runcode_file_place(name, path, sizeof(path), e) < 0)
		return -1;
	fd = wire_data(data, n, e);
	if (fd < 0)
		return -1;
	return fileclient_run(b->sock, argv, NULL, FILE_MS, fd, NULL, &ignored, e);
}

static int write_files(struct run *r, struct box *b, struct err *e)
{
	json_t *body = http_json(r->rq), *v;
	const json_t *code = json_object_get(body, "code");
	const char *name;

	json_object_foreach(json_object_get(body, "files"), name, v) {
		size_t n = json_string_length(v), size = 0;
		autofree char *bytes = malloc(n / 4 * 3 + 3);

		if (!bytes)
			return err_nomem(e);
		if (n && base64_decode(bytes, &size, json_string_value(v), n) < 0) {
			http_error_status(r->rq, 422);
			return err_set(e, ERR_INVALID, "body.files: '%.80s' is not in base64", name);
		}
		if (write_runcode_file(b, name, bytes, size, e) < 0)
			return -1;
	}
	return write_runcode_file(b, r->lang->file, json_string_value(code), json_string_length(code), e);
}

static int fetch_file(struct run *r, struct box *b, const char *name, size_t *left, struct err *e)
{
	char path[4096], limit[24];
	const char *argv[] = { "read", limit, path, NULL };
	autobuf struct buf out = BUF_INIT(FETCH_MAX + 1);
	struct filecounts ignored;
	autofree char *text = NULL;

	snprintf(limit, sizeof(limit), "%zu", *left + 1);
	if (runcode_file_place(name, path, sizeof(path), e) < 0 ||
	    fileclient_run(b->sock, argv, NULL, FILE_MS, -1, &out, &ignored, e) < 0)
		return -1;
	if (out.len > *left)
		return err_set(e, ERR_LIMIT, "the files to fetch have over %u bytes", FETCH_MAX);
	*left -= out.len;
	/* the bytes, their text, and that of the reply */
	if (http_hold_take(r->rq, &r->hold, 4 * out.len, e) < 0)
		return -1;
	text = malloc(BASE64_LEN(out.len) + 1);
	if (!text)
		return err_nomem(e);
	base64_encode(text, out.data ? out.data : "", out.len);
	return json_object_set_new(json_object_get(r->reply, "files"), name, json_string(text));
}

/* A file that the program has not made is left out, as in the original. */
static int fetch_files(struct run *r, struct box *b, struct err *e)
{
	size_t i, left = FETCH_MAX;
	json_t *v;

	json_array_foreach(json_object_get(http_json(r->rq), "fetch_files"), i, v)
		if (fetch_file(r, b, json_string_value(v), &left, e) < 0 && e->code != ERR_NOT_FOUND)
			return -1;
	return 0;
}

/* ---- a stage --------------------------------------------------------------------------- */

/*
 * The output of a stage as text: JSON has no other bytes, so those that are not UTF-8 become
 * U+FFFD.
 */
static json_t *runcode_output_text(const struct ring *ring, struct err *e)
{
	static const char cut[] = "\n[... output dropped ...]\n";
	autobuf struct buf b = BUF_INIT(2 * OUTPUT_MAX), text = BUF_INIT(8 * OUTPUT_MAX);
	uint64_t start, next = 0;

	if (ring_read(ring, 0, OUTPUT_MAX, &b, &start, &next, e) < 0 ||
	    (ring_dropped(ring) && buf_adds(&b, cut, e) < 0) ||
	    (next < ring->total && ring_read(ring, next, OUTPUT_MAX, &b, &start, &next, e) < 0) ||
	    utf8_add(&text, b.data, b.len, e) < 0)
		return NULL;
	return json_stringn(text.data ? text.data : "", text.len);
}

static int add_stage_result(struct run *r, const char *key, const struct execution *x,
		      const struct ring ring[2], struct err *e)
{
	const char *cause = json_string_value(json_object_get(x->verdict, "cause"));
	const int late = cause && !strcmp(cause, "timeout");
	json_t *out = runcode_output_text(&ring[0], e), *err = runcode_output_text(&ring[1], e), *result;
	json_t *status = json_object_get(x->verdict, "exit_status");

	result = json_pack("{s:s,s:f,s:O,s:o,s:o}", "status",
			   late ? "TimeLimitExceeded" : "Finished", "execution_time",
			   (double)json_integer_value(json_object_get(x->verdict, "wall_ms")) / 1000,
			   "return_code", late ? json_null() : status, "stdout", out, "stderr", err);
	if (!result || json_object_set_new(r->reply, key, result) < 0)
		return err_nomem(e);
	if (late || json_integer_value(status))
		json_object_set_new(r->reply, "status", json_string("Failed"));
	return 0;
}

static json_t *stage_request(const char *const *words, uint64_t ms)
{
	json_t *ask = protocol_request(OP_exec);

	request_set_argv(ask, runlang_argv(words));
	request_set_workdir(ask, PLACE);
	request_set_timeout_ms(ask, ms);
	request_set_grace_ms(ask, 0);
	return ask;
}

/* Runs one stage and adds its result to the reply under key: 0, or -1 if it could not be run. */
static int stage(struct run *r, const char *key, const char *const *words, uint64_t ms,
		 const json_t *input, struct err *e)
{
	autojson json_t *ask = stage_request(words, ms);
	struct execution *x = execution_new(r->rq, e);
	struct ring ring[2];
	int done = -1;

	if (!x)
		return -1;
	ring_init(&ring[0], OUTPUT_MAX / 2, OUTPUT_MAX / 2);
	ring_init(&ring[1], OUTPUT_MAX / 2, OUTPUT_MAX / 2);
	if ((!input ||
	     buf_add(&x->input, json_string_value(input), json_string_length(input), e) == 0) &&
	    open_runcode_sandbox(r, &x->box, e) == 0 && execution_launch(x, ask, e) == 0 &&
	    execution_collect(x, ring, e) == 0)
		done = add_stage_result(r, key, x, ring, e);
	ring_release(&ring[0]);
	ring_release(&ring[1]);
	execution_free(x);
	return done;
}

static int has_stage_failed(const struct run *r)
{
	return !strcmp(json_string_value(json_object_get(r->reply, "status")), "Failed");
}

static int run_stages(struct run *r, struct err *e)
{
	const json_t *input = json_object_get(http_json(r->rq), "stdin");
	const json_t *text = json_is_string(input) ? input : NULL;

	if (r->lang->compile[0] &&
	    stage(r, "compile_result", r->lang->compile, r->compile_ms, NULL, e) < 0)
		return -1;
	if (has_stage_failed(r))
		return 0;
	return stage(r, "run_result", r->lang->run, r->run_ms, text, e);
}

/* ---- the route --------------------------------------------------------------------------- */

static int do_runcode(struct run *r, struct err *e)
{
	struct box b;
	int done = -1;

	if (make_runcode_sandbox(r, e) < 0)
		return -1;
	if (open_runcode_sandbox(r, &b, e) == 0 && write_files(r, &b, e) == 0 && run_stages(r, e) == 0)
		done = fetch_files(r, &b, e);
	box_close(&b);
	return done;
}

static int post_run_code(struct http_request *rq, struct err *e)
{
	struct run r = { .rq = rq };
	int done;

	if (read_request(&r, e) < 0)
		return -1;
	http_audit(rq, "language", r.lang->name);
	r.reply = json_pack("{s:s,s:s,s:n,s:n,s:n,s:{}}", "status", "Success", "message", "",
			    "compile_result", "run_result", "executor_pod_name", "files");
	if (!r.reply)
		return err_nomem(e);
	done = do_runcode(&r, e);
	http_hold_end(&r.hold);
	remove_box(&r);
	if (done < 0 && (e->code == ERR_INVALID || e->code == ERR_NET)) {
		json_decref(r.reply);
		return -1;
	}
	if (done < 0) {
		http_audit(rq, "failed", e->msg);
		json_object_set_new(r.reply, "status", json_string("SandboxError"));
		json_object_set_new(r.reply, "message", json_string(e->msg));
	}
	return http_reply_json(rq, 0, r.reply, e);
}

const struct http_route runcode_routes[] = {
	{ "POST", "/run_code", post_run_code,
	  "SandboxFusion: compile and run a program in a sandbox of its own", HTTP_JSON,
	  .response = "RunCode", .shape_error = runcode_error_detail, .error_schema = "Detail" },
	{ NULL },
};
