/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/wait_ready.h"

#include <errno.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/journal.h"
#include "manager/host/record.h"
#include "manager/host/restart.h"
#include "manager/keeper/keeper_log.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "runtime/kernel/listening.h"

/* ---- a line of the log ---- */

#define MEMORY (256u << 20)
#define STREAMS 64	/* sources and their streams that have a line begun; the oldest gives way */

/* ---- lines ---------------------------------------------------------------------- */

static void end_line(struct log_line *l)
{
	l->len = 0;
	l->cut = 0;
}

void log_line_add(struct log_line *l, const char *p, size_t n, log_line_fn *fn, void *ctx)
{
	while (n) {
		const char *end = memchr(p, '\n', n);
		size_t part = end ? (size_t)(end - p) : n;

		part = part < LOG_LINE - l->len ? part : LOG_LINE - l->len;
		memcpy(l->text + l->len, p, part);
		l->len += part;
		p += part;
		n -= part;
		if (n && *p == '\n') {
			fn(ctx, l, 1);
			end_line(l);
			p++;
			n--;
		} else if (l->len == LOG_LINE) {
			fn(ctx, l, 0);
			memmove(l->text, l->text + LOG_LINE / 2, LOG_LINE / 2);
			l->len = LOG_LINE / 2;
			l->cut = 1;
		}
	}
}

/* ---- the child ------------------------------------------------------------------ */

struct stream {
	char name[80];
	unsigned long used;	/* when, in entries */
	int fresh;		/* its line has grown since the last match */
	struct log_line line;
};

struct reader {
	regex_t regex[WAIT_LOGS_MAX];
	int matched[WAIT_LOGS_MAX];
	size_t count, missing;
	struct stream *streams[STREAMS];
	unsigned long entries;
	int main_only;		/* a service: only the lines that berth logs shows of it */
	int to;			/* news go here */
};

static void tell_log_news(const struct reader *r, int index, const struct err *e)
{
	struct wait_log_news news = { .index = index };

	if (e)
		news.e = *e;
	if (send(r->to, &news, sizeof(news), MSG_NOSIGNAL) != sizeof(news))
		_exit(1);
}

static void match_log_line(void *ctx, const struct log_line *l, int ended)
{
	const int flags = (l->cut ? REG_NOTBOL : 0) | (ended ? 0 : REG_NOTEOL);
	char text[LOG_LINE + 1];
	struct reader *r = ctx;
	size_t i;

	/* regexec(3) takes text: a NUL within it is another byte that nobody asks for */
	for (i = 0; i < l->len; i++)
		text[i] = l->text[i] ? l->text[i] : '\1';
	text[i] = '\0';
	for (i = 0; i < r->count; i++) {
		if (!r->matched[i] && regexec(&r->regex[i], text, 0, NULL, flags) == 0) {
			r->matched[i] = 1;
			r->missing--;
			tell_log_news(r, (int)i, NULL);
		}
	}
}

static struct stream *stream_of_entry(struct reader *r, const char *source, const char *stream)
{
	struct stream **slot = &r->streams[0];
	char name[80];
	int i;

	snprintf(name, sizeof(name), "%.60s %.10s", source, stream);
	for (i = 0; i < STREAMS; i++) {
		if (!r->streams[i] || !strcmp(r->streams[i]->name, name)) {
			slot = &r->streams[i];
			break;
		}
		if (r->streams[i]->used < (*slot)->used)
			slot = &r->streams[i];
	}
	if (!*slot && !(*slot = calloc(1, sizeof(**slot))))
		return NULL;
	if (strcmp((*slot)->name, name)) {
		memcpy((*slot)->name, name, sizeof(name));
		end_line(&(*slot)->line);
	}
	(*slot)->used = ++r->entries;
	return *slot;
}

static int take_log_entry(struct reader *r, const json_t *entry, const char *since, struct err *e)
{
	const char *time = json_string_value(json_object_get(entry, "time"));
	const char *source = json_string_value(json_object_get(entry, "source"));
	const char *name = json_string_value(json_object_get(entry, "stream"));
	const json_t *data = json_object_get(entry, "data");
	size_t n = json_string_length(data);
	autofree char *text = NULL;
	struct stream *s;

	if (!time || strcmp(time, since) < 0 || !source || !data)
		return 0;
	if (r->main_only && strcmp(source, KEEPER_LOG_MAIN) && strcmp(source, KEEPER_LOG_INIT))
		return 0;
	s = stream_of_entry(r, source, name ? name : "");
	text = s ? malloc(n + 1) : NULL;
	if (!text)
		return err_nomem(e);
	memcpy(text, json_string_value(data), n);
	if (json_is_true(json_object_get(entry, "bytes")))
		n = keeper_log_bytes(text, n);
	log_line_add(&s->line, text, n, match_log_line, r);
	s->fresh = 1;
	return 0;
}

/* A prompt ends without a newline, so an unfinished line counts, too. */
static void match_begun(struct reader *r)
{
	int i;

	for (i = 0; i < STREAMS && r->streams[i]; i++) {
		if (r->streams[i]->fresh && r->streams[i]->line.len)
			match_log_line(r, &r->streams[i]->line, 0);
		r->streams[i]->fresh = 0;
	}
}

/* Everything that is in the log now. */
static int drain_journal(struct reader *r, struct journal_reader *j, const char *since, struct err *e)
{
	json_t *entry;
	int got;

	while (r->missing && (got = journal_next(j, &entry, e)) != 0) {
		if (got > 0) {
			got = take_log_entry(r, entry, since, e);
			json_decref(entry);
		}
		if (got < 0)
			return -1;
	}
	match_begun(r);
	return 0;
}

static int read_log_until_matched(struct reader *r, int dir_fd, const char *since, struct err *e)
{
	autoclose int watch = journal_watch(dir_fd, e);
	struct journal_reader j;
	int result, last = 0;

	if (watch < 0 || journal_open(&j, dir_fd, KEEPER_LOG, 0, e) < 0)
		return -1;
	while ((result = drain_journal(r, &j, since, e)) == 0 && r->missing && !last) {
		struct pollfd p[2] = { { .fd = watch, .events = POLLIN },
				       { .fd = r->to, .events = POLLRDHUP } };

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			result = err_sys(e, "wait for the log");
		last = result < 0 || p[1].revents;
		journal_drain(watch);
	}
	journal_reader_close(&j);
	return result;
}

static int compile_regexes(struct reader *r, const char *const *regex, size_t count, struct err *e)
{
	char why[120];
	int failed;

	for (; r->count < count; r->count++) {
		failed = regcomp(&r->regex[r->count], regex[r->count], REG_EXTENDED | REG_NOSUB);
		if (!failed)
			continue;
		regerror(failed, NULL, why, sizeof(why));
		return err_set(e, ERR_INVALID, "regular expression '%.80s': %s", regex[r->count],
			       why);
	}
	r->missing = count;
	return 0;
}

static void read_log_in_child(int to, int dir_fd, const struct wait_log_want *want)
	__attribute__((noreturn));
static void read_log_in_child(int to, int dir_fd, const struct wait_log_want *want)
{
	struct reader *r = calloc(1, sizeof(*r));
	struct err e = { 0 };

	if (!r)
		_exit(1);
	r->to = to;
	r->main_only = want->main_only;
#ifndef __SANITIZE_ADDRESS__ /* its shadow memory is over any bound */
	(void)!setrlimit(RLIMIT_DATA, &(struct rlimit){ MEMORY, MEMORY });
#endif
	if (compile_regexes(r, want->regex, want->count, &e) < 0 ||
	    read_log_until_matched(r, dir_fd, want->since, &e) < 0)
		tell_log_news(r, -1, &e);
	_exit(0);
}

int wait_log_start(struct wait_log *w, int log_dir_fd, const struct wait_log_want *want,
		   struct err *e)
{
	const pid_t parent = getpid();
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return err_sys(e, "make a socket pair");
	w->pid = fork();
	if (w->pid == 0) {
		close(fds[0]);
		if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
			_exit(1);
		read_log_in_child(fds[1], log_dir_fd, want);
	}
	close(fds[1]);
	w->fd = fds[0];
	if (w->pid > 0)
		return 0;
	fd_close(&w->fd);
	return err_sys(e, "start the reader of the log");
}

void wait_log_last(struct wait_log *w)
{
	shutdown(w->fd, SHUT_WR);
}

void wait_log_end(struct wait_log *w)
{
	if (w->fd < 0)
		return;
	kill(w->pid, SIGKILL);
	while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	fd_close(&w->fd);
}

/* ---- until all conditions are met ---- */

#define TIME_MAX_MS (366ULL * 86400000)
#define PORT_FIRST_MS 2
#define PORT_MS 100
#define RECORD_MAX (1u << 20)

struct waiting {
	const struct wait_ready *w;
	struct sandbox_ref s;
	int init;		/* its process 1 */
	int healthy, stopped;
	uint32_t ports, logs;	/* bit i: that one holds */
	uint64_t began_ms, until_ms;	/* 0: no end */
	uint64_t look_ms, gap_ms;	/* for ports */
	struct wait_log log;
};

int wait_ready_set(struct wait_ready *w, int id, const char *value, struct err *e)
{
	uint64_t port;

	switch (id) {
	case WAIT_READY_HEALTHY:
		w->healthy = 1;
		return 0;
	case WAIT_READY_PORT:
		if (num_u64(value, "port", 1, UINT16_MAX, &port, e) < 0)
			return -1;
		if (w->port_count == WAIT_PORTS_MAX)
			return err_set(e, ERR_LIMIT, "more than %d ports", WAIT_PORTS_MAX);
		w->ports[w->port_count++] = (uint16_t)port;
		return 0;
	case WAIT_READY_LOG:
		if (w->log_count == WAIT_LOGS_MAX)
			return err_set(e, ERR_LIMIT, "more than %d expressions", WAIT_LOGS_MAX);
		if (!value[0] || strlen(value) > LOG_REGEX_MAX)
			return err_set(e, ERR_INVALID, "the expression is empty, or longer than "
				       "%d bytes", LOG_REGEX_MAX);
		w->logs[w->log_count++] = value;
		return 0;
	case WAIT_READY_TIMEOUT:
		w->timed = 1;
		return num_duration_ms(value, "timeout", TIME_MAX_MS, &w->timeout_ms, e);
	default:
		return 1;
	}
}

size_t wait_ready_count(const struct wait_ready *w)
{
	return (w->healthy ? 1 : 0) + w->port_count + w->log_count;
}

static int all_of(uint32_t bits, size_t count)
{
	return bits == (1u << count) - 1;
}

static int is_everything_ready(const struct waiting *x)
{
	return (!x->w->healthy || x->healthy) && all_of(x->ports, x->w->port_count) &&
	       all_of(x->logs, x->w->log_count);
}

/* ---- the conditions --------------------------------------------------------------- */

static int take_health(struct waiting *x, const json_t *answer, struct err *e)
{
	const char *status = json_string_value(json_object_get(answer, "status")), *output;
	const json_t *log = json_object_get(answer, "log"), *last;

	x->healthy = status && !strcmp(status, "healthy");
	if (x->healthy)
		return 0;
	last = json_array_get(log, json_array_size(log) - 1);
	output = json_string_value(json_object_get(last, "output"));
	err_set(e, ERR_UNHEALTHY, "sandbox %s is unhealthy: its check ended with status %d: %.200s",
		x->s.id, (int)json_integer_value(json_object_get(last, "exit_code")),
		output ? output : "");
	return err_hint(e, "berth inspect %s", x->s.id);
}

/* The keeper says nothing unasked: an answer on health, or its end. */
static int take_event_word(struct waiting *x, struct err *e)
{
	autojson json_t *answer = NULL;
	size_t n;
	int got = wire_recv(x->s.sock, 0, &answer, NULL, 0, &n, e);

	if (got < 0)
		return e->code == ERR_TIMEOUT ? 0 : -1;
	if (got > 0)
		return wire_check(answer, e) < 0 ? -1 : take_health(x, answer, e);
	x->stopped = 1;
	fd_close(&x->s.sock);
	if (x->w->log_count)
		wait_log_last(&x->log);	/* what it wrote at its end counts */
	return 0;
}

static int take_match(struct waiting *x, struct err *e)
{
	struct wait_log_news news;
	ssize_t n = recv(x->log.fd, &news, sizeof(news), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n == (ssize_t)sizeof(news) && news.e.code) {
		*e = news.e;
		return -1;
	}
	if (n == (ssize_t)sizeof(news))
		x->logs |= 1u << news.index;
	else if (!x->stopped && !all_of(x->logs, x->w->log_count))
		return err_set(e, ERR_LIMIT, "the reader of the log ended; "
			       "hint: a simpler regular expression");
	if (n <= 0)
		wait_log_end(&x->log);
	return 0;
}

static int look_at_ports(struct waiting *x, uint64_t now, struct err *e)
{
	size_t i;

	for (i = 0; i < x->w->port_count; i++) {
		int r = x->ports & 1u << i ? 1 : listening_has(x->init, x->w->ports[i], e);

		/* it has stopped just now: the keeper's end will say so */
		if (r < 0 && e->os_errno != ENOENT && e->os_errno != EINVAL && e->os_errno != ESRCH)
			return -1;
		if (r > 0)
			x->ports |= 1u << i;
	}
	x->gap_ms = x->gap_ms * 2 < PORT_MS ? x->gap_ms * 2 : PORT_MS;
	x->look_ms = all_of(x->ports, x->w->port_count) ? 0 : now + x->gap_ms;
	return 0;
}

/* ---- waiting ---------------------------------------------------------------------- */

/* The conditions that are not met yet, in words. */
static int say_missing(const struct waiting *x, enum err_code code, const char *why, struct err *e)
{
	autobuf struct buf b = BUF_INIT(4096);
	struct err ignored;
	size_t i;

	if (x->w->healthy && !x->healthy)
		buf_adds(&b, ", its health check has not succeeded", &ignored);
	for (i = 0; i < x->w->port_count; i++)
		if (!(x->ports & 1u << i))
			buf_addf(&b, &ignored, ", nothing listens on port %u", x->w->ports[i]);
	for (i = 0; i < x->w->log_count; i++)
		if (!(x->logs & 1u << i))
			buf_addf(&b, &ignored, ", no line of its log matches '%.40s'",
				 x->w->logs[i]);
	err_set(e, code, "sandbox %s %s: %.250s", x->s.id, why, b.len > 2 ? b.data + 2 : "");
	return err_hint(e, "berth logs %s", x->s.id);
}

static int timeout_of(const struct waiting *x, uint64_t now)
{
	return clock_poll_ms(clock_earlier(x->until_ms, x->look_ms), now, 60000);
}

static int begin_waiting(struct waiting *x, struct err *e);

/* As sandbox_ref_await_run(), with a run that lives long enough to be asked. */
static int join_run(struct waiting *x, struct err *e)
{
	int r;

	while ((r = sandbox_ref_await_run(&x->s, x->until_ms, e)) > 0 && begin_waiting(x, e) < 0) {
		fd_close(&x->s.sock);
		wait_log_end(&x->log);
		if (e->code != ERR_NOT_FOUND || !restart_is_coming(&x->s.registry, x->s.id))
			return -1;
	}
	return r < 0 && e->code == ERR_TIMEOUT ?
		       say_missing(x, ERR_TIMEOUT, "is not ready in time", e) : r;
}

/* It has stopped: the wait continues if its restart policy starts it again. */
static int next_run(struct waiting *x, struct err *e)
{
	const int r = join_run(x, e);

	if (r == 0)
		return say_missing(x, ERR_NOT_FOUND, "stopped before it was ready", e);
	return r < 0 ? -1 : 0;
}

static int wait_one_turn(struct waiting *x, struct err *e)
{
	struct pollfd p[2] = { { .fd = x->s.sock, .events = POLLIN },
			       { .fd = x->log.fd, .events = POLLIN } };
	uint64_t now = clock_ms();

	if (poll(p, 2, timeout_of(x, now)) < 0 && errno != EINTR)
		return err_sys(e, "wait for sandbox %s", x->s.id);
	now = clock_ms();
	if (p[1].revents && take_match(x, e) < 0)
		return -1;
	if (p[0].revents && take_event_word(x, e) < 0)
		return -1;
	if (x->look_ms && now >= x->look_ms && !x->stopped && look_at_ports(x, now, e) < 0)
		return -1;
	if (is_everything_ready(x))
		return 1;
	if (x->stopped && x->log.fd < 0)
		return next_run(x, e);
	if (x->until_ms && now >= x->until_ms)
		return say_missing(x, ERR_TIMEOUT, "is not ready in time", e);
	return 0;
}

/* The log of earlier runs says nothing of this one: when it began, as the log has times. */
static int start_time_of_run(struct waiting *x, char out[JOURNAL_TIME], struct err *e)
{
	autojson json_t *rq = protocol_request(OP_ping), *answer = NULL;
	uint64_t up_ms = 0, at_ms;
	struct timespec t;

	answer = rq ? keeper_call(x->s.sock, rq, NULL, 0, NULL, e) : NULL;
	if (!answer || json_get_u64(answer, "uptime_ms", &up_ms, "answer", e) < 0)
		return -1;
	at_ms = clock_wall_ms() - up_ms;
	t.tv_sec = (time_t)(at_ms / 1000);
	t.tv_nsec = (long)(at_ms % 1000) * 1000000;
	journal_time(&t, out);
	return 0;
}

static int find_init(struct waiting *x, struct err *e)
{
	autojson json_t *record = record_load_run(&x->s.registry, x->s.id, e);

	if (!record)
		return -1;
	x->init = (int)record_init_pid(record);
	return x->init > 1 ? 0 : err_set(e, ERR_CORRUPT, "%s of sandbox %s names no process 1",
					 RECORD_FILE, x->s.id);
}

static int begin_log(struct waiting *x, struct err *e)
{
	autojson json_t *record = record_load_kept(&x->s.registry, x->s.id, e);
	autoclose int dir = record ? registry_keep_dir(&x->s.registry, x->s.id, e) : -1;
	struct wait_log_want want = { x->w->logs, x->w->log_count, NULL, 0 };
	char since[JOURNAL_TIME];

	if (dir < 0 || start_time_of_run(x, since, e) < 0)
		return -1;
	want.since = since;
	want.main_only = record_service(record);
	return wait_log_start(&x->log, dir, &want, e);
}

/* With a running sandbox, whose keeper is connected. */
static int begin_waiting(struct waiting *x, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_health);

	x->stopped = 0;
	request_set_wait(rq, 1);
	if (x->w->port_count && find_init(x, e) < 0)
		return -1;
	if (x->w->log_count && begin_log(x, e) < 0)
		return -1;
	if (x->w->port_count)
		x->look_ms = clock_ms();
	if (!rq)
		return err_nomem(e);
	return x->w->healthy ? wire_request(x->s.sock, rq, NULL, 0, e) : 0;
}

int wait_ready(const struct wait_ready *w, const char *ref, char ret_id[65], uint64_t *ret_ms,
	       struct err *e)
{
	struct waiting x = { .w = w, .gap_ms = PORT_FIRST_MS, .log.fd = -1 };
	int r;

	x.began_ms = clock_ms();
	x.until_ms = w->timeout_ms ? x.began_ms + w->timeout_ms : 0;
	sandbox_ref_init(&x.s);
	r = sandbox_ref_find(&x.s, ref, e);
	if (r == 0)
		r = join_run(&x, e) > 0 ? 0 : -1;	/* or e says that it does not run */
	while (r == 0)
		r = wait_one_turn(&x, e);
	wait_log_end(&x.log);
	memcpy(ret_id, x.s.id, sizeof(x.s.id));
	sandbox_ref_close(&x.s);
	*ret_ms = clock_ms() - x.began_ms;
	return r < 0 ? -1 : 0;
}
