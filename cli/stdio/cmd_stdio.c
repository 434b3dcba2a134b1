/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth stdio: JSON lines on stdin and stdout, for programs that drive many
 * commands in many sandboxes and want no process started for each.  Here are
 * the lines that come in and the loop; stdio.h says where the rest is.
 */
#include "cli/stdio/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "manager/keeper/wire.h"

/* ---- lines ------------------------------------------------------------------------------------ */

static void handle_line(struct stdio *st, const char *line, size_t n)
{
	struct err e = { 0 };
	autojson json_t *rq = json_parse(line, n, STDIO_LINE_MAX, "request", &e);
	autojson json_t *id = rq ? json_incref(json_object_get(rq, "id")) : NULL;

	if (!id)
		id = json_null();
	if (e.code == ERR_CORRUPT)
		e.code = ERR_INVALID;	/* nothing is damaged: the caller sent it */
	if (rq && !json_is_object(rq))
		err_set(&e, ERR_INVALID, "a request is a JSON object");
	if (!rq || !json_is_object(rq) || operations_begin(st, id, rq, &e) < 0)
		answer_error(st, id, &e);
}

static void take_stdin_lines(struct stdio *st)
{
	size_t start = 0;
	char *nl;

	while (st->in.len > st->in_scanned && (nl = memchr(st->in.data + st->in_scanned, '\n', st->in.len - st->in_scanned))) {
		size_t end = (size_t)(nl - st->in.data);

		if (end > start)
			handle_line(st, st->in.data + start, end - start);
		start = st->in_scanned = end + 1;
	}
	if (start) {
		memmove(st->in.data, st->in.data + start, st->in.len - start);
		st->in.len -= start;
	}
	st->in_scanned = st->in.len;
}

static void read_stdin(struct stdio *st)
{
	static const char too_long[] = "a line of more than 16 MiB";
	struct err e;
	ssize_t n;

	if (buf_reserve(&st->in, STDIO_CHUNK, &e) < 0) {
		err_set(&e, ERR_LIMIT, "%s", too_long);
		answer_error(st, json_null(), &e);
		st->in_eof = 1;
		return;
	}
	n = read(STDIN_FILENO, st->in.data + st->in.len, STDIO_CHUNK);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		st->in_eof = 1;
		if (st->in.len)
			handle_line(st, st->in.data, st->in.len);
		return;
	}
	st->in.len += (size_t)n;
	take_stdin_lines(st);
}

/* ---- the loop --------------------------------------------------------------------------------- */

enum watch_kind { W_STDIN, W_STDOUT, W_CONN, W_KEEPER, W_OUT, W_IN };

struct watches {
	struct pollfd p[2 + STDIO_CONNECTIONS_MAX + 4 * STDIO_REQUESTS_MAX];
	struct { enum watch_kind kind; int index, which; } w[2 + STDIO_CONNECTIONS_MAX + 4 * STDIO_REQUESTS_MAX];
	nfds_t n;
};

static void watch_stdio_fd(struct watches *ws, int fd, short events, enum watch_kind kind, int index, int which)
{
	if (fd < 0)
		return;
	ws->p[ws->n] = (struct pollfd){ .fd = fd, .events = events };
	ws->w[ws->n].kind = kind;
	ws->w[ws->n].index = index;
	ws->w[ws->n++].which = which;
}

/* The number of requests under way. */
static int watch_stdio_fds(struct stdio *st, struct watches *ws)
{
	int full = st->out.len - st->out_done > STDIO_OUT_FULL, i, n = 0;

	ws->n = 0;
	watch_stdio_fd(ws, st->out_fd, st->out.len > st->out_done ? POLLOUT : 0, W_STDOUT, 0, 0);
	if (!st->in_eof && !full)
		watch_stdio_fd(ws, STDIN_FILENO, POLLIN, W_STDIN, 0, 0);
	for (i = 0; i < STDIO_CONNECTIONS_MAX; i++)
		if (!st->conns[i].used)
			watch_stdio_fd(ws, st->conns[i].fd, POLLIN, W_CONN, i, 0);
	for (i = 0; i < STDIO_REQUESTS_MAX; i++) {
		struct stdio_request *r = &st->requests[i];

		if (r->kind == FREE)
			continue;
		n++;
		if (r->conn >= 0)
			watch_stdio_fd(ws, st->conns[r->conn].fd, POLLIN, W_KEEPER, i, 0);
		/* a command's output comes after the answer that it has started */
		if (!full && (r->kind != EXEC || r->started || r->file)) {
			watch_stdio_fd(ws, r->out[0], POLLIN, W_OUT, i, 0);
			watch_stdio_fd(ws, r->out[1], POLLIN, W_OUT, i, 1);
		}
		if (r->input_done < r->input.len)
			watch_stdio_fd(ws, r->in, POLLOUT, W_IN, i, 0);
	}
	return n;
}

static void serve_stdio_watch(struct stdio *st, const struct watches *ws, nfds_t i)
{
	int index = ws->w[i].index;
	struct stdio_request *r = &st->requests[index < STDIO_REQUESTS_MAX ? index : 0];

	switch (ws->w[i].kind) {
	case W_STDIN:
		read_stdin(st);
		break;
	case W_STDOUT:
		st->lost |= !!(ws->p[i].revents & (POLLERR | POLLNVAL));
		answer_flush(st);
		break;
	case W_CONN:
		if (!st->conns[index].used && st->conns[index].fd == ws->p[i].fd)
			/* a keeper sends nothing without a request: it has ended */
			conn_drop(st, index);
		break;
	case W_KEEPER:
		if (r->kind != FREE && r->conn >= 0 && st->conns[r->conn].fd == ws->p[i].fd)
			exec_answer(st, r);
		break;
	case W_OUT:
		if (r->kind == FREE || r->out[ws->w[i].which] != ws->p[i].fd)
			break;
		pipes_output(st, r, ws->w[i].which);
		if (r->kind == CHILD && r->out[0] < 0 && r->out[1] < 0)
			child_end(st, r);
		break;
	case W_IN:
		if (r->kind == EXEC && r->in == ws->p[i].fd)
			pipes_input(r);
		break;
	}
}

static int stdio_loop(struct stdio *st, struct err *e)
{
	autofree struct watches *ws = calloc(1, sizeof(*ws));
	nfds_t i, n;

	if (!ws)
		return err_nomem(e);
	mem_keep_small();
	while (!st->lost) {
		int wait_ms = forkrun_tick(st);

		if (!watch_stdio_fds(st, ws) && st->in_eof && st->out_done == st->out.len)
			return 0;
		if (poll(ws->p, ws->n, wait_ms) < 0) {
			if (errno == EINTR)
				continue;
			return err_sys(e, "wait for requests");
		}
		/* new requests last: they may take the slot or the descriptor of one that ends now */
		for (i = 0, n = ws->n; i < n; i++)
			if (ws->p[i].revents && ws->w[i].kind != W_STDIN)
				serve_stdio_watch(st, ws, i);
		for (i = 0; i < n; i++)
			if (ws->p[i].revents && ws->w[i].kind == W_STDIN)
				serve_stdio_watch(st, ws, i);
	}
	return err_set(e, ERR_SYS, "nobody reads the answers any more");
}

static void set_up_stdout(struct stdio *st)
{
	struct stat s;

	st->out_fd = STDOUT_FILENO;
	if (fstat(STDOUT_FILENO, &s) < 0)
		return;
	st->out_is_socket = S_ISSOCK(s.st_mode);
	/*
	 * an open file description of our own: O_NONBLOCK on the inherited one would affect
	 * every process that has it
	 */
	if (S_ISFIFO(s.st_mode)) {
		int fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC);

		st->out_fd = fd < 0 ? STDOUT_FILENO : fd;
	}
}

static int stdio_has_no_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)ctx;
	(void)id;
	(void)value;
	(void)e;
	return 0;
}

static int stdio_main(const struct command *self, int argc, char **argv)
{
	struct stdio *st = calloc(1, sizeof(*st));
	struct err e = { 0 };
	int rest, help = 0, r, i;

	if (!st) {
		err_nomem(&e);
		return command_fail(self, &e, 1);
	}
	for (i = 0; i < STDIO_CONNECTIONS_MAX; i++)
		st->conns[i].fd = -1;
	st->in = BUF_INIT(STDIO_LINE_MAX + STDIO_CHUNK);
	st->out = BUF_INIT(STDIO_OUT_MAX);
	sandbox_ref_init(&st->ref);
	r = command_options(self, argc, argv, stdio_has_no_option, NULL, &rest, &help, &e);
	if (r == 0 && !help) {
		signal(SIGPIPE, SIG_IGN);
		set_up_stdout(st);
		if (rest < argc)
			r = err_set(&e, ERR_USAGE, "unexpected argument '%.80s'", argv[rest]);
		if (r == 0)
			r = sandbox_ref_registry(&st->ref, &e);
		if (r == 0)
			r = stdio_loop(st, &e);
	}
	for (i = 0; i < STDIO_REQUESTS_MAX; i++)
		if (st->requests[i].kind != FREE)
			request_end(st, &st->requests[i], 0);
	for (i = 0; i < STDIO_CONNECTIONS_MAX; i++)
		conn_drop(st, i);
	sandbox_ref_close(&st->ref);
	buf_release(&st->in);
	buf_release(&st->out);
	if (st->out_fd > STDERR_FILENO)
		close(st->out_fd);
	free(st);
	return r < 0 ? command_fail(self, &e, 1) : 0;
}

const struct command cmd_stdio = {
	.name = "stdio",
	.args = "",
	.summary = "serve requests, JSON lines on stdin and stdout, for programs",
	.detail = "{\"id\":1,\"op\":\"create\",\"image\":\"host\"}, then {\"id\":2,\"op\":\"sh\",\"sandbox\":ID,\"text\":\"ls\"}.  Answers\n"
		  "carry the id; several requests may be under way.  At the end of input it finishes them and exits.",
	.run = stdio_main,
};
