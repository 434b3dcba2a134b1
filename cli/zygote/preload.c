/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/zygote/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runtime/sandbox/filterwatch.h"

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
static int hear(struct preload *p)
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
static int is_below(const char *line, size_t len)
{
	return !len || strchr(" \t}", line[0]) || !strncmp(line, "Node.js v", 9);
}

/* The last line that the preload wrote, which says why it ended; "" without one. */
static void last_words(const struct preload *p, char *ret, size_t size)
{
	size_t end = p->output_len, at = end;

	for (; end; end = at - !!at) {
		while (end && strchr("\r\n", p->output[end - 1]))
			end--;
		for (at = end; at && p->output[at - 1] != '\n'; at--)
			;
		if (p->ready_fd < 0 || !is_below(p->output + at, end - at))
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

		hear(p);
		if (p->output_len == before)
			break;
	}
	if (got > 0 && (r.type == INIT_EXEC_FAILED || r.type == INIT_SETUP_FAILED)) {
		*e = r.err;
		return -1;
	}
	last_words(p, why, sizeof(why));
	if (got > 0 && r.type == INIT_EXITED && r.exited)
		return err_set(e, ERR_INVALID, "the preload ended with exit status %u%s", r.value,
			       why);
	return err_set(e, ERR_INVALID, "the preload was killed%s",
		       got > 0 ? "" : ", perhaps for its memory");
}

static int has_word(const struct preload *p)
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
			     /* a zygote that is forked loads no filters (make.c) */
			     {.fd = p->ready_fd < 0 ? -1 : sandbox->filters.fd, .events = POLLIN}};
	uint64_t now;

	while ((now = clock_ms()) < until) {
		if (poll(f, ARRAY_LEN(f), (int)(until - now)) < 0 && errno != EINTR)
			return err_sys(e, "wait for the preload");
		if (f[0].revents & POLLIN && hear(p))
			return 0;
		if (f[2].revents & POLLIN && has_word(p))
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
