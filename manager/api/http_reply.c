/* SPDX-License-Identifier: Apache-2.0 */
/* Replies: JSON, bytes, streams, errors. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "manager/api/http_state.h"

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

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
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
		r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 32768, read_stream, s, release_stream);
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

void http_error_shape(struct http_request *rq, json_t *(*shape)(const struct err *e))
{
	rq->error_shape = shape;
}

void http_reply_error(struct http_request *rq, const struct err *e)
{
	int status = rq->error_status ? rq->error_status : err_http_status(e->code);
	struct err ignored;
	const struct http_foreign *f = rq->server->o.foreign;
	json_t *(*unknown)(const struct err *e) = rq->server->o.shape_unknown;
	const int is_unknown = status == 404 || status == 401;
	json_t *j = rq->error_shape ? rq->error_shape(e) :
		    rq->route && rq->route->shape_error ? rq->route->shape_error(e) :
		    f ? f->shape_error(e) :
		    unknown && is_unknown && http_header(rq, "X-API-Key") ? unknown(e) :
		    http_error_json(e);

	if (status < 400)
		status = 500;
	/* those forms have no word for a client that is not known */
	if (status == 401 && json_is_integer(json_object_get(j, "code")))
		json_object_set_new(j, "code", json_integer(status));
	if (http_reply_json(rq, status, j, &ignored) == 0 && status == 401)
		http_reply_header(rq, "WWW-Authenticate", "Bearer", &ignored);
}
