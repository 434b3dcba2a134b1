/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/arrival.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define ANSWER_MAX 65536

struct arrival {
	struct http_request *rq; /* which lasts as long */
	struct called program;
	int in; /* our end of its stdin */
	char *name; /* of the sandbox, or NULL */
};

static json_t *finish(struct arrival *a, struct err *e)
{
	autobuf struct buf out = BUF_INIT(ANSWER_MAX);

	fd_close(&a->in);
	if (spawn_finish(a->rq, &a->program, 1, &out, e) < 0)
		return NULL;
	return json_parse(out.data ? out.data : "", out.len, ANSWER_MAX, "berth's answer", e);
}

/* No client would ever learn its id. */
static void forget_again(struct http_request *rq, const json_t *made)
{
	const char *id = json_string_value(json_object_get(made, "id"));

	if (id)
		api_forget(rq, id);
}

/* The client has gone, or was told an error; the program ends by itself, and leaves nothing. */
static void arrival_free(void *data)
{
	struct arrival *a = data;
	struct err ignored;

	if (a->program.pid > 0) {
		autojson json_t *made = finish(a, &ignored);

		forget_again(a->rq, made);
	}
	fd_close(&a->in);
	free(a->name);
	free(a);
}

static int start(struct http_request *rq, struct arrival *a, const struct arrival_options *o,
		 struct err *e)
{
	json_t *call;
	int p[2], r;

	if (o->name && !(a->name = strdup(o->name)))
		return err_nomem(e);
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	a->in = p[1];
	call = call_of("checkpoint import", "-", NULL);
	spawn_tenant(rq, call);
	call_text(call, "name", o->name);
	call_set(call, "trust", json_boolean(o->trust));
	call_set(call, "drop", json_boolean(o->drop));
	call_set(call, "no-start", json_boolean(o->no_start));
	r = spawn_start(rq, call, p[0], &a->program, e);
	close(p[0]);
	return r == 0 && fcntl(a->in, F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "set up a pipe") : r;
}

int arrival_begin(struct http_request *rq, const struct arrival_options *o, struct err *e)
{
	struct arrival *a = calloc(1, sizeof(*a));

	if (!a)
		return err_nomem(e);
	*a = (struct arrival){ .rq = rq, .program = CALLED_NONE, .in = -1 };
	http_set_data(rq, a, arrival_free);
	return start(rq, a, o, e);
}

/* The program reads up to the end of the body, unless it refuses an earlier part. */
static int end_early(struct arrival *a, struct err *e)
{
	autojson json_t *made = finish(a, e);

	if (!made)
		return -1;
	forget_again(a->rq, made);
	return err_set(e, ERR_INTERNAL, "berth checkpoint import did not read all of the body");
}

int arrival_feed(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	struct arrival *a = http_data(rq);

	while (n) {
		const ssize_t w = write(a->in, data, n);

		if (w > 0) {
			data += w;
			n -= (size_t)w;
		} else if (errno == EPIPE) {
			return end_early(a, e);
		} else if (errno != EAGAIN && errno != EINTR) {
			return err_sys(e, "hand on the checkpoint's file");
		} else if (http_wait(rq, a->in, POLLOUT, -1, e) < 0) {
			return -1;
		}
	}
	return 0;
}

int arrival_end(struct http_request *rq, struct err *e)
{
	struct arrival *a = http_data(rq);
	json_t *made = finish(a, e);
	const char *id;

	if (!made) {
		if (a->name)
			box_name_taken(rq, a->name, e);
		return -1;
	}
	if (http_wait(rq, -1, 0, 0, e) < 0) {
		forget_again(rq, made);
		json_decref(made);
		return -1;
	}
	id = json_string_value(json_object_get(made, "id"));
	http_audit(rq, "id", id ? id : "");
	atomic_fetch_add(&api_of(rq)->creates, 1);
	return http_reply_json(rq, 0, made, e);
}
