/* SPDX-License-Identifier: Apache-2.0 */
/* The output of a command or of a fork, and its verdict, as a reply: whole, or as it comes. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/api/estream.h"
#include "manager/api/execution.h"
#include "manager/keeper/wire.h"

#define KEEP_DEFAULT (1u << 20) /* bytes of each stream in a whole reply */

/* What it is called in replies. */
static const char *name_of(const struct execution *x)
{
	return x->is_fork ? "run" : "command";
}

static json_t *verdict_of(const struct execution *x)
{
	return json_pack("{s:s,s:O,s:O}", name_of(x), x->command, "exit_status",
			 json_object_get(x->verdict, "exit_status"), "verdict", x->verdict);
}

/* ---- one reply -------------------------------------------------------------------------- */

static int add_kept(json_t *reply, const char *name, const struct ring *ring, struct err *e)
{
	autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
	uint64_t start, next = 0;
	char key[40];
	size_t head;

	if (ring_read(ring, 0, WIRE_DATA_MAX, &b, &start, &next, e) < 0)
		return -1;
	head = b.len;
	if (next < ring->total && ring_read(ring, next, WIRE_DATA_MAX, &b, &start, &next, e) < 0)
		return -1;
	if (ring_dropped(ring)) {
		snprintf(key, sizeof(key), "%s_head_bytes", name);
		json_object_set_new(reply, key, json_integer((json_int_t)head));
	}
	snprintf(key, sizeof(key), "%s_bytes", name);
	json_object_set_new(reply, key, json_integer((json_int_t)ring->total));
	snprintf(key, sizeof(key), "%s_dropped", name);
	json_object_set_new(reply, key, json_integer((json_int_t)ring_dropped(ring)));
	return json_set_bytes(reply, name, b.data, b.len, e);
}

int execution_reply(struct execution *x, struct err *e)
{
	const json_t *max = json_object_get(http_json(x->box.rq), "max_output_bytes");
	size_t keep = max ? (size_t)json_integer_value(max) : KEEP_DEFAULT;
	struct ring ring[2];
	json_t *reply = NULL;
	int r;

	ring_init(&ring[0], keep / 2, keep - keep / 2);
	ring_init(&ring[1], keep / 2, keep - keep / 2);
	r = execution_collect(x, ring, e);
	if (r == 0) {
		reply = verdict_of(x);
		r = add_kept(reply, "stdout", &ring[0], e);
		if (r == 0)
			r = add_kept(reply, "stderr", &ring[1], e);
	}
	ring_release(&ring[0]);
	ring_release(&ring[1]);
	if (r < 0) {
		json_decref(reply);
		return -1;
	}
	return http_reply_json(x->box.rq, 0, reply, e);
}

/* ---- as it comes -------------------------------------------------------------------------- */

static const char *const names[] = { "stdout", "stderr" };

static int add_piece(struct estream *s, int which, const char *p, size_t n, struct err *e)
{
	json_t *j;

	if (!n)
		return 0;
	j = json_pack("{s:s}", "stream", names[which]);
	if (json_set_bytes(j, "data", p, n, e) < 0) {
		json_decref(j);
		return -1;
	}
	return estream_add(s, names[which], 0, j, e);
}

static int add_verdict(struct estream *s, struct execution *x, struct err *e)
{
	int i;

	for (i = 0; i < 2; i++)
		if (add_piece(s, i, x->held[i].bytes, x->held[i].n, e) < 0)
			return -1;
	return estream_add(s, "verdict", 0, verdict_of(x), e);
}

json_t *execution_started(const struct execution *x)
{
	return json_pack("{s:s,s:s,s:b,s:O*}", name_of(x), x->command,
			 x->is_fork ? "zygote" : "sandbox", x->box.id, "started", 1, "attest",
			 x->attest);
}

static int next_event(struct estream *s, struct http_request *rq, struct err *e)
{
	struct execution *x = s->ctx;
	char piece[16384 + 4];
	size_t n, cut;
	int which, r;

	(void)rq;
	if (x->started == 1) {
		x->started = 2;
		return estream_add(s, "started", 0, execution_started(x), e) < 0 ? -1 : 1;
	}
	r = execution_next(x, piece + 4, sizeof(piece) - 4, &which, &n, e);
	if (r <= 0)
		return r < 0 ? -1 : add_verdict(s, x, e);
	/* held bytes are sent first */
	memcpy(piece + 4 - x->held[which].n, x->held[which].bytes, x->held[which].n);
	r = (int)x->held[which].n;
	n += (size_t)r;
	cut = estream_cut_text(piece + 4 - r, n);
	if (add_piece(s, which, piece + 4 - r, n - cut, e) < 0)
		return -1;
	x->held[which].n = cut;
	memcpy(x->held[which].bytes, piece + 4 - r + n - cut, cut);
	return 1;
}

int execution_stream(struct execution *x, struct err *e)
{
	return estream_reply(x->box.rq, 200, next_event, execution_free, x, e);
}
