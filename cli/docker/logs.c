/* SPDX-License-Identifier: Apache-2.0 */
/* docker logs and events: the journals of berth, from a time on and as they grow. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/docker/verbs.h"
#include "manager/engine/logs.h"
#include "manager/engine/events.h"
#include "manager/host/journal.h"
#include "manager/keeper/keeper.h"

static int put_log_bytes(void *ctx, int which, const char *p, size_t n, struct err *e)
{
	(void)ctx;
	return io_write_all(which + STDOUT_FILENO, p, n) < 0 ? err_sys(e, "write the output") : 0;
}

/* A keeper says nothing unasked: readable is its end.  1: its end; -1: nobody reads us any more. */
static int await_journal_or_end(int watch, int sock, struct err *e)
{
	struct pollfd p[3] = { { .fd = watch, .events = POLLIN },
			       { .fd = sock, .events = POLLIN },
			       { .fd = STDOUT_FILENO } };

	if (poll(p, 3, -1) < 0 && errno != EINTR)
		return err_sys(e, "wait for the log");
	journal_drain(watch);
	return p[1].revents != 0 || (p[2].revents & (POLLERR | POLLHUP)) != 0;
}

static int show_container_log(struct engine_logs *l, int dir, int sock, int64_t tail, struct err *e)
{
	autoclose int watch = sock >= 0 ? journal_watch(dir, e) : -1;
	int r, over = sock < 0;

	l->goes_on = sock >= 0;
	if ((sock >= 0 && watch < 0) || engine_logs_open(l, dir, tail, e) < 0)
		return -1;
	for (;;) {
		while ((r = engine_logs_next(l, e)) > 0)
			;
		/* after its end one more look has all */
		if (r < 0 || over)
			return r;
		over = await_journal_or_end(watch, sock, e);
		if (over < 0)
			return -1;
	}
}

static int set_bounds(const struct door_args *a, struct engine_logs *l, int64_t *ret_tail,
		      struct err *e)
{
	const char *tail = door_value(a, "tail");
	uint64_t n;

	*ret_tail = -1;
	if (engine_logs_time(door_value(a, "since"), l->since, e) < 0 ||
	    engine_logs_time(door_value(a, "until"), l->until, e) < 0)
		return -1;
	if (!tail || !strcmp(tail, "all") || tail[0] == '-')
		return 0;
	if (num_u64(tail, "tail", 0, INT64_MAX, &n, e) < 0)
		return -1;
	*ret_tail = (int64_t)n;
	return 0;
}

static int logs(const struct door_args *a, struct sandbox_ref *s, struct err *e)
{
	struct engine_logs l = { .want = { 1, 1 },
				 .put = put_log_bytes,
				 .timestamps = door_on(a, "timestamps") };
	autoclose int dir = -1;
	struct engine_loaded d;
	struct err ignored;
	int64_t tail;
	int r;

	if (set_bounds(a, &l, &tail, e) < 0 || door_find(s, a->words[0], e) < 0 || door_load(&d, s, 0, e) < 0)
		return -1;
	r = engine_hides_log(&d.v);
	engine_loaded_release(&d);
	if (r)
		return err_set(e, ERR_UNSUPPORTED, ENGINE_NO_LOG);
	dir = openat(s->registry.kept_fd, s->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_set(e, ERR_NOT_FOUND, "No such container: %.200s", a->words[0]);
	if (door_on(a, "follow") && !s->kept)
		s->sock = keeper_connect(&s->registry, s->id, &ignored);
	r = show_container_log(&l, dir, s->sock, tail, e);
	engine_logs_close(&l);
	return r;
}

static int docker_logs_main(const struct command *self, int argc, char **argv)
{
	struct sandbox_ref s;
	struct door_args a;
	struct err e;
	int status = 0;

	sandbox_ref_init(&s);
	if (!door_parse(&a, self, argc, argv, 1, 1))
		status = a.status;
	else if (logs(&a, &s, &e) < 0)
		status = door_error(&e);
	sandbox_ref_close(&s);
	door_release(&a);
	return status;
}

static const struct opt logs_options[] = {
	{ "details", 0, OPT_FLAG, NULL, "Show extra details provided to logs: there are none",
	  DOOR_IGNORED },
	{ "follow", 'f', OPT_FLAG, NULL, "Follow log output", DOOR_TAKEN },
	{ "since", 0, OPT_VALUE, "string", "Show logs since timestamp or relative (e.g. \"42m\")",
	  DOOR_TAKEN },
	{ "tail", 'n', OPT_VALUE, "string",
	  "Number of lines to show from the end (default \"all\")", DOOR_TAKEN },
	{ "timestamps", 't', OPT_FLAG, NULL, "Show timestamps", DOOR_TAKEN },
	{ "until", 0, OPT_VALUE, "string",
	  "Show logs before a timestamp or relative (e.g. "
	  "\"42m\")",
	  DOOR_TAKEN },
};

const struct command door_logs = {
	.name = "logs",
	.args = "[OPTIONS] CONTAINER",
	.summary = "Fetch the logs of a container",
	.opts = logs_options,
	.opt_count = ARRAY_LEN(logs_options),
	.complete = COMPLETE_SANDBOX,
	.run = docker_logs_main,
};

/* ---- events --------------------------------------------------------------------------------- */

struct stream {
	const char *format;
	char since[JOURNAL_TIME], until[JOURNAL_TIME];
	struct engine_events events;
};

/* "2026-11-23T10:00:00.123000000Z container start ID (image=host, name=web)" */
static int print_docker_event(const json_t *event, const char *time, struct err *e)
{
	autobuf struct buf b = BUF_INIT(65536);
	const json_t *actor = json_object_get(event, "Actor");
	const char *key;
	json_t *v;
	int first = 1;

	if (buf_addf(&b, e, "%.*s000000Z %s %s %s (", (int)strcspn(time, "Z"), time,
		     door_text(event, "Type"), door_text(event, "Action"),
		     door_text(actor, "ID")) < 0)
		return -1;
	json_object_foreach (json_object_get(actor, "Attributes"), key, v) {
		if (buf_addf(&b, e, "%s%s=%s", first ? "" : ", ", key, json_string_value(v)) < 0)
			return -1;
		first = 0;
	}
	return buf_adds(&b, ")\n", e) < 0 || io_write_all(1, b.data, b.len) < 0 ? -1 : 0;
}

/* What is too old to be wanted is what tells the names of others. */
static int take_event_entry(struct stream *x, const json_t *entry, struct err *e)
{
	const char *time = door_text(entry, "time");
	autojson json_t *events = engine_events_take(&x->events, entry);
	json_t *event;
	size_t i;
	int r = 0;

	if (!events)
		return err_nomem(e);
	if (strcmp(time, x->since) < 0 || (x->until[0] && strcmp(time, x->until) > 0))
		return 0;
	if (x->format && strcmp(x->format, "json") != 0)
		return json_array_size(events) ? door_documents(x->format, events, e) : 0;
	json_array_foreach (events, i, event) {
		r = x->format ? command_print_json(event, JSON_COMPACT, e) : print_docker_event(event, time, e);
		if (r < 0)
			return -1;
	}
	return 0;
}

static int64_t left_ms(const struct stream *x)
{
	int64_t until = x->until[0] ? (engine_time(x->until) + 1) * 1000 : INT64_MAX;

	return x->until[0] ? until - (int64_t)clock_wall_ms() : 60000;
}

static int stream_docker_events(struct stream *x, struct journal_reader *r, int watch, struct err *e)
{
	struct pollfd p[2] = { { .fd = watch, .events = POLLIN }, { .fd = STDOUT_FILENO } };
	json_t *entry;
	int got, failed;

	for (;;) {
		while ((got = journal_next(r, &entry, e)) > 0) {
			failed = take_event_entry(x, entry, e);
			json_decref(entry);
			if (failed)
				return -1;
		}
		if (got < 0 || left_ms(x) <= 0)
			return got;
		if (poll(p, 2, (int)(left_ms(x) < 60000 ? left_ms(x) : 60000)) < 0 &&
		    errno != EINTR)
			return err_sys(e, "wait for events");
		if (p[1].revents & (POLLERR | POLLHUP))
			return 0;
		journal_drain(watch);
	}
}

/* A format that no event fits is told at once and not at the first event. */
static int check_event_format(const char *format, struct err *e)
{
	autojson json_t *blank = json_pack("[{s:s,s:s,s:s,s:s,s:s,s:{s:s,s:{}},s:s,s:i,s:i}]", "status", "", "id", "", "from", "", "Type", "",
					   "Action", "", "Actor", "ID", "", "Attributes", "scope", "", "time", 0, "timeNano", 0);

	/* attributes are each event's own */
	if (format && strstr(format, "Attributes"))
		return 0;
	return blank ? door_format_fits(format, blank, e) : err_nomem(e);
}

static int show_docker_events(const struct door_args *a, struct sandbox_ref *s, struct err *e)
{
	autojson json_t *filters = door_filters(a, e);
	struct stream x = { .format = door_value(a, "format") };
	struct journal_reader r;
	autoclose int watch = -1;
	struct timespec now;
	int result;

	if (!filters || check_event_format(x.format, e) < 0 || engine_logs_time(door_value(a, "since"), x.since, e) < 0 ||
	    engine_logs_time(door_value(a, "until"), x.until, e) < 0 ||
	    engine_events_times(door_value(a, "since"), door_value(a, "until"), e) < 0 ||
	    engine_events_init(&x.events, filters, e) < 0)
		return -1;
	clock_gettime(CLOCK_REALTIME, &now);
	if (!x.since[0] && !x.until[0])
		journal_time(&now, x.since);
	result = sandbox_ref_registry(s, e);
	if (result == 0) {
		/* before the first look, so that nothing falls between it and the watch */
		watch = journal_watch(s->registry.state_fd, e);
		result = watch < 0 ? -1 : journal_open(&r, s->registry.state_fd, EVENTS_FILE, 0, e);
	}
	if (result == 0) {
		result = stream_docker_events(&x, &r, watch, e);
		journal_reader_close(&r);
	}
	engine_events_release(&x.events);
	return result;
}

static int docker_events_main(const struct command *self, int argc, char **argv)
{
	struct sandbox_ref s;
	struct door_args a;
	struct err e;
	int status = 0;

	sandbox_ref_init(&s);
	if (!door_parse(&a, self, argc, argv, 0, 0))
		status = a.status;
	else if (show_docker_events(&a, &s, &e) < 0)
		status = door_error(&e);
	sandbox_ref_close(&s);
	door_release(&a);
	return status;
}

static const struct opt events_options[] = {
	{ "filter", 'f', OPT_LIST, "filter", "Filter output based on conditions provided",
	  DOOR_TAKEN },
	{ "format", 0, OPT_VALUE, "string", "json, or a Go template", DOOR_TAKEN },
	{ "since", 0, OPT_VALUE, "string", "Show all events created since timestamp", DOOR_TAKEN },
	{ "until", 0, OPT_VALUE, "string", "Stream events until this timestamp", DOOR_TAKEN },
};

const struct command door_events = {
	.name = "events",
	.args = "[OPTIONS]",
	.summary = "Get real time events from the server",
	.opts = events_options,
	.opt_count = ARRAY_LEN(events_options),
	.run = docker_events_main,
};
