/* SPDX-License-Identifier: Apache-2.0 */
/* Routes with long replies: attach, wait, logs; and how they wait for a start. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/docker/docker.h"
#include "manager/engine/logs.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

/* ---- attach and wait ---- */

#define GONE_LOOK_MS 20

/* ---- attach ------------------------------------------------------------------------------ */

struct attach {
	struct box box;
	struct arrival arrival;
	struct pump pump;
	int awaits; /* it does not run yet */
	int logs, stream; /* what its log has until now; what comes */
};

static void attach_free(void *ctx)
{
	struct attach *a = ctx;

	arrival_leave(&a->arrival);
	box_close(&a->box);
	json_decref(a->pump.verdict);
	free(a);
}

/* After the head of the reply: only its end can be reported any more. */
static void attach_run(void *ctx, struct http_request *rq, int fd, const char *extra, size_t n)
{
	struct attach *a = ctx;
	struct err e;
	int r;

	if (!a->stream) {
		if (a->logs)
			docker_logs_send(&a->box, rq, fd, a->pump.raw, a->pump.want, &e);
		return;
	}
	if (a->awaits) {
		r = arrival_wait(&a->arrival, &a->box, a->pump.input, rq, &e);
		/* a client of stdin alone may go as soon as it has started the container */
		if (r != ARRIVAL_STARTED && !(r < 0 && e.code == ERR_NET && a->pump.input))
			return;
		a->box.sock = keeper_connect(&a->box.registry, a->box.id, &e);
		arrival_leave(&a->arrival);
		if (a->box.sock < 0)
			return;
	}
	pump_run(&a->pump, rq, fd, extra, n, &e);
}

static int attach_begin(struct attach *a, struct http_request *rq, int *ret_tty, struct err *e)
{
	struct engine_loaded d;

	if (docker_find(&a->box, rq, e) < 0 || docker_load(&d, &a->box, 0, e) < 0)
		return -1;
	*ret_tty = engine_is_tty(&d.v);
	a->pump = (struct pump){ .box = &a->box, .command = KEEPER_MAIN, .raw = *ret_tty };
	a->pump.want[0] = docker_query_flag(rq, "stdout");
	a->pump.want[1] = docker_query_flag(rq, "stderr");
	a->pump.input = docker_query_flag(rq, "stdin") &&
			json_is_true(json_object_get(d.record, "stdin_open"));
	a->pump.input_ends = json_is_true(engine_asked(&d.v, "StdinOnce")) && !*ret_tty;
	engine_loaded_release(&d);
	if (*ret_tty && pump_keys(&a->pump, rq, http_query(rq, "detachKeys"), e) < 0)
		return -1;
	if (http_endless(rq, e) < 0)
		return -1;
	a->stream = docker_query_flag(rq, "stream");
	a->logs = docker_query_flag(rq, "logs");
	events_add(&a->box.registry, "attach", a->box.id, NULL);
	if (!a->stream)
		return 0;
	a->awaits = a->box.kept;
	if (a->awaits)
		return arrival_join(docker_of(rq)->arrivals, &a->arrival, a->box.id, e);
	if (docker_connect(&a->box, e) < 0)
		return -1;
	return a->logs ? 0 : pump_look(&a->pump, e);
}

/* As dockerd, which has taken the connection over by then: clients print the text as the stream's. */
static int attach_refused(struct http_request *rq, struct err *e)
{
	const int status = http_error_of(rq, e);
	char *text = NULL;
	int n = asprintf(&text, "%s\r\n", e->msg);

	if (n < 0)
		return err_nomem(e);
	return http_reply_data(rq, status, DOCKER_RAW_STREAM, text, (size_t)n, e) < 0 ? -1 :
	       http_reply_header(rq, "Connection", "close", e);
}

static int post_attach(struct http_request *rq, struct err *e)
{
	struct attach *a = calloc(1, sizeof(*a));
	struct http_hijack h = { attach_run, attach_free, a };
	int tty = 0;

	if (!a)
		return err_nomem(e);
	box_clear(&a->box);
	a->arrival.fd = -1;
	if (attach_begin(a, rq, &tty, e) < 0) {
		attach_free(a);
		return attach_refused(rq, e);
	}
	return http_reply_hijack(rq, tty ? DOCKER_RAW_STREAM : DOCKER_FRAMES, &h, e);
}

/* ---- wait --------------------------------------------------------------------------------- */

struct waiting {
	struct box box;
	struct arrival arrival;
	int awaits, removal; /* the next start first; the end is that nothing is left */
	int done;
	int gone_code; /* what is told when the start that it awaits does not come: that of its last run */
	json_t *verdict;
};

static void wait_reply_free(void *ctx)
{
	struct waiting *w = ctx;

	arrival_leave(&w->arrival);
	box_close(&w->box);
	json_decref(w->verdict);
	free(w);
}

/* Waits until its keeper has gone; on the way the keeper reports how the main command ended. */
static int await_box_end(struct waiting *w, struct http_request *rq, struct err *e)
{
	autojson json_t *ask = protocol_request(OP_wait);
	json_t *said;
	size_t n;
	int r;

	request_set_command(ask, KEEPER_MAIN);
	if (w->box.sock < 0)
		w->box.sock = keeper_connect(&w->box.registry, w->box.id, e);
	if (w->box.sock < 0 || wire_request(w->box.sock, ask, NULL, 0, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	for (;;) {
		if (http_wait(rq, w->box.sock, POLLIN, -1, e) < 0)
			return -1;
		r = wire_recv(w->box.sock, 0, &said, NULL, 0, &n, e);
		if (r == 0)
			return 0;
		if (r < 0)
			return e->code == ERR_NOT_FOUND ? 0 : -1;
		if (!w->verdict)
			w->verdict = json_incref(json_object_get(said, "verdict"));
		json_decref(said);
	}
}

static int await_removal(struct waiting *w, struct http_request *rq, struct err *e)
{
	while (path_has(w->box.registry.kept_fd, w->box.id) ||
	       path_has(w->box.registry.sandboxes_fd, w->box.id))
		if (http_wait(rq, -1, 0, GONE_LOOK_MS, e) < 0)
			return -1;
	return 0;
}

/* From the record, if nobody reported it. */
static int code_of(struct waiting *w)
{
	struct engine_loaded d;
	struct err ignored;
	int code;

	if (w->verdict)
		return (int)json_integer_value(json_object_get(w->verdict, "exit_status"));
	w->box.kept = 1;
	if (docker_load(&d, &w->box, 0, &ignored) < 0)
		return 0;
	code = engine_exit_code(&d.v);
	engine_loaded_release(&d);
	return code;
}

#define NEVER_STARTED 127

/* The status of a stopped container's last run. */
static int last_code(struct waiting *w)
{
	struct engine_loaded d;
	struct err ignored;
	int code;

	if (docker_load(&d, &w->box, 0, &ignored) < 0)
		return NEVER_STARTED;
	code = engine_started(&d.v)[0] ? engine_exit_code(&d.v) : NEVER_STARTED;
	engine_loaded_release(&d);
	return code;
}

static int await_all(struct waiting *w, struct http_request *rq, int *ret_code, struct err *e)
{
	int failed = 0, r;

	if (w->awaits) {
		r = arrival_wait(&w->arrival, &w->box, 0, rq, e);
		arrival_leave(&w->arrival);
		if (r < 0)
			return -1;
		failed = r == ARRIVAL_FAILED;
	}
	if (!failed && await_box_end(w, rq, e) < 0)
		return -1;
	*ret_code = failed ? w->gone_code : code_of(w);
	return w->removal && !failed ? await_removal(w, rq, e) : 0;
}

static ssize_t wait_read(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct waiting *w = ctx;
	struct err e;
	int code = 0, n;

	if (w->done)
		return 0;
	w->done = 1;
	if (await_all(w, rq, &code, &e) < 0)
		return -1;
	n = snprintf(buf, max, "{\"StatusCode\":%d}\n", code);
	return n > 0 && (size_t)n < max ? n : -1;
}

static int wait_begin(struct waiting *w, struct http_request *rq, struct err *e)
{
	const char *condition = http_query(rq, "condition");

	if (docker_find(&w->box, rq, e) < 0)
		return -1;
	if (!condition || !condition[0])
		condition = "not-running";
	w->removal = !strcmp(condition, "removed");
	if (!w->removal && strcmp(condition, "next-exit") && strcmp(condition, "not-running"))
		return docker_fail(rq, 400, e, "invalid condition: \"%.40s\"", condition);
	/* with "not-running" a container that does not run has what is waited for */
	w->awaits = w->box.kept && strcmp(condition, "not-running");
	w->gone_code = w->awaits ? last_code(w) : 0;
	if (http_endless(rq, e) < 0)
		return -1;
	return w->awaits ? arrival_join(docker_of(rq)->arrivals, &w->arrival, w->box.id, e) : 0;
}

/* The head of the reply goes out at once: the client starts the container when it has that. */
static int post_box_wait(struct http_request *rq, struct err *e)
{
	struct waiting *w = calloc(1, sizeof(*w));
	struct http_stream st = { wait_read, wait_reply_free, w };
	int code;

	if (!w)
		return err_nomem(e);
	box_clear(&w->box);
	w->arrival.fd = -1;
	if (wait_begin(w, rq, e) < 0) {
		wait_reply_free(w);
		return -1;
	}
	if (w->box.kept && !w->awaits) {
		code = code_of(w);
		wait_reply_free(w);
		return http_reply_json(rq, 200, json_pack("{s:i}", "StatusCode", code), e);
	}
	return http_reply_stream(rq, 200, "application/json", &st, e);
}

const struct http_route docker_stream_routes[] = {
	{ "POST", "/containers/{id}/attach", post_attach, "join a container's main command",
	  HTTP_JSON, HTTP_OPTIONAL | HTTP_UPGRADES },
	{ "POST", "/containers/{id}/wait", post_box_wait, "until a container ends", HTTP_JSON,
	  HTTP_OPTIONAL | HTTP_QUIET },
	{ "GET", "/containers/{id}/logs", docker_logs, "what a container wrote", HTTP_NONE,
	  HTTP_QUIET },
	{ NULL },
};

/* ---- those who wait for a start ---- */

/*
 * Docker's client attaches to a container, and waits for its end, before it starts it. These
 * requests wait here until the start, which then tells the keeper how many will come, so that
 * even the shortest command waits for them.
 */

#define FORGO_MS 10000 /* until the start of a client that has gone is through */
#define LOOK_MS 100 /* for a start by another process: the command line, a restart */

struct arrivals {
	pthread_mutex_t lock;
	struct arrival *first;
};

struct arrivals *arrivals_new(void)
{
	struct arrivals *l = calloc(1, sizeof(*l));

	if (l)
		pthread_mutex_init(&l->lock, NULL);
	return l;
}

void arrivals_free(struct arrivals *l)
{
	if (l)
		pthread_mutex_destroy(&l->lock);
	free(l);
}

int arrival_join(struct arrivals *l, struct arrival *a, const char *id, struct err *e)
{
	memset(a, 0, sizeof(*a));
	a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->fd < 0)
		return err_sys(e, "make an eventfd");
	snprintf(a->id, sizeof(a->id), "%s", id);
	a->list = l;
	pthread_mutex_lock(&l->lock);
	a->next = l->first;
	a->prev = &l->first;
	if (a->next)
		a->next->prev = &a->next;
	l->first = a;
	pthread_mutex_unlock(&l->lock);
	return 0;
}

void arrival_leave(struct arrival *a)
{
	if (a->prev) {
		pthread_mutex_lock(&a->list->lock);
		*a->prev = a->next;
		if (a->next)
			a->next->prev = a->prev;
		pthread_mutex_unlock(&a->list->lock);
		a->prev = NULL;
	}
	fd_close(&a->fd);
}

unsigned arrivals_count(struct arrivals *l, const char *id)
{
	struct arrival *a;
	unsigned n = 0;

	pthread_mutex_lock(&l->lock);
	for (a = l->first; a; a = a->next)
		if (!strcmp(a->id, id) && a->news == ARRIVAL_NONE)
			n += a->announced = 1;
	pthread_mutex_unlock(&l->lock);
	return n;
}

void arrivals_tell(struct arrivals *l, const char *id, enum arrival_news news)
{
	struct arrival *a;

	pthread_mutex_lock(&l->lock);
	for (a = l->first; a; a = a->next)
		if (!strcmp(a->id, id) && a->news == ARRIVAL_NONE) {
			a->news = news;
			(void)!eventfd_write(a->fd, 1);
		}
	pthread_mutex_unlock(&l->lock);
}

static enum arrival_news news_of(struct arrival *a)
{
	enum arrival_news news;

	pthread_mutex_lock(&a->list->lock);
	news = a->news;
	pthread_mutex_unlock(&a->list->lock);
	return news;
}

static int is_announced(struct arrival *a)
{
	int announced;

	pthread_mutex_lock(&a->list->lock);
	announced = a->announced;
	pthread_mutex_unlock(&a->list->lock);
	return announced;
}

/* The record of a sandbox that starts is there before its keeper is. */
static int is_up(struct box *b)
{
	struct err ignored;
	autoclose int sock = record_is_there(b->registry.sandboxes_fd, b->id) ?
				     keeper_connect(&b->registry, b->id, &ignored) :
				     -1;

	return sock >= 0;
}

/*
 * Comes in the place of a client that was announced to the keeper and went before it came: the keeper would hold the
 * end of a short command for it.  docker run -d asks for a wait and goes like that.
 */
static void arrival_forgo(struct arrival *a, struct box *b, struct http_request *rq)
{
	autojson json_t *ask = protocol_request(OP_wait);
	autoclose int sock = -1;
	struct err ignored;

	http_half_open(rq);
	if (!is_announced(a) || (news_of(a) == ARRIVAL_NONE && http_wait(rq, a->fd, POLLIN, FORGO_MS, &ignored) <= 0) ||
	    news_of(a) != ARRIVAL_STARTED)
		return;
	request_set_command(ask, KEEPER_MAIN);
	sock = keeper_connect(&b->registry, b->id, &ignored);
	if (sock >= 0)
		(void)wire_request(sock, ask, NULL, 0, &ignored);
}

int arrival_wait(struct arrival *a, struct box *b, int stays, struct http_request *rq, struct err *e)
{
	enum arrival_news news;

	for (;;) {
		if (http_wait(rq, a->fd, POLLIN, LOOK_MS, e) < 0) {
			if (!stays)
				arrival_forgo(a, b, rq);
			return -1;
		}
		news = news_of(a);
		if (news != ARRIVAL_NONE)
			return (int)news;
		if (is_up(b))
			return ARRIVAL_STARTED;
		if (!path_has(b->registry.kept_fd, b->id))
			return ARRIVAL_FAILED;
	}
}

/* ---- logs ---- */

#define PIECE_MAX (16 * ENGINE_LOGS_PIECE) /* each short line has its frame and its time */

struct logs {
	struct box box;
	int dir, watch;
	struct engine_logs log;
	int tty, follow, over;
	struct buf out;
	size_t sent;
};

static void logs_free(void *ctx)
{
	struct logs *l = ctx;

	engine_logs_close(&l->log);
	fd_close(&l->watch);
	fd_close(&l->dir);
	box_close(&l->box);
	buf_release(&l->out);
	free(l);
}

int docker_query_time(struct http_request *rq, const char *name, char out[JOURNAL_TIME],
		      struct err *e)
{
	const char *v = http_query(rq, name);

	if (engine_logs_time(v, out, e) == 0)
		return 0;
	return e->code == ERR_INVALID
		       ? docker_fail(rq, 400, e, "invalid value of %s: %.40s", name, v)
		       : -1;
}

/* "tail" of the query: -1 is all. */
static int get_tail(struct http_request *rq, long *ret, struct err *e)
{
	const char *text = http_query(rq, "tail");

	*ret = -1;
	if (!text || !text[0] || !strcmp(text, "all"))
		return 0;
	return docker_query_int(rq, "tail", 0, ret, e);
}

/* ---- what is shown -------------------------------------------------------------------------- */

static int add_log_frame(void *ctx, int which, const char *p, size_t n, struct err *e)
{
	struct logs *l = ctx;
	unsigned char head[8];

	engine_frame(head, which + 1, (uint32_t)n);
	return (!l->tty && buf_add(&l->out, head, sizeof(head), e) < 0) ||
			       buf_add(&l->out, p, n, e) < 0
		       ? -1
		       : 0;
}

/* Reads the next entries, until there is something to send: 1; 0 if there are none now. */
static int fill_log_reply(struct logs *l, struct err *e)
{
	int got = 1;

	while (!l->out.len && got > 0)
		got = engine_logs_next(&l->log, e);
	return got;
}

static int await_log_news(struct logs *l, struct http_request *rq, struct err *e)
{
	struct pollfd p[2] = { { .fd = l->watch, .events = POLLIN },
			       { .fd = l->box.sock, .events = POLLIN } };

	if (http_poll(rq, p, 2, -1, e) < 0)
		return -1;
	/* a keeper says nothing unasked: readable is its end, after which one more look has all */
	l->over = p[1].revents != 0;
	journal_drain(l->watch);
	return 0;
}

static ssize_t logs_read(void *ctx, struct http_request *rq, char *buf, size_t max)
{
	struct logs *l = ctx;
	struct err e;
	size_t n;
	int r;

	while (!l->out.len) {
		r = fill_log_reply(l, &e);
		if (r < 0)
			return -1;
		if (r == 0 && l->over)
			return 0;
		if (r == 0 && await_log_news(l, rq, &e) < 0)
			return -1;
	}
	n = l->out.len - l->sent < max ? l->out.len - l->sent : max;
	memcpy(buf, l->out.data + l->sent, n);
	l->sent += n;
	if (l->sent == l->out.len)
		l->sent = l->out.len = 0;
	return (ssize_t)n;
}

static int open_box_log(struct logs *l, struct http_request *rq, struct err *e)
{
	long tail;

	l->dir = openat(l->box.registry.kept_fd, l->box.id,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (l->dir < 0)
		return docker_fail(rq, 404, e, "No such container: %.200s", docker_called(rq));
	if (get_tail(rq, &tail, e) < 0)
		return -1;
	if (l->follow && http_endless(rq, e) < 0)
		return -1;
	if (l->follow && !l->box.kept)
		l->box.sock = keeper_connect(&l->box.registry, l->box.id, e);
	l->over = l->box.sock < 0;
	l->log.goes_on = l->follow;
	if (!l->over && (l->watch = journal_watch(l->dir, e)) < 0)
		return -1;
	return engine_logs_open(&l->log, l->dir, tail, e);
}

static int begin_log_reply(struct logs *l, struct http_request *rq, struct err *e)
{
	struct engine_loaded d;
	int hidden;

	if (docker_find(&l->box, rq, e) < 0 || docker_load(&d, &l->box, 0, e) < 0)
		return -1;
	l->log.put = add_log_frame;
	l->log.ctx = l;
	l->tty = engine_is_tty(&d.v);
	hidden = engine_hides_log(&d.v);
	engine_loaded_release(&d);
	if (hidden)
		return docker_fail(rq, 501, e, ENGINE_NO_LOG);
	l->log.want[0] = docker_query_flag(rq, "stdout");
	l->log.want[1] = docker_query_flag(rq, "stderr");
	l->follow = docker_query_flag(rq, "follow");
	l->log.timestamps = docker_query_flag(rq, "timestamps");
	if (!l->log.want[0] && !l->log.want[1])
		return docker_fail(rq, 400, e,
				   "Bad parameters: you must choose at least one stream");
	if (docker_query_time(rq, "since", l->log.since, e) < 0 ||
	    docker_query_time(rq, "until", l->log.until, e) < 0)
		return -1;
	return open_box_log(l, rq, e);
}

struct sending {
	struct http_request *rq;
	int fd, tty;
};

static int send_all_of_log(const struct sending *s, const void *data, size_t n, struct err *e)
{
	struct pollfd wait = { .fd = s->fd, .events = POLLOUT };
	const char *p = data;

	while (n) {
		const ssize_t sent = send(s->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent < 0 && errno != EAGAIN && errno != EINTR)
			return err_set(e, ERR_NET, "the client is gone");
		if (sent <= 0 && http_poll(s->rq, &wait, 1, -1, e) < 0)
			return -1;
		p += sent > 0 ? sent : 0;
		n -= sent > 0 ? (size_t)sent : 0;
	}
	return 0;
}

static int send_bytes(void *ctx, int which, const char *p, size_t n, struct err *e)
{
	const struct sending *s = ctx;
	unsigned char head[8];

	engine_frame(head, which + 1, (uint32_t)n);
	return (!s->tty && send_all_of_log(s, head, sizeof(head), e) < 0) ? -1 : send_all_of_log(s, p, n, e);
}

int docker_logs_send(struct box *b, struct http_request *rq, int fd, int tty, const int want[2],
		     struct err *e)
{
	struct sending s = { rq, fd, tty };
	struct engine_logs log = { .put = send_bytes, .ctx = &s, .want = { want[0], want[1] } };
	autoclose int dir = openat(b->registry.kept_fd, b->id,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (dir < 0)
		return err_sys(e, "open the directory of %s", b->id);
	if (engine_logs_open(&log, dir, -1, e) < 0)
		return -1;
	while ((r = engine_logs_next(&log, e)) > 0)
		;
	engine_logs_close(&log);
	return r;
}

int docker_logs(struct http_request *rq, struct err *e)
{
	struct logs *l = calloc(1, sizeof(*l));
	struct http_stream st = { logs_read, logs_free, l };

	if (!l)
		return err_nomem(e);
	box_clear(&l->box);
	l->dir = l->watch = -1;
	l->out = BUF_INIT(PIECE_MAX);
	if (begin_log_reply(l, rq, e) < 0) {
		logs_free(l);
		return -1;
	}
	return http_reply_stream(rq, 200, l->tty ? DOCKER_RAW_STREAM : DOCKER_FRAMES, &st, e);
}
