/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/daytona_stream.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

/* ---- commands of the keeper's list ---- */

json_t *daytona_commands(struct daytona_place *p, const char *prefix, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_commands), *answer = box_call(&p->box, ask, NULL, 0, NULL, e);
	json_t *list, *one;
	size_t i;

	if (!answer)
		return NULL;
	list = json_array();
	json_array_foreach(json_object_get(answer, "commands"), i, one) {
		const char *name = json_string_value(json_object_get(one, "name"));

		if (name && !strncmp(name, prefix, strlen(prefix)))
			json_array_append(list, one);
	}
	return list;
}

json_t *daytona_command(struct daytona_place *p, const char *name, struct err *e)
{
	autojson json_t *list = daytona_commands(p, name, e);
	json_t *one;
	size_t i;

	if (!list)
		return NULL;
	/* a name may come again once its command has ended: the last one has it */
	for (i = json_array_size(list); i-- > 0;) {
		one = json_array_get(list, i);
		if (!strcmp(json_string_value(json_object_get(one, "name")), name))
			return json_incref(one);
	}
	err_set(e, ERR_NOT_FOUND, "there is no such command, or its output is kept no longer");
	return NULL;
}

/* ---- output ---- */

struct daytona_stream *daytona_stream_new(struct http_request *rq, struct err *e)
{
	struct daytona_stream *s = calloc(1, sizeof(*s));

	if (!s) {
		err_nomem(e);
		return NULL;
	}
	box_init(&s->place.box, rq);
	s->send_sock = -1;
	s->held = BUF_INIT(WIRE_DATA_MAX);
	return s;
}

void daytona_stream_free(void *ctx)
{
	struct daytona_stream *s = ctx;

	fd_close(&s->send_sock);
	daytona_leave(&s->place);
	json_decref(s->verdict);
	buf_release(&s->held);
	free(s);
}

static int ask_stream_output(struct daytona_stream *s, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_follow);

	request_set_command(ask, s->command);
	request_set_stream(ask, s->tty ? "stdout" : "both");
	request_set_from(ask, s->from[0]);
	request_set_stderr_from(ask, s->from[1]);
	request_set_hold(ask, 1);
	s->asked = 1;
	return box_send(&s->place.box, ask, NULL, 0, e);
}

/* Waits for the answer: 1 with its bytes in data, and how many are stdout's in *ret_out; 0: it was the last; -1. */
static int take_stream_output(struct daytona_stream *s, struct buf *data, size_t *ret_out, struct err *e)
{
	static const char *const names[] = {"stdout", "stderr"};
	autojson json_t *answer = box_receive_data(&s->place.box, -1, data, e);
	size_t n[2] = {0, 0};
	int i;

	s->asked = 0;
	if (!answer)
		return -1;
	for (i = 0; i < 2; i++) {
		const json_t *part = json_object_get(answer, names[i]);

		if (!part)
			continue;
		n[i] = (size_t)json_integer_value(json_object_get(part, "bytes"));
		s->from[i] = (uint64_t)json_integer_value(json_object_get(part, "next"));
	}
	if (n[0] > data->len || n[1] != data->len - n[0])
		return err_set(e, ERR_CORRUPT, "the keeper's answer is cut short");
	*ret_out = n[0];
	if (!json_is_true(json_object_get(answer, "ended")))
		return 1;
	s->verdict = json_incref(json_object_get(answer, "verdict"));
	return 0;
}

ssize_t daytona_stream_read(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct daytona_stream *s = ctx;
	size_t n;

	(void)rq;
	while (s->held_at == s->held.len) {
		struct err e;

		s->held.len = s->held_at = 0;
		if (s->verdict)
			return 0;
		if (ask_stream_output(s, &e) < 0 || take_stream_output(s, &s->held, &n, &e) < 0)
			return -1;
	}
	n = s->held.len - s->held_at < max ? s->held.len - s->held_at : max;
	memcpy(buf, s->held.data + s->held_at, n);
	s->held_at += n;
	return (ssize_t)n;
}

/* The SDKs take a message as the arguments of one call. */
#define MESSAGE_MAX 32768

static int send_stream(struct websocket *w, int which, int marked, const char *p, size_t n, struct err *e)
{
	while (n) {
		char piece[MESSAGE_MAX + DAYTONA_MARK_BYTES];
		const size_t mark = marked ? DAYTONA_MARK_BYTES : 0, part = n < MESSAGE_MAX ? n : MESSAGE_MAX;

		memcpy(piece, daytona_marks[which], mark);
		memcpy(piece + mark, p, part);
		if (websocket_send(w, WEBSOCKET_BINARY, piece, mark + part, e) < 0)
			return -1;
		p += part;
		n -= part;
	}
	return 0;
}

/* ---- input ---- */

static int send_stream_input(struct daytona_stream *s, const char *data, size_t n, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_send);
	autoclose int fd = wire_data(data, n, e);

	if (fd < 0)
		return -1;
	if (s->send_sock < 0)
		s->send_sock = keeper_connect(&s->place.box.registry, s->place.box.id, e);
	if (s->send_sock < 0)
		return -1;
	request_set_command(ask, s->command);
	if (wire_request(s->send_sock, ask, &fd, 1, e) < 0)
		return -1;
	s->sending = 1;
	return 0;
}

/* A command that reads no more takes nothing; its end is told by its output's. */
static int input_was_taken(struct daytona_stream *s, struct err *e)
{
	json_t *answer = NULL;
	size_t count = 0;
	int r = wire_recv(s->send_sock, 0, &answer, NULL, 0, &count, e);

	json_decref(answer);
	s->sending = 0;
	if (r > 0)
		return 0;
	fd_close(&s->send_sock);
	return 0;
}

/* ---- both ---- */

int daytona_stream_run(struct daytona_stream *s, struct websocket *w, struct err *e)
{
	while (!s->verdict) {
		struct pollfd p[2] = {{.fd = s->place.box.sock, .events = POLLIN}, {.fd = s->sending ? s->send_sock : -1, .events = POLLIN}};
		enum websocket_op op;
		const char *message;
		size_t n;
		int r;

		if (!s->asked && ask_stream_output(s, e) < 0)
			return -1;
		r = websocket_wait(w, p, 2, !s->sending, &op, &message, &n, e);
		if (r < 0)
			return -1;
		if (r > 0 && s->tty && n && send_stream_input(s, message, n, e) < 0)
			return -1;
		if (r > 0)
			continue;
		if (p[1].revents && input_was_taken(s, e) < 0)
			return -1;
		if (p[0].revents) {
			autobuf struct buf data = BUF_INIT(WIRE_DATA_MAX);
			size_t out = 0;

			if (take_stream_output(s, &data, &out, e) < 0 || send_stream(w, 0, !s->tty, data.data, out, e) < 0 ||
			    send_stream(w, 1, !s->tty, data.data + out, data.len - out, e) < 0)
				return -1;
		}
	}
	return 0;
}
