/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec --tty, shell and attach: joins our terminal to one of a command on the other host.
 *
 * Three streams at once: its output by one request that follows, our stdin by one whose body
 * never ends, and a small request for each change of the window's size.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/detachkeys.h"
#include "cli/live/follow.h"
#include "cli/remote/remote.h"

#define END_S 2

struct terminal {
	struct remote *r;
	char box[256], command[64];
	int owned;		/* we made it: it ends with us */
	int forget;		/* no other client will ask for it after its end */
	struct detach_keys keys;
	const char *left;	/* the command that returns to it, shown when the keys left it */
	int typed[2];		/* with keys: the bytes that are sent on */
	int tty;		/* our stdin is a terminal, and saved is how it was */
	struct termios saved;
	sigset_t signals;
	_Atomic int ended_by;	/* the signal for which we end it */
};

static int path_to(const struct terminal *t, struct buf *path, const char *verb, struct err *e)
{
	autobuf struct buf rest = BUF_INIT(256);

	if (buf_addf(&rest, e, "/commands/%s%s", t->command, verb) < 0)
		return -1;
	return remote_path(path, t->box, rest.data, e);
}

static void restore_terminal_mode(const struct terminal *t)
{
	if (t->tty)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &t->saved);
}

/* Keys are what a person types: the same bytes from a file or a pipe are data. */
static int has_keys(const struct terminal *t)
{
	return t->tty && t->keys.n && t->left;
}

/* A thread: our stdin without the keys; when they come, we go. */
static void *watch_keys(void *arg)
{
	struct terminal *t = arg;
	char in[4096], out[sizeof(in) + DETACH_KEYS_MAX];
	ssize_t n;

	while ((n = read(STDIN_FILENO, in, sizeof(in))) > 0 || (n < 0 && errno == EINTR)) {
		size_t len = n > 0 ? detach_keys_filter(&t->keys, in, (size_t)n, out) : 0;

		if (len && io_write_all(t->typed[1], out, len) < 0)
			break;
		if (t->keys.detached) {
			restore_terminal_mode(t);
			fprintf(stderr, "\r\nberth: left the shell running; %s comes back\n", t->left);
			_exit(0);
		}
	}
	fd_close(&t->typed[1]);
	return NULL;
}

static void *feed_terminal_stdin(void *arg)
{
	struct terminal *t = arg;
	autobuf struct buf path = BUF_INIT(4096);
	struct remote_io io = { .in_fd = STDIN_FILENO };
	struct err ignored;

	if (has_keys(t))
		io.in_fd = t->typed[0];
	/* end of file on a terminal is a character; on a pipe or file we report it */
	if (path_to(t, &path, t->tty ? "/stdin" : "/stdin?eof=true", &ignored) == 0)
		remote_transfer(t->r, "POST", path.data, &io, &ignored);
	return NULL;
}

static void send_window_size(struct terminal *t)
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

/* A thread: the connection may hang, and we end all the same. */
static void *end_terminal_late(void *arg)
{
	struct terminal *t = arg;

	sleep(END_S);
	restore_terminal_mode(t);
	_exit(128 + t->ended_by);
}

/* A thread: the window's size, and the signals that end us. */
static void *watch_signals(void *arg)
{
	struct terminal *t = arg;
	pthread_t thread;
	int sig;

	while (sigwait(&t->signals, &sig) == 0) {
		autobuf struct buf path = BUF_INIT(4096);
		autojson json_t *kill = NULL, *answer = NULL;
		struct err ignored;

		if (sig == SIGWINCH) {
			send_window_size(t);
			continue;
		}
		kill = json_pack("{s:i,s:b}", "signal", SIGKILL, "all", 1);
		if (t->owned && !t->ended_by && path_to(t, &path, "/signal", &ignored) == 0) {
			/* a follower sees its end, and leaves */
			t->ended_by = sig;
			if (pthread_create(&thread, NULL, end_terminal_late, t) == 0) {
				answer = remote_call(t->r, "POST", path.data, kill, &ignored);
				continue;
			}
		}
		restore_terminal_mode(t);
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
	return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0 ? err_sys(e, "set up the terminal") : 0;
}

/* Before any thread, so that only ours sees them. */
static void block_terminal_signals(struct terminal *t)
{
	sigemptyset(&t->signals);
	sigaddset(&t->signals, SIGWINCH);
	sigaddset(&t->signals, SIGTERM);
	sigaddset(&t->signals, SIGHUP);
	if (!isatty(STDIN_FILENO))
		sigaddset(&t->signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &t->signals, NULL);
}

/* Handles our signals and our stdin, once the command is known. */
static int start_terminal_threads(struct terminal *t, struct err *e)
{
	pthread_t thread;
	int r;

	send_window_size(t);
	if (has_keys(t) && pipe2(t->typed, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	r = pthread_create(&thread, NULL, watch_signals, t);
	if (r == 0 && has_keys(t))
		r = pthread_create(&thread, NULL, watch_keys, t);
	if (r == 0)
		r = pthread_create(&thread, NULL, feed_terminal_stdin, t);
	return r ? err_errno(e, r, "start a thread") : 0;
}

static int join_remote_terminal(struct terminal *t, const char *from, const char *stderr_from, struct err *e)
{
	struct remote_events ev = { .r = t->r, .line = BUF_INIT(REMOTE_LINE_MAX) };
	struct remote_io io = { .in_fd = -1, .take = remote_take_events, .ctx = &ev };
	autobuf struct buf path = BUF_INIT(4096), forget = BUF_INIT(4096);
	struct err ignored;
	int result;

	if (path_to(t, &path, "/follow", e) < 0 || (from && remote_query(&path, "from", from, e) < 0) ||
	    (stderr_from && remote_query(&path, "stderr_from", stderr_from, e) < 0) || make_raw(t, e) < 0)
		return -1;
	result = start_terminal_threads(t, e) < 0 ? -1 : remote_transfer(t->r, "GET", path.data, &io, e);
	restore_terminal_mode(t);
	if (result == 0 && !t->ended_by)
		result = ev.verdict ? remote_report(t->r, ev.verdict, e) : err_set(e, ERR_NET, "the connection ended before the command did");
	if (result == 0 && t->forget && path_to(t, &forget, "", &ignored) == 0)
		json_decref(remote_call(t->r, "DELETE", forget.data, NULL, &ignored));
	if (t->ended_by)
		_exit(128 + t->ended_by);
	buf_release(&ev.line);
	json_decref(ev.verdict);
	return result;
}

static void set_window_size(json_t *body)
{
	struct winsize w;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0 || !w.ws_row || !w.ws_col)
		return;
	json_object_set_new(body, "rows", json_integer(w.ws_row));
	json_object_set_new(body, "cols", json_integer(w.ws_col));
}

static int run_started(struct remote_events *ev, struct err *e)
{
	struct terminal *t = ev->started_ctx;

	snprintf(t->box, sizeof(t->box), "%s", ev->made);
	snprintf(t->command, sizeof(t->command), "%s", ev->command);
	return make_raw(t, e) < 0 ? -1 : start_terminal_threads(t, e);
}

int remote_run_terminal(struct remote *r, json_t *body, struct err *e)
{
	static struct terminal t;
	static struct remote_events ev;
	struct remote_io io = { .in_fd = -1, .json = body, .take = remote_take_events, .ctx = &ev };
	int result;

	t = (struct terminal){ .r = r };
	ev = (struct remote_events){ .r = r, .line = BUF_INIT(REMOTE_LINE_MAX), .box = (char *)(size_t)"", .started = run_started,
				     .started_ctx = &t };
	json_object_set_new(body, "tty", json_true());
	set_window_size(body);
	block_terminal_signals(&t);
	result = remote_transfer(r, "POST", "/v1/run", &io, e);
	restore_terminal_mode(&t);
	if (result == 0)
		result = ev.verdict ? remote_report(r, ev.verdict, e) : err_set(e, ERR_NET, "the connection ended before the command did");
	return result;
}

static struct terminal terminal_of(struct remote *r)
{
	struct terminal t = { .r = r };

	snprintf(t.box, sizeof(t.box), "%s", r->words[0]);
	return t;
}

/* Starts body there, which t is joined to: threads of the process use it to the end. */
static int exec_terminal(struct terminal *t, const char *path, json_t *body, struct err *e)
{
	autojson json_t *answer = NULL;
	static char left[400];
	const char *id;

	t->forget = 1;
	set_window_size(body);
	block_terminal_signals(t);
	answer = remote_call(t->r, "POST", path, body, e);
	id = json_string_value(json_object_get(answer, "command"));
	if (!id)
		return answer ? err_set(e, ERR_CORRUPT, "berthd named no command") : -1;
	snprintf(t->command, sizeof(t->command), "%s", id);
	if (!t->left) {
		snprintf(left, sizeof(left), "berth attach %s %s", t->box, id);
		t->left = left;
	}
	return join_remote_terminal(t, NULL, NULL, e);
}

int remote_exec_terminal(struct remote *r, const char *path, json_t *body, struct err *e)
{
	static struct terminal t;

	t = terminal_of(r);
	t.owned = 1;
	return exec_terminal(&t, path, body, e);
}

static int take_keys(const struct remote *r, struct terminal *t, struct err *e)
{
	const char *keys = remote_value(r, "detach-keys");

	return detach_keys_parse(keys ? keys : DETACH_KEYS, &t->keys, e);
}

int remote_attach(struct remote *r, struct err *e)
{
	static struct terminal t;

	static char left[400];

	t = terminal_of(r);
	if (strchr(r->words[1], '/'))
		return err_set(e, ERR_NOT_FOUND, "no command '%.40s'", r->words[1]);
	if (take_keys(r, &t, e) < 0)
		return -1;
	snprintf(t.command, sizeof(t.command), "%s", r->words[1]);
	snprintf(left, sizeof(left), "berth attach %s %s", t.box, t.command);
	t.left = left;
	block_terminal_signals(&t);
	return join_remote_terminal(&t, remote_value(r, "from"), remote_value(r, "stderr-from"), e);
}

/*
 * The running shell of that name: 1 with the offset where the last of its output begins, 0
 * without one.
 */
static int find_terminal_session(struct terminal *t, const char *name, char ret_from[24], struct err *e)
{
	autobuf struct buf path = BUF_INIT(4096);
	autojson json_t *answer = remote_path(&path, t->box, "/commands", e) < 0 ? NULL : remote_call(t->r, "GET", path.data, NULL, e);
	json_t *c;
	size_t i;
	int found = 0;

	if (!answer)
		return -1;
	json_array_foreach(json_object_get(answer, "commands"), i, c) {
		const char *its = json_string_value(json_object_get(c, "name")), *state = json_string_value(json_object_get(c, "state")),
			   *id = json_string_value(json_object_get(c, "command"));
		long long total = json_integer_value(json_object_get(c, "stdout_bytes"));

		if (!its || strcmp(its, name) || !state || !strcmp(state, "ended") || !id)
			continue;
		snprintf(t->command, sizeof(t->command), "%s", id);
		snprintf(ret_from, 24, "%lld", total > SHELL_SHOWN_AGAIN ? total - SHELL_SHOWN_AGAIN : 0);
		found = 1;
	}
	return found;
}

/* bash, and sh where the image has none, as berth shell there. */
static int start_remote_shell(struct terminal *t, json_t *body, struct err *e)
{
	const char *asked = remote_value(t->r, "shell"), *const names[] = { asked ? asked : "bash", "sh" };
	autobuf struct buf path = BUF_INIT(4096);
	int i, result = -1;

	if (remote_path(&path, t->box, "/exec", e) < 0)
		return -1;
	for (i = 0; i < (asked ? 1 : 2) && result < 0; i++) {
		if (i && e->code != ERR_EXEC_NOT_FOUND)
			break;
		json_object_set_new(body, "argv", json_pack("[s]", names[i]));
		result = exec_terminal(t, path.data, body, e);
	}
	return result;
}

int remote_shell(struct remote *r, struct err *e)
{
	autojson json_t *body = json_pack("{s:b,s:b,s:i}", "tty", 1, "detach", 1, "timeout_ms", 0);
	const char *session = remote_value(r, "session"), *term = getenv("TERM");
	static struct terminal t;
	static char left[400];
	char entry[128], from[24];
	int found;

	t = terminal_of(r);
	if (take_keys(r, &t, e) < 0)
		return -1;
	remote_set_list(r, body, "env", "env");
	remote_set_string(r, body, "user", "user");
	remote_set_string(r, body, "workdir", "workdir");
	snprintf(entry, sizeof(entry), "TERM=%.100s", term ? term : "dumb");
	if (!json_object_get(body, "env"))
		json_object_set_new(body, "env", json_pack("[s]", entry));
	if (!session)
		return start_remote_shell(&t, body, e);
	snprintf(left, sizeof(left), "berth shell --session %.120s %.200s", session, t.box);
	t.left = left;
	json_object_set_new(body, "name", json_string(session));
	found = find_terminal_session(&t, session, from, e);
	if (found <= 0)
		return found < 0 ? -1 : start_remote_shell(&t, body, e);
	t.forget = 1;
	block_terminal_signals(&t);
	return join_remote_terminal(&t, from, NULL, e);
}
