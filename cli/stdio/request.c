/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stdio/stdio.h"

#include <string.h>

#include "base/mem.h"

void request_end(struct stdio *st, struct stdio_request *r, int keep)
{
	if (r->conn >= 0 && keep)
		st->conns[r->conn].used = 0;
	else if (r->conn >= 0)
		conn_drop(st, r->conn);
	fd_close(&r->in);
	fd_close(&r->out[0]);
	fd_close(&r->out[1]);
	buf_release(&r->input);
	buf_release(&r->text[0]);
	buf_release(&r->text[1]);
	json_decref(r->id);
	json_decref(r->whole);
	memset(r, 0, sizeof(*r));
}

void request_fail(struct stdio *st, struct stdio_request *r, const struct err *e, int keep)
{
	answer_error(st, r->id, e);
	request_end(st, r, keep);
}

struct stdio_request *request_new(struct stdio *st, enum stdio_kind kind, json_t *id, struct err *e)
{
	struct stdio_request *r;
	int i;

	for (i = 0; i < STDIO_REQUESTS_MAX && st->requests[i].kind != FREE; i++)
		;
	if (i == STDIO_REQUESTS_MAX) {
		err_set(e, ERR_LIMIT, "%d requests are under way", STDIO_REQUESTS_MAX);
		return NULL;
	}
	r = &st->requests[i];
	*r = (struct stdio_request){ .kind = kind, .id = json_incref(id), .base64 = st->base64, .conn = -1, .out = { -1, -1 }, .in = -1,
			       .input = BUF_INIT(64 << 20), .text = { BUF_INIT(64 << 20), BUF_INIT(64 << 20) } };
	return r;
}

int request_open(struct stdio *st, struct stdio_request *r, json_t *rq, struct err *e)
{
	const char *ref = NULL;

	if (json_get_str(rq, "sandbox", &ref, "request", e) < 0)
		return -1;
	if (!ref)
		return err_set(e, ERR_INVALID, "no \"sandbox\" given");
	r->conn = conn_take(st, ref, e);
	if (r->conn < 0)
		return -1;
	memcpy(r->sandbox, st->conns[r->conn].sandbox, sizeof(r->sandbox));
	return 0;
}

struct stdio_request *request_find(struct stdio *st, const json_t *rq, struct err *e)
{
	const json_t *wanted = json_object_get(rq, "request");
	int i;

	for (i = 0; wanted && i < STDIO_REQUESTS_MAX; i++)
		if (st->requests[i].kind != FREE && json_equal(st->requests[i].id, wanted))
			return &st->requests[i];
	err_set(e, ERR_NOT_FOUND, "no such request is under way");
	return NULL;
}

int request_call(struct stdio *st, json_t *id, const char *sandbox, json_t *rq, const int *fds, size_t count, struct err *e)
{
	struct stdio_request *r = request_new(st, CALL, id, e);
	int result = -1;

	if (r) {
		r->conn = conn_take(st, sandbox, e);
		if (r->conn >= 0)
			result = conn_send(st, r, rq, fds, count, e);
		if (result < 0)
			request_end(st, r, 0);
	}
	json_decref(rq);
	return result;
}
