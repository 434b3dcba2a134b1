/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/websocket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/api/api.h"

#define READ_PIECE 16384

/* ---- the request ---- */

int websocket_is_asked(const struct http_request *rq)
{
	const char *upgrade = http_header(rq, "Upgrade");

	/* without Connection: Upgrade there is no reply that could have fields */
	return upgrade && !strcasecmp(upgrade, "websocket") && http_asks_for_upgrade(rq);
}

static int accept_of(const struct http_request *rq, char ret[32], struct err *e)
{
	const char *version = http_header(rq, "Sec-WebSocket-Version");

	if (!websocket_is_asked(rq) || !version || strcmp(version, "13"))
		return err_set(e, ERR_INVALID, "this path is for a WebSocket of version 13");
	return websocket_accept(http_header(rq, "Sec-WebSocket-Key"), ret, e);
}

int websocket_check(const struct http_request *rq, struct err *e)
{
	char ignored[32];

	return accept_of(rq, ignored, e);
}

int websocket_offers(const struct http_request *rq, const char *prefix, char *ret, size_t n)
{
	const char *p = http_header(rq, "Sec-WebSocket-Protocol");
	size_t len;

	for (; p && *p; p += len + (p[len] == ',')) {
		p += strspn(p, " ");
		len = strcspn(p, ",");
		if (!strncmp(p, prefix, strlen(prefix)) && len < n) {
			snprintf(ret, n, "%.*s", (int)strcspn(p, ", "), p);
			return 1;
		}
	}
	return 0;
}

struct upgraded {
	void (*run)(void *ctx, struct websocket *w);
	void (*release)(void *ctx);
	void *ctx;
};

static void upgraded_free(void *ctx)
{
	struct upgraded *u = ctx;

	u->release(u->ctx);
	free(u);
}

static void run_websocket(void *ctx, struct http_request *rq, int fd, const char *extra, size_t n)
{
	struct upgraded *u = ctx;
	struct websocket w = {.rq = rq, .fd = fd, .in = BUF_INIT(WEBSOCKET_MAX + READ_PIECE + 64), .message = BUF_INIT(WEBSOCKET_MAX)};
	struct err ignored;

	if (!n || buf_add(&w.in, extra, n, &ignored) == 0)
		u->run(u->ctx, &w);
	websocket_close(&w, 1001, "");
	buf_release(&w.in);
	buf_release(&w.message);
}

int websocket_reply(struct http_request *rq, const char *subprotocol, void (*run)(void *ctx, struct websocket *w),
		    void (*release)(void *ctx), void *ctx, struct err *e)
{
	struct upgraded *u = malloc(sizeof(*u));
	struct http_hijack h = {run_websocket, upgraded_free, u, "websocket"};
	char accept[32];
	int r = -1;

	if (!u)
		err_nomem(e);
	else
		r = accept_of(rq, accept, e) < 0 || http_endless(rq, e) < 0 ? -1 : 0;
	if (r < 0) {
		release(ctx);
		free(u);
		return -1;
	}
	*u = (struct upgraded){run, release, ctx};
	if (http_reply_hijack(rq, "application/octet-stream", &h, e) < 0 || http_reply_header(rq, "Sec-WebSocket-Accept", accept, e) < 0)
		return -1;
	return subprotocol ? http_reply_header(rq, "Sec-WebSocket-Protocol", subprotocol, e) : 0;
}

/* ---- bytes ---- */

static int send_all(struct websocket *w, const void *data, size_t n, struct err *e)
{
	const char *p = data;

	while (n) {
		struct pollfd out = {.fd = w->fd, .events = POLLOUT};
		ssize_t sent = send(w->fd, p, n, MSG_NOSIGNAL);

		if (sent > 0) {
			p += sent;
			n -= (size_t)sent;
		} else if (errno != EAGAIN && errno != EINTR) {
			return err_code_sys(e, ERR_NET, "send to the client");
		} else if (http_poll(w->rq, &out, 1, -1, e) < 0) {
			return -1;
		}
	}
	return 0;
}

int websocket_send(struct websocket *w, enum websocket_op op, const void *data, size_t n, struct err *e)
{
	unsigned char head[10];

	if (w->closed)
		return err_set(e, ERR_NET, "the client has gone");
	if (send_all(w, head, websocket_head_of(op, n, head), e) == 0 && send_all(w, data, n, e) == 0)
		return 0;
	w->closed = 1;
	return -1;
}

void websocket_close(struct websocket *w, unsigned code, const char *reason)
{
	unsigned char text[125];
	size_t n = strlen(reason);
	struct err ignored;

	if (w->closed)
		return;
	n = n > sizeof(text) - 2 ? sizeof(text) - 2 : n;
	text[0] = (unsigned char)(code >> 8);
	text[1] = (unsigned char)code;
	memcpy(text + 2, reason, n);
	websocket_send(w, WEBSOCKET_CLOSE, text, 2 + n, &ignored);
	w->closed = 1;
}

static int read_bytes(struct websocket *w, struct err *e)
{
	char piece[READ_PIECE];
	ssize_t n = recv(w->fd, piece, sizeof(piece), MSG_DONTWAIT);

	if (n > 0)
		return buf_add(&w->in, piece, (size_t)n, e);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	w->closed = 1;
	return err_set(e, ERR_NET, "the client has gone");
}

static void unmask(char *p, size_t n, const unsigned char mask[4])
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (char)(p[i] ^ (char)mask[i % 4]);
}

/* What a client broke is said to it. */
static int refuse_frame(struct websocket *w, const struct err *e)
{
	websocket_close(w, e->code == ERR_LIMIT ? 1009 : 1002, e->msg);
	return -1;
}

static int take_control(struct websocket *w, const struct websocket_frame *f, const char *data, struct err *e)
{
	if (f->op == WEBSOCKET_PING)
		return websocket_send(w, WEBSOCKET_PONG, data, f->n, e);
	if (f->op == WEBSOCKET_PONG)
		return 0;
	websocket_send(w, WEBSOCKET_CLOSE, data, f->n < 2 ? 0 : 2, e);
	w->closed = 1;
	return err_set(e, ERR_NET, "the client has closed");
}

/* The next whole frame of those that came: 1 when it ends a message; 0: more bytes are needed. */
static int take_frame(struct websocket *w, struct err *e)
{
	struct websocket_frame f;
	int r = websocket_head(w->in.data, w->in.len, &f, e);
	char *data;

	if (r < 0)
		return refuse_frame(w, e);
	if (!r || w->in.len < f.head + f.n)
		return 0;
	data = w->in.data + f.head;
	unmask(data, f.n, f.mask);
	if (f.op >= WEBSOCKET_CLOSE)
		r = take_control(w, &f, data, e) < 0 ? -1 : 2;
	else if ((f.op == WEBSOCKET_MORE) != (w->kind != WEBSOCKET_MORE))
		r = err_set(e, ERR_INVALID, "a part of a message without its beginning, or within another");
	else if (buf_add(&w->message, data, f.n, e) < 0)
		r = err_set(e, ERR_LIMIT, "a message of over %u bytes", WEBSOCKET_MAX);
	if (r < 0)
		return w->closed ? -1 : refuse_frame(w, e);
	if (r == 1 && f.op != WEBSOCKET_MORE)
		w->kind = f.op;
	memmove(w->in.data, w->in.data + f.head + f.n, w->in.len - f.head - f.n);
	w->in.len -= f.head + f.n;
	return r == 1 && f.final ? 1 : 2;
}

/* 1: a message is whole; 0: not yet. */
static int take_frames(struct websocket *w, struct err *e)
{
	int r;

	while ((r = take_frame(w, e)) == 2)
		;
	return r;
}

int websocket_wait(struct websocket *w, struct pollfd *p, size_t n, int reads, enum websocket_op *ret_op, const char **ret_data,
		   size_t *ret_n, struct err *e)
{
	struct pollfd all[HTTP_POLLS_MAX];
	size_t i;
	int r;

	if (n + 1 > HTTP_POLLS_MAX)
		return err_set(e, ERR_INTERNAL, "too many descriptors to wait for");
	for (;;) {
		if (w->closed)
			return err_set(e, ERR_NET, "the client has gone");
		r = reads ? take_frames(w, e) : 0;
		if (r < 0)
			return -1;
		if (r) {
			*ret_op = w->kind;
			*ret_data = w->message.len ? w->message.data : "";
			*ret_n = w->message.len;
			w->kind = WEBSOCKET_MORE;
			w->message.len = 0;
			return 1;
		}
		all[0] = (struct pollfd){.fd = reads ? w->fd : -1, .events = POLLIN};
		for (i = 0; i < n; i++)
			all[1 + i] = p[i];
		r = http_poll(w->rq, all, n + 1, WEBSOCKET_PING_MS, e);
		if (r < 0)
			return -1;
		if (r == 0 && websocket_send(w, WEBSOCKET_PING, "", 0, e) < 0)
			return -1;
		if (all[0].revents && read_bytes(w, e) < 0)
			return -1;
		for (i = 0, r = 0; i < n; i++) {
			p[i].revents = all[1 + i].revents;
			r |= p[i].revents;
		}
		if (r)
			return 0;
	}
}
