/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stdio/stdio.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/keeper/wire.h"

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
