/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter of a zygote: its command, its preload, and one that each sandbox starts anew. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/zygote/interpreter.h"
#include "cli/zygote/zygote.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/sandbox/filterwatch.h"

/* ---- The command: the interpreter with an agent ---- */

#define OWN_WORDS 6 /* of an agent, at most */

extern const char zygote_agent_start[], zygote_node_agent[];

struct words {
	struct zygote *zygote;
	char **given;
	size_t count, at;
	char **out;
	size_t n;
};

static void put_interpreter_word(struct words *w, const char *word)
{
	w->out[w->n++] = (char *)(uintptr_t)word;
}

static int is_interpreter_option(const char *word, const char *const *list)
{
	for (; *list; list++)
		if (!strcmp(word, *list))
			return 1;
	return 0;
}

/* The options up to one of ends, or to a word that is none. */
static void put_options(struct words *w, const char *const *ends, const char *const *with_value)
{
	while (w->at < w->count && w->given[w->at][0] == '-' && !is_interpreter_option(w->given[w->at], ends)) {
		const int takes = is_interpreter_option(w->given[w->at], with_value);

		put_interpreter_word(w, w->given[w->at++]);
		if (takes && w->at < w->count)
			put_interpreter_word(w, w->given[w->at++]);
	}
}

/* "-c" and the agent; what says "ready", the preload's name and its text, or its file and "". */
static int python(struct words *w, struct err *e)
{
	static const char *const ends[] = {"-c", NULL}, *const with_value[] = {"-X", "-W", NULL};

	put_options(w, ends, with_value);
	put_interpreter_word(w, "-c");
	put_interpreter_word(w, zygote_agent_start);
	put_interpreter_word(w, w->zygote->preload.ready);
	if (w->at < w->count && !strcmp(w->given[w->at], "-c")) {
		if (++w->at == w->count)
			return err_set(e, ERR_USAGE,
				       "-c without code; hint: berth zygote create IMAGE python3 "
				       "-c 'import json'");
		put_interpreter_word(w, "<zygote>");
		put_interpreter_word(w, w->given[w->at++]);
	} else {
		put_interpreter_word(w, w->at < w->count ? w->given[w->at++] : "<zygote>");
		put_interpreter_word(w, "");
	}
	return 0;
}

/* "-e" and the agent, then "text" and the preload, or "script" and its file. */
static int node(struct words *w, struct err *e)
{
	static const char *const ends[] = {
		"-e",      "--eval",        "--", "-", "-p", "-pe", "--print", "-i", "-c",
		"--check", "--interactive", NULL};
	static const char *const with_value[] = {"-r",
						 "--require",
						 "--import",
						 "-C",
						 "--conditions",
						 "--loader",
						 "--experimental-loader",
						 "--title",
						 "--env-file",
						 NULL};
	const char *word;

	put_options(w, ends, with_value);
	word = w->at < w->count ? w->given[w->at] : "-e";
	put_interpreter_word(w, "--experimental-vm-modules"); /* node 18 needs it for import() */
	put_interpreter_word(w, "-e");
	put_interpreter_word(w, zygote_node_agent);
	put_interpreter_word(w, "--");
	if (!strcmp(word, "-e") || !strcmp(word, "--eval")) {
		if (w->at < w->count && ++w->at == w->count)
			return err_set(e, ERR_USAGE,
				       "%s without code; hint: berth zygote create IMAGE node -e "
				       "'x = 1'",
				       word);
		put_interpreter_word(w, "text");
		put_interpreter_word(w, w->at < w->count ? w->given[w->at++] : "");
		return 0;
	}
	if (!strcmp(word, "--"))
		w->at++;
	else if (word[0] == '-')
		return err_set(e, ERR_UNSUPPORTED,
			       "a zygote cannot take node's option %s; hint: berth zygote create "
			       "IMAGE node -e 'x = 1'",
			       word);
	put_interpreter_word(w, w->at < w->count ? "script" : "text");
	put_interpreter_word(w, w->at < w->count ? w->given[w->at++] : "");
	return 0;
}

/* By a stem and characters of rest, or anything. */
static int is_interpreter_named(const char *program, const char *stem, const char *rest)
{
	const char *base = strrchr(program, '/');
	const size_t n = strlen(stem);

	base = base ? base + 1 : program;
	return !strncmp(base, stem, n) && (!rest || strspn(base + n, rest) == strlen(base + n));
}

int words_of(struct zygote *z, char **given, size_t count, char *ret[ZYGOTE_WORDS], size_t *ret_n,
	     struct err *e)
{
	struct words w = {.zygote = z, .given = given, .count = count, .out = ret, .at = 1};
	int r;

	if (!count)
		return err_set(e, ERR_USAGE,
			       "no interpreter given; hint: berth zygote create IMAGE python3 -c "
			       "'import json'");
	if (count + OWN_WORDS > ZYGOTE_WORDS)
		return err_set(e, ERR_LIMIT, "a preload with more than %d words",
			       ZYGOTE_WORDS - OWN_WORDS);
	z->interpreter = given[0];
	put_interpreter_word(&w, given[0]);
	if (is_interpreter_named(given[0], "python", NULL)) {
		z->mode = ZYGOTE_FORK;
		r = python(&w, e);
	} else if (is_interpreter_named(given[0], "node", "0123456789.-") || is_interpreter_named(given[0], "nodejs", "")) {
		z->mode = ZYGOTE_AHEAD;
		r = node(&w, e);
	} else {
		return err_set(e, ERR_UNSUPPORTED,
			       "'%.80s' is not an interpreter that can wait: zygotes are of Python "
			       "and node; hint: berth zygote create IMAGE python3 -c CODE",
			       given[0]);
	}
	while (w.at < count)
		put_interpreter_word(&w, given[w.at++]);
	*ret_n = w.n;
	return r;
}

/* ---- Until it waits for code ---- */

int preload_start(struct preload *p, struct sandbox *sandbox, const struct job *job, int *ret_in,
		  struct err *e)
{
	int in[2], out[2], std[3], r;

	if (pipe2(in, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	if (ret_in)
		*ret_in = in[1];
	else
		close(in[1]);
	if (pipe2(out, O_CLOEXEC) < 0) {
		close(in[0]);
		return err_sys(e, "make a pipe");
	}
	p->out_fd = out[0];
	std[0] = in[0];
	std[1] = std[2] = out[1];
	r = sandbox_exec(sandbox, 1, job, std, e);
	close(in[0]);
	close(out[1]);
	return r;
}

/* Keeps the end of what the preload writes; 1 when the agent says that it is done. */
static int hear_preload(struct preload *p)
{
	const size_t half = sizeof(p->output) / 2;
	ssize_t n;
	char *at;

	if (p->output_len > half) {
		memmove(p->output, p->output + p->output_len - half, half);
		p->output_len = half;
	}
	n = read(p->out_fd, p->output + p->output_len, sizeof(p->output) - 1 - p->output_len);
	if (n <= 0)
		return 0;
	p->output_len += (size_t)n;
	p->output[p->output_len] = '\0';
	at = p->ready_fd < 0 ? memmem(p->output, p->output_len, p->ready, strlen(p->ready)) : NULL;
	if (!at)
		return 0;
	p->output_len = (size_t)(at - p->output);
	p->output[p->output_len] = '\0';
	return 1;
}

/* A line of node's below the one that says why it ended. */
static int is_below_node_error(const char *line, size_t len)
{
	return !len || strchr(" \t}", line[0]) || !strncmp(line, "Node.js v", 9);
}

/* The last line that the preload wrote, which says why it ended; "" without one. */
static void preload_last_words(const struct preload *p, char *ret, size_t size)
{
	size_t end = p->output_len, at = end;

	for (; end; end = at - !!at) {
		while (end && strchr("\r\n", p->output[end - 1]))
			end--;
		for (at = end; at && p->output[at - 1] != '\n'; at--)
			;
		if (p->ready_fd < 0 || !is_below_node_error(p->output + at, end - at))
			break;
	}
	if (end - at > size / 2)
		at = end - size / 2;
	snprintf(ret, size, "%s%.*s", at < end ? ": " : "", (int)(end - at), p->output + at);
}

/* The preload, or berth-init, ended instead. */
static int preload_ended(struct preload *p, struct sandbox *sandbox, struct err *e)
{
	struct init_reply r;
	char why[256];
	int got = sandbox_reply(sandbox, &r, 1, e);

	while (got > 0 && p->out_fd >= 0 &&
	       poll(&(struct pollfd){.fd = p->out_fd, .events = POLLIN}, 1, 0) == 1 &&
	       p->output_len < sizeof(p->output) / 2) {
		size_t before = p->output_len;

		hear_preload(p);
		if (p->output_len == before)
			break;
	}
	if (got > 0 && (r.type == INIT_EXEC_FAILED || r.type == INIT_SETUP_FAILED)) {
		*e = r.err;
		return -1;
	}
	preload_last_words(p, why, sizeof(why));
	if (got > 0 && r.type == INIT_EXITED && r.exited)
		return err_set(e, ERR_INVALID, "the preload ended with exit status %u%s", r.value,
			       why);
	return err_set(e, ERR_INVALID, "the preload was killed%s",
		       got > 0 ? "" : ", perhaps for its memory");
}

static int has_preload_word(const struct preload *p)
{
	char byte;

	return recv(p->ready_fd, &byte, 1, MSG_DONTWAIT) == 1;
}

int preload_await(struct preload *p, struct sandbox *sandbox, struct err *e)
{
	const uint64_t until = clock_ms() + p->ms;
	struct pollfd f[] = {{.fd = p->out_fd, .events = POLLIN},
			     {.fd = sandbox->sock, .events = POLLIN},
			     {.fd = p->ready_fd, .events = POLLIN},
			     {.fd = p->end_fd}, /* its end alone */
			     /* a zygote that is forked loads no filters (serve.c) */
			     {.fd = p->ready_fd < 0 ? -1 : sandbox->filters.fd, .events = POLLIN}};
	uint64_t now;

	while ((now = clock_ms()) < until) {
		if (poll(f, ARRAY_LEN(f), (int)(until - now)) < 0 && errno != EINTR)
			return err_sys(e, "wait for the preload");
		if (f[0].revents & POLLIN && hear_preload(p))
			return 0;
		if (f[2].revents & POLLIN && has_preload_word(p))
			return 0;
		if (f[1].revents)
			return preload_ended(p, sandbox, e);
		if (f[3].revents)
			return err_set(e, ERR_BUSY, "nobody waits for the zygote any more");
		if (f[0].revents & POLLHUP && !(f[0].revents & POLLIN))
			f[0].fd = -1;
		if (f[2].revents & POLLHUP)
			f[2].fd = -1;
		if (f[4].revents & POLLIN)
			filterwatch_serve(&sandbox->filters, sandbox->cgroup.v2_fd);
		else if (f[4].revents)
			f[4].fd = -1;
	}
	err_set(e, ERR_TIMEOUT, "the preload has not ended after %llu ms",
		(unsigned long long)p->ms);
	return err_hint(e, "--preload-timeout gives it more time"), -1;
}

/* ---- One that cannot be forked ---- */

/*
 * A zygote whose interpreter cannot be forked: each of its sandboxes starts one and has it run the
 * preload, before a client comes.  Upholds S48 of SECURITY.md: they have nothing in common.
 *
 * node is such an interpreter.  V8 keeps its heap and its code in memory that a fork does not have
 * (MADV_DONTFORK), so that the child of a fork(2) dies at its first instruction of JavaScript; and
 * node's process has at least three threads.
 */

extern const char zygote_node_addon_start[], zygote_node_addon_end[];

/* The interpreter as command 1; what it is given is of this sandbox alone. */
static int start_ahead_interpreter(struct zygote *z, struct sandbox *sandbox, int control, struct err *e)
{
	struct job job =
		sandbox_job(sandbox->spec, INIT_LAST | INIT_MAKE_CWD | INIT_QUIET | INIT_SHELL);
	autoclose int library = sandbox_copy_program("berth-node", zygote_node_addon_start,
						     zygote_node_addon_end, 0555, e);

	if (library < 0)
		return -1;
	job.script_fd = library;
	job.status_fd = control;
	return preload_start(&z->preload, sandbox, &job, NULL, e);
}

int ahead_start(struct zygote *z, struct sandbox *sandbox, int supervisor, int *ret_control,
		struct err *e)
{
	struct home_ask ready = {.word = HOME_READY};
	struct preload *p = &z->preload;
	autoclose int near = -1, far = -1;
	int sv[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_sys(e, "make a socket pair");
	near = p->ready_fd = sv[0];
	far = sv[1];
	p->end_fd = supervisor;
	r = start_ahead_interpreter(z, sandbox, far, e);
	fd_close(&far);
	if (r == 0)
		r = preload_await(p, sandbox, e);
	fd_close(&p->out_fd);
	if (r < 0)
		return -1;
	if (fdpass_send(supervisor, &ready, sizeof(ready), NULL, 0) < 0)
		return err_set(e, ERR_BUSY, "the zygote has ended");
	*ret_control = take_fd(&near);
	return 0;
}

void ahead_tell(const struct zygote *z, int supervisor, const struct err *why)
{
	const struct preload *p = &z->preload;
	struct branch_failure f = {.err = *why, .output_len = (uint32_t)p->output_len};

	memcpy(f.output, p->output, p->output_len);
	(void)!fdpass_send(supervisor, &f, sizeof(f), NULL, 0);
}

/* Of the first branch, as long as somebody waits for the zygote. */
static int await_word(const struct zygote *z, struct err *e)
{
	struct pollfd p[] = {{.fd = z->branch[0].sock, .events = POLLIN}, {.fd = z->told}};

	while (poll(p, ARRAY_LEN(p), -1) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for the first sandbox");
	return p[0].revents ? 0 : err_set(e, ERR_BUSY, "nobody waits for the zygote any more");
}

int ahead_try(struct zygote *z, struct err *e)
{
	struct branch_failure f;
	struct home_ask ready;
	ssize_t n;

	if (branch_start(z, 0, e) < 0)
		return -1;
	if (await_word(z, e) < 0)
		return -1;
	do
		n = recv(z->branch[0].sock, &f, sizeof(f), 0);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof(ready)) {
		z->branch[0].state = BRANCH_IDLE;
		return 0;
	}
	if (n != (ssize_t)sizeof(f))
		return err_set(e, ERR_INTERNAL, "the supervisor of the first sandbox died");
	z->preload.output_len = f.output_len;
	memcpy(z->preload.output, f.output, f.output_len);
	*e = f.err;
	return -1;
}
