/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The berth program as a process of its own: what makes or starts a sandbox forks
 * a keeper, and a program with threads must not fork without exec.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/api/api.h"

#define ERRORS_MAX 65536
#define LOOK_MS 200	/* how soon it is seen that the client is gone */
#define OUTPUT_MAX (32u << 20)

/*
 * Reads both pipes to their end, so that neither can fill up and stop it. rq NULL: even if the
 * client goes.
 */
static int drain(struct http_request *rq, int out_fd, int err_fd, struct buf *out, struct buf *err, struct err *e)
{
	int fds[2] = { out_fd, err_fd }, open_count = 2, i;
	struct buf *to[2] = { out, err };
	char piece[16384];
	ssize_t n;

	while (open_count) {
		struct pollfd p[2] = { { .fd = fds[0], .events = POLLIN }, { .fd = fds[1], .events = POLLIN } };

		if (poll(p, 2, LOOK_MS) < 0 && errno != EINTR)
			return err_sys(e, "wait for berth");
		if (rq && http_wait(rq, -1, 0, 0, e) < 0)
			return -1;
		for (i = 0; i < 2; i++) {
			if (fds[i] < 0)
				continue;
			n = read(fds[i], piece, sizeof(piece));
			if (n > 0 && to[i] && buf_add(to[i], piece, (size_t)n, e) < 0)
				return -1;
			if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
				fds[i] = -1;
				open_count--;
			}
		}
	}
	return 0;
}

static int start(const char *path, const char *const *argv, int in_fd, int out, int err, pid_t *ret_pid, struct err *e)
{
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, reset;
	int r;

	sigemptyset(&none);
	sigfillset(&reset);
	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&at);
	if (in_fd >= 0)
		posix_spawn_file_actions_adddup2(&fa, in_fd, 0);
	else
		posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, out, 1);
	posix_spawn_file_actions_adddup2(&fa, err, 2);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &reset);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	r = posix_spawn(ret_pid, path, &fa, &at, (char *const *)(size_t)argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&at);
	return r ? err_start(e, r, "berth") : 0;
}

static int make_pipe(int p[2], struct err *e)
{
	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	/* only our end: the program's own writes wait */
	return fcntl(p[0], F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "set up a pipe") : 0;
}

int spawn_start(struct http_request *rq, const char *const *argv, int in_fd, struct spawned *ret, struct err *e)
{
	int o[2] = { -1, -1 }, x[2] = { -1, -1 }, r;

	*ret = (struct spawned){ .pid = -1, .out = -1, .err = -1 };
	r = make_pipe(o, e);
	if (r == 0)
		r = make_pipe(x, e);
	if (r == 0)
		r = start(api_of(rq)->berth_path, argv, in_fd, o[1], x[1], &ret->pid, e);
	fd_close(&o[1]);
	fd_close(&x[1]);
	ret->out = o[0];
	ret->err = x[0];
	if (r < 0)
		spawn_abort(ret);
	return r;
}

static int reap(struct spawned *s)
{
	int status = 0;

	while (s->pid > 0 && waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
		;
	s->pid = -1;
	fd_close(&s->out);
	fd_close(&s->err);
	return status;
}

void spawn_abort(struct spawned *s)
{
	if (s->pid > 0)
		kill(s->pid, SIGTERM);
	fd_close(&s->out); /* a program that waits for room in the pipe would never end */
	reap(s);
}

int spawn_finish(struct http_request *rq, struct spawned *s, int finish, struct buf *out, struct err *e)
{
	autobuf struct buf errors = BUF_INIT(ERRORS_MAX);
	int status;

	if (drain(finish ? NULL : rq, s->out, s->err, out, &errors, e) < 0) {
		spawn_abort(s);
		return -1;
	}
	status = reap(s);
	if (!WIFEXITED(status))
		return err_set(e, ERR_INTERNAL, "berth was killed by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status) ? json_take_error_line(errors.data, "berth", e) : 0;
}

int spawn_berth(struct http_request *rq, const char *const *argv, int finish, int in_fd, struct buf *out, struct err *e)
{
	struct spawned s;

	return spawn_start(rq, argv, in_fd, &s, e) < 0 ? -1 : spawn_finish(rq, &s, finish, out, e);
}

json_t *spawn_json(struct http_request *rq, const char *const *argv, int finish, struct err *e)
{
	return spawn_json_fed(rq, argv, finish, -1, e);
}

json_t *spawn_json_fed(struct http_request *rq, const char *const *argv, int finish, int in_fd, struct err *e)
{
	autobuf struct buf out = BUF_INIT(OUTPUT_MAX);
	struct err ignored;
	json_t *j;

	/* doctor and code fail with a report on stdout, and nothing on stderr */
	if (spawn_berth(rq, argv, finish, in_fd, &out, e) < 0) {
		j = e->code == ERR_INTERNAL && out.len ? json_parse(out.data, out.len, OUTPUT_MAX, "berth's answer", &ignored) : NULL;
		return j;
	}
	return json_parse(out.data ? out.data : "", out.len, OUTPUT_MAX, "berth's answer", e);
}

/* ---- its output as the reply --------------------------------------------------------- */

struct stream {
	struct spawned program;
	char first[4096];
	size_t first_n, first_at;
};

static void stream_free(void *ctx)
{
	struct stream *s = ctx;

	spawn_abort(&s->program);
	free(s);
}

static ssize_t read_some(struct stream *s, struct http_request *rq, char *buf, size_t max, struct err *e)
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

static int end_stream(struct stream *s, struct http_request *rq, struct err *e)
{
	return s->program.pid > 0 ? spawn_finish(rq, &s->program, 0, NULL, e) : 0;
}

static ssize_t read_stream(void *ctx, struct http_request *rq, char *buf, size_t max)
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
	n = read_some(s, rq, buf, max, &e);
	return n ? n : end_stream(s, rq, &e);
}

int spawn_reply(struct http_request *rq, const char *const *argv, const char *type, struct err *e)
{
	struct stream *s = calloc(1, sizeof(*s));
	struct http_stream st = { read_stream, stream_free, s };
	ssize_t n;

	if (!s)
		return err_nomem(e);
	s->program = (struct spawned){ -1, -1, -1 };
	if (spawn_start(rq, argv, -1, &s->program, e) < 0 || (n = read_some(s, rq, s->first, sizeof(s->first), e)) < 0 ||
	    (n == 0 && end_stream(s, rq, e) < 0)) {
		stream_free(s);
		return -1;
	}
	s->first_n = (size_t)n;
	return http_reply_stream(rq, 0, type, &st, e);
}
