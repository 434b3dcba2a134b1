/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/mcphub.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/api/api.h"

#define LINE_MAX_BYTES (32u << 20)
#define LOOK_MS 1000   /* how often a session looks whether it is idle */
#define WRITE_MS 10000 /* for the process to take a message */
#define LARGE (1u << 20) /* an answer, of which the hub reads one at a time */
#define TAKE_MS 2000	/* for a request to take a large answer over, and count it (S42) */
#define ID_BYTES 16

struct mcphub_session {
	struct mcphub_session *next;
	struct mcphub *hub;
	char id[2 * ID_BYTES + 1], owner[65];
	int admin;	/* the role in which its process was started */
	int shared;
	/* below: the hub's lock */
	int refs; /* of requests, and one of its thread */
	int dead; /* the process has ended */
	int works; /* a call of a tool had a result, so it may have a sandbox */
	uint64_t used_ms, next_number;
	struct mcphub_call *calls;
	char said[504];    /* by the process about its end */
	_Atomic int ended; /* its input is, so it is for no new request */
	/* below: its own lock */
	pthread_mutex_t write_lock;
	int in_fd;              /* the process' input, or -1 once that is ended */
	struct called program; /* its thread's */
};

struct mcphub {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	pthread_cond_t moved;	/* a large answer was taken over, or is not read any more */
	int reads_large;	/* one of the sessions does */
	struct mcphub_session *sessions;
	unsigned count;
};

struct mcphub *mcphub_new(void)
{
	struct mcphub *h = calloc(1, sizeof(*h));
	pthread_condattr_t attr;

	if (!h)
		return NULL;
	pthread_mutex_init(&h->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->ended, &attr);
	pthread_cond_init(&h->moved, &attr);
	pthread_condattr_destroy(&attr);
	return h;
}

const char *mcphub_id(const struct mcphub_session *s)
{
	return s->id;
}

/* With the hub's lock held. */
static void put_locked(struct mcphub_session *s)
{
	if (--s->refs)
		return;
	pthread_mutex_destroy(&s->write_lock);
	free(s);
}

void mcphub_put(struct mcphub_session *s)
{
	struct mcphub *h = s->hub;

	pthread_mutex_lock(&h->lock);
	s->used_ms = clock_ms();
	put_locked(s);
	pthread_mutex_unlock(&h->lock);
}

void mcphub_end(struct mcphub_session *s)
{
	atomic_store(&s->ended, 1);
	pthread_mutex_lock(&s->write_lock);
	fd_close(&s->in_fd);
	pthread_mutex_unlock(&s->write_lock);
}

/* ---- the thread of a session ---- */

static void wake_mcp_call(struct mcphub_call *c)
{
	uint64_t one = 1;

	(void)!write(c->fd, &one, sizeof(one));
}

/* Progress carries the call's number as its token, an answer as its id. */
static struct mcphub_call *find_call(struct mcphub_session *s, json_t *message)
{
	json_t *params = json_object_get(message, "params"), *id = json_object_get(message, "id");
	json_t *number = id ? id : json_object_get(params, "progressToken");
	struct mcphub_call *c;

	for (c = s->calls; c; c = c->next)
		if (json_is_integer(number) && (uint64_t)json_integer_value(number) == c->number)
			break;
	if (c && id)
		json_object_set(message, "id", c->id);
	else if (c && c->token)
		json_object_set(params, "progressToken", c->token);
	return c;
}

static void dispatch_mcp_answer(struct mcphub_session *s, const char *line, size_t n)
{
	struct err ignored;
	autojson json_t *message = json_parse(line, n, LINE_MAX_BYTES, "answer", &ignored);
	struct mcphub_call *c;

	pthread_mutex_lock(&s->hub->lock);
	c = message ? find_call(s, message) : NULL;
	if (c && c->works && json_object_get(message, "result"))
		s->works = 1;
	if (c && json_array_append(c->queue, message) == 0) {
		c->waiting = n > c->waiting ? n : c->waiting;
		wake_mcp_call(c);
	}
	pthread_mutex_unlock(&s->hub->lock);
}

static void take_mcp_answer_lines(struct mcphub_session *s, struct buf *b, size_t scanned)
{
	size_t start = 0;
	char *nl;

	while ((nl = memchr(b->data + scanned, '\n', b->len - scanned))) {
		size_t end = (size_t)(nl - b->data);

		dispatch_mcp_answer(s, b->data + start, end - start);
		start = scanned = end + 1;
	}
	if (!start)
		return;
	memmove(b->data, b->data + start, b->len - start);
	b->len -= start;
}

static int is_idle(struct mcphub_session *s)
{
	int idle;

	pthread_mutex_lock(&s->hub->lock);
	idle = s->refs == 1 && !s->calls && clock_ms() - s->used_ms > MCPHUB_IDLE_MS;
	pthread_mutex_unlock(&s->hub->lock);
	return idle;
}

/* What a large answer takes before a request counts it is bounded by this: one of all sessions is read at a time. */
static void begin_large(struct mcphub *h)
{
	pthread_mutex_lock(&h->lock);
	while (h->reads_large)
		pthread_cond_wait(&h->moved, &h->lock);
	h->reads_large = 1;
	pthread_mutex_unlock(&h->lock);
}

static int has_large(const struct mcphub_session *s)
{
	const struct mcphub_call *c;

	for (c = s->calls; c; c = c->next)
		if (c->waiting >= LARGE)
			return 1;
	return 0;
}

/* A request that writes to a slow client takes it later: nobody waits for that. */
static void end_large(struct mcphub_session *s)
{
	struct mcphub *h = s->hub;
	const uint64_t until = clock_ms() + TAKE_MS;
	const struct timespec t = { (time_t)(until / 1000), (long)(until % 1000) * 1000000L };

	pthread_mutex_lock(&h->lock);
	while (has_large(s) && pthread_cond_timedwait(&h->moved, &h->lock, &t) == 0)
		;
	h->reads_large = 0;
	pthread_cond_broadcast(&h->moved);
	pthread_mutex_unlock(&h->lock);
}

/* Reads until the process closes its output. */
static void read_answers(struct mcphub_session *s)
{
	autobuf struct buf b = BUF_INIT(LINE_MAX_BYTES);
	struct err ignored;
	int large = 0;

	for (;;) {
		struct pollfd p = { .fd = s->program.out, .events = POLLIN };
		size_t before = b.len;
		ssize_t n;

		if (poll(&p, 1, LOOK_MS) == 0 && is_idle(s))
			mcphub_end(s);
		if (!p.revents)
			continue;
		if (!large && b.len >= LARGE) {
			begin_large(s->hub);
			large = 1;
		}
		if (buf_reserve(&b, 65536, &ignored) < 0)
			break;
		n = read(p.fd, b.data + b.len, 65536);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			break;
		if (n < 0)
			continue;
		b.len += (size_t)n;
		take_mcp_answer_lines(s, &b, before);
		if (large && b.len < LARGE) {
			if (!b.len)
				buf_release(&b);
			end_large(s);
			large = 0;
			malloc_trim(0);
		}
	}
	if (large)
		end_large(s);
}

/* The error that the process told, as JSON, on its standard error. */
static void note_mcp_process_end(struct mcphub_session *s)
{
	autobuf struct buf out = BUF_INIT(65536);
	struct err e = { 0 };
	char text[4096];
	ssize_t n;

	while ((n = read(s->program.err, text, sizeof(text))) > 0)
		if (buf_add(&out, text, (size_t)n, &e) < 0)
			break;
	if (out.len && json_take_error_line(out.data, "berth mcp", &e) < 0)
		snprintf(s->said, sizeof(s->said), "%s", e.msg);
}

static void *thread_main(void *ctx)
{
	struct mcphub_session *s = ctx, **at;
	struct mcphub *h = s->hub;
	struct mcphub_call *c;

	read_answers(s);
	mcphub_end(s);
	while (waitpid(s->program.pid, NULL, 0) < 0 && errno == EINTR)
		;
	pthread_mutex_lock(&h->lock);
	note_mcp_process_end(s);
	fd_close(&s->program.out);
	fd_close(&s->program.err);
	s->dead = 1;
	for (c = s->calls; c; c = c->next)
		wake_mcp_call(c);
	for (at = &h->sessions; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	h->count--;
	put_locked(s);
	pthread_cond_broadcast(&h->ended);
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

/* ---- sessions ---- */

static int start_program(struct mcphub_session *s, struct http_request *rq, struct err *e)
{
	json_t *call;
	int in[2];

	if (pipe2(in, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	s->in_fd = in[1];
	call = call_of("mcp", NULL);
	spawn_tenant(rq, call);
	fcntl(in[1], F_SETFL, O_NONBLOCK);
	if (spawn_start(rq, call, in[0], &s->program, e) < 0) {
		fd_close(&in[0]);
		fd_close(&s->in_fd);
		return -1;
	}
	fd_close(&in[0]);
	return 0;
}

static int start_mcp_session(struct mcphub_session *s, struct http_request *rq, struct err *e)
{
	unsigned char random[ID_BYTES];
	pthread_attr_t attr;
	pthread_t thread;
	int failed;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_sys(e, "get random bytes");
	hex_format(s->id, random, sizeof(random));
	if (start_program(s, rq, e) < 0)
		return -1;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	failed = pthread_create(&thread, &attr, thread_main, s);
	pthread_attr_destroy(&attr);
	if (failed) {
		fd_close(&s->in_fd);
		call_abort(&s->program);
		return err_errno(e, failed, "start a thread");
	}
	return 0;
}

/* Ends the least important session of its owner; 0: there is none. */
static int end_one(struct mcphub *h, const char *owner)
{
	struct mcphub_session *s, *found = NULL;

	for (s = h->sessions; s; s = s->next)
		if (!s->shared && !s->works && s->refs == 1 && !atomic_load(&s->ended) &&
		    !strcmp(s->owner, owner) && (!found || s->used_ms < found->used_ms))
			found = s;
	if (found)
		mcphub_end(found); /* nobody else has it, so nobody holds its lock */
	return !!found;
}

/* With the hub's lock held. */
static int has_room_for_mcp(struct mcphub *h, const char *owner, int shared, struct err *e)
{
	const struct mcphub_session *s;
	unsigned own = 0, all = 0;

	for (s = h->sessions; s; s = s->next) {
		int his = !s->shared && !strcmp(s->owner, owner);

		all += (unsigned)his;
		own += his && !atomic_load(&s->ended);
	}
	if (!shared && (all >= 2 * MCPHUB_TENANT_MAX ||
			(own >= MCPHUB_TENANT_MAX && !end_one(h, owner))))
		return err_set(e, ERR_LIMIT,
			       "%s has %u sessions of MCP, which is the most; hint: end "
			       "one with DELETE /mcp",
			       owner, all);
	if (h->count >= MCPHUB_SESSIONS_MAX)
		return err_set(e, ERR_LIMIT, "%u sessions of MCP are open, which is the most",
			       h->count);
	return 0;
}

static struct mcphub_session *make_mcp_session(struct mcphub *h, struct http_request *rq, int shared,
				   struct err *e)
{
	struct mcphub_session *s = calloc(1, sizeof(*s));

	if (!s) {
		err_nomem(e);
		return NULL;
	}
	*s = (struct mcphub_session){
		.hub = h, .shared = shared, .refs = 2, .in_fd = -1, .used_ms = clock_ms()
	};
	snprintf(s->owner, sizeof(s->owner), "%s", http_who(rq)->name);
	s->admin = http_who(rq)->admin;
	pthread_mutex_init(&s->write_lock, NULL);
	/* with the lock of the hub: its thread finds it in the list, and nobody makes a second */
	if (has_room_for_mcp(h, s->owner, shared, e) < 0 || start_mcp_session(s, rq, e) < 0) {
		pthread_mutex_destroy(&s->write_lock);
		free(s);
		return NULL;
	}
	s->next = h->sessions;
	h->sessions = s;
	h->count++;
	return s;
}

struct mcphub_session *mcphub_open(struct mcphub *h, struct http_request *rq, struct err *e)
{
	struct mcphub_session *s;

	pthread_mutex_lock(&h->lock);
	s = make_mcp_session(h, rq, 0, e);
	pthread_mutex_unlock(&h->lock);
	return s;
}

static struct mcphub_session *find_mcp_session(struct mcphub *h, const struct http_who *who, const char *id)
{
	struct mcphub_session *s;

	for (s = h->sessions; s; s = s->next)
		if (!atomic_load(&s->ended) && !strcmp(s->owner, who->name) && s->admin == who->admin &&
		    (id ? !s->shared && !strcmp(s->id, id) : s->shared))
			break;
	if (s)
		s->refs++;
	return s;
}

struct mcphub_session *mcphub_find(struct mcphub *h, struct http_request *rq, const char *id)
{
	struct mcphub_session *s;

	pthread_mutex_lock(&h->lock);
	s = find_mcp_session(h, http_who(rq), id);
	pthread_mutex_unlock(&h->lock);
	return s;
}

struct mcphub_session *mcphub_shared(struct mcphub *h, struct http_request *rq, struct err *e)
{
	struct mcphub_session *s;

	pthread_mutex_lock(&h->lock);
	s = find_mcp_session(h, http_who(rq), NULL);
	if (!s)
		s = make_mcp_session(h, rq, 1, e);
	pthread_mutex_unlock(&h->lock);
	return s;
}

void mcphub_reload(struct mcphub *h, int (*holds)(void *ctx, const struct http_who *who), void *ctx)
{
	struct mcphub_session *s;

	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	for (s = h->sessions; s; s = s->next) {
		struct http_who who = { .admin = s->admin };

		memcpy(who.name, s->owner, sizeof(who.name));
		if (!atomic_load(&s->ended) && !holds(ctx, &who))
			mcphub_end(s);
	}
	pthread_mutex_unlock(&h->lock);
}

void mcphub_free(struct mcphub *h, unsigned ms)
{
	uint64_t until = clock_ms() + ms;
	struct timespec t = { (time_t)(until / 1000), (long)(until % 1000) * 1000000L };
	struct mcphub_session *s;

	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	for (s = h->sessions; s; s = s->next)
		mcphub_end(s);
	while (h->sessions && pthread_cond_timedwait(&h->ended, &h->lock, &t) == 0)
		;
	pthread_mutex_unlock(&h->lock);
	/* remaining threads use it: it ends with the process */
}

/* ---- messages ---- */

/* One line, whole: a process that takes none for WRITE_MS is ended. */
static int send_line(struct mcphub_session *s, const json_t *message, struct err *e)
{
	autofree char *text = json_dumps(message, JSON_COMPACT);
	size_t n = text ? strlen(text) : 0, at = 0;
	uint64_t until = clock_ms() + WRITE_MS;

	if (!text)
		return err_nomem(e);
	text[n++] = '\n';
	pthread_mutex_lock(&s->write_lock);
	while (s->in_fd >= 0 && at < n) {
		struct pollfd p = { .fd = s->in_fd, .events = POLLOUT };
		ssize_t some = write(s->in_fd, text + at, n - at);

		if (some > 0)
			at += (size_t)some;
		else if ((errno != EAGAIN && errno != EINTR) || clock_ms() >= until)
			fd_close(&s->in_fd);
		else
			poll(&p, 1, LOOK_MS);
	}
	pthread_mutex_unlock(&s->write_lock);
	return at == n ? 0 : err_set(e, ERR_BUSY, "the session has ended; hint: initialize again");
}

static void add_call(struct mcphub_session *s, json_t *message, struct mcphub_call *c)
{
	json_t *params = json_object_get(message, "params");
	json_t *meta = json_object_get(params, "_meta");
	json_t *token = json_object_get(meta, "progressToken");
	const char *method = json_string_value(json_object_get(message, "method"));

	c->id = json_incref(json_object_get(message, "id"));
	c->token = token ? json_incref(token) : NULL;
	c->works = method && (!strcmp(method, "tools/call") || !strcmp(method, "resources/read"));
	c->session = s;
	pthread_mutex_lock(&s->hub->lock);
	c->number = ++s->next_number;
	c->next = s->calls;
	s->calls = c;
	pthread_mutex_unlock(&s->hub->lock);
	json_object_set_new(message, "id", json_integer((json_int_t)c->number));
	if (token)
		json_object_set_new(meta, "progressToken", json_integer((json_int_t)c->number));
}

/* Why the process ended, where it has said so. */
static void tell_mcp_process_end(struct mcphub_session *s, struct err *e)
{
	pthread_mutex_lock(&s->hub->lock);
	if (s->said[0])
		err_set(e, ERR_INVALID, "%s", s->said);
	pthread_mutex_unlock(&s->hub->lock);
}

int mcphub_ask(struct mcphub_session *s, json_t *message, struct mcphub_call *c, struct err *e)
{
	*c = (struct mcphub_call){ .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	if (c->fd < 0)
		return err_sys(e, "make an eventfd");
	c->queue = json_array();
	add_call(s, message, c);
	if (send_line(s, message, e) == 0)
		return 0;
	tell_mcp_process_end(s, e);
	mcphub_end_call(c, 0);
	return -1;
}

/* Replaces the client's id of a request to cancel by our number of it. */
int mcphub_tell(struct mcphub_session *s, json_t *message, struct err *e)
{
	json_t *params = json_object_get(message, "params");
	json_t *id = json_object_get(params, "requestId");
	struct mcphub_call *c;
	uint64_t number = 0;

	if (id) {
		pthread_mutex_lock(&s->hub->lock);
		for (c = s->calls; c; c = c->next)
			if (json_equal(c->id, id))
				number = c->number;
		pthread_mutex_unlock(&s->hub->lock);
		if (!number)
			return 0;
		json_object_set_new(params, "requestId", json_integer((json_int_t)number));
	}
	return send_line(s, message, e);
}

int mcphub_next(struct mcphub_call *c, json_t **ret, struct err *e)
{
	struct mcphub_session *s = c->session;
	uint64_t count;
	int r = 0;

	pthread_mutex_lock(&s->hub->lock);
	(void)!read(c->fd, &count, sizeof(count));
	if (json_array_size(c->queue)) {
		*ret = json_incref(json_array_get(c->queue, 0));
		json_array_remove(c->queue, 0);
		c->bytes = c->waiting > c->bytes ? c->waiting : c->bytes;
		if (!json_array_size(c->queue)) {
			c->waiting = 0;
			pthread_cond_broadcast(&s->hub->moved);
		}
		if (json_array_size(c->queue) || s->dead)
			wake_mcp_call(c);
		r = 1;
	} else if (s->dead) {
		r = err_set(e, s->said[0] ? ERR_INVALID : ERR_INTERNAL, "%s",
			    s->said[0] ? s->said : "the session's process ended");
		wake_mcp_call(c);
	}
	pthread_mutex_unlock(&s->hub->lock);
	return r;
}

void mcphub_end_call(struct mcphub_call *c, int cancel)
{
	struct mcphub_session *s = c->session;
	struct mcphub_call **at;
	struct err ignored;

	if (cancel) {
		autojson json_t *m = json_pack("{s:s,s:s,s:{s:I}}", "jsonrpc", "2.0", "method",
					       "notifications/cancelled", "params", "requestId",
					       (json_int_t)c->number);

		send_line(s, m, &ignored);
	}
	pthread_mutex_lock(&s->hub->lock);
	for (at = &s->calls; *at && *at != c; at = &(*at)->next)
		;
	if (*at)
		*at = c->next;
	pthread_cond_broadcast(&s->hub->moved);
	pthread_mutex_unlock(&s->hub->lock);
	json_decref(c->id);
	json_decref(c->token);
	json_decref(c->queue);
	fd_close(&c->fd);
}
