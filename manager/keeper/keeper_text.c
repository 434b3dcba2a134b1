/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The output of a session's shell: keeps it, without the names of our files, and gives it to
 * clients in answers.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/keeper/keeper_session.h"
#include "manager/keeper/shellscript.h"
#include "runtime/sandbox/writable.h"

/* ---- what the shell prints ---- */

#define OUTPUT_CHUNK 65536
#define INLINE_MAX 8192	/* bytes; JSON may need six times as many */

struct output {
	struct keeper *k;
	struct ring *ring;
};

static void keep_output(void *ctx, const char *p, size_t n)
{
	struct output *o = ctx;

	keeper_ring_add(o->k, o->ring, p, n);
}

void session_drop_output(struct keeper_session *s)
{
	s->names[0].held = s->names[1].held = 0;
	ring_release(&s->out[0]);
	ring_release(&s->out[1]);
}

static int take_session_output(struct ring *r, json_t *answer, const char *prefix, int inlined, int *ret_fd, struct buf *b,
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

void session_answer(struct keeper *k, struct keeper_session *s, const char *status,
		    const struct verdict *v)
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
		r = take_session_output(&s->out[i], a, streams[i], s->inlined && !s->split, &fds[i], &b[i], &e);
	}
	if (r < 0) {
		/* never an answer that looks like that of a command without output */
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
			s->spoke_ms = s->max_silent_ms ? clock_ms() : 0;
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
			fd_close(fd);	/* EIO: no process has the terminal open any more */
			if (!which && !s->split)
				s->tty_fd = -1;
		} else {
			return;
		}
	}
}

/* ---- a text from its file to its verdict ---- */

/*
 * One text in a session, from its file to its verdict.
 *
 * shellscript.h describes how the shell gets its text and reports the end: a text is a file that
 * the sandbox can only read, and nothing is parsed out of the terminal's stream.
 */

#define PROBE_MS 100

static int new_nonce(struct keeper_session *s, struct err *e)
{
	unsigned char raw[8];	/* each guess takes a line; the pipe is the session's own */

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "get random bytes");
	hex_format(s->nonce, raw, sizeof(raw));
	return 0;
}

static int feed_shell(struct keeper_session *s, struct err *e)
{
	const struct shelltext t = {
		.session = s->name, .nonce = s->nonce, .is_bash = !s->fallback, .traps = s->traps, .traces = s->traces,
		.restore_trap = s->trap_lost, .last_status = s->last_status,
	};
	char lines[SHELLSCRIPT_LINES];

	s->trap_lost = 0;
	s->trap_seen = !s->traps;
	shellscript_lines(&t, lines);
	return session_shell_write(s, lines, e);
}

/*
 * Turns on again what the end of the previous text turned off; the rest of the line is for $?, and
 * its output is not seen.
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
	s->leads = s->joins = 0;
}

/* Keeps the beginning of the text, in whole characters, and only if it is text. */
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

void session_watch(struct keeper_session *s, uint64_t timeout_ms)
{
	const uint64_t now = clock_ms();

	s->deadline_ms = timeout_ms ? now + timeout_ms : 0;
	s->spoke_ms = now;
	s->probe_ms = now + PROBE_MS;
	s->awaiting = 0;
}

int session_run(struct keeper *k, struct keeper_session *s, const struct session_text *t, struct err *e)
{
	const char *text = t->text;
	const size_t n = t->n;
	struct keeper_command *c;
	struct err ignored;
	int restored;

	if (s->unclaimed)
		/* no client came for it, and it does not belong to the next text */
		session_drop_output(s);
	reset_command(s);
	s->fresh = !s->shell_seq;
	s->alone &= !s->fresh;
	if (s->fresh) {
		s->traces = s->traps = s->trap_lost = 0;
		s->tracing[0] = '\0';
		session_state_begin(s);
	}
	s->traces |= shellscript_may_trace(text);
	s->traps |= !!strstr(text, "trap");
	if (session_put_text(k, s, text, n, e) < 0)
		return -1;
	if (s->fresh) {
		ring_release(&s->out[0]);
		ring_release(&s->out[1]);
		if (session_shell_start(k, s, e) < 0)
			return -1;
		restored = session_state_restore(k, s, e);
		if (restored < 0)
			return -1;
		s->fresh = !restored;
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
	if (new_nonce(s, e) < 0 || feed_shell(s, e) < 0)
		return -1;
	s->number++;
	s->busy = 1;
	keep_text(s, text, n);
	s->client = t->client;
	s->inlined = t->inlined;
	s->on_timeout = t->on_timeout;
	s->queued_ms = t->queued_ms;
	s->max_silent_ms = t->max_silent_ms;
	s->started_ms = clock_ms();
	keeper_network_begin(k, &s->facts);
	session_watch(s, t->timeout_ms);
	s->seen_bytes = s->out[0].total;
	return 0;
}

static void sub(uint64_t *a, uint64_t b)
{
	*a = *a > b ? *a - b : 0;
}

/* The command's share: the increase of the counters of the session's cgroup since it began. */
static void finish_text(struct keeper *k, struct keeper_session *s, struct keeper_command *c)
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
	keeper_disk(k, &s->facts);
	keeper_network_end(k, &s->facts);
	s->facts.loosened = k->spec->loosened;
	verdict_decide(&s->facts, &v);
	s->busy = 0;
	s->deadline_ms = s->escalate_ms = 0;
	keeper_busy(k);
	if (s->client >= 0) {
		session_answer(k, s, s->facts.timed_out ? "timeout" : "done", &v);
	} else if (s->facts.killed_by_us) {
		session_drop_output(s);		/* its client is gone for good */
	} else {
		s->unclaimed = 1;
		s->verdict = v;
	}
	keeper_event_end(k, "sh", &v, json_pack("{s:s,s:s}", "session", s->name, "text", s->text));
}

/* The state of set -x and -v in $-. */
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
	finish_text(k, s, keeper_command_find(k, s->shell_seq));
}

/* Adds a byte to the line; of a long line the beginning and the end are kept. */
static void add_to_line(struct keeper_session *s, char c)
{
	const size_t max = sizeof(s->status_line) - 1, half = sizeof(s->status_line) / 2;

	if (s->status_len == max)
		memmove(s->status_line + half, s->status_line + half + 1, --s->status_len - half);
	s->status_line[s->status_len++] = c;
}

void session_status(struct keeper *k, struct keeper_session *s)
{
	char buf[8192];
	ssize_t n = read(s->status_fd, buf, sizeof(buf)), i;

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
		fd_close(&s->status_fd);	/* the shell's end is reported by init */
		return;
	}
	for (i = n > 0 ? (ssize_t)session_state_feed(k, s, buf, (size_t)n) : 0; i < n; i++) {
		if (buf[i] == '\n') {
			s->status_line[s->status_len] = '\0';
			s->status_len = 0;
			status_line(k, s);
		} else {
			add_to_line(s, buf[i]);
		}
	}
}

void session_shell_failed(struct keeper *k, int index, const struct err *why)
{
	struct keeper_session *s = &k->sessions[index];
	struct err e = *why;

	session_shell_close(s);
	s->shell_seq = 0;
	if (!s->fallback && why->code == ERR_EXEC_NOT_FOUND) {
		s->fallback = 1;	/* the image has no bash; the text is still in its file */
		if (session_shell_start(k, s, &e) == 0 && feed_shell(s, &e) == 0)
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
		finish_text(k, s, c);
	}
	session_shell_close(s);
	session_state_release(s);
}

void session_lost(struct keeper *k, struct keeper_session *s, int killed_by_us)
{
	struct keeper_command *c = keeper_command_find(k, s->shell_seq);

	if (!s->busy)
		return;
	s->facts.killed_by_us |= killed_by_us;
	s->shell_seq = 0;
	finish_text(k, s, c);
}

static void over_time(struct keeper *k, struct keeper_session *s, int silent, uint64_t now)
{
	struct keeper_command *c = keeper_command_find(k, s->shell_seq);
	struct err ignored;

	s->deadline_ms = s->max_silent_ms = 0;
	if (s->on_timeout == ON_TIMEOUT_DETACH || s->on_timeout == ON_TIMEOUT_FREEZE) {
		if (s->on_timeout == ON_TIMEOUT_FREEZE && c)
			cgroup_freeze(&c->leaf, 1, &ignored);
		session_read(k, s, 0);
		session_read(k, s, 1);
		if (s->client >= 0)
			session_answer(k, s, s->on_timeout == ON_TIMEOUT_FREEZE ? "frozen" : "running", NULL);
		return;
	}
	s->facts.timed_out = 1;
	s->facts.silent = silent;
	session_force(k, s, now);
}

static void probe_terminal_input(struct keeper *k, struct keeper_session *s, uint64_t now)
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
		session_answer(k, s, "awaiting-input", NULL);
	}
}

/* Tells whether to look at the terminal for a command that waits for input; not while it is being ended. */
static int is_probed(const struct keeper_session *s)
{
	return s->probe_ms && s->client >= 0 && !s->split && !s->escalated;
}

/* Returns when its text will have printed nothing for too long; 0: no limit. */
static uint64_t text_silent_at(const struct keeper_session *s)
{
	return s->max_silent_ms && !s->facts.timed_out ? s->spoke_ms + s->max_silent_ms : 0;
}

uint64_t session_next_deadline(const struct keeper_session *s)
{
	uint64_t at = session_queue_deadline(s);

	if (!s->busy)
		return at;
	at = clock_earlier(at, s->deadline_ms);
	at = clock_earlier(at, text_silent_at(s));
	at = clock_earlier(at, s->escalate_ms);
	at = clock_earlier(at, s->nudge_ms);
	return is_probed(s) ? clock_earlier(at, s->probe_ms) : at;
}

void session_deadline(struct keeper *k, struct keeper_session *s, uint64_t now)
{
	if (s->busy && s->deadline_ms && now >= s->deadline_ms)
		over_time(k, s, 0, now);
	if (s->busy && text_silent_at(s) && now >= text_silent_at(s)) {
		session_read(k, s, 0);
		session_read(k, s, 1);
		if (k->paused || k->held_by)
			s->spoke_ms = now;
		if (now >= text_silent_at(s))
			over_time(k, s, 1, now);
	}
	if (s->busy && s->escalate_ms && now >= s->escalate_ms)
		session_force(k, s, now);
	if (s->busy && s->nudge_ms && now >= s->nudge_ms)
		session_nudge(k, s, now);
	if (s->busy && is_probed(s) && now >= s->probe_ms)
		probe_terminal_input(k, s, now);
	if (s->queue)
		session_queue_serve(k, s, now);
}
