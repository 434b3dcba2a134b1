/* SPDX-License-Identifier: Apache-2.0 */
/* Routes that tell what happens, as it happens: events, and a sandbox's use of the host. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/api/api.h"
#include "manager/api/estream.h"
#include "manager/api/events.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

#define BEAT_MS 15000	/* something is written at least this often, so that a dead client is noticed */
#define STATS_MS 1000

struct listening {
	struct events *events;
	int fd;
	uint64_t at;
	char sandbox[65];
	int began;
};

static void listening_free(void *ctx)
{
	struct listening *l = ctx;

	events_unsubscribe(l->events, l->fd);
	free(l);
}

static int next_reported_event(struct estream *s, struct http_request *rq, struct err *e)
{
	struct listening *l = s->ctx;
	eventfd_t ignored;
	json_t *event;
	char type[32];
	int r;

	if (!l->began) {
		l->began = 1;
		return estream_beat(s, e) < 0 ? -1 : 1;		/* the header goes out at once */
	}
	for (;;) {
		(void)!eventfd_read(l->fd, &ignored);
		event = events_after(l->events, &l->at, http_who(rq), l->sandbox[0] ? l->sandbox : NULL);
		if (event)
			break;
		r = http_wait(rq, l->fd, POLLIN, BEAT_MS, e);
		if (r < 0)
			return -1;
		if (r == 0)
			return estream_beat(s, e) < 0 ? -1 : 1;
	}
	/* the name is the event's, which the call consumes */
	snprintf(type, sizeof(type), "%s", json_string_value(json_object_get(event, "type")));
	return estream_add(s, type, l->at, event, e) < 0 ? -1 : 1;
}

static int listen_to_events(struct http_request *rq, const char *sandbox, struct err *e)
{
	struct listening *l = calloc(1, sizeof(*l));
	const char *since = http_query(rq, "since"), *last = http_header(rq, "Last-Event-ID");
	struct err ignored;

	if (!l)
		return err_nomem(e);
	l->events = api_of(rq)->events;
	l->at = events_last(l->events);
	if (since)
		l->at = http_query_u64(rq, "since", 0);
	else if (last)
		(void)!num_u64(last, "Last-Event-ID", 0, l->at, &l->at, &ignored);
	snprintf(l->sandbox, sizeof(l->sandbox), "%s", sandbox);
	l->fd = http_endless(rq, e) < 0 ? -1 : events_subscribe(l->events, http_who(rq)->admin, e);
	if (l->fd < 0) {
		free(l);
		return -1;
	}
	return estream_reply(rq, 0, next_reported_event, listening_free, l, e);
}

static int get_event_stream(struct http_request *rq, struct err *e)
{
	return listen_to_events(rq, "", e);
}

static int get_sandbox_events(struct http_request *rq, struct err *e)
{
	struct box b;
	char id[65];
	int r = box_find(&b, rq, e);

	memcpy(id, b.id, sizeof(id));
	box_close(&b);
	return r < 0 ? -1 : listen_to_events(rq, id, e);
}

/* ---- stats, every second ----------------------------------------------------------------- */

struct watching {
	struct box box;
	int rows;
};

static void event_listener_free(void *ctx)
{
	struct watching *w = ctx;

	box_close(&w->box);
	free(w);
}

static int next_stats(struct estream *s, struct http_request *rq, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_stats);
	struct watching *w = s->ctx;
	json_t *answer;
	int r;

	if (w->rows++) {
		/* the keeper says nothing unasked: readable is its end */
		r = http_wait(rq, w->box.sock, POLLIN, STATS_MS, e);
		if (r)
			return r < 0 ? -1 : 0;
	}
	answer = box_call(&w->box, ask, NULL, 0, NULL, e);
	if (!answer)
		return w->box.ended ? 0 : -1;
	return estream_add(s, "stats", 0, answer, e) < 0 ? -1 : 1;
}

static int get_watch(struct http_request *rq, struct err *e)
{
	struct watching *w = calloc(1, sizeof(*w));

	if (!w)
		return err_nomem(e);
	if (box_connect(&w->box, rq, e) < 0 || http_endless(rq, e) < 0) {
		event_listener_free(w);
		return -1;
	}
	return estream_reply(rq, 0, next_stats, event_listener_free, w, e);
}

const struct http_route event_routes[] = {
	{ "GET", "/v1/events", get_event_stream, "what happens to sandboxes, as it happens", .query = "since:integer", .type = ESTREAM_TYPES },
	{ "GET", "/v1/sandboxes/{id}/events", get_sandbox_events, "what happens to one sandbox", .query = "since:integer",
	  .type = ESTREAM_TYPES },
	{ "GET", "/v1/sandboxes/{id}/stats/watch", get_watch, "what it uses, every second until it stops", .type = ESTREAM_TYPES },
	{ NULL },
};
