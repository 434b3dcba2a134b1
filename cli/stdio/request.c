/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, their connections to keepers, and the lines that answer them. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/stdio/stdio.h"
#include "manager/keeper/wire.h"

/* ---- Requests ---- */

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

/* ---- Connections to keepers ---- */

void conn_drop(struct stdio *st, int i)
{
	fd_close(&st->conns[i].fd);
	st->conns[i].used = 0;
}

static int idle_conn(struct stdio *st, const char *sandbox)
{
	int i;

	for (i = 0; i < STDIO_CONNECTIONS_MAX; i++)
		if (st->conns[i].fd >= 0 && !st->conns[i].used && !strcmp(st->conns[i].sandbox, sandbox))
			return i;
	return -1;
}

static int count_conns(const struct stdio *st, const char *sandbox)
{
	int i, n = 0;

	for (i = 0; i < STDIO_CONNECTIONS_MAX; i++)
		n += st->conns[i].fd >= 0 && !strcmp(st->conns[i].sandbox, sandbox);
	return n;
}

static int free_conn(struct stdio *st, struct err *e)
{
	int i, idle = -1;

	for (i = 0; i < STDIO_CONNECTIONS_MAX; i++) {
		if (st->conns[i].fd < 0)
			return i;
		if (!st->conns[i].used)
			idle = i;
	}
	if (idle < 0)
		return err_set(e, ERR_LIMIT, "%d connections are in use", STDIO_CONNECTIONS_MAX);
	conn_drop(st, idle);
	return idle;
}

int conn_add(struct stdio *st, int fd, struct err *e)
{
	int i = free_conn(st, e);

	if (i < 0) {
		close(fd);
		return -1;
	}
	st->conns[i] = (struct stdio_conn){ .fd = fd, .used = 1 };
	return i;
}

/* A connection to the sandbox that ref names: an open one by its id at once, else looked up. */
int conn_take(struct stdio *st, const char *ref, struct err *e)
{
	int i = idle_conn(st, ref);

	if (i < 0) {
		if (sandbox_ref_find(&st->ref, ref, e) < 0)
			return -1;
		i = idle_conn(st, st->ref.id);
	}
	if (i < 0) {
		if (count_conns(st, st->ref.id) >= STDIO_SANDBOX_MAX)
			return err_set(e, ERR_LIMIT, "%d requests are under way in sandbox %s", STDIO_SANDBOX_MAX, st->ref.id);
		i = free_conn(st, e);
		if (i < 0)
			return -1;
		st->conns[i].fd = keeper_connect(&st->ref.registry, st->ref.id, e);
		if (st->conns[i].fd < 0)
			return -1;
		memcpy(st->conns[i].sandbox, st->ref.id, sizeof(st->ref.id));
	}
	st->conns[i].used = 1;
	return i;
}

int conn_send(struct stdio *st, const struct stdio_request *r, json_t *rq, const int *fds, size_t count, struct err *e)
{
	return wire_request(st->conns[r->conn].fd, rq, fds, count, e);
}

/* ---- Answers ---- */

void answer_flush(struct stdio *st)
{
	while (st->out_done < st->out.len && !st->lost) {
		const char *p = st->out.data + st->out_done;
		size_t n = st->out.len - st->out_done;
		ssize_t w = st->out_is_socket ? send(st->out_fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL) : write(st->out_fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN)
			break;
		if (w < 0)
			st->lost = 1;
		else
			st->out_done += (size_t)w;
	}
	if (st->out_done == st->out.len) {
		if (st->out.cap > STDIO_OUT_FULL)
			buf_release(&st->out);
		st->out.len = st->out_done = 0;
		st->out.max = STDIO_OUT_MAX;
	}
}

void answer_send(struct stdio *st, const json_t *id, json_t *answer)
{
	autofree char *own = NULL;
	const char *text;
	char room[4096];
	struct err ignored;
	size_t n;

	if (!id) {
		json_decref(answer);
		return;
	}
	json_object_del(answer, "v");
	json_object_set(answer, "id", (json_t *)(size_t)id);
	text = json_text(answer, room, sizeof(room), &own, &n);
	json_decref(answer);
	if (!text || buf_add(&st->out, text, n, &ignored) < 0 || buf_add(&st->out, "\n", 1, &ignored) < 0)
		st->lost = 1;	/* 256 MiB without a reader */
	answer_flush(st);
}

void answer_members(struct stdio *st, const json_t *id, const char *members, size_t n)
{
	autofree char *own = NULL;
	const char *text;
	char room[256];
	struct err ignored;
	size_t id_len;

	if (!id)
		return;
	text = json_text(id, room, sizeof(room), &own, &id_len);
	if (!text || buf_add(&st->out, "{", 1, &ignored) < 0 || buf_add(&st->out, members, n, &ignored) < 0 ||
	    buf_add(&st->out, ",\"id\":", 6, &ignored) < 0 || buf_add(&st->out, text, id_len, &ignored) < 0 ||
	    buf_add(&st->out, "}\n", 2, &ignored) < 0)
		st->lost = 1;
	answer_flush(st);
}

void answer_to(struct stdio *st, const struct stdio_request *r, json_t *answer)
{
	struct err e;

	if (r->base64 && json_hex_to_base64(answer, &e) < 0) {
		json_decref(answer);
		answer = wire_error(&e);
	}
	answer_send(st, r->id, answer);
}

void answer_error(struct stdio *st, const json_t *id, const struct err *e)
{
	answer_send(st, id, wire_error(e));
}
