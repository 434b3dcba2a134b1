/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/wait_ready.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/journal.h"
#include "manager/host/record.h"
#include "manager/host/restart.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "runtime/kernel/listening.h"

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

static int is_ready(const struct waiting *x)
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
static int take_word(struct waiting *x, struct err *e)
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

static int begin(struct waiting *x, struct err *e);

/* As sandbox_ref_await_run(), with a run that lives long enough to be asked. */
static int join_run(struct waiting *x, struct err *e)
{
	int r;

	while ((r = sandbox_ref_await_run(&x->s, x->until_ms, e)) > 0 && begin(x, e) < 0) {
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

static int turn(struct waiting *x, struct err *e)
{
	struct pollfd p[2] = { { .fd = x->s.sock, .events = POLLIN },
			       { .fd = x->log.fd, .events = POLLIN } };
	uint64_t now = clock_ms();

	if (poll(p, 2, timeout_of(x, now)) < 0 && errno != EINTR)
		return err_sys(e, "wait for sandbox %s", x->s.id);
	now = clock_ms();
	if (p[1].revents && take_match(x, e) < 0)
		return -1;
	if (p[0].revents && take_word(x, e) < 0)
		return -1;
	if (x->look_ms && now >= x->look_ms && !x->stopped && look_at_ports(x, now, e) < 0)
		return -1;
	if (is_ready(x))
		return 1;
	if (x->stopped && x->log.fd < 0)
		return next_run(x, e);
	if (x->until_ms && now >= x->until_ms)
		return say_missing(x, ERR_TIMEOUT, "is not ready in time", e);
	return 0;
}

/* The log of earlier runs says nothing of this one: when it began, as the log has times. */
static int start_time(struct waiting *x, char out[JOURNAL_TIME], struct err *e)
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

	if (dir < 0 || start_time(x, since, e) < 0)
		return -1;
	want.since = since;
	want.main_only = record_service(record);
	return wait_log_start(&x->log, dir, &want, e);
}

/* With a running sandbox, whose keeper is connected. */
static int begin(struct waiting *x, struct err *e)
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
		r = turn(&x, e);
	wait_log_end(&x.log);
	memcpy(ret_id, x.s.id, sizeof(x.s.id));
	sandbox_ref_close(&x.s);
	*ret_ms = clock_ms() - x.began_ms;
	return r < 0 ? -1 : 0;
}
