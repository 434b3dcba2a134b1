/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of berth-mcp, between the client and its berth stdio. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/mcp/mcp.h"

/* ---- Requests to berth stdio ---- */

uint64_t backend_send(struct mcp *m, json_t *rq, struct err *e)
{
	autojson json_t *owned __attribute__((unused)) = rq;
	uint64_t number = ++m->next_request;
	size_t n, start = m->back_out.len;

	if (!rq || json_object_set_new(rq, "id", json_integer((json_int_t)number)) < 0) {
		err_set(e, ERR_INVALID, "the arguments are not valid UTF-8");
		return 0;
	}
	n = json_dumpb(rq, NULL, 0, JSON_COMPACT);
	if (!n || n > MCP_LINE_MAX) {
		err_set(e, ERR_LIMIT, "the request has more than %u bytes", MCP_LINE_MAX);
		return 0;
	}
	if (buf_reserve(&m->back_out, n + 1, e) < 0)
		return 0;
	json_dumpb(rq, m->back_out.data + start, n, JSON_COMPACT);
	m->back_out.data[start + n] = '\n';
	m->back_out.len += n + 1;
	return number;
}

void backend_line(struct mcp *m, const char *line, size_t n)
{
	struct err e;
	autojson json_t *answer = json_parse(line, n, 2 * MCP_LINE_MAX, "answer", &e);

	/* our own program: if its answer is garbled, we do not guess */
	if (!json_is_object(answer))
		m->lost = 1;
	else
		toolcall_answer(m, answer);
}

/* ---- The loop ---- */

#define CHUNK 65536
#define END_MS 30000 /* for the removal of the sandboxes at the end */

static volatile sig_atomic_t told_to_end;

static void on_signal(int number)
{
	(void)number;
	told_to_end = 1;
}

/* ---- lines ---- */

typedef void line_fn(struct mcp *m, const char *line, size_t n);

/* Hands each whole line of b on and leaves the rest. */
static void take_mcp_lines(struct mcp *m, struct buf *b, size_t *scanned, line_fn *fn)
{
	size_t start = 0;
	char *nl;

	while (b->len > *scanned && (nl = memchr(b->data + *scanned, '\n', b->len - *scanned))) {
		size_t end = (size_t)(nl - b->data);

		if (m->skipping && b == &m->in)
			m->skipping = 0;
		else if (end > start)
			fn(m, b->data + start, end - start);
		start = *scanned = end + 1;
	}
	memmove(b->data, b->data + start, b->len - start);
	b->len -= start;
	*scanned = b->len;
}

static void read_mcp_client(struct mcp *m)
{
	struct err e;
	ssize_t n;

	if (m->in.len > MCP_LINE_MAX) {
		if (!m->skipping)
			rpc_error(m, NULL, RPC_PARSE_ERROR, "a message of more than 16 MiB", NULL);
		m->skipping = 1;
		m->in.len = m->in_scanned = 0;
	}
	if (buf_reserve(&m->in, CHUNK, &e) < 0) {
		m->lost = 1;
		return;
	}
	n = read(m->client_fd, m->in.data + m->in.len, CHUNK);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		m->in_eof = 1;
		return;
	}
	m->in.len += (size_t)n;
	take_mcp_lines(m, &m->in, &m->in_scanned, rpc_line);
}

static void read_backend(struct mcp *m)
{
	struct err e;
	ssize_t n;

	if (buf_reserve(&m->back_in, CHUNK, &e) < 0) {
		m->lost = 1;
		return;
	}
	n = read(m->backend_fd, m->back_in.data + m->back_in.len, CHUNK);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		m->lost = 1;
		return;
	}
	m->back_in.len += (size_t)n;
	take_mcp_lines(m, &m->back_in, &m->back_scanned, backend_line);
}

/* Writes as much as the other side takes; 0 if that has gone. */
static int flush(int fd, struct buf *b, size_t *done)
{
	while (*done < b->len) {
		size_t some = b->len - *done < CHUNK ? b->len - *done : CHUNK;
		ssize_t n = send(fd, b->data + *done, some, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == ENOTSOCK)
			n = write(fd, b->data + *done, some);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN;
		*done += (size_t)n;
		if ((size_t)n < some)
			break;
	}
	if (*done == b->len) {
		if (b->cap > MCP_OUT_FULL)
			buf_release(b);
		b->len = *done = 0;
	}
	return 1;
}

/* ---- the loop ---- */

enum { P_CLIENT, P_OUT, P_BACK, P_COUNT };

static int has_output(const struct mcp *m)
{
	return !m->out_gone && m->out.len > m->out_done;
}

static void watch_mcp_fds(struct mcp *m, struct pollfd *p)
{
	int full = m->out.len - m->out_done > MCP_OUT_FULL;
	int waits = m->back_out.len - m->back_done > MCP_OUT_FULL;

	p[P_CLIENT] = (struct pollfd){ .fd = m->ending || full || waits ? -1 : m->client_fd,
				       .events = POLLIN };
	p[P_OUT] = (struct pollfd){ .fd = has_output(m) ? m->out_fd : -1, .events = POLLOUT };
	p[P_BACK] = (struct pollfd){ .fd = m->backend_fd,
				     .events = (short)((full && !m->ending ? 0 : POLLIN) |
						       (m->back_out.len > m->back_done ? POLLOUT :
											 0)) };
}

/* The client has gone: its commands end, and its sandboxes are removed. */
static void begin_end(struct mcp *m)
{
	size_t i;

	m->ending = 1;
	for (i = 0; i < MCP_CALLS_MAX; i++)
		if (m->calls[i].used && !m->calls[i].cancelled)
			toolcall_cancel(m, &m->calls[i]);
}

static void mcp_loop_turn(struct mcp *m, const struct pollfd *p)
{
	if (p[P_OUT].revents & (POLLERR | POLLNVAL) ||
	    (p[P_OUT].revents && !flush(m->out_fd, &m->out, &m->out_done)))
		m->in_eof = m->out_gone = 1;
	if (p[P_BACK].revents & POLLOUT && !flush(m->backend_fd, &m->back_out, &m->back_done))
		m->lost = 1;
	if (p[P_BACK].revents & (POLLIN | POLLHUP | POLLERR))
		read_backend(m);
	if (p[P_CLIENT].revents)
		read_mcp_client(m);
}

static int serve_mcp_until_end(struct mcp *m, const sigset_t *during, struct err *e)
{
	struct pollfd p[P_COUNT];
	uint64_t end = 0, now;

	while (!m->lost) {
		int wait = -1, i;

		now = clock_ms();
		if (!m->ending && (m->in_eof || told_to_end)) {
			begin_end(m);
			end = now + END_MS;
		}
		if (m->ending) {
			if (!box_end_all(m) && !has_output(m))
				return 0;
			if (now >= end)
				return err_set(e, ERR_TIMEOUT, "remove the sandboxes");
			wait = (int)(end - now);
		} else {
			wait = toolcall_progress(m, now);
		}
		watch_mcp_fds(m, p);
		i = ppoll(p, P_COUNT,
			  wait < 0 ? NULL :
				     &(struct timespec){ wait / 1000, wait % 1000 * 1000000L },
			  during);
		if (i > 0)
			mcp_loop_turn(m, p);
		else if (i < 0 && errno != EINTR)
			return err_sys(e, "wait for messages");
	}
	return err_set(e, ERR_INTERNAL, "berth stdio ended, or an answer could not be kept");
}

int loop_run(struct mcp *m, struct err *e)
{
	struct sigaction sa = { .sa_handler = on_signal };
	sigset_t block, during;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigaddset(&block, SIGINT);
	sigaddset(&block, SIGHUP);
	sigprocmask(SIG_BLOCK, &block, &during);
	sigdelset(&during, SIGTERM);
	sigdelset(&during, SIGINT);
	sigdelset(&during, SIGHUP);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	return serve_mcp_until_end(m, &during, e);
}
