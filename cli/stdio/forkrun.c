/* SPDX-License-Identifier: Apache-2.0 */
/* "run" of berth stdio: code in a fork of a zygote (manager/zygote/client.h). */
#include "cli/stdio/stdio.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/zygote/client.h"

static int send_code(struct stdio *st, struct stdio_request *r, const json_t *rq, const int std[3],
		     struct err *e)
{
	const char *zygote = json_string_value(json_object_get(rq, "zygote"));
	int sock;

	if (st->ref.registry.run_fd < 0 && sandbox_ref_registry(&st->ref, e) < 0)
		return -1;
	sock = zygote_ask_json(&st->ref.registry, zygote, rq, std, e);
	r->conn = sock < 0 ? -1 : conn_add(st, sock, e);
	return r->conn < 0 ? -1 : 0;
}

int forkrun_start(struct stdio *st, json_t *id, const json_t *rq, struct err *e)
{
	struct stdio_request *r = request_new(st, EXEC, id, e);
	int theirs[3] = {-1, -1, -1}, i, result = -1;

	if (!r)
		return -1;
	r->is_fork = 1;
	r->until_ms = clock_ms() + ZYGOTE_WAIT_MS;
	snprintf(r->sandbox, sizeof(r->sandbox), "%s",
		 json_string_value(json_object_get(rq, "zygote")));
	st->forks_wait = 1;
	if (json_get_bool(rq, "stdin_open", &r->in_open, "request", e) >= 0 &&
	    json_get_bytes(rq, "stdin", &r->input, "request", e) >= 0 &&
	    pipes_make(&r->in, &theirs[0], 0, e) == 0 &&
	    pipes_make(&r->out[0], &theirs[1], 1, e) == 0 &&
	    pipes_make(&r->out[1], &theirs[2], 1, e) == 0)
		result = send_code(st, r, rq, theirs, e);
	for (i = 0; i < 3; i++)
		fd_close(&theirs[i]);
	if (result == 0)
		pipes_input(r);
	else
		request_end(st, r, 0);
	return result;
}

int forkrun_tick(struct stdio *st)
{
	uint64_t now = st->forks_wait ? clock_ms() : 0, next = 0;
	struct err e;
	int i;

	for (i = 0; st->forks_wait && i < STDIO_REQUESTS_MAX; i++) {
		struct stdio_request *r = &st->requests[i];

		if (r->kind != EXEC || !r->is_fork || r->started)
			continue;
		if (now >= r->until_ms) {
			zygote_busy(r->sandbox, &e);
			request_fail(st, r, &e, 0);
		} else if (!next || r->until_ms < next) {
			next = r->until_ms;
		}
	}
	st->forks_wait = next != 0;
	return next ? (int)(next - now) : -1;
}

void forkrun_answer(struct stdio *st, struct stdio_request *r)
{
	autobuf struct buf text = BUF_INIT(1 << 17);
	autojson json_t *verdict = NULL;
	struct err e = {0};
	int status, got = zygote_hear(st->conns[r->conn].fd, &status, &text, &e);

	if (got == 0)
		return;
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
