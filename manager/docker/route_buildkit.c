/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /grpc and POST /session: BuildKit's clients are told that it is not served.
 *
 * buildx, and compose by it, look whether /grpc can become HTTP/2.  Where it cannot they start a
 * builder of their own, a privileged container of moby/buildkit.  So it becomes HTTP/2 here, and
 * every call on it is answered with one sentence: gRPC's status FAILED_PRECONDITION (the "Trailers-
 * Only" answer of gRPC over HTTP/2; frames as in RFC 9113, fields as in RFC 7541).  Nothing that
 * the client sends is decoded but the heads of frames.  On /session the client is the server, and
 * nothing is asked of it.
 */
#include <poll.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/build.h"

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define HEAD_BYTES 9
#define FRAME_MAX 16384 /* RFC 9113, 4.2: nobody was told of more */
#define CALLS_MAX 100
#define CONNECTION_MS 60000 /* a client that has its answer goes */
_Static_assert(sizeof(ENGINE_NO_BUILDKIT) - 1 < 127, "the length of a value is one byte");

enum { FRAME_HEADERS = 1, FRAME_SETTINGS = 4, FRAME_PING = 6, FRAME_GOAWAY = 7 };
enum { FLAG_ACK = 1, FLAG_END_STREAM = 1, FLAG_END_HEADERS = 4 };

struct grpc_refusal {
	int fd;
	unsigned calls;
	int is_greeted; /* the preface was there */
	size_t n;
	unsigned char in[HEAD_BYTES + FRAME_MAX];
};

/* ---- what is sent: small frames, which the socket's buffer takes whole from a client that reads ---- */

static int send_frame(const struct grpc_refusal *g, unsigned type, unsigned flags, const unsigned char *stream, const void *body, size_t n)
{
	unsigned char frame[HEAD_BYTES + 256] = { 0, (unsigned char)(n >> 8), (unsigned char)n, (unsigned char)type, (unsigned char)flags };

	memcpy(frame + 5, stream, 4);
	memcpy(frame + HEAD_BYTES, body, n);
	return send(g->fd, frame, HEAD_BYTES + n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)(HEAD_BYTES + n) ? 0 : -1;
}

/* A literal field that no table keeps. */
static size_t add_field(unsigned char *p, const char *name, const char *value)
{
	const size_t name_n = strlen(name), value_n = strlen(value);

	p[0] = 0;
	p[1] = (unsigned char)name_n;
	memcpy(p + 2, name, name_n);
	p[2 + name_n] = (unsigned char)value_n;
	memcpy(p + 3 + name_n, value, value_n);
	return 3 + name_n + value_n;
}

static int refuse_call(struct grpc_refusal *g, const unsigned char *stream)
{
	unsigned char fields[256] = { 0x88 }; /* ":status: 200" of the static table */
	size_t n = 1;

	if (++g->calls > CALLS_MAX)
		return -1;
	n += add_field(fields + n, "content-type", "application/grpc");
	n += add_field(fields + n, "grpc-status", "9");
	n += add_field(fields + n, "grpc-message", ENGINE_NO_BUILDKIT);
	return send_frame(g, FRAME_HEADERS, FLAG_END_STREAM | FLAG_END_HEADERS, stream, fields, n);
}

/* ---- what comes ---- */

static int answer_frame(struct grpc_refusal *g, const unsigned char *head, size_t n)
{
	static const unsigned char whole[4]; /* the connection, as a stream */
	const int acks = head[4] & FLAG_ACK;

	switch (head[3]) {
	case FRAME_HEADERS:
		return refuse_call(g, head + 5);
	case FRAME_SETTINGS:
		return acks ? 0 : send_frame(g, FRAME_SETTINGS, FLAG_ACK, whole, "", 0);
	case FRAME_PING:
		return acks ? 0 : n == 8 ? send_frame(g, FRAME_PING, FLAG_ACK, whole, head + HEAD_BYTES, n) : -1;
	case FRAME_GOAWAY:
		return -1;
	default:
		return 0;
	}
}

/* All that came whole; -1: the connection is to end. */
static int answer_frames(struct grpc_refusal *g)
{
	static const unsigned char whole[4];
	size_t at = 0, n;

	if (!g->is_greeted) {
		if (g->n < strlen(PREFACE))
			return memcmp(g->in, PREFACE, g->n) ? -1 : 0;
		if (memcmp(g->in, PREFACE, strlen(PREFACE)) || send_frame(g, FRAME_SETTINGS, 0, whole, "", 0) < 0)
			return -1;
		at = strlen(PREFACE);
		g->is_greeted = 1;
	}
	for (; g->n - at >= HEAD_BYTES; at += HEAD_BYTES + n) {
		n = (size_t)g->in[at] << 16 | (size_t)g->in[at + 1] << 8 | g->in[at + 2];
		if (n > FRAME_MAX)
			return -1;
		if (g->n - at < HEAD_BYTES + n)
			break;
		if (answer_frame(g, g->in + at, n) < 0)
			return -1;
	}
	g->n -= at;
	memmove(g->in, g->in + at, g->n);
	return 0;
}

static void run_grpc(void *ctx, struct http_request *rq, int fd, const char *extra, size_t n)
{
	struct grpc_refusal g = { .fd = fd };
	const uint64_t end = clock_ms() + CONNECTION_MS;
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	struct err e;
	ssize_t got;

	(void)ctx;
	if (n > sizeof(g.in))
		return;
	if (n)
		memcpy(g.in, extra, n);
	g.n = n;
	while (answer_frames(&g) == 0) {
		const uint64_t now = clock_ms();

		if (now >= end || http_poll(rq, &wait, 1, (int)(end - now), &e) <= 0)
			return;
		got = read(fd, g.in + g.n, sizeof(g.in) - g.n);
		if (got <= 0)
			return;
		g.n += (size_t)got;
	}
}

/* The client waits for calls, of which there are none. */
static void run_idle_session(void *ctx, struct http_request *rq, int fd, const char *extra, size_t n)
{
	const uint64_t end = clock_ms() + CONNECTION_MS;
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	char dropped[4096];
	struct err e;

	(void)ctx, (void)extra, (void)n;
	for (uint64_t now = clock_ms(); now < end; now = clock_ms())
		if (http_poll(rq, &wait, 1, (int)(end - now), &e) <= 0 || read(fd, dropped, sizeof(dropped)) <= 0)
			return;
}

static int refuse_buildkit(struct http_request *rq, void (*run)(void *, struct http_request *, int, const char *, size_t), struct err *e)
{
	const struct http_hijack h = { run, NULL, NULL };
	const char *upgrade = http_header(rq, "Upgrade");

	if (!upgrade || strcasecmp(upgrade, "h2c"))
		return docker_fail(rq, 404, e, "%s", ENGINE_NO_BUILDKIT);
	return http_endless(rq, e) < 0 ? -1 : http_reply_hijack(rq, "application/grpc", &h, e);
}

static int post_grpc(struct http_request *rq, struct err *e)
{
	return refuse_buildkit(rq, run_grpc, e);
}

static int post_buildkit_session(struct http_request *rq, struct err *e)
{
	return refuse_buildkit(rq, run_idle_session, e);
}

const struct http_route docker_buildkit_routes[] = {
	{"POST", "/session", post_buildkit_session, "of BuildKit", HTTP_JSON, HTTP_OPTIONAL | HTTP_UPGRADES},
	{"POST", "/grpc", post_grpc, "of BuildKit", HTTP_JSON, HTTP_OPTIONAL | HTTP_UPGRADES},
	{NULL},
};
