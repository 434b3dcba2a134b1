/* SPDX-License-Identifier: Apache-2.0 */
/* Routes on the engine as a whole: _ping, version, info, its events, and the swarm that it is not in. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/events.h"
#include "manager/engine/system.h"
#include "manager/host/journal.h"

static int get_engine_ping(struct http_request *rq, struct err *e)
{
	char *ok = strdup("OK");

	if (!ok)
		return err_nomem(e);
	if (http_reply_data(rq, 200, "text/plain; charset=utf-8", ok, 2, e) < 0 ||
	    http_reply_header(rq, "Cache-Control", "no-cache, no-store, must-revalidate", e) < 0)
		return -1;
	return http_reply_header(rq, "Pragma", "no-cache", e);
}

static int get_engine_version(struct http_request *rq, struct err *e)
{
	return http_reply_json(rq, 200, engine_version(), e);
}

static int get_engine_info(struct http_request *rq, struct err *e)
{
	json_t *j = NULL;
	struct box b;

	if (box_open(&b, rq, e) == 0)
		j = engine_info(&b.registry, e);
	box_close(&b);
	return j ? http_reply_json(rq, 200, j, e) : -1;
}

/* There are none; docker plugin ls asks. */
static int plugins(struct http_request *rq, struct err *e)
{
	return http_reply_json(rq, 200, json_array(), e);
}

const struct http_route docker_system_routes[] = {
	{ "GET", "/plugins", plugins, "list plugins: none", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/_ping", get_engine_ping, "is it there", HTTP_NONE, HTTP_QUIET },
	{ "HEAD", "/_ping", get_engine_ping, "is it there", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/version", get_engine_version, "what it is", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/info", get_engine_info, "the engine and its host", HTTP_NONE, HTTP_QUIET },
	{ NULL },
};

/* ---- events ---- */

/* GET /events: the journal of events, from a time on and as it grows. */

#define LINE_BYTES 65536

struct stream {
	struct box box;
	json_t *filters;
	struct engine_events events;
	struct journal_reader reader;
	int opened, watch;
	char since[JOURNAL_TIME], until[JOURNAL_TIME];
	uint64_t until_ms; /* on the wall clock; 0: never */
	struct buf out;
	size_t sent;
};

static void event_stream_free(void *ctx)
{
	struct stream *s = ctx;

	if (s->opened)
		journal_reader_close(&s->reader);
	engine_events_release(&s->events);
	json_decref(s->filters);
	fd_close(&s->watch);
	box_close(&s->box);
	buf_release(&s->out);
	free(s);
}

/* Events that are too old to be wanted still hold the names of others. */
static int add_event_entry(struct stream *s, const json_t *entry, struct err *e)
{
	const char *time = json_string_value(json_object_get(entry, "time"));
	autojson json_t *events = engine_events_take(&s->events, entry);
	json_t *event;
	size_t i;

	if (!events)
		return err_nomem(e);
	if (!time || strcmp(time, s->since) < 0 || (s->until[0] && strcmp(time, s->until) > 0))
		return 0;
	json_array_foreach (events, i, event) {
		autofree char *text = json_dumps(event, JSON_COMPACT);

		if (!text)
			return err_nomem(e);
		if (buf_addf(&s->out, e, "%s\n", text) < 0)
			return -1;
	}
	return 0;
}

/* 1: there is something to send; 0: the end. */
static int fill_event_stream(struct stream *s, struct http_request *rq, struct err *e)
{
	json_t *entry;
	uint64_t now;
	int got;

	while (!s->out.len) {
		got = journal_next(&s->reader, &entry, e);
		if (got < 0)
			return -1;
		if (got) {
			got = add_event_entry(s, entry, e);
			json_decref(entry);
			if (got < 0)
				return -1;
			continue;
		}
		now = clock_wall_ms();
		if (s->until_ms && now >= s->until_ms)
			return 0;
		if (http_wait(rq, s->watch, POLLIN,
			      s->until_ms
				      ? (int)(s->until_ms - now < 60000 ? s->until_ms - now : 60000)
				      : -1,
			      e) < 0)
			return -1;
		journal_drain(s->watch);
	}
	return 1;
}

static ssize_t event_stream_read(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct stream *s = ctx;
	struct err e;
	size_t n;
	int r = fill_event_stream(s, rq, &e);

	if (r <= 0)
		return r;
	n = s->out.len - s->sent < max ? s->out.len - s->sent : max;
	memcpy(buf, s->out.data + s->sent, n);
	s->sent += n;
	if (s->sent == s->out.len)
		s->sent = s->out.len = 0;
	return (ssize_t)n;
}

static int set_times(struct stream *s, struct http_request *rq, struct err *e)
{
	struct timespec now;

	if (docker_query_time(rq, "since", s->since, e) < 0 ||
	    docker_query_time(rq, "until", s->until, e) < 0 ||
	    engine_events_times(http_query(rq, "since"), http_query(rq, "until"), e) < 0)
		return -1;
	clock_gettime(CLOCK_REALTIME, &now);
	if (!s->since[0] && !s->until[0])
		journal_time(&now, s->since);
	s->until_ms = s->until[0] ? (uint64_t)engine_time(s->until) * 1000 : 0;
	return 0;
}

_Static_assert(EXEC_ID == ENGINE_ID, "an exec has an id of Docker's length");

static int exec_of_command(void *execs, const char *box, const char *command, char ret_id[ENGINE_ID])
{
	return execs_of_command(execs, box, command, ret_id);
}

static int begin_event_stream(struct stream *s, struct http_request *rq, struct err *e)
{
	s->filters = engine_filters(http_query(rq, "filters"), e);
	if (!s->filters || engine_events_init(&s->events, s->filters, e) < 0 ||
	    set_times(s, rq, e) < 0 || http_endless(rq, e) < 0 || box_open(&s->box, rq, e) < 0)
		return -1;
	s->events.exec_of = exec_of_command;
	s->events.ctx = docker_of(rq)->execs;
	/* before the first look, so that nothing falls between it and the watch */
	s->watch = journal_watch(s->box.registry.state_fd, e);
	if (s->watch < 0 ||
	    journal_open(&s->reader, s->box.registry.state_fd, EVENTS_FILE, 0, e) < 0)
		return -1;
	s->opened = 1;
	return 0;
}

static int get_docker_events(struct http_request *rq, struct err *e)
{
	struct stream *s = calloc(1, sizeof(*s));
	struct http_stream st = { event_stream_read, event_stream_free, s };

	if (!s)
		return err_nomem(e);
	box_clear(&s->box);
	s->watch = -1;
	s->out = BUF_INIT(LINE_BYTES);
	if (begin_event_stream(s, rq, e) < 0) {
		event_stream_free(s);
		return -1;
	}
	return http_reply_stream(rq, 200, "application/json", &st, e);
}

/* Any path is there for this method, as with dockerd. */
static int tell_options(struct http_request *rq, struct err *e)
{
	return http_reply_empty(rq, 200, e);
}

const struct http_route docker_event_routes[] = {
	{ "OPTIONS", "/{rest...}", tell_options, "nothing", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/events", get_docker_events, "what happens to containers", HTTP_NONE, HTTP_QUIET },
	{ NULL },
};

/* ---- swarm mode ---- */

/*
 * Routes of swarm mode, which berth does not have: each answers as a dockerd that is in no swarm.
 *
 * Clients rely on the status: docker-py and compose take 503 for "not in a swarm", and 404 for an
 * engine too old to be asked.
 */

static int no_manager(struct http_request *rq, struct err *e)
{
	return docker_fail(rq, 503, e,
			   "This node is not a swarm manager. Use \"docker swarm init\" or "
			   "\"docker swarm join\" to connect this node to swarm and try again.");
}

static int no_member(struct http_request *rq, struct err *e)
{
	return docker_fail(rq, 503, e, "This node is not part of a swarm");
}

/* Neither init nor join would help, so their answer does not name them. */
static int no_swarm(struct http_request *rq, struct err *e)
{
	return docker_fail(rq, 503, e,
			   "swarm mode is not served here: berth runs the containers of one host");
}

#define KIND(path)                                                                                 \
	{ "GET", path, no_manager, "in no swarm", HTTP_NONE, HTTP_QUIET },                         \
	{ "GET", path "/{rest...}", no_manager, "in no swarm", HTTP_NONE, HTTP_QUIET },            \
	{ "POST", path "/{rest...}", no_manager, "in no swarm", HTTP_JSON, HTTP_OPTIONAL },        \
	{ "DELETE", path "/{rest...}", no_manager, "in no swarm", HTTP_JSON, HTTP_OPTIONAL }

const struct http_route docker_swarm_routes[] = {
	{ "POST", "/swarm/init", no_swarm, "refused", HTTP_JSON, HTTP_OPTIONAL },
	{ "POST", "/swarm/join", no_swarm, "refused", HTTP_JSON, HTTP_OPTIONAL },
	{ "POST", "/swarm/leave", no_member, "in no swarm", HTTP_JSON, HTTP_OPTIONAL },
	KIND("/swarm"),
	KIND("/nodes"),
	KIND("/services"),
	KIND("/tasks"),
	KIND("/secrets"),
	KIND("/configs"),
	{ NULL },
};
