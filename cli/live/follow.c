/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/detachkeys.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "runtime/sandbox/supervise.h"

/* ---- output ---- */

static const char *const names[] = { "stdout", "stderr" };

int follow_ask(struct follow *f, struct err *e)
{
	autojson json_t *rq = f->asked ? NULL : protocol_request(OP_follow);

	if (f->asked)
		return 0;
	request_set_command(rq, f->command);
	request_set_stream(rq, f->stream);
	request_set_from(rq, f->from[0]);
	request_set_stderr_from(rq, f->from[1]);
	if (f->hold)
		request_set_hold(rq, 1);
	return wire_request(f->sock, rq, NULL, 0, e);
}

static int print_stream(int which, json_t *part, int fd, off_t at, size_t n, struct err *e)
{
	autofree char *data = malloc(n), *line = NULL;

	if (!data)
		return err_nomem(e);
	if (pread(fd, data, n, at) != (ssize_t)n)
		return err_set(e, ERR_CORRUPT, "the keeper's answer is cut short");
	json_object_set_new(part, "stream", json_string(names[which]));
	if (json_set_bytes(part, "data", data, n, e) < 0)
		return -1;
	line = json_dumps(part, JSON_COMPACT);
	if (!line)
		return err_nomem(e);
	return printf("%s\n", line) < 0 || fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

/* Copies n bytes of fd, without reading them if the kernel can do that. */
static int pass_on(int to, int fd, off_t at, size_t n, struct err *e)
{
	char buf[65536];

	while (n) {
		ssize_t got = sendfile(to, fd, &at, n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got == 0)
			return err_set(e, ERR_CORRUPT, "the keeper's answer is cut short");
		if (got < 0 && errno == EPIPE)
			return err_sys(e, "write the output");
		if (got < 0) {	/* a file opened to append, a terminal of an old kernel */
			got = pread(fd, buf, n < sizeof(buf) ? n : sizeof(buf), at);
			if (got <= 0)
				return err_set(e, ERR_CORRUPT, "the keeper's answer is cut short");
			if (io_write_all(to, buf, (size_t)got) < 0)
				return err_sys(e, "write the output");
			at += got;
		}
		n -= (size_t)got;
	}
	return 0;
}

static int write_stream(struct follow *f, int which, uint64_t had, json_t *part, int fd, off_t at, size_t n, struct err *e)
{
	uint64_t start = (uint64_t)json_integer_value(json_object_get(part, "from"));

	if (f->json)
		return n ? print_stream(which, part, fd, at, n, e) : 0;
	if (start > had)
		log_note("berth", "%llu bytes of %s were dropped here", (unsigned long long)(start - had), names[which]);
	return pass_on(f->to[which], fd, at, n, e);
}

/* Writes the output of an answer; had: the offsets before it. */
static int write_followed(struct follow *f, json_t *answer, const uint64_t had[2], int fd, struct err *e)
{
	size_t at = 0, n;
	int i;

	for (i = 0; i < 2; i++) {
		json_t *part = json_object_get(answer, names[i]);

		if (!part)
			continue;
		n = (size_t)json_integer_value(json_object_get(part, "bytes"));
		if (n > WIRE_DATA_MAX || (n && fd < 0))
			return err_set(e, ERR_CORRUPT, "the keeper's answer is cut short");
		if (write_stream(f, i, had[i], part, fd, (off_t)at, n, e) < 0)
			return -1;
		at += n;
	}
	return 0;
}

int follow_take(struct follow *f, json_t **ret_verdict, struct err *e)
{
	const uint64_t had[2] = { f->from[0], f->from[1] };
	autojson json_t *answer = NULL;
	autoclose int fd = -1;
	int fds[WIRE_FDS_MAX], r, i, ended;
	size_t n = 0, j;

	f->asked = 0;
	r = wire_recv(f->sock, -1, &answer, fds, WIRE_FDS_MAX, &n, e);
	if (r == 0)
		return wire_ended(e);
	if (r < 0)
		return -1;
	fd = n ? fds[0] : -1;
	for (j = 1; j < n; j++)
		close(fds[j]);
	if (wire_check(answer, e) < 0)
		return -1;
	for (i = 0; i < 2; i++) {
		const json_t *next = json_object_get(json_object_get(answer, names[i]), "next");

		if (next)
			f->from[i] = (uint64_t)json_integer_value(next);
	}
	ended = json_is_true(json_object_get(answer, "ended"));
	/* the keeper goes on while we write; a keeper that has gone tells so when its answer is taken */
	if (!ended && f->hold && follow_ask(f, e) < 0 && e->code != ERR_NOT_FOUND)
		return -1;
	f->asked = !ended && f->hold;
	if (write_followed(f, answer, had, fd, e) < 0)
		return -1;
	if (!ended)
		return 0;
	*ret_verdict = json_incref(json_object_get(answer, "verdict"));
	return 1;
}

int follow_status(const json_t *verdict)
{
	return (int)json_integer_value(json_object_get(verdict, "exit_status"));
}

/* ---- a terminal ---- */

/*
 * Two connections: one follows the output, the other carries keys, sizes and signals, with one
 * request at a time under way, so that neither ever blocks the other.
 */

struct terminal {
	struct follow f;
	int sock, signal_fd;
	int asked;		/* requests on sock without an answer yet */
	int in_eof, resize;	/* in_eof: our stdin has ended, which every reader of the terminal is told */
	int deaf;		/* the command has no stdin any more */
	/* no terminal: bytes as they are, and our signals are the command's */
	int plain;
	int ends;		/* plain: the end of our stdin is that of the command's */
	int signo;		/* plain: the one to send next; 0: none */
	struct detach_keys keys;
	struct termios saved;
	int raw;
};

/*
 * The keeper ends, as that of a service does with its command: how it ended is for the follower
 * to tell.
 */
static int hear_no_more(struct terminal *t)
{
	fd_close(&t->sock);
	t->asked = 1;
	return 0;
}

static int ask_for_terminal(struct terminal *t, json_t *rq, const char *data, size_t n, struct err *e)
{
	autoclose int fd = n ? wire_data(data, n, e) : -1;
	int r = -1;

	request_set_command(rq, t->f.command);
	if (!n || fd >= 0)
		r = wire_request(t->sock, rq, &fd, fd >= 0 ? 1 : 0, e);
	json_decref(rq);
	if (r < 0 && e->code == ERR_NOT_FOUND)
		r = hear_no_more(t);
	t->asked += r == 0;
	return r;
}

static int read_keys(struct terminal *t, struct err *e)
{
	char in[4096], out[sizeof(in) + DETACH_KEYS_MAX];
	ssize_t n = read(STDIN_FILENO, in, sizeof(in));
	size_t len;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n <= 0) {
		t->in_eof = 1;
		/* others may send more to a service */
		t->deaf |= t->plain && !t->ends;
		return 0;
	}
	if (t->plain)
		return ask_for_terminal(t, protocol_request(OP_send), in, (size_t)n, e);
	len = detach_keys_filter(&t->keys, in, (size_t)n, out);
	return len ? ask_for_terminal(t, protocol_request(OP_send), out, len, e) : 0;
}

static int take_terminal_answer(struct terminal *t, struct err *e)
{
	json_t *answer = NULL;
	size_t n = 0;
	int r = wire_recv(t->sock, -1, &answer, NULL, 0, &n, e);

	/* an error here means that the command ends: the follower tells how */
	if (r > 0 && t->in_eof && !json_object_get(answer, "sent") && !json_object_get(answer, "resized"))
		t->deaf = 1;
	json_decref(answer);
	t->asked = 0;
	return r < 0 ? -1 : r == 0 ? hear_no_more(t) : 0;
}

static int send_terminal_signal(struct terminal *t, int signo, struct err *e)
{
	json_t *rq = protocol_request(OP_signal);

	request_set_signal(rq, (uint64_t)signo);
	t->signo = 0;
	return ask_for_terminal(t, rq, NULL, 0, e);
}

static int take_terminal_signals(struct terminal *t, struct err *e)
{
	struct signalfd_siginfo si;

	while (read(t->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGWINCH)
			t->resize = 1;
		else if (t->plain)
			t->signo = (int)si.ssi_signo;
		else if (si.ssi_signo == SIGHUP || si.ssi_signo == SIGTERM)
			/* the terminal is gone: the shell gets SIGHUP, as on a real one */
			return send_terminal_signal(t, SIGHUP, e) < 0 ? -1 :
			       err_set(e, ERR_NOT_FOUND, "the terminal was closed");
	}
	return 0;
}

static int send_end(struct terminal *t, struct err *e)
{
	json_t *rq = protocol_request(OP_send);

	request_set_eof(rq, 1);
	return ask_for_terminal(t, rq, NULL, 0, e);
}

static int send_terminal_size(struct terminal *t, struct err *e)
{
	struct winsize w;
	json_t *rq;

	t->resize = 0;
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0)
		return 0;
	rq = protocol_request(OP_resize);
	request_set_rows(rq, w.ws_row);
	request_set_cols(rq, w.ws_col);
	return ask_for_terminal(t, rq, NULL, 0, e);
}

/* Sends what can be sent once the last request was answered. */
static int send_next_input(struct terminal *t, struct err *e)
{
	if (t->signo && !t->asked && send_terminal_signal(t, t->signo, e) < 0)
		return -1;
	if (t->resize && !t->plain && !t->asked && send_terminal_size(t, e) < 0)
		return -1;
	/* answered when it was read, or after a while: then again, for what reads next */
	if (t->in_eof && !t->deaf && !t->asked && send_end(t, e) < 0)
		return -1;
	return 0;
}

static int serve_terminal(struct terminal *t, json_t **ret_verdict, struct err *e)
{
	int r;

	if (follow_ask(&t->f, e) < 0)
		return -1;
	while (!t->keys.detached) {
		struct pollfd p[] = {
			{ .fd = t->f.sock, .events = POLLIN }, { .fd = t->sock, .events = POLLIN },
			{ .fd = t->signal_fd, .events = POLLIN },
			{ .fd = t->asked || t->in_eof ? -1 : STDIN_FILENO, .events = POLLIN },
		};

		if (send_next_input(t, e) < 0)
			return -1;
		if (t->asked)
			p[3].fd = -1;
		if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
			return err_sys(e, "wait for the terminal");
		if (p[2].revents && take_terminal_signals(t, e) < 0)
			return -1;
		if (p[1].revents && take_terminal_answer(t, e) < 0)
			return -1;
		if (p[3].revents && !t->asked && read_keys(t, e) < 0)
			return -1;
		if (p[0].revents) {
			r = follow_take(&t->f, ret_verdict, e);
			if (r)
				return r;
			if (follow_ask(&t->f, e) < 0)
				return -1;
		}
	}
	return 0;
}

static int join_command(struct sandbox_ref *s, struct terminal *t, json_t **ret_verdict, struct err *e)
{
	int r = -1;

	t->sock = keeper_connect(&s->registry, s->id, e);
	t->signal_fd = t->sock < 0 ? -1 : supervise_signals(e);
	if (t->signal_fd >= 0)
		r = serve_terminal(t, ret_verdict, e);
	if (t->raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &t->saved);
	fd_close(&t->sock);
	fd_close(&t->signal_fd);
	return r;
}

int follow_terminal(struct sandbox_ref *s, const char *command, uint64_t from, const char *detach_keys, json_t **ret_verdict,
		    struct err *e)
{
	struct terminal t = {
		.f = { .sock = s->sock, .command = command, .stream = "stdout", .from = { from, 0 },
		       .to = { STDOUT_FILENO, STDERR_FILENO } },
		.sock = -1, .signal_fd = -1, .resize = 1,
	};
	struct termios raw;

	if (detach_keys_parse(detach_keys, &t.keys, e) < 0)
		return -1;
	if (!tcgetattr(STDIN_FILENO, &t.saved)) {
		raw = t.saved;
		cfmakeraw(&raw);
		t.raw = !tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	}
	return join_command(s, &t, ret_verdict, e);
}

int follow_joined(struct sandbox_ref *s, const char *command, const uint64_t from[2],
		  enum follow_stdin in, int hold, json_t **ret_verdict, struct err *e)
{
	struct terminal t = {
		.f = { .sock = s->sock, .command = command, .stream = "both", .from = { from[0],
			from[1] },
		       .to = { STDOUT_FILENO, STDERR_FILENO }, .hold = hold },
		.sock = -1, .signal_fd = -1, .plain = 1, .in_eof = in == FOLLOW_NO_STDIN,
		.deaf = in == FOLLOW_NO_STDIN, .ends = in == FOLLOW_STDIN_ENDS,
	};

	return join_command(s, &t, ret_verdict, e);
}
