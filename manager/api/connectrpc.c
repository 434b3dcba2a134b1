/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/connectrpc.h"

#include <stdlib.h>

#include "base/num.h"
#include "manager/api/estream.h"

#define MESSAGE_MAX (1u << 20)
#define DEADLINE_MAX_MS 31622400000

/* ---- a message of a stream's request: one envelope --------------------------------------- */

struct message {
	struct buf bytes;
};

static void message_free(void *data)
{
	struct message *m = data;

	buf_release(&m->bytes);
	free(m);
}

int connectrpc_begin(struct http_request *rq, struct err *e)
{
	struct message *m = calloc(1, sizeof(*m));

	if (!m)
		return err_nomem(e);
	m->bytes = BUF_INIT(MESSAGE_MAX);
	http_set_data(rq, m, message_free);
	return 0;
}

int connectrpc_feed(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	return buf_add(&((struct message *)http_data(rq))->bytes, data, n, e);
}

json_t *connectrpc_parse(const char *body, size_t len, struct err *e)
{
	const unsigned char *p = (const unsigned char *)body;
	size_t n;

	if (len < 5)
		goto malformed;
	n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	if (p[0] & 1) {
		err_set(e, ERR_UNSUPPORTED, "compressed messages are not taken");
		return NULL;
	}
	if (n > len - 5)
		goto malformed;
	return json_parse(body + 5, n, MESSAGE_MAX, "body", e);
malformed:
	err_set(e, ERR_INVALID, "the body is not a message of the Connect protocol");
	return NULL;
}

json_t *connectrpc_message(struct http_request *rq, struct err *e)
{
	const struct buf *b = &((struct message *)http_data(rq))->bytes;

	return connectrpc_parse(b->data, b->len, e);
}

struct refusal {
	struct err why;
};

static int next_refusal(struct estream *s, struct http_request *rq, struct err *e)
{
	(void)rq;
	*e = ((struct refusal *)s->ctx)->why;
	return -1;
}

int connectrpc_refuse(struct http_request *rq, struct err *e)
{
	struct refusal *r = malloc(sizeof(*r));

	if (!r)
		return err_nomem(e);
	http_audit(rq, "failed", e->msg);
	r->why = *e;
	return estream_reply_connect(rq, next_refusal, free, r, e);
}

int connectrpc_deadline(struct http_request *rq, uint64_t *ret, struct err *e)
{
	const char *text = http_header(rq, "Connect-Timeout-Ms");

	*ret = 0;
	return text ? num_u64(text, "Connect-Timeout-Ms", 1, DEADLINE_MAX_MS, ret, e) : 0;
}
