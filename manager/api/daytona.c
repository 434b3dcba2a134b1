/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/daytona.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/mem.h"
#include "manager/api/execution.h"
#include "manager/api/fileflow.h"
#include "manager/host/registry.h"
#include "manager/keeper/fileclient.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/ring.h"

#define FILE_MS 60000
#define WORKDIR "/workspace"

/* ---- errors ----------------------------------------------------------------------------- */

/* Daytona's own words for a status; SDKs choose the class of an error by the status and the code. */
static const struct {
	int status;
	const char *error, *code;
} daytona_errors[] = {
	{400, "Bad Request", "BAD_REQUEST"},
	{403, "Forbidden", "FORBIDDEN"},
	{404, "Not Found", "NOT_FOUND"},
	{408, "Request Timeout", "REQUEST_TIMEOUT"},
	{409, "Conflict", "CONFLICT"},
	{413, "Payload Too Large", "BAD_REQUEST"},
	{429, "Too Many Requests", "TOO_MANY_REQUESTS"},
	{501, "Not Implemented", "NOT_IMPLEMENTED"},
	{500, "Internal Server Error", "INTERNAL_SERVER_ERROR"},
};

json_t *daytona_error(const struct err *e)
{
	const int status = e->code == ERR_TIMEOUT ? 408 : err_http_status(e->code);
	const char *error = NULL, *code = NULL;
	char now[CLOCK_UTC];
	size_t i;

	for (i = 0; i < ARRAY_LEN(daytona_errors) && !error; i++)
		if (daytona_errors[i].status == status || i + 1 == ARRAY_LEN(daytona_errors)) {
			error = daytona_errors[i].error;
			code = daytona_errors[i].code;
		}
	clock_utc((time_t)(clock_wall_ms() / 1000), now);
	/* a program of the sandbox may have written it, and a long one is cut where it is */
	return json_pack("{s:i,s:s,s:o,s:s,s:s,s:s}", "statusCode", status, "error", error, "message", daytona_text(e->msg, strlen(e->msg)), "code",
			 code, "source", "berthd", "timestamp", now);
}

/* ---- generations ---------------------------------------------------------------------------- */

const char daytona_marks[2][DAYTONA_MARK_BYTES + 1] = {"\1\1\1", "\2\2\2"};

enum daytona_age daytona_age(const struct http_request *rq)
{
	const char *version = http_header(rq, "X-Daytona-SDK-Version");
	unsigned major, minor;

	if (!version || sscanf(version, "%u.%u", &major, &minor) != 2)
		return DAYTONA_OLD;
	/* 0.0 is what a build from its sources says */
	return major || !minor || minor >= 170 ? DAYTONA_NEW : minor >= 103 ? DAYTONA_MARKED : DAYTONA_OLD;
}

/* ---- addresses --------------------------------------------------------------------------- */

char *daytona_address(const struct http_request *rq, const char *path)
{
	const char *host = http_header(rq, "Host"), *scheme = http_header(rq, "X-Forwarded-Proto");
	char *url = NULL;

	/* only its own client reads the answer: a proxy that ends TLS says so */
	if (asprintf(&url, "http%s://%.255s%s", scheme && !strcasecmp(scheme, "https") ? "s" : "", host && host[0] ? host : "localhost",
		     path) < 0)
		return NULL;
	return url;
}

/* ---- a place in a sandbox ------------------------------------------------------------------ */

/* The options of a sandbox that say where and as whom its commands run. */
static void read_place(struct daytona_place *p)
{
	struct err ignored;
	autojson json_t *spec = registry_load(&p->box.registry, p->box.id, "spec.json", &ignored);
	const json_t *pair;
	size_t i;

	snprintf(p->workdir, sizeof(p->workdir), WORKDIR);
	json_array_foreach(json_object_get(spec, "options"), i, pair) {
		const char *option = json_string_value(json_array_get(pair, 0)), *value = json_string_value(json_array_get(pair, 1));

		if (!option || !value)
			continue;
		if (!strcmp(option, "workdir") && value[0] == '/' && strlen(value) < sizeof(p->workdir))
			snprintf(p->workdir, sizeof(p->workdir), "%s", value);
		if (!strcmp(option, "user") && strlen(value) < sizeof(p->user))
			snprintf(p->user, sizeof(p->user), "%s", value);
	}
}

int daytona_enter(struct daytona_place *p, struct http_request *rq, struct err *e)
{
	p->user[0] = '\0';
	if (box_connect(&p->box, rq, e) < 0)
		return -1;
	read_place(p);
	return 0;
}

void daytona_leave(struct daytona_place *p)
{
	box_close(&p->box);
}

const char *daytona_user(const struct daytona_place *p)
{
	return p->user[0] ? p->user : NULL;
}

int daytona_path(const struct daytona_place *p, const char *path, char ret[4096], struct err *e)
{
	const int own = path && path[0] == '/';

	if (!path || !path[0])
		return err_set(e, ERR_INVALID, "the path is empty");
	if (snprintf(ret, 4096, "%s%s%s", own ? "" : p->workdir, own ? "" : "/", path) >= 4096)
		return err_set(e, ERR_INVALID, "the path is too long");
	return 0;
}

int daytona_file(struct daytona_place *p, const char *const *argv, struct buf *out, struct err *e)
{
	struct filecounts ignored;

	return fileclient_run(p->box.sock, argv, daytona_user(p), FILE_MS, -1, out, &ignored, e);
}

int daytona_write(struct daytona_place *p, struct http_request *rq, const char *path, const char *data, size_t n, struct err *e)
{
	const char *argv[] = {"write", "p", "", path, NULL};
	struct filecounts ignored;
	struct fileflow flow;
	int r;

	fileflow_init(&flow);
	r = fileflow_start(&flow, p->box.sock, argv, daytona_user(p), FILE_MS, 0, e);
	if (r == 0)
		r = fileflow_feed(&flow, rq, data, n, e);
	if (r == 0)
		r = fileflow_end(&flow, &ignored, e);
	fileflow_release(&flow);
	return r;
}

/* ---- a command to its end -------------------------------------------------------------------- */

json_t *daytona_text(const char *p, size_t n)
{
	autobuf struct buf text = BUF_INIT(4 * n + 16);
	struct err ignored;

	if (n && utf8_add(&text, p, n, &ignored) < 0)
		return NULL;
	return json_stringn(text.len ? text.data : "", text.len);
}

/* What is kept of a stream, with a note where its middle is missing. */
static int take_ring(const struct ring *r, struct buf *out, struct err *e)
{
	uint64_t start, next = 0;

	*out = BUF_INIT(DAYTONA_OUTPUT_HEAD + DAYTONA_OUTPUT_TAIL + 256);
	if (ring_read(r, 0, SIZE_MAX / 2, out, &start, &next, e) < 0)
		return -1;
	if (ring_dropped(r) && buf_addf(out, e, "\n[berth: %" PRIu64 " bytes of output are left out here]\n", ring_dropped(r)) < 0)
		return -1;
	return next < r->total ? ring_read(r, next, SIZE_MAX / 2, out, &start, &next, e) : 0;
}

static json_t *exec_request(struct daytona_run *run)
{
	json_t *ask = protocol_request(OP_exec);

	request_set_argv(ask, run->argv);
	if (run->env)
		request_set_env(ask, run->env);
	if (run->workdir)
		request_set_workdir(ask, run->workdir);
	request_set_timeout_ms(ask, run->timeout_ms);
	run->argv = run->env = NULL;
	return ask;
}

static int collect(struct execution *x, struct daytona_ran *ret, struct err *e)
{
	struct ring ring[2];
	int i, r;

	for (i = 0; i < 2; i++)
		ring_init(&ring[i], DAYTONA_OUTPUT_HEAD, DAYTONA_OUTPUT_TAIL);
	r = execution_collect(x, ring, e);
	for (i = 0; i < 2; i++) {
		if (r == 0)
			r = take_ring(&ring[i], &ret->text[i], e);
		ring_release(&ring[i]);
	}
	if (r < 0)
		return -1;
	ret->status = (int)json_integer_value(json_object_get(x->verdict, "exit_status"));
	ret->timed_out = json_is_true(json_object_get(x->verdict, "timed_out"));
	return 0;
}

int daytona_execute(struct http_request *rq, struct daytona_run *run, struct daytona_ran *ret, struct err *e)
{
	autojson json_t *ask = exec_request(run);
	struct execution *x = execution_new(rq, e);
	int r = x ? 0 : -1;

	memset(ret, 0, sizeof(*ret));
	if (r == 0)
		r = box_connect(&x->box, rq, e);
	if (r == 0 && run->input)
		r = buf_add(&x->input, run->input, run->input_n, e);
	if (r == 0)
		r = execution_launch(x, ask, e);
	if (r == 0)
		r = collect(x, ret, e);
	execution_free(x);
	if (r < 0 && e->code == ERR_SYS && !strncmp(e->msg, "enter working directory", 23))
		e->code = ERR_INVALID;
	return r;
}

int daytona_lacks(const struct err *e, const char *program)
{
	return e->code == ERR_EXEC_NOT_FOUND && strstr(e->msg, program);
}

void daytona_ran_release(struct daytona_ran *r)
{
	buf_release(&r->text[0]);
	buf_release(&r->text[1]);
}
