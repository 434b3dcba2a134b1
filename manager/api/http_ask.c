/* SPDX-License-Identifier: Apache-2.0 */
/* The functions by which a handler reads its request, and waits. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "manager/api/http_state.h"
#include "manager/service/dlog.h"

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

void http_audit(struct http_request *rq, const char *key, const char *value)
{
	if (!strcmp(rq->method, "GET"))
		return;		/* it has no such line */
	if (!rq->audit)
		rq->audit = json_object();
	json_object_set_new(rq->audit, key, dlog_text(value));
}

#define RIGHTS_LOOK_MS 2000	/* how soon a wait of a client ends whose token was taken away */

/* Upholds S53 of SECURITY.md: a request that lasts has the rights that its client has now. */
int http_check_rights(struct http_request *rq, struct err *e)
{
	struct http_server *s = rq->server;
	const unsigned now = atomic_load(&s->generation);

	if (rq->generation == now || !s->o.holds)
		return 0;
	rq->generation = now;
	if (!rq->known || s->o.holds(s->o.context, &rq->who))
		return 0;
	rq->error_status = 401;
	return err_set(e, ERR_DENIED, "the token of %s was removed, or has another role now", rq->who.name);
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
	const int piece_ms = wait_ms < 0 ? RIGHTS_LOOK_MS : wait_ms;
	int r;

	memcpy(p + 2, user, n * sizeof(*p));
	do {
		r = poll(p, n + 2, piece_ms);
		if (r < 0 && errno != EINTR)
			return err_sys(e, "wait");
		if (http_check_rights(rq, e) < 0)
			return -1;
	} while (r < 0 || (r == 0 && wait_ms < 0));
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
