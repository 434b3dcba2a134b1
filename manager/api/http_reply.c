/* SPDX-License-Identifier: Apache-2.0 */
/* What handlers call: to read a request and to wait, to reply, to take a connection over. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/api/http_state.h"
#include "manager/service/dlog.h"

/* ---- what a handler reads, and its waits ---- */

void *http_context(const struct http_request *rq)
{
	return rq->server->o.context;
}

const struct http_who *http_who(const struct http_request *rq)
{
	return &rq->who;
}

static const char *find_pair(const struct http_pair *p, size_t n, const char *name)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!strcmp(p[i].name, name))
			return p[i].value;
	return NULL;
}

const char *http_param(const struct http_request *rq, const char *name)
{
	const char *v = find_pair(rq->params, rq->param_count, name);

	return v ? v : "";
}

const char *http_query(const struct http_request *rq, const char *name)
{
	return find_pair(rq->query, rq->query_count, name);
}

const char *http_query_each(const struct http_request *rq, const char *name, size_t i)
{
	size_t at;

	for (at = 0; at < rq->query_count; at++)
		if (!strcmp(rq->query[at].name, name) && i-- == 0)
			return rq->query[at].value;
	return NULL;
}

uint64_t http_query_u64(const struct http_request *rq, const char *name, uint64_t preset)
{
	const char *v = http_query(rq, name);

	return v ? strtoull(v, NULL, 10) : preset;
}

int http_query_bool(const struct http_request *rq, const char *name)
{
	const char *v = http_query(rq, name);

	return v && !strcmp(v, "true");
}

int http_is_tcp(const struct http_request *rq)
{
	return rq->conn->is_tcp;
}

int http_tcp_address(struct http_request *rq, char *ret, size_t n, struct err *e)
{
	char host[64], port[8];
	int i;

	for (i = 0; i < rq->server->count; i++) {
		const struct http_listener *l = &rq->server->listeners[i];
		struct sockaddr_storage a;
		socklen_t len = sizeof(a);

		if (!l->is_tcp || getsockname(l->fd, (struct sockaddr *)&a, &len) < 0 ||
		    getnameinfo((struct sockaddr *)&a, len, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
			continue;
		snprintf(ret, n, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
		return 0;
	}
	return err_set(e, ERR_NOT_FOUND, "berthd has no address that a browser reaches; hint: [daemon] listen = \"127.0.0.1:7423\"");
}

const char *http_pattern(const struct http_request *rq)
{
	return rq->route->pattern;
}

const char *http_header(const struct http_request *rq, const char *name)
{
	return MHD_lookup_connection_value(rq->mhd, MHD_HEADER_KIND, name);
}

struct fields {
	const char *prefix;
	int (*each)(void *ctx, const char *rest, const char *value, struct err *e);
	void *ctx;
	struct err *e;
	int failed;
};

static enum MHD_Result look_at_field(void *cls, enum MHD_ValueKind kind, const char *key,
				     const char *value)
{
	struct fields *f = cls;
	const size_t n = strlen(f->prefix);

	(void)kind;
	if (strncasecmp(key, f->prefix, n) != 0)
		return MHD_YES;
	f->failed = f->each(f->ctx, key + n, value ? value : "", f->e) < 0;
	return f->failed ? MHD_NO : MHD_YES;
}

int http_each_field(const struct http_request *rq, const char *prefix,
		    int (*each)(void *ctx, const char *rest, const char *value, struct err *e),
		    void *ctx, struct err *e)
{
	struct fields f = { .prefix = prefix, .each = each, .ctx = ctx, .e = e };

	MHD_get_connection_values(rq->mhd, MHD_HEADER_KIND, look_at_field, &f);
	return f.failed ? -1 : 0;
}

json_t *http_json(const struct http_request *rq)
{
	return rq->json;
}

void http_set_data(struct http_request *rq, void *data, void (*release)(void *data))
{
	rq->data = data;
	rq->release = release;
}

void *http_data(const struct http_request *rq)
{
	return rq->data;
}

void http_undo_unsent(struct http_request *rq, void (*undo)(struct http_request *rq, const char *what), const char *what)
{
	rq->undo = undo;
	snprintf(rq->undone, sizeof(rq->undone), "%s", what);
}

void http_audit(struct http_request *rq, const char *key, const char *value)
{
	if (!strcmp(rq->method, "GET"))
		return;		/* it has no such line */
	if (!rq->audit)
		rq->audit = json_object();
	json_object_set_new(rq->audit, key, dlog_text(value));
}

#define RIGHTS_LOOK_MS 2000	/* how soon a wait of a client ends whose token was taken away */

static int is_over(struct http_request *rq, struct err *e)
{
	if (!rq->who.ends_ms || clock_ms() < rq->who.ends_ms)
		return 0;
	rq->error_status = 401;
	err_set(e, ERR_DENIED, "the session of %s is over; hint: sign in again", rq->who.name);
	return 1;
}

/* Upholds S53 of SECURITY.md: a request that lasts has the rights that its client has now. */
int http_check_rights(struct http_request *rq, struct err *e)
{
	struct http_server *s = rq->server;
	const unsigned now = atomic_load(&s->generation);

	if (is_over(rq, e))
		return -1;
	if (rq->generation == now || !s->o.holds)
		return 0;
	rq->generation = now;
	if (!rq->known || s->o.holds(s->o.context, &rq->who))
		return 0;
	rq->error_status = 401;
	return err_set(e, ERR_DENIED, "the token of %s was removed, or has another role now, or its session was ended", rq->who.name);
}

void http_half_open(struct http_request *rq)
{
	rq->half_open = 1;
}

int http_poll(struct http_request *rq, struct pollfd *user, size_t n, int wait_ms, struct err *e)
{
	struct pollfd p[HTTP_POLLS_MAX + 2] = {
		/*
		 * over TCP a client that is gone looks like one that has only finished sending;
		 * a unix socket tells them apart
		 */
		{ .fd = rq->conn->fd, .events = rq->conn->is_tcp ? POLLRDHUP : 0 },
		{ .fd = rq->endless ? rq->server->ending_fd : rq->server->stop_fd, .events = POLLIN },
	};
	int left_ms = wait_ms, piece_ms, r;

	if (rq->half_open)
		p[0].fd = -1;
	memcpy(p + 2, user, n * sizeof(*p));
	do {
		piece_ms = wait_ms < 0 || left_ms > RIGHTS_LOOK_MS ? RIGHTS_LOOK_MS : left_ms;
		r = poll(p, n + 2, piece_ms);
		if (r == 0 && wait_ms >= 0)
			left_ms -= piece_ms;
		if (r < 0 && errno != EINTR)
			return err_sys(e, "wait");
		if (http_check_rights(rq, e) < 0)
			return -1;
	} while (r < 0 || (r == 0 && (wait_ms < 0 || left_ms > 0)));
	if (p[0].revents)
		return err_set(e, ERR_NET, "the client is gone");
	if (p[1].revents) {
		rq->error_status = 503;
		return err_set(e, ERR_BUSY, "berthd is stopping");
	}
	memcpy(user, p + 2, n * sizeof(*p));
	return r > 0;
}

int http_wait(struct http_request *rq, int fd, short events, int wait_ms, struct err *e)
{
	struct pollfd p = { .fd = fd, .events = events };

	return http_poll(rq, &p, 1, wait_ms, e);
}

/* ---- replies ---- */

/* Replies: JSON, bytes, streams, errors. */

json_t *http_error_json(const struct err *e)
{
	char clean[sizeof(e->msg) + 8], *hint;
	json_t *j;

	log_clean(clean, sizeof(clean), e->msg, 0);
	hint = strstr(clean, "; hint: ");
	if (hint)
		*hint = '\0';
	j = json_pack("{s:s,s:s}", "code", err_name(e->code), "message", clean);
	if (hint)
		json_object_set_new(j, "remedy", json_string(hint + 8));
	return json_pack("{s:o}", "error", j);
}

/* Headers that every reply has.  No CORS field is among them, on purpose. */
int http_reply_set(struct http_request *rq, int status, const char *type, struct MHD_Response *r,
		   struct err *e)
{
	const char *const *h;

	if (!r)
		return err_nomem(e);
	if (rq->response)
		MHD_destroy_response(rq->response);
	rq->response = r;
	rq->status = status ? status : rq->route && rq->route->status ? rq->route->status : 200;
	if ((type && MHD_add_response_header(r, "Content-Type", type) != MHD_YES) ||
	    MHD_add_response_header(r, "X-Content-Type-Options", "nosniff") != MHD_YES ||
	    MHD_add_response_header(r, "Cache-Control", "no-store") != MHD_YES)
		return err_nomem(e);
	for (h = rq->server->o.foreign ? rq->server->o.foreign->headers : NULL; h && *h; h += 2)
		if (MHD_add_response_header(r, h[0], h[1]) != MHD_YES)
			return err_nomem(e);
	if (atomic_load(&rq->server->stopping) && MHD_add_response_header(r, "Connection", "close") != MHD_YES)
		return err_nomem(e);
	return 0;
}

int http_reply_data(struct http_request *rq, int status, const char *type, char *data, size_t n, struct err *e)
{
	return http_reply_set(rq, status, type,
			      MHD_create_response_from_buffer(n, data, MHD_RESPMEM_MUST_FREE), e);
}

int http_reply_json(struct http_request *rq, int status, json_t *j, struct err *e)
{
	char *text = j ? json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	size_t n;

	json_decref(j);
	if (!text)
		return err_nomem(e);
	n = strlen(text);
	text[n] = '\n';		/* over the NUL, which nobody needs */
	return http_reply_data(rq, status, "application/json", text, n + 1, e);
}

int http_reply_empty(struct http_request *rq, int status, struct err *e)
{
	return http_reply_set(rq, status, NULL,
			      MHD_create_response_from_buffer(0, (void *)(size_t)"",
							      MHD_RESPMEM_PERSISTENT), e);
}

int http_reply_header(struct http_request *rq, const char *name, const char *value, struct err *e)
{
	const char *before = MHD_get_response_header(rq->response, name);

	if (before)
		MHD_del_response_header(rq->response, name, before);
	return MHD_add_response_header(rq->response, name, value) == MHD_YES ? 0 : err_nomem(e);
}

struct stream {
	struct http_stream st;
	struct http_request *rq;
};

static ssize_t read_reply_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
	struct stream *s = cls;
	struct err ignored;
	ssize_t n;

	(void)pos;
	if (http_check_rights(s->rq, &ignored) < 0)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	http_phase_set(s->rq->conn, PHASE_RUN);
	n = s->st.read(s->st.ctx, s->rq, buf, max);
	http_phase_set(s->rq->conn, PHASE_WRITE);
	return n > 0 ? n : n == 0 ? MHD_CONTENT_READER_END_OF_STREAM : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void release_stream(void *cls)
{
	struct stream *s = cls;

	if (s->st.release)
		s->st.release(s->st.ctx);
	free(s);
}

int http_reply_stream(struct http_request *rq, int status, const char *type, const struct http_stream *st, struct err *e)
{
	struct stream *s = calloc(1, sizeof(*s));
	struct MHD_Response *r;

	if (s) {
		*s = (struct stream){ *st, rq };
		r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 32768, read_reply_stream, s, release_stream);
		if (r)
			return http_reply_set(rq, status, type, r, e);
		free(s);
	}
	if (st->release)
		st->release(st->ctx);
	return err_nomem(e);
}

void http_error_status(struct http_request *rq, int status)
{
	rq->error_status = status;
}

int http_error_of(const struct http_request *rq, const struct err *e)
{
	const int status = rq->error_status ? rq->error_status : err_http_status(e->code);

	return status < 400 ? 500 : status;
}

void http_error_shape(struct http_request *rq, json_t *(*shape)(const struct err *e))
{
	rq->error_shape = shape;
}

void http_reply_error(struct http_request *rq, const struct err *e)
{
	const int status = http_error_of(rq, e);
	struct err ignored;
	const struct http_foreign *f = rq->server->o.foreign;
	json_t *(*unknown)(const struct err *e) = rq->server->o.shape_unknown;
	const int is_unknown = status == 404 || status == 401;
	json_t *j = rq->error_shape ? rq->error_shape(e) :
		    rq->route && rq->route->shape_error ? rq->route->shape_error(e) :
		    f ? f->shape_error(e) :
		    unknown && is_unknown && http_header(rq, "X-API-Key") ? unknown(e) :
		    http_error_json(e);

	/* those forms have no word for a client that is not known */
	if (status == 401 && json_is_integer(json_object_get(j, "code")))
		json_object_set_new(j, "code", json_integer(status));
	if (http_reply_json(rq, status, j, &ignored) < 0)
		return;
	if (status == 401)
		http_reply_header(rq, "WWW-Authenticate", "Bearer", &ignored);
	if (status == 429 || status == 503)
		http_reply_header(rq, "Retry-After", HTTP_RETRY_AFTER, &ignored);
}

/* ---- connections that become streams ---- */

/*
 * Connections that become streams of bytes (http_reply_hijack()).
 *
 * If the client asked for an upgrade, the library's upgrade is used, which hands over the bytes
 * after the request. Otherwise the client gets a reply without a length, which ends with the
 * connection; it must not send before it has the head.
 */

#define HEAD_TAKEN_MS 2000

void http_hijack_release(struct http_request *rq)
{
	if (rq->hijack.release)
		rq->hijack.release(rq->hijack.ctx);
	rq->hijack = (struct http_hijack){ 0 };
}

/*
 * Python's clients read the head through a buffer and the stream without it: bytes that come with
 * the head are lost to them.  So nothing follows before the client has taken the head, which a unix
 * socket tells (SIOCOUTQ, unix(7)).
 */
static void await_head_taken(const struct http_request *rq, int fd)
{
	uint64_t end = clock_ms() + HEAD_TAKEN_MS;
	int left = 0;

	while (!rq->conn->is_tcp && !ioctl(fd, SIOCOUTQ, &left) && left && clock_ms() < end) {
		struct pollfd gone = { .fd = fd };

		/* a fresh look every 100 us: the client mostly needs less */
		if (ppoll(&gone, 1, &(struct timespec){ .tv_nsec = 100000 }, NULL) > 0)
			return;
	}
}

static void run_hijacked(struct http_request *rq, int fd, const char *extra, size_t n)
{
	http_phase_set(rq->conn, PHASE_RUN);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	await_head_taken(rq, fd);
	rq->hijack.run(rq->hijack.ctx, rq, fd, extra, n);
	http_hijack_release(rq);
}

static void on_upgrade(void *cls, struct MHD_Connection *mhd, void *con_cls, const char *extra,
		       size_t n, MHD_socket fd, struct MHD_UpgradeResponseHandle *urh)
{
	(void)mhd;
	(void)con_cls;
	run_hijacked(cls, fd, extra, n);
	shutdown(fd, SHUT_RDWR);
	MHD_upgrade_action(urh, MHD_UPGRADE_ACTION_CLOSE);
}

int http_asks_for_upgrade(const struct http_request *rq)
{
	const char *connection = http_header(rq, "Connection");

	/* dockerd looks at no more than the first of these */
	return http_header(rq, "Upgrade") && (rq->server->o.foreign || (connection && strcasestr(connection, "upgrade")));
}

int http_reply_hijack(struct http_request *rq, const char *type, const struct http_hijack *h,
		      struct err *e)
{
	rq->hijack = *h;
	snprintf(rq->hijack_type, sizeof(rq->hijack_type), "%s", type);
	rq->status = 200;
	if (!http_asks_for_upgrade(rq))
		return 0;
	if (http_reply_set(rq, 101, type, MHD_create_response_for_upgrade(on_upgrade, rq), e) < 0)
		return -1;
	return http_reply_header(rq, "Upgrade", h->upgrade ? h->upgrade : "tcp", e);
}

void http_hijack_plain(struct http_request *rq)
{
	char head[200];
	int n = snprintf(head, sizeof(head),
			 "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nConnection: close\r\n\r\n",
			 rq->hijack_type);

	/* nothing was sent on this connection that the socket's buffer would not take */
	if (send(rq->conn->fd, head, (size_t)n, MSG_NOSIGNAL) == n)
		run_hijacked(rq, rq->conn->fd, NULL, 0);
}
