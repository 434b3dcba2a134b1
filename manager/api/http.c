/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/http.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/api/http_state.h"
#include "manager/api/schema.h"
#include "manager/service/dlog.h"

#define STACK_BYTES (1u << 20)
#define POOL_BYTES (64u << 10)		/* of a connection: header, and pieces of bodies */
#define DISCARD_MAX (4u << 20)		/* read and discarded, so that a client gets the error */
#define ANSWER_MS 1000			/* those who are told that it stops take it within this */

void http_phase_set(struct http_conn *c, enum http_phase p)
{
	atomic_store(&c->since_ms, clock_ms());
	atomic_store(&c->phase, p);
}

/* ---- connections ---------------------------------------------------------------- */

static void request_free(struct http_request *rq)
{
	if (!rq)
		return;
	if (rq->release)
		rq->release(rq->data);
	http_hijack_release(rq);
	if (rq->response)
		MHD_destroy_response(rq->response);
	json_decref(rq->json);
	json_decref(rq->audit);
	buf_release(&rq->body);
	http_hold_json_end(rq);
	free(rq->target);
	free(rq);
}

static void name_tcp_peer(struct http_conn *c)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);
	char host[INET6_ADDRSTRLEN], port[8];

	if (getpeername(c->fd, (struct sockaddr *)&a, &n) == 0 &&
	    getnameinfo((struct sockaddr *)&a, n, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
		snprintf(c->address, sizeof(c->address), strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

/* Upholds S18 of SECURITY.md. */
/* Only root, or the user who runs us; the socket's mode implies that already. */
static int know_peer(struct http_conn *c)
{
	struct ucred u;
	socklen_t n = sizeof(u);

	if (c->is_tcp) {
		snprintf(c->peer, sizeof(c->peer), "tcp");
		name_tcp_peer(c);
		return 1;
	}
	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &u, &n) < 0)
		return 0;
	snprintf(c->peer, sizeof(c->peer), "uid:%u", u.uid);
	snprintf(c->address, sizeof(c->address), "uid:%u pid:%d", u.uid, u.pid);
	/* of a foreign face the socket's mode decides */
	return c->needs_token || c->server->o.foreign || u.uid == 0 || u.uid == geteuid();
}

static void connection_opened(struct http_listener *l, struct MHD_Connection *mhd, void **socket_context)
{
	struct http_server *s = l->server;
	struct http_conn *c = calloc(1, sizeof(*c));
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

	*socket_context = c;
	atomic_fetch_add(&s->connections, 1);
	if (!c || !i) {
		if (i)
			shutdown(i->connect_fd, SHUT_RDWR);
		return;
	}
	c->server = s;
	c->listener = l;
	c->fd = i->connect_fd;
	c->needs_token = l->needs_token;
	c->is_tcp = l->is_tcp;
	http_phase_set(c, PHASE_NEW);
	c->refused = !know_peer(c);
	if (c->refused) {
		atomic_fetch_add(&s->refused, 1);
		shutdown(c->fd, SHUT_RDWR);
	}
	pthread_mutex_lock(&s->lock);
	c->next = s->conns;
	if (c->next)
		c->next->prev = c;
	s->conns = c;
	if (c->is_tcp)
		http_share_make_room(l);
	pthread_mutex_unlock(&s->lock);
}

static void connection_closed(struct http_listener *l, void **socket_context)
{
	struct http_server *s = l->server;
	struct http_conn *c = *socket_context;

	atomic_fetch_sub(&l->places, 1);
	atomic_fetch_sub(&s->connections, 1);
	*socket_context = NULL;
	if (!c)
		return;
	pthread_mutex_lock(&s->lock);
	http_share_close(c);
	if (c->prev)
		c->prev->next = c->next;
	else if (s->conns == c)
		s->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	pthread_mutex_unlock(&s->lock);
	request_free(c->rq);
	free(c);
}

static void on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct http_listener *l = cls;

	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		connection_opened(l, mhd, socket_context);
	else
		connection_closed(l, socket_context);
}

static struct http_conn *conn_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *i = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return i ? i->socket_context : NULL;
}

/* ---- the life of a request ---------------------------------------------------------- */

/* The request line is there, as it came: nothing is decoded yet. */
static void *on_target(void *cls, const char *uri, struct MHD_Connection *mhd)
{
	struct http_conn *c = conn_of(mhd);
	struct http_request *rq;

	(void)cls;
	if (!c)
		return NULL;
	request_free(c->rq);
	c->rq = rq = calloc(1, sizeof(*rq));
	if (!rq)
		return NULL;
	rq->server = c->server;
	rq->conn = c;
	rq->mhd = mhd;
	rq->target = strdup(uri);
	rq->body = BUF_INIT(HTTP_JSON_MAX);
	rq->started_ms = clock_ms();
	rq->started_us = clock_us();
	http_phase_set(c, PHASE_HEAD);
	return rq;
}

/* Leaves the target as it is: http_head.c decodes it, strictly, from the copy. */
static size_t on_unescape(void *cls, struct MHD_Connection *mhd, char *s)
{
	(void)cls;
	(void)mhd;
	return strlen(s);
}

static enum MHD_Result send_http_reply(struct http_request *rq)
{
	struct err ignored;

	if (!rq->response)
		return MHD_NO;
	/*
	 * libmicrohttpd takes a lone LF for the end of a line of chunks, and does not show us
	 * any.  What a proxy takes for the rest of the body would be another's request, so none
	 * may follow (RFC 9112 11.2).
	 */
	if (http_header(rq, "Transfer-Encoding") && !rq->hasty)
		http_reply_header(rq, "Connection", "close", &ignored);
	http_phase_set(rq->conn, PHASE_WRITE);
	return MHD_queue_response(rq->mhd, (unsigned)rq->status, rq->response);
}

/*
 * A client that hands on (*args, **kwargs) by the names of its own parameters, as agentscope's
 * asynchronous one does, calls its first two arguments "args" and "kwargs".
 */
static void name_positional(const char *names, json_t *body)
{
	static const char *const theirs[] = { "args", "kwargs" };
	char name[64];
	size_t i, n;

	for (i = 0; i < ARRAY_LEN(theirs) && *names; i++, names += n + strspn(names + n, " ")) {
		json_t *v = json_object_get(body, theirs[i]);

		n = strcspn(names, " ");
		snprintf(name, sizeof(name), "%.*s", (int)n, names);
		if (!v || json_object_get(body, name))
			continue;
		json_object_set(body, name, v);
		json_object_del(body, theirs[i]);
	}
}

/* dockerd's words where it says more than that the body is no JSON; near: the text at that place, or NULL. */
static void say_as_docker(const char *near, struct err *e)
{
	const struct err why = *e;

	if (strstr(why.msg, "end of file expected"))
		err_set(e, why.code, "unexpected content after JSON");
	else if (near && isalnum((unsigned char)*near) && strstr(why.msg, "string or '}' expected"))
		err_set(e, why.code, "invalid JSON: invalid character '%c' looking for beginning of object key string", *near);
	else
		err_set(e, why.code, "invalid JSON: %.400s", why.msg);
}

static int check_body_type(const struct http_request *rq, struct err *e)
{
	const char *type = http_header(rq, "Content-Type");

	if (!type || !type[0])
		return err_set(e, ERR_INVALID, "malformed Content-Type header (): mime: no media type");
	if (!strncasecmp(type, "application/json", 16))
		return 0;
	return err_set(e, ERR_INVALID, "unsupported Content-Type header (%.80s): must be 'application/json'", type);
}

static int read_json_body(struct http_request *rq, struct err *e)
{
	const size_t n = rq->body.len;
	/* docker commit of 20.10 sends null for no body */
	autojson json_t *any = rq->server->o.foreign && n && n < 8 ?
				       json_loadb(rq->body.data, n, JSON_DECODE_ANY, NULL) : NULL;
	char *near, letter[2] = "";

	if (n && rq->server->o.foreign && check_body_type(rq, e) < 0) {
		rq->error_status = 400;
		return -1;
	}
	/* what the body becomes counts as its bytes do, until the request ends (S54) */
	if (n && http_hold_json(rq, json_memory(rq->body.data, n), e) < 0)
		return -1;
	rq->json = n && !json_is_null(any) ? json_parse(rq->body.data, n, HTTP_JSON_MAX, "body", e) : json_object();
	if (!rq->json || !json_is_object(rq->json)) {
		rq->error_status = 400;
		/* the place of the error without its text: a reply repeats nothing of it */
		near = rq->json ? NULL : strstr(e->msg, " near '");
		if (near) {
			letter[0] = near[strlen(" near '")];
			*near = '\0';
		}
		e->code = ERR_INVALID;
		if (!rq->json && rq->server->o.foreign)
			say_as_docker(letter, e);
		return rq->json ? err_set(e, ERR_INVALID, "the body is not a JSON object") : -1;
	}
	if (rq->route->positional)
		name_positional(rq->route->positional, rq->json);
	if (rq->route->request && schema_check(rq->route->request, rq->json, "body", e) < 0) {
		rq->error_status = 400;
		return -1;
	}
	return 0;
}

static int run_route(struct http_request *rq, struct err *e)
{
	/* the body may have taken its time */
	if (http_check_rights(rq, e) < 0)
		return -1;
	if (rq->route->body == HTTP_JSON && read_json_body(rq, e) < 0)
		return -1;
	return rq->route->run(rq, e);
}

static int feed_request_body(struct http_request *rq, const char *data, size_t n, struct err *e)
{
	int r;

	if (http_check_rights(rq, e) < 0)
		return -1;
	if (rq->route->body == HTTP_JSON) {
		if (buf_add(&rq->body, data, n, e) == 0)
			return http_hold_json(rq, rq->body.len, e);
		rq->error_status = e->code == ERR_LIMIT ? 413 : rq->error_status;
		return -1;
	}
	http_phase_set(rq->conn, PHASE_RUN);
	r = rq->route->feed ? rq->route->feed(rq, data, n, e) : 0;
	http_phase_set(rq->conn, PHASE_BODY);
	return r;
}

/* Whether an error is answered before the body, so that no unknown client makes us read it. */
static int is_hasty(struct http_request *rq)
{
	const char *length = http_header(rq, "Content-Length");

	return !rq->known || rq->crowded || http_header(rq, "Expect") || (length && strtoull(length, NULL, 10) > DISCARD_MAX);
}

static enum MHD_Result on_head(struct http_request *rq, const char *url, const char *method, const char *version)
{
	struct err ignored;

	rq->begun = 1;
	rq->url = url;
	rq->method = method;
	rq->version = version;
	atomic_fetch_add(&rq->server->active, 1);
	if (rq->server->o.otlp && trace_begin(&rq->trace, http_header(rq, "traceparent")) < 0)
		rq->trace.trace_id[0] = '\0';
	if (http_head_check(rq, &rq->e) < 0 || (rq->route->begin && rq->route->begin(rq, &rq->e) < 0)) {
		rq->failed = 1;
		if (is_hasty(rq)) {
			/* the body, if any, is not read, so the connection ends with the reply */
			rq->hasty = 1;
			http_reply_error(rq, &rq->e);
			if (rq->response)
				http_reply_header(rq, "Connection", "close", &ignored);
			return send_http_reply(rq);
		}
	}
	http_phase_set(rq->conn, PHASE_BODY);
	return MHD_YES;
}

/*
 * Of a client that has gone by now.  The library's word for how a request ended comes too late: a client that
 * closes as soon as it has the whole reply ends it with an error, too.
 */
static void undo_unsent(struct http_request *rq)
{
	if (http_wait(rq, -1, 0, 0, &rq->e) == 0)
		return;
	rq->failed = 1;
	rq->undo(rq, rq->undone);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *mhd, const char *url, const char *method, const char *version,
				  const char *data, size_t *n, void **con_cls)
{
	struct http_request *rq = *con_cls;

	(void)cls;
	(void)mhd;
	if (!rq || !rq->target)
		return MHD_NO;
	if (!rq->begun)
		return on_head(rq, url, method, version);
	if (*n) {
		if (!rq->failed && feed_request_body(rq, data, *n, &rq->e) < 0)
			rq->failed = 1;
		rq->discarded += rq->failed ? *n : 0;
		*n = 0;
		return rq->discarded > DISCARD_MAX ? MHD_NO : MHD_YES;
	}
	http_phase_set(rq->conn, PHASE_RUN);
	if (!rq->failed && run_route(rq, &rq->e) < 0)
		rq->failed = 1;
	if (!rq->failed && rq->undo)
		undo_unsent(rq);
	if (!rq->failed && rq->hijack.run && !rq->response) {
		http_hijack_plain(rq);
		return MHD_NO;
	}
	if (rq->failed)
		http_reply_error(rq, &rq->e);
	else if (!rq->response)
		http_reply_empty(rq, 204, &rq->e);
	return send_http_reply(rq);
}

static const char *name_of_client(const struct http_request *rq)
{
	return rq->who.name[0] ? rq->who.name : rq->conn->peer;
}

/* The client, the action, its object and the result. */
static void audit(struct http_request *rq)
{
	json_t *line;
	char op[160];

	if (!rq->route || (rq->route->flags & HTTP_QUIET) || (!strcmp(rq->method, "GET") && rq->status != 401 && rq->status != 403)) {
		if (rq->status != 401 && rq->status != 403)
			return;
	}
	snprintf(op, sizeof(op), "%.16s %.120s", rq->method, rq->route ? rq->route->pattern : "-");
	line = json_pack("{s:s,s:o,s:s,s:i,s:I}", "event", "audit", "who", dlog_text(name_of_client(rq)),
			 "op", op, "status", rq->status, "ms", (json_int_t)(clock_ms() - rq->started_ms));
	if (rq->param_count)
		json_object_set_new(line, "id", dlog_text(rq->params[0].value));
	if (rq->status >= 400)
		json_object_set_new(line, "error", dlog_text(rq->e.msg));
	if (rq->status == 401 || rq->status == 403) {
		json_object_set_new(line, "path", dlog_text(rq->path));
		json_object_set_new(line, "peer", dlog_text(rq->conn->address));
	}
	if (rq->audit)
		json_object_update(line, rq->audit);
	if (rq->server->o.on_audit)
		rq->server->o.on_audit(rq->server->o.context, line);
	dlog_json(rq->status == 401 || rq->status == 403 ? DLOG_WARNING : DLOG_NOTICE, line);
}

static void tell_trace(const struct http_request *rq)
{
	const struct otlp_request done = {
		.trace = &rq->trace, .method = rq->method, .route = rq->route ? rq->route->pattern : "-", .who = name_of_client(rq),
		.error = rq->status >= 400 ? rq->e.msg : NULL, .audit = rq->audit, .status = rq->status, .us = clock_us() - rq->started_us,
	};

	if (rq->trace.trace_id[0] && !(rq->route && rq->route->flags & HTTP_QUIET))
		otlp_request(rq->server->o.otlp, &done);
}

void http_traceparent(const struct http_request *rq, char ret[TRACEPARENT_MAX])
{
	ret[0] = '\0';
	if (rq->trace.trace_id[0])
		trace_parent(&rq->trace, ret);
}

static void note_latency(const struct http_request *rq)
{
	const unsigned flags = rq->route && rq->status < 400 ? rq->route->flags : 0;
	const uint64_t us = clock_us() - rq->started_us;
	struct http_server *s = rq->server;

	histogram_observe(&s->took, us);
	if (flags & HTTP_TIMED_RUN)
		histogram_observe(&s->run_took, us);
	if (flags & HTTP_TIMED_EXEC)
		histogram_observe(&s->exec_took, us);
	if (flags & HTTP_TIMED_CREATE)
		histogram_observe(&s->create_took, us);
}

static void on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls, enum MHD_RequestTerminationCode why)
{
	struct http_request *rq = *con_cls;
	struct http_conn *c;
	int digit, hasty = 0;

	(void)cls;
	(void)mhd;
	(void)why;
	*con_cls = NULL;
	if (!rq)
		return;
	c = rq->conn;
	if (rq->begun) {
		hasty = rq->hasty;
		digit = rq->status / 100;
		atomic_fetch_add(&rq->server->requests[digit > 0 && digit < 6 ? digit : 0], 1);
		note_latency(rq);
		audit(rq);
		tell_trace(rq);
		atomic_fetch_sub(&rq->server->active, 1);
	}
	http_share_leave(rq);
	c->rq = NULL;
	request_free(rq);
	http_phase_set(c, PHASE_IDLE);
	if (hasty)
		http_linger(c);
}

static void on_log(void *cls, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
static void on_log(void *cls, const char *fmt, va_list ap)
{
	char msg[512];

	(void)cls;
	vsnprintf(msg, sizeof(msg), fmt, ap);
	msg[strcspn(msg, "\n")] = '\0';
	/* the library takes a unix socket that it did not accept itself for TCP, at each answer */
	if (!strncmp(msg, "Setting TCP_", 12) || !strncmp(msg, "Failed to push the data", 23))
		return;
	dlog_note(DLOG_DEBUG, "http: %s", msg);
}

/* ---- birth and death ------------------------------------------------------------------ */

struct http_server *http_new(const struct http_options *o, struct err *e)
{
	struct http_server *s = calloc(1, sizeof(*s));

	if (!s) {
		err_nomem(e);
		return NULL;
	}
	s->o = *o;
	s->o.max_connections = o->max_connections ? o->max_connections : 256;
	s->o.header_ms = o->header_ms ? o->header_ms : 10000;
	s->o.body_ms = o->body_ms ? o->body_ms : 30000;
	s->o.write_ms = o->write_ms ? o->write_ms : 60000;
	s->o.idle_ms = o->idle_ms ? o->idle_ms : 75000;
	pthread_mutex_init(&s->lock, NULL);
	s->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	s->ending_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->stop_fd < 0 || s->ending_fd < 0) {
		err_sys(e, "make an eventfd");
		http_stop(s, 0);
		return NULL;
	}
	if (http_watch_start(s, e) < 0) {
		http_stop(s, 0);
		return NULL;
	}
	return s;
}

int http_listen(struct http_server *s, int fd, int needs_token, struct err *e)
{
	struct http_listener *l = &s->listeners[s->count];
	struct sockaddr_storage a = { 0 };
	socklen_t n = sizeof(a);
	int is_tcp;

	if (s->count == HTTP_LISTENERS_MAX || getsockname(fd, (struct sockaddr *)&a, &n) < 0) {
		close(fd);
		return s->count == HTTP_LISTENERS_MAX ? err_set(e, ERR_LIMIT, "more than %d listening sockets", HTTP_LISTENERS_MAX) :
							err_sys(e, "look at a listening socket");
	}
	is_tcp = a.ss_family != AF_UNIX;
	*l = (struct http_listener){ .server = s, .needs_token = needs_token, .is_tcp = is_tcp, .fd = fd };
	l->daemon = MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD |
				     MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL |
				     MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ITC | MHD_USE_ERROR_LOG |
				     MHD_ALLOW_UPGRADE, 0, NULL, NULL, on_request, s,
				     MHD_OPTION_EXTERNAL_LOGGER, on_log, s,
				     MHD_OPTION_NOTIFY_CONNECTION, on_connection, l, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
				     MHD_OPTION_URI_LOG_CALLBACK, on_target, s, MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, s,
				     MHD_OPTION_CONNECTION_LIMIT, http_door_places(l) + HTTP_ROOT + 2 * HTTP_ENDING,
				     MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES,
				     MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
				     MHD_OPTION_END);
	if (!l->daemon) {
		close(fd);
		return err_set(e, ERR_SYS, "start an HTTP listener");
	}
	s->count++;
	return http_door_open(l, e);
}

static void wait_idle(struct http_server *s, unsigned ms)
{
	uint64_t end = clock_ms() + ms;

	while (atomic_load(&s->active) && clock_ms() < end)
		poll(NULL, 0, 5);
}

void http_stop(struct http_server *s, unsigned grace_ms)
{
	int i;

	if (!s)
		return;
	atomic_store(&s->stopping, 1);
	if (s->ending_fd >= 0)
		(void)!eventfd_write(s->ending_fd, 1);
	for (i = 0; i < s->count; i++)
		http_door_close(&s->listeners[i]);
	wait_idle(s, grace_ms);
	if (s->stop_fd >= 0)
		(void)!eventfd_write(s->stop_fd, 1);
	wait_idle(s, ANSWER_MS);
	for (i = 0; i < s->count; i++)
		MHD_stop_daemon(s->listeners[i].daemon);
	http_watch_stop(s);
	fd_close(&s->stop_fd);
	fd_close(&s->ending_fd);
	http_shares_free(s);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

int http_latencies(struct http_server *s, struct buf *out, struct err *e)
{
	return histogram_print(&s->took, "http_request", "How long requests took, streams too.", out, e) < 0 ||
			       histogram_print(&s->run_took, "run", "How long runs took, with their commands.", out, e) < 0 ||
			       histogram_print(&s->exec_took, "exec", "How long execs took, with their commands.", out, e) < 0 ||
			       histogram_print(&s->create_took, "create", "How long it took to make sandboxes.", out, e) < 0 ?
		       -1 :
		       0;
}

void http_counts(const struct http_server *cs, struct http_counts *ret)
{
	struct http_server *s = (struct http_server *)(size_t)cs;
	int i;

	ret->connections = atomic_load(&s->connections);
	ret->refused = atomic_load(&s->refused);
	ret->active = atomic_load(&s->active);
	for (i = 0; i < 6; i++)
		ret->requests[i] = atomic_load(&s->requests[i]);
}
