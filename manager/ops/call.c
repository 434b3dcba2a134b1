/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/call.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/labels.h"
#include "manager/keeper/wire.h"
#include "manager/ops/params.h"

#define ERRORS_MAX 65536

/* ---- the document -------------------------------------------------------------------------------- */

static void call_fail(json_t *call)
{
	if (call)
		json_object_set_new(call, "failed", json_true());
}

json_t *call_of(const char *command, ...)
{
	json_t *call = json_pack("{s:s,s:{s:b},s:[]}", "command", command, "options", "json", 1, "operands");
	const char *operand;
	va_list ap;

	va_start(ap, command);
	while ((operand = va_arg(ap, const char *)))
		call_operand(call, operand);
	va_end(ap);
	return call;
}

/* Adds value, which is consumed, to the values of a list option. */
static void extend(json_t *call, const char *option, json_t *value)
{
	json_t *options = json_object_get(call, "options"), *had = json_object_get(options, option);
	int r;

	if (!json_is_array(had)) {
		had = json_pack("[O]", had);
		json_object_set_new(options, option, had);
	}
	r = json_is_array(value) ? json_array_extend(had, value) : json_array_append(had, value);
	json_decref(value);
	if (r < 0)
		call_fail(call);
}

void call_set(json_t *call, const char *option, json_t *value)
{
	json_t *options = json_object_get(call, "options");
	const struct param *p;

	if (!value || json_is_false(value) || json_is_null(value)) {
		json_decref(value);
		return;
	}
	p = json_object_get(options, option) ? param_named(option) : NULL;
	if (p && p->opt.kind == OPT_LIST)
		extend(call, option, value);
	else if (json_object_set_new(options, option, value) < 0)
		call_fail(call);
}

void call_text(json_t *call, const char *option, const char *value)
{
	json_t *text = value ? json_string(value) : NULL;

	if (value && !text)
		call_fail(call);
	call_set(call, option, text);
}

void call_flag(json_t *call, const char *option)
{
	call_set(call, option, json_true());
}

void call_options(json_t *call, const json_t *options)
{
	const char *name;
	json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)options, name, v)
		call_set(call, name, json_incref(v));
}

void call_operand(json_t *call, const char *text)
{
	if (json_array_append_new(json_object_get(call, "operands"), json_string(text)) < 0)
		call_fail(call);
}

void call_operands(json_t *call, const json_t *texts)
{
	if (texts && json_array_extend(json_object_get(call, "operands"), (json_t *)(uintptr_t)texts) < 0)
		call_fail(call);
}

/*
 * Adds an option of a command line. If it is repeated it has a list of values, unless it is a list
 * option of a sandbox.
 */
static void add_call_word(json_t *call, const char *name, json_t *value)
{
	if (!value)
		call_fail(call);
	else if (json_object_get(json_object_get(call, "options"), name) && !param_named(name))
		extend(call, name, value);
	else
		call_set(call, name, value);
}

/* Adds the option of word, which begins with "--". */
static void add_option_word(json_t *call, const char *word)
{
	const char *eq = strchr(word, '=');
	autofree char *name = strndup(word + 2, eq ? (size_t)(eq - word) - 2 : strlen(word));

	if (!name)
		call_fail(call);
	else if (eq)
		add_call_word(call, name, json_string(eq + 1));
	else
		call_flag(call, name);
}

void call_words(json_t *call, const json_t *words)
{
	const json_t *one;
	int operands = 0;
	size_t i;

	json_array_foreach (words, i, one) {
		const char *word = json_string_value(one);

		if (word && !operands && !strcmp(word, "--"))
			operands = 1;
		else if (word && !operands && !strncmp(word, "--", 2))
			add_option_word(call, word);
		else
			call_operand(call, word);
	}
}

void call_sandbox(json_t *call, const char *sandbox, const char *checkpoint)
{
	json_t *text = checkpoint ? json_sprintf("%s@%s", sandbox, checkpoint) : json_string(sandbox);

	if (json_array_append_new(json_object_get(call, "operands"), text) < 0)
		call_fail(call);
}

/* ---- its process --------------------------------------------------------------------------------- */

/* Returns a descriptor from which the document can be read; consumes the call. */
static int call_document_fd(json_t *call, struct err *e)
{
	autofree char *text = NULL;
	int fd;

	if (!call || json_object_get(call, "failed")) {
		json_decref(call);
		return err_set(e, ERR_INVALID, "a word of the request is not valid UTF-8");
	}
	text = json_dumps(call, JSON_COMPACT | JSON_REAL_PRECISION(17));
	json_decref(call);
	if (!text)
		return err_nomem(e);
	fd = wire_data(text, strlen(text), e);
	return fd;
}

/* The value of a label of berth's own (--mark KEY=VALUE), or NULL. */
static const char *mark_in(const json_t *options, const char *key)
{
	const json_t *marks = json_object_get(options, "mark"), *one;
	const size_t n = strlen(key);
	size_t i;

	json_array_foreach ((json_t *)(size_t)marks, i, one) {
		const char *text = json_string_value(one);

		if (text && !strncmp(text, key, n) && text[n] == '=')
			return text + n + 1;
	}
	return NULL;
}

/*
 * Returns the name that the call gives to a sandbox, or NULL. It is a word of the process, so that
 * another berthd can see who makes the sandbox (home_is_making()).
 */
static char *name_in(const json_t *call)
{
	const json_t *options = json_object_get(call, "options");
	const char *request = mark_in(options, LABEL_REQUEST), *name = json_string_value(json_object_get(options, "name"));

	if (request)
		return strndup(request, strcspn(request, "."));
	return name && path_is_name(name) ? strdup(name) : NULL;
}

/* Executes the program. A file action that moves a descriptor to itself would leave it close-on-exec. */
static int exec_with(const char *program, char *const *environment, char *name, const int fds[4], pid_t *ret_pid, struct err *e)
{
	char *const argv[] = { "berth", "op", name, NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, all;
	int i, r;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&fa);
	posix_spawnattr_init(&at);
	if (fds[0] < 0)
		posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	for (i = fds[0] < 0; i < 4; i++)
		posix_spawn_file_actions_adddup2(&fa, fds[i], i);
	posix_spawnattr_setsigmask(&at, &none);
	posix_spawnattr_setsigdefault(&at, &all);
	posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	r = posix_spawn(ret_pid, program, &fa, &at, argv, environment ? environment : environ);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&at);
	return r ? err_start(e, r, "berth") : 0;
}

/* Moves the descriptor above those that the process gets: moving one there must not close another. */
static int lift_above_call(int *fd, struct err *e)
{
	int up;

	if (*fd < 0 || *fd > CALL_FD)
		return 0;
	up = fcntl(*fd, F_DUPFD_CLOEXEC, CALL_FD + 1);
	if (up < 0)
		return err_sys(e, "set up a pipe");
	close(*fd);
	*fd = up;
	return 0;
}

static int make_call_pipe(int *ret_ours, int *ret_theirs, struct err *e)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	*ret_ours = p[0];
	*ret_theirs = p[1];
	/* only our end: the program's own writes wait */
	return fcntl(p[0], F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "set up a pipe") : lift_above_call(ret_theirs, e);
}

int call_start(const char *program, char *const *environment, json_t *call, int in_fd, struct called *ret,
	       struct err *e)
{
	autofree char *name = name_in(call);
	autoclose int doc = call_document_fd(call, e), out = -1, err = -1, in = -1;
	int r = doc < 0 ? -1 : lift_above_call(&doc, e);

	*ret = (struct called)CALLED_NONE;
	if (r == 0 && in_fd > 0 && in_fd <= CALL_FD) {
		in = fcntl(in_fd, F_DUPFD_CLOEXEC, CALL_FD + 1);
		in_fd = in;
	}
	if (r == 0)
		r = make_call_pipe(&ret->out, &out, e);
	if (r == 0)
		r = make_call_pipe(&ret->err, &err, e);
	if (r == 0)
		r = exec_with(program, environment, name, (const int[]){ in_fd, out, err, doc }, &ret->pid, e);
	if (r < 0)
		call_abort(ret);
	return r;
}

static int reap_call(struct called *c)
{
	int status = 0;

	while (c->pid > 0 && waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
		;
	c->pid = -1;
	fd_close(&c->out);
	fd_close(&c->err);
	return status;
}

void call_abort(struct called *c)
{
	if (c->pid > 0)
		kill(c->pid, SIGTERM);
	fd_close(&c->out); /* a program that waits for room in the pipe would never end */
	reap_call(c);
}

/* Reads both outputs to their end, so that neither can fill up and stop it. */
static int drain_call(struct called *c, call_look_fn *look, void *ctx, struct buf *to[2], struct err *e)
{
	int fds[2] = { c->out, c->err }, left = 2, i;
	char piece[16384];
	ssize_t n;

	while (left) {
		struct pollfd p[2] = { { .fd = fds[0], .events = POLLIN }, { .fd = fds[1], .events = POLLIN } };

		if (poll(p, 2, look ? CALL_LOOK_MS : -1) < 0 && errno != EINTR)
			return err_sys(e, "wait for berth");
		if (look && look(ctx, e) < 0)
			return -1;
		for (i = 0; i < 2; i++) {
			if (fds[i] < 0)
				continue;
			n = read(fds[i], piece, sizeof(piece));
			if (n > 0 && to[i] && buf_add(to[i], piece, (size_t)n, e) < 0)
				return -1;
			if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
				fds[i] = -1;
				left--;
			}
		}
	}
	return 0;
}

int call_finish(struct called *c, call_look_fn *look, void *ctx, struct buf *out, struct err *e)
{
	autobuf struct buf errors = BUF_INIT(ERRORS_MAX);
	struct buf *to[2] = { out, &errors };
	int status;

	if (drain_call(c, look, ctx, to, e) < 0) {
		call_abort(c);
		return -1;
	}
	status = reap_call(c);
	if (!WIFEXITED(status))
		return err_set(e, ERR_INTERNAL, "berth was killed by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status) ? json_take_error_line(errors.data, "berth", e) : 0;
}
