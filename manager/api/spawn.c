/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the berth program for a request (manager/ops/call.h). */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/api/api.h"

#define OUTPUT_MAX (32u << 20)

static int look_at_client(void *rq, struct err *e)
{
	return http_wait(rq, -1, 0, 0, e);
}

int api_remove(struct http_request *rq, const char *id, struct err *e)
{
	json_t *call = call_of("rm", id, NULL);

	call_flag(call, "force");
	return spawn_berth(rq, call, 1, -1, NULL, e);
}

void api_forget(struct http_request *rq, const char *id)
{
	struct err ignored;

	api_remove(rq, id, &ignored);
}

void spawn_tenant(struct http_request *rq, json_t *call)
{
	if (!http_who(rq)->admin)
		call_text(call, "tenant", http_who(rq)->name);
}

int spawn_start(struct http_request *rq, json_t *call, int in_fd, struct called *ret, struct err *e)
{
	return call_start(api_of(rq)->berth_path, NULL, call, in_fd, ret, e);
}

int spawn_finish(struct http_request *rq, struct called *c, int finish, struct buf *out, struct err *e)
{
	return call_finish(c, finish ? NULL : look_at_client, rq, out, e);
}

int spawn_berth(struct http_request *rq, json_t *call, int finish, int in_fd, struct buf *out, struct err *e)
{
	struct called c;

	return spawn_start(rq, call, in_fd, &c, e) < 0 ? -1 : spawn_finish(rq, &c, finish, out, e);
}

json_t *spawn_json(struct http_request *rq, json_t *call, int finish, struct err *e)
{
	return spawn_json_fed(rq, call, finish, -1, e);
}

json_t *spawn_json_fed(struct http_request *rq, json_t *call, int finish, int in_fd, struct err *e)
{
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);
	struct err ignored;
	json_t *j;

	/* doctor and code fail with a report on stdout, and nothing on stderr */
	if (spawn_berth(rq, call, finish, in_fd, &out, e) < 0) {
		j = e->code == ERR_INTERNAL && out.len ? json_parse(out.data, out.len, OUTPUT_MAX, "berth's answer", &ignored) : NULL;
		return j;
	}
	return json_parse(out.data ? out.data : "", out.len, OUTPUT_MAX, "berth's answer", e);
}

/* ---- its output as the reply --------------------------------------------------------- */

struct stream {
	struct called program;
	char first[4096];
	size_t first_n, first_at;
};

static void spawn_stream_free(void *ctx)
{
	struct stream *s = ctx;

	call_abort(&s->program);
	free(s);
}

static ssize_t read_spawn_output(struct stream *s, struct http_request *rq, char *buf, size_t max, struct err *e)
{
	for (;;) {
		ssize_t n = read(s->program.out, buf, max);

		if (n >= 0)
			return n;
		if (errno != EAGAIN && errno != EINTR)
			return err_sys(e, "read from berth");
		if (http_wait(rq, s->program.out, POLLIN, -1, e) < 0)
			return -1;
	}
}

static int end_spawn_stream(struct stream *s, struct http_request *rq, struct err *e)
{
	return s->program.pid > 0 ? spawn_finish(rq, &s->program, 0, NULL, e) : 0;
}

static ssize_t read_spawn_stream(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct stream *s = ctx;
	struct err e;
	ssize_t n;

	if (s->first_at < s->first_n) {
		n = (ssize_t)(s->first_n - s->first_at < max ? s->first_n - s->first_at : max);
		memcpy(buf, s->first + s->first_at, (size_t)n);
		s->first_at += (size_t)n;
		return n;
	}
	if (s->program.pid < 0)
		return 0;
	n = read_spawn_output(s, rq, buf, max, &e);
	return n ? n : end_spawn_stream(s, rq, &e);
}

int spawn_reply(struct http_request *rq, json_t *call, const char *type, struct err *e)
{
	struct stream *s = calloc(1, sizeof(*s));
	struct http_stream st = { read_spawn_stream, spawn_stream_free, s };
	ssize_t n;

	if (!s) {
		json_decref(call);
		return err_nomem(e);
	}
	s->program = (struct called)CALLED_NONE;
	if (spawn_start(rq, call, -1, &s->program, e) < 0 || (n = read_spawn_output(s, rq, s->first, sizeof(s->first), e)) < 0 ||
	    (n == 0 && end_spawn_stream(s, rq, e) < 0)) {
		spawn_stream_free(s);
		return -1;
	}
	s->first_n = (size_t)n;
	return http_reply_stream(rq, 0, type, &st, e);
}
