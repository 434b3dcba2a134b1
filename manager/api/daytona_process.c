/* SPDX-License-Identifier: Apache-2.0 */
/* Daytona's process/execute and process/code-run: a command to its end, stdout and stderr as one text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/api/daytona.h"
#include "manager/api/e2b.h"
#include "manager/api/runlang.h"

#define TIMEOUT_S_MAX (366 * 86400)

#define AS_ONE "exec 2>&1; " /* in front of a text on its first line, whose number stays */

/* Seconds; 0 and null: no limit. */
static int timeout_of(const json_t *body, uint64_t *ret_ms, struct err *e)
{
	const json_t *v = json_object_get(body, "timeout");
	const double s = json_number_value(v);

	*ret_ms = 0;
	if (!v || json_is_null(v))
		return 0;
	if (s < 0 || s > TIMEOUT_S_MAX)
		return err_set(e, ERR_INVALID, "timeout is not a number of seconds from 0 to %d", TIMEOUT_S_MAX);
	*ret_ms = (uint64_t)(s * 1000);
	return 0;
}

static json_t *envs_of(const json_t *body, struct err *e)
{
	return e2b_env(json_object_get(body, "envs"), e);
}

/* The reply, whose exit status has the name of both generations of SDKs. */
static int reply_ran(struct http_request *rq, struct daytona_ran *ran, struct err *e)
{
	json_t *text;

	if (ran->timed_out) {
		http_error_status(rq, 408);
		return err_set(e, ERR_TIMEOUT, "command execution timeout");
	}
	text = daytona_text(ran->text[0].data, ran->text[0].len);
	return text ? http_reply_json(rq, 0, json_pack("{s:i,s:i,s:o}", "exitCode", ran->status, "code", ran->status, "result", text), e) :
		      err_nomem(e);
}

/* Runs a text in bash where the image has it, as Daytona does, else in sh, with both streams as one. */
static int run_and_reply(struct http_request *rq, struct daytona_run *run, struct err *e)
{
	static const char *const shells[] = {"/bin/bash", "/bin/sh"};
	autojson json_t *argv = run->argv, *env = run->env;
	struct daytona_ran ran;
	size_t i;
	int r = -1;

	for (i = 0; i < ARRAY_LEN(shells) && r < 0; i++) {
		json_array_set_new(argv, 0, json_string(shells[i]));
		run->argv = json_incref(argv);
		run->env = json_incref(env);
		r = daytona_execute(rq, run, &ran, e);
		if (r < 0)
			daytona_ran_release(&ran);
		if (r < 0 && !daytona_lacks(e, shells[i]))
			return -1;
	}
	if (r == 0)
		r = reply_ran(rq, &ran, e);
	daytona_ran_release(&ran);
	return r;
}

static int post_execute(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq);
	const char *cwd = json_string_value(json_object_get(body, "cwd"));
	struct daytona_place p;
	char workdir[4096];
	struct daytona_run run = {.argv = NULL};
	int r = daytona_enter(&p, rq, e);

	if (r == 0 && cwd && cwd[0])
		r = daytona_path(&p, cwd, workdir, e);
	daytona_leave(&p);
	if (r < 0 || timeout_of(body, &run.timeout_ms, e) < 0 || !(run.env = envs_of(body, e)))
		return -1;
	run.workdir = cwd && cwd[0] ? workdir : NULL;
	run.argv = json_pack("[s,s,o]", "", "-c", json_sprintf(AS_ONE "%s", json_string_value(json_object_get(body, "command"))));
	return run_and_reply(rq, &run, e);
}

/* ---- code ------------------------------------------------------------------------------------ */

/* The words that run a program from stdin, of the table of POST /run_code: its file is "-" or /dev/stdin. */
static json_t *code_argv(const char *language, const json_t *argv, struct err *e)
{
	const struct runlang *l = runlang_find(language);
	const int is_served = !strcmp(language, "python") || !strcmp(language, "javascript");
	json_t *list;

	if (!l || !is_served) {
		err_set(e, ERR_UNSUPPORTED, "code of the language '%.40s' is not run; hint: python, javascript, or process/execute", language);
		return NULL;
	}
	list = json_pack("[s,s,s,s,s,s]", "", "-c", AS_ONE "exec \"$@\"", "sh", l->run[0], "-");
	json_array_extend(list, (json_t *)(size_t)argv);
	return list;
}

static int post_code_run(struct http_request *rq, struct err *e)
{
	const json_t *body = http_json(rq), *code = json_object_get(body, "code");
	const char *language = json_string_value(json_object_get(body, "language"));
	struct daytona_run run = {.input = json_string_value(code), .input_n = json_string_length(code)};

	if (timeout_of(body, &run.timeout_ms, e) < 0 ||
	    !(run.argv = code_argv(language ? language : "python", json_object_get(body, "argv"), e)))
		return -1;
	run.env = envs_of(body, e);
	if (!run.env) {
		json_decref(run.argv);
		return -1;
	}
	return run_and_reply(rq, &run, e);
}

const struct http_route daytona_process_routes[] = {
	DAYTONA_TOOLBOX("POST", "/process/execute", post_execute, "Daytona: run a command", HTTP_JSON, HTTP_TIMED_EXEC,
			.request = "DaytonaExecute", .response = "Document"),
	DAYTONA_TOOLBOX("POST", "/process/code-run", post_code_run, "Daytona: run code of a language", HTTP_JSON, HTTP_TIMED_EXEC,
			.request = "DaytonaCode", .response = "Document"),
	{NULL},
};
