/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec --tty, shell and attach: our terminal joined to one of a command there.
 *
 * Three streams at once: its output by one request that follows, our stdin by one
 * whose body never ends, and a small one for each change of the window's size.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/remote/remote.h"

struct terminal {
	struct remote *r;
	char command[64];
	int owned;		/* it is ours: it ends with us */
	int tty;		/* our stdin is a terminal, and saved is how it was */
	struct termios saved;
	sigset_t signals;
};

static int path_to(const struct terminal *t, struct buf *path, const char *verb, struct err *e)
{
	autobuf struct buf rest = BUF_INIT(256);

	if (buf_addf(&rest, e, "/commands/%s%s", t->command, verb) < 0)
		return -1;
	return remote_path(path, t->r->words[0], rest.data, e);
}

static void restore(const struct terminal *t)
{
	if (t->tty)
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &t->saved);
}

static void *feed(void *arg)
{
	struct terminal *t = arg;
	autobuf struct buf path = BUF_INIT(4096);
	struct remote_io io = { .in_fd = STDIN_FILENO };
	struct err ignored;

	/* end of file on a terminal is a character of it; on a pipe or file it is ours to say */
	if (path_to(t, &path, t->tty ? "/stdin" : "/stdin?eof=true", &ignored) == 0)
		remote_transfer(t->r, "POST", path.data, &io, &ignored);
	return NULL;
}

static void send_size(struct terminal *t)
{
	autobuf struct buf path = BUF_INIT(4096);
	autojson json_t *size = NULL, *answer = NULL;
	struct winsize w;
	struct err ignored;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0 || !w.ws_row || !w.ws_col || path_to(t, &path, "/resize", &ignored) < 0)
		return;
	size = json_pack("{s:i,s:i}", "rows", w.ws_row, "cols", w.ws_col);
	answer = remote_call(t->r, "POST", path.data, size, &ignored);
}

/* A thread: the window's size, and the signals that end us. */
static void *watch_signals(void *arg)
{
	struct terminal *t = arg;
	int sig;

	while (sigwait(&t->signals, &sig) == 0) {
		autobuf struct buf path = BUF_INIT(4096);
		autojson json_t *kill = NULL, *answer = NULL;
		struct err ignored;

		if (sig == SIGWINCH) {
			send_size(t);
			continue;
		}
		kill = json_pack("{s:i,s:b}", "signal", SIGKILL, "all", 1);
		if (t->owned && path_to(t, &path, "/signal", &ignored) == 0)
			answer = remote_call(t->r, "POST", path.data, kill, &ignored);
		restore(t);
		_exit(128 + sig);
	}
	return NULL;
}

static int make_raw(struct terminal *t, struct err *e)
{
	struct termios raw;

	t->tty = isatty(STDIN_FILENO);
	if (!t->tty)
		return 0;
	if (tcgetattr(STDIN_FILENO, &t->saved) < 0)
		return err_sys(e, "read the terminal's settings");
	raw = t->saved;
	cfmakeraw(&raw);
	return tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) < 0 ? err_sys(e, "set up the terminal") : 0;
}

/* Before any thread, so that only ours sees them. */
static void block_signals(struct terminal *t)
{
	sigemptyset(&t->signals);
	sigaddset(&t->signals, SIGWINCH);
	sigaddset(&t->signals, SIGTERM);
	sigaddset(&t->signals, SIGHUP);
	if (!isatty(STDIN_FILENO))
		sigaddset(&t->signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &t->signals, NULL);
}

static int join(struct terminal *t, const char *from, const char *stderr_from, struct err *e)
{
	struct remote_events ev = { .r = t->r, .line = BUF_INIT(REMOTE_LINE_MAX) };
	struct remote_io io = { .in_fd = -1, .take = remote_take_events, .ctx = &ev };
	autobuf struct buf path = BUF_INIT(4096), forget = BUF_INIT(4096);
	struct err ignored;
	pthread_t thread;
	int result;

	if (path_to(t, &path, "/follow", e) < 0 || (from && remote_query(&path, "from", from, e) < 0) ||
	    (stderr_from && remote_query(&path, "stderr_from", stderr_from, e) < 0) || make_raw(t, e) < 0)
		return -1;
	send_size(t);
	result = pthread_create(&thread, NULL, watch_signals, t);
	if (result == 0)
		result = pthread_create(&thread, NULL, feed, t);
	result = result ? err_errno(e, result, "start a thread") : remote_transfer(t->r, "GET", path.data, &io, e);
	restore(t);
	if (result == 0)
		result = ev.verdict ? remote_report(t->r, ev.verdict, e) : err_set(e, ERR_NET, "the connection ended before the command did");
	/* nobody else knows of it */
	if (result == 0 && t->owned && path_to(t, &forget, "", &ignored) == 0)
		json_decref(remote_call(t->r, "DELETE", forget.data, NULL, &ignored));
	buf_release(&ev.line);
	json_decref(ev.verdict);
	return result;
}

int remote_exec_terminal(struct remote *r, const char *path, json_t *body, struct err *e)
{
	static struct terminal t;	/* its threads end with the process */
	autojson json_t *answer = NULL;
	struct winsize w;
	const char *id;

	t = (struct terminal){ .r = r, .owned = 1 };
	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row && w.ws_col) {
		json_object_set_new(body, "rows", json_integer(w.ws_row));
		json_object_set_new(body, "cols", json_integer(w.ws_col));
	}
	block_signals(&t);
	answer = remote_call(r, "POST", path, body, e);
	id = json_string_value(json_object_get(answer, "command"));
	if (!id)
		return answer ? err_set(e, ERR_CORRUPT, "berthd named no command") : -1;
	snprintf(t.command, sizeof(t.command), "%s", id);
	return join(&t, NULL, NULL, e);
}

int remote_attach(struct remote *r, struct err *e)
{
	static struct terminal t;

	t = (struct terminal){ .r = r };
	if (strchr(r->words[1], '/'))
		return err_set(e, ERR_NOT_FOUND, "no command '%.40s'", r->words[1]);
	snprintf(t.command, sizeof(t.command), "%s", r->words[1]);
	block_signals(&t);
	return join(&t, remote_value(r, "from"), remote_value(r, "stderr-from"), e);
}

/* bash, and sh where the image has none, as berth shell there. */
int remote_shell(struct remote *r, struct err *e)
{
	const char *asked = remote_value(r, "shell"), *const names[] = { asked ? asked : "bash", "sh" }, *term = getenv("TERM");
	autojson json_t *body = json_pack("{s:b,s:b}", "tty", 1, "detach", 1);
	autobuf struct buf path = BUF_INIT(4096);
	char entry[128];
	int i, result = -1;

	remote_set_list(r, body, "env", "env");
	remote_set_string(r, body, "user", "user");
	remote_set_string(r, body, "workdir", "workdir");
	snprintf(entry, sizeof(entry), "TERM=%.100s", term ? term : "dumb");
	if (!json_object_get(body, "env"))
		json_object_set_new(body, "env", json_pack("[s]", entry));
	if (remote_path(&path, r->words[0], "/exec", e) < 0)
		return -1;
	for (i = 0; i < (asked ? 1 : 2) && result < 0; i++) {
		if (i && e->code != ERR_EXEC_NOT_FOUND)
			break;
		json_object_set_new(body, "argv", json_pack("[s]", names[i]));
		result = remote_exec_terminal(r, path.data, body, e);
	}
	return result;
}
