/* SPDX-License-Identifier: Apache-2.0 */
/* "run" of berth stdio: code in a fork of a zygote (manager/zygote/client.h). */
#include "cli/stdio/stdio.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/zygote/client.h"

/* The strings of an array, borrowed; NULL without memory. */
static char **strings_of(const json_t *list)
{
	char **v = calloc(json_array_size(list) + 1, sizeof(*v));
	size_t i;

	for (i = 0; v && i < json_array_size(list); i++)
		v[i] = (char *)(uintptr_t)json_string_value(json_array_get(list, i));
	return v;
}

static int check_env(const json_t *env, struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach (env, i, one)
		if (json_string_value(one)[0] == '=' || !strchr(json_string_value(one), '='))
			return err_set(e, ERR_INVALID, "'%.80s' of \"env\" is not NAME=VALUE",
				       json_string_value(one));
	return 0;
}

static int send_code(struct stdio *st, struct stdio_request *r, const json_t *rq, const int std[3],
		     struct err *e)
{
	autobuf struct buf code = BUF_INIT(STDIO_LINE_MAX);
	const json_t *args = json_object_get(rq, "args");
	const char *cwd = json_string_value(json_object_get(rq, "workdir"));
	autofree char **argv = strings_of(args);
	struct zygote_request q = {
		.zygote = json_string_value(json_object_get(rq, "zygote")),
		.cwd = cwd ? cwd : ZYGOTE_WORKDIR,
		.name = "<string>",
		.env = json_object_get(rq, "env"),
		.argv = argv,
		.argc = json_array_size(args),
		.timeout_ms = UINT64_MAX,
	};
	int sock, given = json_get_bytes(rq, "code", &code, "request", e);

	if (!argv)
		return err_nomem(e);
	if (given <= 0)
		return given < 0 ? -1 : err_set(e, ERR_INVALID, "no \"code\" given");
	if (q.cwd[0] != '/')
		return err_set(e, ERR_INVALID, "working directory '%.200s' must be absolute",
			       q.cwd);
	if (json_get_u64(rq, "timeout_ms", &q.timeout_ms, "request", e) < 0)
		return -1;
	if (check_env(q.env, e) < 0 ||
	    (st->ref.registry.run_fd < 0 && sandbox_ref_registry(&st->ref, e) < 0))
		return -1;
	q.code = code.data ? code.data : "";
	q.code_len = code.len;
	sock = zygote_ask_for(&st->ref.registry, &q, std, e);
	return sock < 0 ? -1 : (r->conn = conn_add(st, sock, e));
}

int forkrun_start(struct stdio *st, json_t *id, const json_t *rq, struct err *e)
{
	struct stdio_request *r = request_new(st, EXEC, id, e);
	int theirs[3] = {-1, -1, -1}, i, result = -1;

	if (!r)
		return -1;
	r->is_fork = 1;
	if (json_get_bool(rq, "stdin_open", &r->in_open, "request", e) >= 0 &&
	    json_get_bytes(rq, "stdin", &r->input, "request", e) >= 0 &&
	    pipes_make(&r->in, &theirs[0], 0, e) == 0 &&
	    pipes_make(&r->out[0], &theirs[1], 1, e) == 0 &&
	    pipes_make(&r->out[1], &theirs[2], 1, e) == 0)
		result = send_code(st, r, rq, theirs, e) < 0 ? -1 : 0;
	for (i = 0; i < 3; i++)
		fd_close(&theirs[i]);
	if (result == 0)
		pipes_input(r);
	else
		request_end(st, r, 0);
	return result;
}

void forkrun_answer(struct stdio *st, struct stdio_request *r)
{
	autobuf struct buf text = BUF_INIT(1 << 17);
	autojson json_t *verdict = NULL;
	struct err e = {0};
	int status, got = zygote_hear(st->conns[r->conn].fd, &status, &text, &e);

	if (got == ZYGOTE_TAKEN) {
		r->started = 1;
		answer_send(st, r->id, json_pack("{s:b}", "started", 1));
		return;
	}
	if (got == ZYGOTE_VERDICT)
		verdict = json_parse(text.data, text.len, text.len, "verdict", &e);
	if (!verdict) {
		request_fail(st, r, &e, 0);
		return;
	}
	pipes_drain(st, r);
	answer_send(st, r->id, json_pack("{s:O}", "verdict", verdict));
	request_end(st, r, 0);
}

void forkrun_cancel(struct stdio *st, struct stdio_request *r)
{
	zygote_kill(st->conns[r->conn].fd);
}
