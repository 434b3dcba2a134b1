/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E2B's watches of directories: the file helper's `watch`, whose records become events of the
 * Connect protocol as they arrive (WatchDir), or are fetched by the client (CreateWatcher,
 * GetWatcherEvents). Unfetched records wait in a pipe and in the kernel; beyond that the watch
 * ends with an error.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/api/e2b.h"
#include "manager/api/estream.h"
#include "manager/api/fileflow.h"
#include "manager/api/http.h"
#include "manager/api/watchhub.h"

#define BEAT_MS 20000       /* the SDKs' Keepalive-Ping-Interval is 50 s */
#define TEXT_MAX (1u << 20) /* of records that one answer has */
#define EVENT_COST 16       /* bytes of memory for one of text, as JSON */
#define ANSWER_MS 5000

struct watching {
	struct watchhub *hub;
	struct watchhub_place *place; /* of a stream; a watcher's holds it */
	int sock;                     /* to the keeper, which ends the helper when it closes */
	struct fileflow flow;
	struct accounts accounts;
	char path[4096];
	int entries, began, over; /* over: 1 ended, -1 with why */
	struct err why;
	struct buf text; /* read, of records that are not whole */
};

static void e2b_watch_free(void *what)
{
	struct watching *w = what;

	fileflow_release(&w->flow);
	buf_release(&w->text);
	accounts_release(&w->accounts);
	fd_close(&w->sock);
	if (w->place)
		watchhub_leave(w->hub, w->place);
	free(w);
}

/* Its sandbox is gone, and every client that could ask for it. */
static int is_e2b_watch_over(void *what)
{
	struct pollfd p = { .fd = ((struct watching *)what)->sock };

	return poll(&p, 1, 0) == 1 && p.revents & (POLLHUP | POLLERR);
}

/* ---- beginning ------------------------------------------------------------------------------ */

static int read_flag(const json_t *body, const char *key, int *ret, struct err *e)
{
	const json_t *v = json_object_get(body, key);

	*ret = json_is_true(v);
	return !v || json_is_boolean(v) ? 0 : err_set(e, ERR_INVALID, "%s is not a boolean", key);
}

/* Starts the helper, as root where the image has no such user, and waits until it watches. */
static int start_e2b_watch(struct watching *w, struct http_request *rq, struct e2b_user *u, int recursive,
		 uint64_t deadline_ms, struct err *e)
{
	char flags[3] = { recursive ? 'r' : '-', w->entries ? 'e' : '-', '\0' };
	const char *argv[] = { "watch", flags, w->path, NULL };
	int r;

	do {
		fileflow_release(&w->flow);
		fileflow_init(&w->flow);
		r = fileflow_start(&w->flow, w->sock, argv, u->name,
				   deadline_ms, 1, e);
		if (r == 0)
			r = fileflow_first(&w->flow, rq, e);
	} while (r < 0 && e2b_user_retry(u, e));
	w->flow.client.wait_ms = ANSWER_MS;
	return r < 0 ? -1 : buf_add(&w->text, w->flow.first, w->flow.first_n, e);
}

static int begin_e2b_watch(struct watching *w, struct http_request *rq, const json_t *body,
		 uint64_t deadline_ms, struct err *e)
{
	const char *path = json_string_value(json_object_get(body, "path"));
	int recursive, ignored, r;
	struct e2b_user u;
	struct box b;

	if (read_flag(body, "recursive", &recursive, e) < 0 ||
	    read_flag(body, "includeEntry", &w->entries, e) < 0 ||
	    read_flag(body, "allowNetworkMounts", &ignored, e) < 0)
		return -1;
	if (!path)
		return err_set(e, ERR_INVALID, "path is missing");
	r = e2b_connect(&b, rq, e);
	if (r == 0 && (e2b_user_of(rq, NULL, &u, e) < 0 || e2b_place(&b, &w->accounts, &u, path, w->path, e) < 0))
		r = -1;
	if (r == 0 && w->entries)
		accounts_read(&w->accounts, b.sock);
	if (r == 0 && !(w->place = watchhub_enter(w->hub, b.id, http_who(rq)->name, is_e2b_watch_over, e)))
		r = -1;
	w->sock = take_fd(&b.sock);
	box_close(&b);
	return r < 0 ? -1 : start_e2b_watch(w, rq, &u, recursive, deadline_ms, e);
}

static struct watching *watching_new(struct http_request *rq, const json_t *body,
				     uint64_t deadline_ms, struct err *e)
{
	struct watching *w = calloc(1, sizeof(*w));

	if (!w) {
		err_nomem(e);
		return NULL;
	}
	w->hub = api_of(rq)->watches;
	w->sock = -1;
	w->text = BUF_INIT(TEXT_MAX);
	accounts_init(&w->accounts);
	fileflow_init(&w->flow);
	if (begin_e2b_watch(w, rq, body, deadline_ms, e) == 0)
		return w;
	e2b_watch_free(w);
	return NULL;
}

/* ---- what came ---------------------------------------------------------------------------- */

/* Reads what is there: 1 something, 0 nothing now, -1 the watch is over, as w->over says. */
static int read_more(struct watching *w)
{
	struct filecounts ignored;
	char some[65536];
	ssize_t n = 0;

	if (w->over)
		return -1;
	n = read(w->flow.pipe_fd, some, sizeof(some));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0 && buf_add(&w->text, some, (size_t)n, &w->why) == 0)
		return 1;
	w->over = n > 0 || fileflow_end(&w->flow, &ignored, &w->why) < 0 ? -1 : 1;
	return -1;
}

static json_t *event_json(const struct watching *w, const struct watchrecord *r)
{
	json_t *j = json_pack("{s:s,s:s}", "name", r->name, "type", watchrecord_type(r));
	char path[8192];

	if (j && r->has_file) {
		snprintf(path, sizeof(path), "%s/%s", strcmp(w->path, "/") ? w->path : "", r->name);
		json_object_set_new(j, "entry", e2b_entry_of(&w->accounts, path, &r->file));
	}
	return j;
}

/* Hands each whole record to add() as an event; a name that is not UTF-8 has no event. */
static int take_watch_records(struct watching *w, int (*add)(void *ctx, json_t *event, struct err *e),
			void *ctx, struct err *e)
{
	const char *at = w->text.data, *end = at + w->text.len;
	struct watchrecord r;
	json_t *event;
	int got = 0;

	while (w->text.len && (got = watchrecord_next(&at, end, w->entries, &r, e)) > 0) {
		event = r.what == 's' ? NULL : event_json(w, &r);
		if (event && add(ctx, event, e) < 0)
			return -1;
	}
	if (got < 0)
		return -1;
	if (w->text.len) {
		w->text.len = (size_t)(end - at);
		memmove(w->text.data, at, w->text.len);
	}
	return 0;
}

/* ---- WatchDir -------------------------------------------------------------------------------- */

static int add_to_stream(void *ctx, json_t *event, struct err *e)
{
	return estream_add(ctx, "", 0, json_pack("{s:o}", "filesystem", event), e);
}

static int next_events(struct estream *s, struct http_request *rq, struct err *e)
{
	struct watching *w = s->ctx;
	int r;

	if (!w->began++)
		return estream_add(s, "", 0, json_pack("{s:{}}", "start"), e) < 0 ? -1 : 1;
	r = read_more(w);
	if (r == 0) {
		r = http_wait(rq, w->flow.pipe_fd, POLLIN, BEAT_MS, e);
		if (r == 0)
			r = estream_add(s, "", 0, json_pack("{s:{}}", "keepalive"), e);
		return r < 0 ? -1 : 1;
	}
	if (take_watch_records(w, add_to_stream, s, e) < 0)
		return -1;
	if (w->over < 0)
		*e = w->why;
	return w->over < 0 ? -1 : !w->over;
}

static struct watching *open_e2b_watch_stream(struct http_request *rq, struct err *e)
{
	autojson json_t *body = connectrpc_message(rq, e);
	uint64_t deadline_ms;

	if (!body || connectrpc_deadline(rq, &deadline_ms, e) < 0 || http_endless(rq, e) < 0)
		return NULL;
	return watching_new(rq, body, deadline_ms, e);
}

static int post_watch_dir(struct http_request *rq, struct err *e)
{
	struct watching *w = open_e2b_watch_stream(rq, e);

	if (w)
		return estream_reply_connect(rq, next_events, e2b_watch_free, w, e);
	return e->code == ERR_NET ? -1 : connectrpc_refuse(rq, e);
}

/* ---- CreateWatcher, GetWatcherEvents, RemoveWatcher ------------------------------------------ */

static int post_e2b_watcher(struct http_request *rq, struct err *e)
{
	struct watching *w = watching_new(rq, http_json(rq), 0, e);
	struct watchhub_place *place;
	char id[WATCHHUB_ID_SIZE];

	if (!w)
		return -1;
	place = take_ptr(&w->place); /* which releases the watch from now on */
	if (watchhub_keep(w->hub, place, w, e2b_watch_free, id, e) < 0) {
		w->place = place;
		e2b_watch_free(w);
		return -1;
	}
	return http_reply_json(rq, 0, json_pack("{s:s}", "watcherId", id), e);
}

/* The watcher that the body names, of the sandbox that the request names. */
static struct watching *find_e2b_watch(struct http_request *rq, struct watchhub_place **ret, struct err *e)
{
	const char *id = json_string_value(json_object_get(http_json(rq), "watcherId"));
	struct watching *w = NULL;
	struct box b;

	if (e2b_connect(&b, rq, e) == 0)
		w = watchhub_take(api_of(rq)->watches, b.id, id ? id : "", ret, e);
	box_close(&b);
	return w;
}

static int add_to_list(void *ctx, json_t *event, struct err *e)
{
	return json_array_append_new(ctx, event) < 0 ? err_nomem(e) : 0;
}

/* All that came up to now, as far as one answer has room. */
static int collect_watch_events(struct watching *w, struct http_request *rq, json_t *list, struct err *e)
{
	struct http_hold hold = { 0 };
	size_t total = 0, before;
	int r = 0, more = 1;

	while (r == 0 && more > 0 && total < TEXT_MAX) {
		before = w->text.len;
		more = read_more(w);
		total += w->text.len - before;
		r = http_hold_take(rq, &hold, EVENT_COST * (w->text.len - before), e);
		if (r == 0)
			r = take_watch_records(w, add_to_list, list, e);
	}
	http_hold_end(&hold);
	if (r == 0 && w->over < 0 && !json_array_size(list)) {
		*e = w->why;
		r = -1;
	}
	return r;
}

static int post_events(struct http_request *rq, struct err *e)
{
	struct watchhub_place *place;
	struct watching *w = find_e2b_watch(rq, &place, e);
	json_t *list;
	int r;

	if (!w)
		return -1;
	list = json_array();
	r = collect_watch_events(w, rq, list, e);
	watchhub_put(w->hub, place);
	if (r == 0)
		return http_reply_json(rq, 0, json_pack("{s:o}", "events", list), e);
	json_decref(list);
	return -1;
}

static int post_e2b_watcher_remove(struct http_request *rq, struct err *e)
{
	struct watchhub_place *place;
	struct watching *w = find_e2b_watch(rq, &place, e);

	if (!w)
		return -1;
	watchhub_leave(w->hub, place);
	return http_reply_json(rq, 0, json_object(), e);
}

#define FILESYSTEM "/filesystem.Filesystem"
#define ERRORS .shape_error = e2b_connect_error, .error_schema = "Document"
#define UNARY HTTP_JSON, HTTP_ONE, .response = "Document", ERRORS

const struct http_route e2b_watch_routes[] = {
	{ "POST", FILESYSTEM "/WatchDir", post_watch_dir,
	  "E2B: changes in a directory, as a stream", HTTP_RAW, HTTP_ONE,
	  .type = "application/connect+json", .begin = connectrpc_begin, .feed = connectrpc_feed,
	  ERRORS },
	{ "POST", FILESYSTEM "/CreateWatcher", post_e2b_watcher, "E2B: watch a directory", UNARY },
	{ "POST", FILESYSTEM "/GetWatcherEvents", post_events, "E2B: what changed since", UNARY },
	{ "POST", FILESYSTEM "/RemoveWatcher", post_e2b_watcher_remove, "E2B: end a watch", UNARY },
	{ NULL },
};
