/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/wait_log.h"

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

#include "base/mem.h"
#include "manager/keeper/keeper_log.h"

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

static void tell(const struct reader *r, int index, const struct err *e)
{
	struct wait_log_news news = { .index = index };

	if (e)
		news.e = *e;
	if (send(r->to, &news, sizeof(news), MSG_NOSIGNAL) != sizeof(news))
		_exit(1);
}

static void match(void *ctx, const struct log_line *l, int ended)
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
			tell(r, (int)i, NULL);
		}
	}
}

static struct stream *stream_of(struct reader *r, const char *source, const char *stream)
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

static int take(struct reader *r, const json_t *entry, const char *since, struct err *e)
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
	s = stream_of(r, source, name ? name : "");
	text = s ? malloc(n + 1) : NULL;
	if (!text)
		return err_nomem(e);
	memcpy(text, json_string_value(data), n);
	if (json_is_true(json_object_get(entry, "bytes")))
		n = keeper_log_bytes(text, n);
	log_line_add(&s->line, text, n, match, r);
	s->fresh = 1;
	return 0;
}

/* A prompt ends without a newline, so an unfinished line counts, too. */
static void match_begun(struct reader *r)
{
	int i;

	for (i = 0; i < STREAMS && r->streams[i]; i++) {
		if (r->streams[i]->fresh && r->streams[i]->line.len)
			match(r, &r->streams[i]->line, 0);
		r->streams[i]->fresh = 0;
	}
}

/* Everything that is in the log now. */
static int drain(struct reader *r, struct journal_reader *j, const char *since, struct err *e)
{
	json_t *entry;
	int got;

	while (r->missing && (got = journal_next(j, &entry, e)) != 0) {
		if (got > 0) {
			got = take(r, entry, since, e);
			json_decref(entry);
		}
		if (got < 0)
			return -1;
	}
	match_begun(r);
	return 0;
}

static int read_log(struct reader *r, int dir_fd, const char *since, struct err *e)
{
	autoclose int watch = journal_watch(dir_fd, e);
	struct journal_reader j;
	int result, last = 0;

	if (watch < 0 || journal_open(&j, dir_fd, KEEPER_LOG, 0, e) < 0)
		return -1;
	while ((result = drain(r, &j, since, e)) == 0 && r->missing && !last) {
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

static int compile(struct reader *r, const char *const *regex, size_t count, struct err *e)
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

static void child(int to, int dir_fd, const struct wait_log_want *want)
	__attribute__((noreturn));
static void child(int to, int dir_fd, const struct wait_log_want *want)
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
	if (compile(r, want->regex, want->count, &e) < 0 ||
	    read_log(r, dir_fd, want->since, &e) < 0)
		tell(r, -1, &e);
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
		child(fds[1], log_dir_fd, want);
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
