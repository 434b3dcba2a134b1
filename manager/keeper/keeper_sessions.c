/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shell sessions: one long-lived shell each, on a terminal of the sandbox.
 *
 * shellscript.h describes how the shell gets its text and reports the end: a text is a file that
 * the sandbox can only read, and nothing is parsed out of the terminal's stream.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hex.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/keeper/keeper_look.h"
#include "manager/keeper/shellscript.h"
#include "runtime/sandbox/writable.h"

#define PROBE_MS 100
#define TEXT_MAX (8u << 20)
#define OUTPUT_CHUNK 65536
#define INLINE_MAX 8192	/* bytes; JSON may need six times as many */

static int index_of(struct keeper *k, const struct keeper_session *s)
{
	return (int)(s - k->sessions);
}

static struct keeper_session *find(struct keeper *k, const char *name)
{
	int i;

	for (i = 0; i < KEEPER_SESSIONS; i++)
		if (!strcmp(k->sessions[i].name, name))
			return &k->sessions[i];
	return NULL;
}

static void close_fds(struct keeper_session *s)
{
	if (s->split)
		fd_close(&s->tty_fd);
	if (s->err_fd >= 0)
		fd_close(&s->err_fd);
	fd_close(&s->out_fd);
	fd_close(&s->script_fd);
	fd_close(&s->status_fd);
	fd_close(&s->text_fd);
	s->tty_fd = -1;
}

void session_release(struct keeper *k, struct keeper_session *s)
{
	struct keeper_command *c = s->shell_seq ? keeper_command_find(k, s->shell_seq) : NULL;
	char file[80];
	struct err e;

	err_set(&e, ERR_NOT_FOUND, "session %s was closed", s->name);
	session_queue_refuse(k, s, &e);
	if (c)
		keeper_command_remove(k, c);
	close_fds(s);
	ring_release(&s->out[0]);
	ring_release(&s->out[1]);
	free(s->baseline);
	snprintf(file, sizeof(file), "%s", s->name);
	unlinkat(k->sandbox.control_fd, file, 0);
	memset(s, 0, sizeof(*s));
}

/* ---- the shell ------------------------------------------------------------------------ */

/* No echo, and newlines as they were written: the output is the command's bytes, exactly. */
static int quiet_terminal(int slave, struct err *e)
{
	struct winsize w = { .ws_row = 24, .ws_col = 80 };
	struct termios t;

	if (tcgetattr(slave, &t) < 0)
		return err_sys(e, "read the terminal's settings");
	t.c_oflag &= (tcflag_t)~OPOST;
	t.c_lflag &= (tcflag_t) ~(ECHO | ECHOCTL);
	if (tcsetattr(slave, TCSANOW, &t) < 0 || ioctl(slave, TIOCSWINSZ, &w) < 0)
		return err_sys(e, "set up the terminal");
	return 0;
}

static int open_terminal(struct keeper *k, struct keeper_session *s, int std[3], struct err *e)
{
	if (sandbox_tty(&k->sandbox, &s->tty_fd, &std[0], e) < 0)
		return -1;
	std[1] = fcntl(std[0], F_DUPFD_CLOEXEC, 3);
	std[2] = fcntl(std[0], F_DUPFD_CLOEXEC, 3);
	s->out_fd = s->tty_fd;
	if (fcntl(s->tty_fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up the terminal");
	return quiet_terminal(std[0], e);
}

static int open_pipe(int *ret_ours, int *ret_theirs, int we_read, struct err *e)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	*ret_ours = p[!we_read];
	*ret_theirs = p[we_read];
	return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "set up a pipe") : 0;
}

static int open_pipes(struct keeper_session *s, int std[3], struct err *e)
{
	if (open_pipe(&s->tty_fd, &std[0], 0, e) < 0 || open_pipe(&s->out_fd, &std[1], 1, e) < 0)
		return -1;
	return open_pipe(&s->err_fd, &std[2], 1, e);
}

static const char *const shell_env[] = {
	"PS1=", "PS2=", "PROMPT_COMMAND=", "HISTFILE=/dev/null", "TERM=dumb", "PAGER=cat", "GIT_PAGER=cat",
};

static int is_replaced(const char *entry)
{
	static const char *const dropped[] = { "ENV=", "BASH_ENV=" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(dropped); i++)
		if (!strncmp(entry, dropped[i], strlen(dropped[i])))
			return 1;	/* files a shell would read before our first line */
	for (i = 0; i < ARRAY_LEN(shell_env); i++)
		if (!strncmp(entry, shell_env[i], strcspn(shell_env[i], "=") + 1))
			return 1;
	return 0;
}

static int exec_shell(struct keeper *k, struct keeper_session *s, struct keeper_command *c, const int std[3], int script,
		      int status, struct err *e)
{
	const struct spec *spec = k->spec;
	autofree const char **env = calloc(spec->env_count + ARRAY_LEN(shell_env) + 1, sizeof(*env));
	struct job job = {
		.user = spec->user, .workdir = spec->workdir, .rlimits = spec->rlimits, .leaf = &c->leaf,
		.flags = INIT_MAKE_CWD | INIT_SHELL | (s->split ? 0 : INIT_TTY), .script_fd = script, .status_fd = status,
	};
	size_t i;

	if (!env)
		return err_nomem(e);
	for (i = 0; i < spec->env_count; i++)
		if (!is_replaced(spec->env[i]))
			env[job.env_count++] = spec->env[i];
	for (i = 0; i < ARRAY_LEN(shell_env); i++)
		env[job.env_count++] = shell_env[i];
	job.env = env;
	job.argv = shellscript_argv(!s->fallback, &job.argc);
	return sandbox_exec(&k->sandbox, c->seq, &job, std, e);
}

static int write_script(struct keeper_session *s, const char *text, struct err *e)
{
	if (io_write_all(s->script_fd, text, strlen(text)) < 0) {
		/* it could not be started (no bash here): init's answer, which is on its way, says so */
		if (errno == EPIPE && !s->shell_ns_pid)
			return 0;
		return err_sys(e, "write to the shell of session %s", s->name);
	}
	return 0;
}

/* What its messages call it, in both streams. */
static void name_shell(struct keeper_session *s)
{
	char file[sizeof(MOUNTPLAN_CONTROL) + sizeof(s->name) + 1];
	int i;

	snprintf(file, sizeof(file), MOUNTPLAN_CONTROL "/%s", s->name);
	for (i = 0; i < 2; i++)
		shellname_init(&s->names[i], file, s->fallback ? "" : "bash: ");
}

struct output {
	struct keeper *k;
	struct ring *ring;
};

static void keep_output(void *ctx, const char *p, size_t n)
{
	struct output *o = ctx;

	keeper_ring_add(o->k, o->ring, p, n);
}

static int start_shell(struct keeper *k, struct keeper_session *s, struct err *e)
{
	struct keeper_command *c = keeper_command_new(k, 0, NULL, e);
	autoclose int script = -1, status = -1;
	int std[3] = { -1, -1, -1 }, i, r = -1;

	if (!c)
		return -1;
	c->session = index_of(k, s);
	cgroup_hold(&c->leaf);	/* each of its commands asks what it used */
	s->shell_seq = c->seq;
	s->shell_ns_pid = 0;
	s->tty_fd = s->out_fd = s->err_fd = s->script_fd = s->status_fd = s->text_fd = -1;
	s->status_len = 0;
	name_shell(s);
	if ((s->split ? open_pipes(s, std, e) : open_terminal(k, s, std, e)) < 0 ||
	    open_pipe(&s->script_fd, &script, 0, e) < 0 || open_pipe(&s->status_fd, &status, 1, e) < 0)
		goto out;
	/* the shell opens it again by /proc/self/fd, as any user */
	if (fchmod(script, 0444) < 0) {
		err_sys(e, "set up the shell's script");
		goto out;
	}
	r = exec_shell(k, s, c, std, script, status, e);
	if (r == 0)
		r = write_script(s, shellscript_first(!s->fallback), e);
	if (r == 0 && !s->split)
		r = write_script(s, "set -m\n", e);
out:
	for (i = 0; i < 3; i++)
		fd_close(&std[i]);
	if (r < 0) {
		close_fds(s);
		s->shell_seq = 0;
		keeper_command_remove(k, c);
	}
	return r;
}

static int open_session(struct keeper *k, const char *name, int split, struct keeper_session **ret, struct err *e)
{
	struct keeper_session *s = find(k, name);

	if (s) {
		*ret = s;
		return s->split == split ? 0 : err_set(e, ERR_EXISTS, "session %s is %s --split; hint: another --session",
						       name, s->split ? "with" : "without");
	}
	s = find(k, "");
	if (!s)
		return err_set(e, ERR_LIMIT, "%d sessions are open already; hint: close one", KEEPER_SESSIONS);
	memset(s, 0, sizeof(*s));
	snprintf(s->name, sizeof(s->name), "%s", name);
	s->split = split;
	s->client = -1;
	s->tty_fd = s->out_fd = s->err_fd = s->script_fd = s->status_fd = s->text_fd = -1;
	ring_init(&s->out[0], k->head_max, k->tail_max);
	ring_init(&s->out[1], k->head_max, k->tail_max);
	*ret = s;
	return 0;
}

/* ---- one command ------------------------------------------------------------------------- */

static int new_nonce(struct keeper_session *s, struct err *e)
{
	unsigned char raw[8];	/* each guess takes a line; the pipe is the session's own */

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "get random bytes");
	hex_format(s->nonce, raw, sizeof(raw));
	return 0;
}

static int feed(struct keeper_session *s, struct err *e)
{
	const struct shelltext t = {
		.session = s->name, .nonce = s->nonce, .is_bash = !s->fallback, .traps = s->traps, .traces = s->traces,
		.restore_trap = s->trap_lost, .last_status = s->last_status,
	};
	char lines[SHELLSCRIPT_LINES];

	s->trap_lost = 0;
	s->trap_seen = !s->traps;
	shellscript_lines(&t, lines);
	return write_script(s, lines, e);
}

/*
 * Turns on again what the end of the previous text turned off; the rest of the line is for $?,
 * and nobody sees it.
 */
static int put_tracing(const struct keeper_session *s, int fd)
{
	char line[80];
	int n;

	if (!s->tracing[0])
		return 0;
	n = snprintf(line, sizeof(line), "{ set -%s; (exit %u) && :; } 2>/dev/null\n", s->tracing, s->last_status);
	return io_write_all(fd, line, (size_t)n);
}

/*
 * A shell has read a text as short as this to its end, in one block, before it ran the first
 * line (busybox has the smallest blocks, 1,023 bytes), so it is overwritten. A background job
 * may still read a longer one, so the next is a new file.
 */
#define TEXT_BLOCK 1000

int session_put_text(struct keeper *k, struct keeper_session *s, const char *text, size_t n, struct err *e)
{
	const struct iovec line[] = { { (char *)(size_t)text, n }, { (char *)(size_t)"\n", 1 } };
	const int plain = n < TEXT_BLOCK && !s->tracing[0];
	autoclose int fd = -1;
	ssize_t put;

	if (plain && s->text_fd >= 0) {
		put = pwritev(s->text_fd, line, 2, 0);
		if (put >= 0 && ftruncate(s->text_fd, put) < 0)
			put = -1;
	} else {
		fd_close(&s->text_fd);
		unlinkat(k->sandbox.control_fd, s->name, 0);
		fd = openat(k->sandbox.control_fd, s->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
		if (fd < 0 || fchmod(fd, 0644) < 0 || put_tracing(s, fd) < 0)
			return err_sys(e, "hand the command's text to the shell");
		put = writev(fd, line, 2);
		if (plain && put >= 0)
			s->text_fd = take_fd(&fd);
	}
	if (put < 0)
		return err_sys(e, "hand the command's text to the shell");
	return put == (ssize_t)n + 1 ? 0 : err_set(e, ERR_LIMIT, "no room for the command's text in the sandbox's control directory");
}

static void drop_output(struct keeper_session *s)
{
	s->names[0].held = s->names[1].held = 0;
	ring_release(&s->out[0]);
	ring_release(&s->out[1]);
}

static void reset_command(struct keeper_session *s)
{
	memset(&s->facts, 0, sizeof(s->facts));
	memset(&s->before, 0, sizeof(s->before));
	free(s->baseline);
	s->baseline = NULL;
	s->baseline_count = 0;
	s->escalated = s->awaiting = s->unclaimed = s->tree_killed = 0;
	s->escalate_ms = s->nudge_ms = 0;
	s->nudged = s->withdrawn = s->again = s->interrupted = 0;
	s->starting = 0;
}

/* In whole characters, and only when it is text. */
static void keep_text(struct keeper_session *s, const char *text, size_t n)
{
	json_t *check;
	size_t part = n < sizeof(s->text) - 1 ? n : sizeof(s->text) - 1;

	while (part < n && part && ((unsigned char)text[part] & 0xc0) == 0x80)
		part--;
	check = memchr(text, 0, part) ? NULL : json_stringn(text, part);
	snprintf(s->text, sizeof(s->text), "%.*s", check ? (int)part : 0, text);
	json_decref(check);
}

int session_run(struct keeper *k, struct keeper_session *s, const struct session_text *t, struct err *e)
{
	const char *text = t->text;
	const size_t n = t->n;
	struct keeper_command *c;
	struct err ignored;

	if (s->unclaimed)
		/* no client came for it, and it does not belong to the next text */
		drop_output(s);
	reset_command(s);
	s->fresh = !s->shell_seq;
	s->alone &= !s->fresh;
	if (s->fresh) {
		s->traces = s->traps = s->trap_lost = 0;
		s->tracing[0] = '\0';
	}
	s->traces |= shellscript_may_trace(text);
	s->traps |= !!strstr(text, "trap");
	if (session_put_text(k, s, text, n, e) < 0)
		return -1;
	if (s->fresh) {
		ring_release(&s->out[0]);
		ring_release(&s->out[1]);
		if (start_shell(k, s, e) < 0)
			return -1;
	} else if (s->alone && (s->baseline = calloc(1, sizeof(*s->baseline)))) {
		/* an idle shell waits for us and changes nothing: spare its twenty calls */
		s->baseline[0] = s->alone_pid;
		s->baseline_count = 1;
		s->before = s->alone_usage;
	} else {
		look_pids(k, s, &s->baseline, &s->baseline_count);
		c = keeper_command_find(k, s->shell_seq);
		if (c)
			cgroup_usage(&c->leaf, &s->before, &ignored);
	}
	if (new_nonce(s, e) < 0 || feed(s, e) < 0)
		return -1;
	s->number++;
	s->busy = 1;
	keep_text(s, text, n);
	s->client = t->client;
	s->inlined = t->inlined;
	s->on_timeout = t->on_timeout;
	s->queued_ms = t->queued_ms;
	s->started_ms = clock_ms();
	keeper_network_begin(k, &s->facts);
	s->deadline_ms = t->timeout_ms ? s->started_ms + t->timeout_ms : 0;
	s->probe_ms = s->started_ms + PROBE_MS;
	s->seen_bytes = s->out[0].total;
	return 0;
}

/* ---- answers ----------------------------------------------------------------------------- */

static int take_output(struct ring *r, json_t *answer, const char *prefix, int inlined, int *ret_fd, struct buf *b,
		       struct err *e)
{
	json_t *text;
	uint64_t start, next = 0;
	char key[32];
	int result;

	result = ring_read(r, 0, SIZE_MAX / 2, b, &start, &next, e);
	snprintf(key, sizeof(key), "%s_head_bytes", prefix);
	json_object_set_new(answer, key, json_integer((json_int_t)b->len));
	if (result == 0 && next < r->total)
		result = ring_read(r, next, SIZE_MAX / 2, b, &start, &next, e);
	snprintf(key, sizeof(key), "%s_bytes", prefix);
	json_object_set_new(answer, key, json_integer((json_int_t)r->total));
	snprintf(key, sizeof(key), "%s_dropped", prefix);
	json_object_set_new(answer, key, json_integer((json_int_t)ring_dropped(r)));
	/* short text goes along in the answer, which saves a memfd on both sides */
	if (result < 0)
		;
	else if (inlined && b->len <= INLINE_MAX && !memchr(b->len ? b->data : "", 0, b->len) &&
		 (text = json_stringn(b->len ? b->data : "", b->len)))
		json_object_set_new(answer, prefix, text);
	else if ((*ret_fd = wire_data(b->data ? b->data : "", b->len, e)) < 0)
		result = -1;
	ring_release(r);
	return result;
}

static void answer_session(struct keeper *k, struct keeper_session *s, const char *status, const struct verdict *v)
{
	static const char *const streams[] = { "output", "stderr" };
	json_t *a = json_pack("{s:s,s:s,s:b}", "session", s->name, "status", status, "fresh_shell", s->fresh);
	struct buf b[2] = { BUF_INIT(WIRE_DATA_MAX), BUF_INIT(WIRE_DATA_MAX) };
	size_t head[2] = { 0 };
	uint64_t dropped[2] = { 0 };
	int fds[2] = { -1, -1 }, i, r = 0;
	struct err e;

	if (!s->shell_seq)
		json_object_set_new(a, "session_ended", json_true());
	if (s->queued_ms)
		json_object_set_new(a, "queued_ms", json_integer((json_int_t)s->queued_ms));
	for (i = 0; i <= s->split && r == 0; i++) {
		shellname_flush(&s->names[i], keep_output, &(struct output){ k, &s->out[i] });
		dropped[i] = ring_dropped(&s->out[i]);
		head[i] = s->out[i].head_len;
		r = take_output(&s->out[i], a, streams[i], s->inlined && !s->split, &fds[i], &b[i], &e);
	}
	if (r < 0) {
		/* never an answer that looks like a command without output */
		err_wrap(&e, "hand over the output of a command that is %s", status);
		keeper_answer_error(k, s->client, &e);
		json_decref(a);
	} else if (v) {
		keeper_answer_verdict(k, s->client, a, v, fds, (size_t)(fds[0] >= 0) + (fds[1] >= 0));
	} else {
		keeper_answer(k, s->client, a, fds, (size_t)(fds[0] >= 0) + (fds[1] >= 0));
	}
	fd_close(&fds[0]);
	fd_close(&fds[1]);
	s->client = -1;
	s->fresh = 0;
	for (i = 0; i < 2; i++) {
		keeper_log_session(k, s, i ? "stderr" : "stdout", b[i].data, head[i], b[i].len, dropped[i]);
		buf_release(&b[i]);
	}
}

static void sub(uint64_t *a, uint64_t b)
{
	*a = *a > b ? *a - b : 0;
}

/* The command's share: the increase of the counters of the session's cgroup since it began. */
static void finish(struct keeper *k, struct keeper_session *s, struct keeper_command *c)
{
	struct verdict v;
	struct err ignored;
	pid_t *now = NULL;
	size_t n = 0;

	if (s->tree_killed && c && s->shell_seq)
		session_sweep(k, s, c);
	session_read(k, s, 0);
	if (s->split)
		session_read(k, s, 1);
	s->facts.wall_ms = clock_ms() - s->started_ms;
	s->alone = 0;
	if (c && cgroup_usage(&c->leaf, &s->facts.usage, &ignored) == 0) {
		s->alone = 1;
		s->alone_usage = s->facts.usage;
		sub(&s->facts.usage.cpu_us, s->before.cpu_us);
		sub(&s->facts.usage.read_bytes, s->before.read_bytes);
		sub(&s->facts.usage.write_bytes, s->before.write_bytes);
		sub(&s->facts.usage.oom_kills, s->before.oom_kills);
		sub(&s->facts.usage.pids_events, s->before.pids_events);
	}
	look_pids(k, s, &now, &n);
	s->alone &= n == 1;
	s->alone_pid = n ? now[0] : 0;
	free(now);
	s->facts.left_behind = (uint32_t)(n > s->baseline_count + (s->baseline_count ? 0 : 1) ?
					  n - s->baseline_count - (s->baseline_count ? 0 : 1) : 0);
	writable_full(k->sandbox.base_fd, &s->facts.disk_full, &ignored);
	keeper_network_end(k, &s->facts);
	s->facts.loosened = k->spec->loosened;
	verdict_decide(&s->facts, &v);
	s->busy = 0;
	s->deadline_ms = s->escalate_ms = 0;
	keeper_busy(k);
	if (s->client >= 0) {
		answer_session(k, s, s->facts.timed_out ? "timeout" : "done", &v);
	} else if (s->facts.killed_by_us) {
		drop_output(s);		/* its client is gone for good */
	} else {
		s->unclaimed = 1;
		s->verdict = v;
	}
	keeper_event_end(k, "sh", &v, json_pack("{s:s,s:s}", "session", s->name, "text", s->text));
}

/* What $- had of set -x and -v. */
static void keep_tracing(struct keeper_session *s, const char *flags)
{
	snprintf(s->tracing, sizeof(s->tracing), "%s%s", strchr(flags, 'x') ? "x" : "", strchr(flags, 'v') ? "v" : "");
	s->traces |= s->tracing[0] != '\0';
}

/* "NONCE STATUS FLAGS", and traps before it when they were asked for: anything else on the pipe is not for us. */
static void status_line(struct keeper *k, struct keeper_session *s)
{
	size_t n = strlen(s->nonce);
	char *end;
	unsigned long v;

	s->trap_seen |= shellscript_is_interrupt_trap(s->status_line);
	if (!s->busy || strncmp(s->status_line, s->nonce, n) || s->status_line[n] != ' ' ||
	    !isdigit((unsigned char)s->status_line[n + 1]))
		return;
	v = strtoul(s->status_line + n + 1, &end, 10);
	if (*end != ' ' || v > 255)
		return;
	if (!s->withdrawn)
		keep_tracing(s, end);
	s->last_status = (unsigned)v;
	s->trap_lost = !s->trap_seen;
	s->facts.ended = s->facts.exited = 1;
	/* dash and ash may run one more command on their way out, and have its status then */
	s->facts.value = s->interrupted ? 128 + SIGINT : (uint32_t)v;
	finish(k, s, keeper_command_find(k, s->shell_seq));
}

/* Of a long line the beginning and the end are kept. */
static void add_to_line(struct keeper_session *s, char c)
{
	const size_t max = sizeof(s->status_line) - 1, half = sizeof(s->status_line) / 2;

	if (s->status_len == max)
		memmove(s->status_line + half, s->status_line + half + 1, --s->status_len - half);
	s->status_line[s->status_len++] = c;
}

void session_status(struct keeper *k, struct keeper_session *s)
{
	char buf[512];
	ssize_t n = read(s->status_fd, buf, sizeof(buf)), i;

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		fd_close(&s->status_fd);	/* the shell's end is reported by init */
		return;
	}
	for (i = 0; i < n; i++) {
		if (buf[i] == '\n') {
			s->status_line[s->status_len] = '\0';
			s->status_len = 0;
			status_line(k, s);
		} else {
			add_to_line(s, buf[i]);
		}
	}
}

void session_read(struct keeper *k, struct keeper_session *s, int which)
{
	struct output o = { k, &s->out[which] };
	int *fd = which ? &s->err_fd : &s->out_fd;
	char buf[OUTPUT_CHUNK];
	int rounds;
	ssize_t n;

	for (rounds = 0; rounds < 64 && *fd >= 0; rounds++) {
		n = read(*fd, buf, sizeof(buf));
		if (n > 0) {
			shellname_feed(&s->names[which], buf, (size_t)n, keep_output, &o);
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			fd_close(fd);	/* EIO: no process has the terminal open any more */
			if (!which && !s->split)
				s->tty_fd = -1;
		} else {
			return;
		}
	}
}

void session_shell_failed(struct keeper *k, int index, const struct err *why)
{
	struct keeper_session *s = &k->sessions[index];
	struct err e = *why;

	close_fds(s);
	s->shell_seq = 0;
	if (!s->fallback && why->code == ERR_EXEC_NOT_FOUND) {
		s->fallback = 1;	/* no bash in this image; the text is still in its file */
		if (start_shell(k, s, &e) == 0 && feed(s, &e) == 0)
			return;
	}
	keeper_answer_error(k, s->client, &e);
	s->client = -1;
	session_queue_refuse(k, s, &e);
	session_release(k, s);
}

/* `exit 3`, `exec false`, or a kill: the session's name stays free for a fresh shell. */
void session_shell_ended(struct keeper *k, int index, struct keeper_command *c)
{
	struct keeper_session *s = &k->sessions[index];

	if (s->status_fd >= 0)
		session_status(k, s);
	s->shell_seq = 0;
	if (s->busy) {
		s->facts.ended = 1;
		s->facts.exited = c->facts.exited;
		s->facts.value = c->facts.value;
		finish(k, s, c);
	}
	close_fds(s);
}

void session_lost(struct keeper *k, struct keeper_session *s, int killed_by_us)
{
	struct keeper_command *c = keeper_command_find(k, s->shell_seq);

	if (!s->busy)
		return;
	s->facts.killed_by_us |= killed_by_us;
	s->shell_seq = 0;
	finish(k, s, c);
}

static void over_time(struct keeper *k, struct keeper_session *s, uint64_t now)
{
	struct keeper_command *c = keeper_command_find(k, s->shell_seq);
	struct err ignored;

	s->deadline_ms = 0;
	if (s->on_timeout == ON_TIMEOUT_DETACH || s->on_timeout == ON_TIMEOUT_FREEZE) {
		if (s->on_timeout == ON_TIMEOUT_FREEZE && c)
			cgroup_freeze(&c->leaf, 1, &ignored);
		session_read(k, s, 0);
		session_read(k, s, 1);
		if (s->client >= 0)
			answer_session(k, s, s->on_timeout == ON_TIMEOUT_FREEZE ? "frozen" : "running", NULL);
		return;
	}
	s->facts.timed_out = 1;
	session_force(k, s, now);
}

static void probe(struct keeper *k, struct keeper_session *s, uint64_t now)
{
	s->probe_ms = now + PROBE_MS;
	session_read(k, s, 0);
	if (s->out[0].total != s->seen_bytes || !session_reads_terminal(k, s))
		s->awaiting = 0;
	else
		s->awaiting++;
	s->seen_bytes = s->out[0].total;
	if (s->awaiting >= 2) {
		s->awaiting = 0;
		s->probe_ms = 0;
		answer_session(k, s, "awaiting-input", NULL);
	}
}

/* Is the terminal looked at for a command that waits for input?  Not while it is being ended. */
static int is_probed(const struct keeper_session *s)
{
	return s->probe_ms && s->client >= 0 && !s->split && !s->escalated;
}

uint64_t session_next_deadline(const struct keeper_session *s)
{
	uint64_t at = session_queue_deadline(s);

	if (!s->busy)
		return at;
	at = clock_earlier(at, s->deadline_ms);
	at = clock_earlier(at, s->escalate_ms);
	at = clock_earlier(at, s->nudge_ms);
	return is_probed(s) ? clock_earlier(at, s->probe_ms) : at;
}

void session_deadline(struct keeper *k, struct keeper_session *s, uint64_t now)
{
	if (s->busy && s->deadline_ms && now >= s->deadline_ms)
		over_time(k, s, now);
	if (s->busy && s->escalate_ms && now >= s->escalate_ms)
		session_force(k, s, now);
	if (s->busy && s->nudge_ms && now >= s->nudge_ms)
		session_nudge(k, s, now);
	if (s->busy && is_probed(s) && now >= s->probe_ms)
		probe(k, s, now);
	if (s->queue)
		session_queue_serve(k, s, now);
}

void session_client_gone(struct keeper *k, int client)
{
	int i;

	for (i = 0; i < KEEPER_SESSIONS; i++) {
		struct keeper_session *s = &k->sessions[i];

		session_queue_leave(s, client);
		if (!s->name[0] || !s->busy || s->client != client)
			continue;
		s->client = -1;
		s->facts.killed_by_us = 1;
		s->on_timeout = ON_TIMEOUT_KILL;
		session_force(k, s, clock_ms());
	}
}

/* ---- requests ------------------------------------------------------------------------------------ */

static int get_on_timeout(const json_t *rq, enum session_on_timeout *ret, struct err *e)
{
	static const char *const names[] = { "kill", "interrupt", "freeze", "detach" };
	const char *s = request_on_timeout(rq, "kill");
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++) {
		if (!strcmp(s, names[i])) {
			*ret = (enum session_on_timeout)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "'%.20s' is none of kill, interrupt, freeze, detach", s);
}

static int get_name(const json_t *rq, const char **ret, struct err *e)
{
	*ret = request_session(rq, "main");
	return path_is_name(*ret) ? 0 : err_set(e, ERR_INVALID, "session name '%.40s' is malformed; hint: a-z 0-9 _ . -", *ret);
}

int keeper_op_sh(struct keeper *k, const struct keeper_request *q, struct err *e)
{
	const json_t *rq = q->json;
	autobuf struct buf b = BUF_INIT(TEXT_MAX);
	struct session_text t = {
		.client = q->client, .timeout_ms = request_timeout_ms(rq, keeper_timeout(k, 1)), .inlined = request_inline(rq),
		.text = request_text(rq, NULL),
	};
	struct keeper_session *s = NULL;
	const char *name;

	if (get_name(rq, &name, e) < 0 || get_on_timeout(rq, &t.on_timeout, e) < 0)
		return -1;
	if (!t.text && q->count && wire_read_data(q->fds[0], &b, e) < 0)
		return -1;
	t.n = t.text ? strlen(t.text) : b.len;
	if (!t.text)
		t.text = b.data;
	if (!t.text)
		return err_set(e, ERR_INVALID, "no command text");
	if (keeper_policy_text(k, t.text, t.n, e) < 0 || open_session(k, name, request_split(rq), &s, e) < 0)
		return -1;
	return session_queue_add(k, s, &t, rq, e);
}

static struct keeper_session *session_of(struct keeper *k, const json_t *rq, struct err *e)
{
	struct keeper_session *s;
	const char *name;

	if (get_name(rq, &name, e) < 0)
		return NULL;
	s = find(k, name);
	if (!s)
		err_set(e, ERR_NOT_FOUND, "no session '%s'; hint: berth sh --list ID", name);
	return s;
}

/* Waits for the command that runs, with a new deadline; thaws a frozen one. */
int keeper_op_sh_wait(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct keeper_session *s = session_of(k, rq->json, e);
	struct keeper_command *c = s ? keeper_command_find(k, s->shell_seq) : NULL;
	const uint64_t timeout_ms = request_timeout_ms(rq->json, keeper_timeout(k, 1));

	if (!s || get_on_timeout(rq->json, &s->on_timeout, e) < 0)
		return -1;
	if (!s->busy && s->unclaimed) {
		s->unclaimed = 0;
		s->client = rq->client;
		s->inlined = request_inline(rq->json);
		answer_session(k, s, s->verdict.facts.timed_out ? "timeout" : "done", &s->verdict);
		return 0;
	}
	if (!s->busy)
		return err_set(e, ERR_NOT_FOUND, "session %s runs no command", s->name);
	if (s->client >= 0)
		return err_set(e, ERR_BUSY, "another client waits for session %s", s->name);
	if (c && cgroup_freeze(&c->leaf, 0, e) < 0)
		return -1;
	s->client = rq->client;
	s->inlined = request_inline(rq->json);
	s->deadline_ms = timeout_ms ? clock_ms() + timeout_ms : 0;
	s->probe_ms = clock_ms() + PROBE_MS;
	s->awaiting = 0;
	return 0;
}

int session_op_send(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 16);
	struct keeper_session *s = session_of(k, rq->json, e);
	ssize_t n;

	if (!s)
		return -1;
	if (s->tty_fd < 0)
		return err_set(e, ERR_NOT_FOUND, "session %s has no shell", s->name);
	if (rq->count && wire_read_data(rq->fds[0], &b, e) < 0)
		return -1;
	if (request_eof(rq->json) && !s->split && buf_add(&b, "\004", 1, e) < 0)
		return -1;
	n = session_type(k, s, b.data, b.len);
	if (n < 0)
		return err_sys(e, "write to session %s", s->name);
	keeper_answer(k, rq->client, json_pack("{s:I}", "sent", (json_int_t)n), NULL, 0);
	return 0;
}

int session_op_signal(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct keeper_session *s = session_of(k, rq->json, e);
	const uint64_t signo = request_signal(rq->json, 2);

	if (!s)
		return -1;
	if (signo < 1 || signo > 64)
		return err_set(e, ERR_INVALID, "signal %llu does not exist", (unsigned long long)signo);
	if ((signo == SIGINT ? session_interrupt(k, s) : session_signal(k, s, (int)signo)) < 0)
		return err_set(e, ERR_NOT_FOUND, "session %s has no foreground process", s->name);
	keeper_answer(k, rq->client, json_pack("{s:b}", "signalled", 1), NULL, 0);
	return 0;
}

/*
 * Ends everything that runs in the session; its client gets the verdict, killed-by. With "own"
 * the same client cancels its own text, which may still wait for its turn; then there is no
 * other answer.
 */
int keeper_op_sh_cancel(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct keeper_session *s = session_of(k, rq->json, e);
	struct keeper_command *c = s ? keeper_command_find(k, s->shell_seq) : NULL;
	const int own = request_own(rq->json);

	if (!s)
		return -1;
	if (own && session_queue_cancel(k, s, rq->client))
		return 0;
	if (own && (!s->busy || s->client != rq->client))
		return 0;	/* it has just ended */
	if (!s->busy)
		return err_set(e, ERR_NOT_FOUND, "session %s runs no command", s->name);
	if (c && cgroup_freeze(&c->leaf, 0, e) < 0)
		return -1;
	s->facts.killed_by_us = 1;
	s->on_timeout = ON_TIMEOUT_KILL;
	session_force(k, s, clock_ms());
	if (!own)
		keeper_answer(k, rq->client, json_pack("{s:b}", "cancelled", 1), NULL, 0);
	return 0;
}

int keeper_op_sessions(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	json_t *list = json_array();
	int i;

	(void)e;
	for (i = 0; i < KEEPER_SESSIONS; i++) {
		struct keeper_session *s = &k->sessions[i];

		if (s->name[0])
			json_array_append_new(list, json_pack("{s:s,s:b,s:b,s:b,s:i,s:i}", "session", s->name, "busy", s->busy,
							      "alive", s->shell_seq != 0, "split", s->split, "commands",
							      (int)s->number, "queued", (int)s->queue_length));
	}
	keeper_answer(k, rq->client, json_pack("{s:o}", "sessions", list), NULL, 0);
	return 0;
}

int keeper_op_session_close(struct keeper *k, const struct keeper_request *rq, struct err *e)
{
	struct keeper_session *s = session_of(k, rq->json, e);

	if (!s)
		return -1;
	if (s->client >= 0 && s->client != rq->client) {
		struct err busy;

		err_set(&busy, ERR_NOT_FOUND, "session %s was closed", s->name);
		keeper_answer_error(k, s->client, &busy);
	}
	session_release(k, s);
	keeper_answer(k, rq->client, json_pack("{s:b}", "closed", 1), NULL, 0);
	return 0;
}
