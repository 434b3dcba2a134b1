/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/service/toolproc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/service/state.h"

/* ---- a line and its answer ---- */

static int wait_started(int sock, struct err *e)
{
	autojson json_t *msg = NULL;
	size_t n = 0;
	int r = wire_recv(sock, 30000, &msg, NULL, 0, &n, e);

	if (r == 0)
		return err_set(e, ERR_BUSY, "the sandbox was stopped or removed meanwhile");
	return r < 0 ? -1 : wire_check(msg, e);
}

static int send_line_program(int sock, json_t *argv, json_t *env, const int fds[3], struct err *e)
{
	autojson json_t *rq = protocol_request(OP_exec);

	request_set_argv(rq, json_incref(argv));
	request_set_timeout_ms(rq, 0);
	if (env)
		request_set_env(rq, json_incref(env));
	return wire_request(sock, rq, fds, 3, e);
}

int lineproc_start(struct lineproc *p, int sock, json_t *argv, json_t *env, struct err *e)
{
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC), their_in = -1, their_out = -1;
	int in[2], out[2];

	*p = (struct lineproc){ .sock = sock, .in_fd = -1, .out_fd = -1, .pending = BUF_INIT(LINE_MAX_BYTES) };
	if (null < 0 || pipe2(in, O_CLOEXEC) < 0) {
		err_sys(e, "make a pipe");
		goto fail;
	}
	their_in = in[0];
	p->in_fd = in[1];
	if (pipe2(out, O_CLOEXEC) < 0) {
		err_sys(e, "make a pipe");
		goto fail;
	}
	p->out_fd = out[0];
	their_out = out[1];
	if (fcntl(p->out_fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(p->in_fd, F_SETFL, O_NONBLOCK) < 0) {
		err_sys(e, "set up a pipe");
		goto fail;
	}
	if (send_line_program(sock, argv, env, (int[3]){ their_in, their_out, null }, e) < 0 || wait_started(sock, e) < 0)
		goto fail;
	return 0;
fail:
	lineproc_stop(p);
	return -1;
}

void lineproc_stop(struct lineproc *p)
{
	fd_close(&p->sock);
	fd_close(&p->in_fd);
	fd_close(&p->out_fd);
	buf_release(&p->pending);
}

int lineproc_send(struct lineproc *p, const json_t *j, struct err *e)
{
	autofree char *text = json_dumps(j, JSON_COMPACT);
	uint64_t until = clock_ms() + 30000;
	size_t n, done = 0;

	if (!text)
		return err_set(e, ERR_INVALID, "the text is not valid UTF-8");
	n = strlen(text);
	text[n++] = '\n';	/* replaces the NUL */
	while (done < n) {
		struct pollfd f = { .fd = p->in_fd, .events = POLLOUT };
		ssize_t w = write(p->in_fd, text + done, n - done);

		if (w > 0) {
			done += (size_t)w;
		} else if (w < 0 && errno != EAGAIN && errno != EINTR) {
			return err_set(e, ERR_NOT_FOUND, "the program has ended");
		} else {
			if (clock_ms() > until)
				return err_set(e, ERR_TIMEOUT, "the program does not read its input");
			poll(&f, 1, 100);
		}
	}
	return 0;
}

/* Returns 1 with a whole line, which ends before *ret_next. */
static int whole_line(const struct lineproc *p, size_t from, size_t *ret_len)
{
	const char *nl = p->pending.len > from ? memchr(p->pending.data + from, '\n', p->pending.len - from) : NULL;

	if (nl)
		*ret_len = (size_t)(nl - p->pending.data);
	return nl != NULL;
}

static json_t *take_answer_line(struct lineproc *p, size_t len, struct err *e)
{
	json_t *j = json_parse(p->pending.data, len, LINE_MAX_BYTES, "a line of the program", e);
	size_t rest = p->pending.len - len - 1;

	memmove(p->pending.data, p->pending.data + len + 1, rest);
	p->pending.len = rest;
	return j;
}

json_t *lineproc_receive(struct lineproc *p, uint64_t timeout_ms, int (*gone)(void *ctx), void *ctx, struct err *e)
{
	uint64_t until = clock_ms() + timeout_ms;
	size_t looked = 0, len;
	char piece[65536];

	while (!whole_line(p, looked, &len)) {
		struct pollfd f[2] = { { .fd = p->out_fd, .events = POLLIN }, { .fd = p->sock, .events = POLLIN } };
		ssize_t n;

		looked = p->pending.len;
		poll(f, 2, 250);
		n = read(p->out_fd, piece, sizeof(piece));
		if (n > 0) {
			if (buf_add(&p->pending, piece, (size_t)n, e) < 0)
				return NULL;
			continue;
		}
		/* the keeper reports its end, even if another process holds its stdout */
		if (n == 0 || f[1].revents) {
			err_set(e, ERR_NOT_FOUND, "the program has ended");
			return NULL;
		}
		if (gone && gone(ctx)) {
			err_set(e, ERR_NET, "the client has gone");
			return NULL;
		}
		if (timeout_ms && clock_ms() >= until) {
			err_set(e, ERR_TIMEOUT, "no answer within %llu ms", (unsigned long long)timeout_ms);
			return NULL;
		}
	}
	return take_answer_line(p, len, e);
}

/* ---- the processes of a sandbox ---- */

void toolproc_free(struct toolproc *p)
{
	if (p->running)
		lineproc_stop(&p->proc);
	json_decref(p->config);
	json_decref(p->tools);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void toolproc_drop(struct tools *t, const char *sandbox, const char *name, uint64_t idle_before_ms)
{
	struct toolproc **at, *p, *gone = NULL;

	pthread_mutex_lock(&t->lock);
	for (at = &t->all; (p = *at);) {
		int fits = (!sandbox || !strcmp(p->sandbox, sandbox)) &&
			   (!name || !strcmp(p->name, name)) &&
			   (!idle_before_ms || (p->used_ms < idle_before_ms && !p->users));

		if (!fits) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		p->doomed = 1;
		if (!p->users) {
			p->next = gone;
			gone = p;
		}
	}
	pthread_mutex_unlock(&t->lock);
	while ((p = gone)) {
		gone = p->next;
		toolproc_free(p);
	}
}

struct toolproc *toolproc_take(struct tools *t, const char *sandbox, const char *name, int make,
			       struct err *e)
{
	struct toolproc *p;

	pthread_mutex_lock(&t->lock);
	for (p = t->all; p && (strcmp(p->sandbox, sandbox) || strcmp(p->name, name)); p = p->next)
		;
	if (!p && make) {
		p = calloc(1, sizeof(*p));
		if (p) {
			snprintf(p->sandbox, sizeof(p->sandbox), "%s", sandbox);
			snprintf(p->name, sizeof(p->name), "%s", name);
			pthread_mutex_init(&p->lock, NULL);
			p->next = t->all;
			t->all = p;
		}
	}
	if (p)
		p->users++;
	pthread_mutex_unlock(&t->lock);
	if (!p) {
		if (make)
			err_nomem(e);
		return NULL;
	}
	pthread_mutex_lock(&p->lock);
	return p;
}

void toolproc_give(struct tools *t, struct toolproc *p, int failed)
{
	int last;

	if (failed && p->running) {
		lineproc_stop(&p->proc);
		p->running = 0;
	}
	pthread_mutex_unlock(&p->lock);
	pthread_mutex_lock(&t->lock);
	p->used_ms = clock_wall_ms();
	last = --p->users == 0 && p->doomed;
	pthread_mutex_unlock(&t->lock);
	if (last)
		toolproc_free(p);
}

int toolproc_start(struct service_use *u, struct toolproc *p, json_t *argv, json_t *env,
		   struct err *e)
{
	autorecord struct record r = { .j = NULL };
	int sock;

	if (p->running)
		return 0;
	if (record_load(u->service, NULL, u->name, 0, &r, e) < 0)
		return -1;
	sock = driver_connect(u->service, &r, e);
	if (sock < 0)
		return -1;
	if (lineproc_start(&p->proc, sock, argv, env, e) < 0)
		return -1;
	p->running = 1;
	return 0;
}
