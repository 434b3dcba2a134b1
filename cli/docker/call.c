/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth's own verbs, in a child: what they print is theirs, and their state ends with them.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/docker/door.h"

#define ANSWER_MAX (32u << 20)
#define ERRORS_MAX 65536
#define WORDS_MAX 256

static void become_own_berth(const char *const *argv)
{
	char *words[WORDS_MAX + 1];
	const struct command *c;
	struct err e;
	int n = 0, used = 1, status;

	/* a verb moves its words about */
	for (; argv[n + 1] && n < WORDS_MAX; n++)
		words[n] = (char *)(size_t)argv[n + 1];
	words[n] = NULL;
	c = command_find(n, words, &used, &e);
	status = c ? c->run(c, n - used + 1, words + used - 1) : command_fail(NULL, &e, 1);
	fflush(stdout);
	_exit(status);
}

/* Both pipes until their end, so that neither can fill up and stop it. */
static int drain_call_pipes(int fds[2], struct buf *to[2], struct err *e)
{
	char piece[16384];
	ssize_t n;
	int i;

	while (fds[0] >= 0 || fds[1] >= 0) {
		struct pollfd p[2] = { { .fd = fds[0], .events = POLLIN },
				       { .fd = fds[1], .events = POLLIN } };

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return err_sys(e, "wait for berth");
		for (i = 0; i < 2; i++) {
			if (fds[i] < 0 || !p[i].revents)
				continue;
			n = read(fds[i], piece, sizeof(piece));
			if (n > 0 && buf_add(to[i], piece, (size_t)n, e) < 0)
				return -1;
			if (n == 0 || (n < 0 && errno != EINTR))
				fd_close(&fds[i]);
		}
	}
	return 0;
}

static int wait_for_call(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void run_call_in_child(const json_t *call, unsigned passes, const int out[2], const int err[2])
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), status;

	if (null < 0 || (!(passes & DOOR_STDIN) && dup2(null, 0) < 0) ||
	    (!(passes & DOOR_STDOUT) && dup2(out[1], 1) < 0) || dup2(err[1], 2) < 0)
		_exit(125);
	/* a keeper that it starts would hold our pipes, and whatever else is open here, for its life */
	syscall(SYS_close_range, 3, ~0U, 0);
	status = callwords_run(call);
	fflush(stdout);
	_exit(status);
}

static json_t *answer_of(int status, const struct buf *out, const struct buf *err, const char *verb, struct err *e)
{
	if (status) {
		json_take_error_line(err->data ? err->data : "", verb, e);
		return NULL;
	}
	if (!out->len)
		return json_object();
	return json_parse(out->data, out->len, ANSWER_MAX, "berth's answer", e);
}

json_t *door_ask_with(json_t *call, unsigned passes, struct err *e)
{
	autojson json_t *owned = call;
	autobuf struct buf out = BUF_INIT(ANSWER_MAX), err = BUF_INIT(ERRORS_MAX);
	struct buf *to[2] = { &out, &err };
	int o[2] = { -1, -1 }, x[2] = { -1, -1 }, fds[2], r, status;
	pid_t pid = -1;

	fflush(stdout);
	if (pipe2(o, O_CLOEXEC) < 0 || pipe2(x, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		err_sys(e, "start berth");
		fd_close(&o[0]), fd_close(&o[1]), fd_close(&x[0]), fd_close(&x[1]);
		return NULL;
	}
	if (!pid)
		run_call_in_child(owned, passes, o, x);
	fd_close(&o[1]);
	fd_close(&x[1]);
	fds[0] = o[0];
	fds[1] = x[0];
	r = drain_call_pipes(fds, to, e);
	fd_close(&fds[0]);
	fd_close(&fds[1]);
	status = wait_for_call(pid);
	return r < 0 ? NULL : answer_of(status, &out, &err, "berth", e);
}

json_t *door_ask(json_t *call, struct err *e)
{
	return door_ask_with(call, 0, e);
}

static json_t *ask_of(void *ctx, json_t *call, int finish, struct err *e)
{
	(void)ctx;
	(void)finish; /* no client leaves but the one whose process this is */
	return door_ask(call, e);
}

struct engine_berth door_berth(const struct config *config)
{
	return (struct engine_berth){ .ask = ask_of, .config = config };
}

int door_pass(const char *const *argv)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return door_say(1, "cannot start berth %s", argv[1]);
	if (!pid)
		become_own_berth(argv);
	return wait_for_call(pid);
}
