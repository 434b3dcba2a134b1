/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S42, S43, S54 of SECURITY.md. */
#include "manager/api/http_hold.h"

#include <malloc.h>
#include <stdlib.h>

#include "manager/api/http_state.h"

static size_t *held_by(struct http_hold *h)
{
	return h->share ? &h->share->held : &h->server->held_by_admins;
}

int http_hold_take(struct http_request *rq, struct http_hold *h, size_t n, struct err *e)
{
	struct http_server *s = rq->server;
	size_t *mine, left;
	int r = 0;

	if (!h->server) {
		h->server = s;
		h->share = rq->share;
	}
	pthread_mutex_lock(&s->lock);
	mine = held_by(h);
	left = HTTP_HOLD_MAX - (s->held - *mine);
	if (n > left || *mine + n > left / 5 * 4) {
		rq->error_status = 429;
		r = err_set(e, ERR_LIMIT, "the request bodies of %s%s that are under way may "
			    "have %zu bytes together now, of %u for all; "
			    "hint: again later, or PUT files one by one",
			    h->share ? "tenant " : "administrators", h->share ? h->share->name : "",
			    left / 5 * 4, HTTP_HOLD_MAX);
	} else {
		*mine += n;
		s->held += n;
		h->bytes += n;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

void http_hold_end(struct http_hold *h)
{
	if (!h->bytes)
		return;
	pthread_mutex_lock(&h->server->lock);
	*held_by(h) -= h->bytes;
	h->server->held -= h->bytes;
	h->bytes = 0;
	pthread_mutex_unlock(&h->server->lock);
}

/* What was large, and is given back, is not kept for the next. */
#define TRIM_FROM (2u << 20)

int http_hold_json(struct http_request *rq, size_t n, struct err *e)
{
	const size_t want = n > HTTP_JSON_FREE ? n - HTTP_JSON_FREE : 0;

	if (!want)
		return 0;
	if (!rq->body_hold)
		rq->body_hold = calloc(1, sizeof(*rq->body_hold));
	if (!rq->body_hold)
		return err_nomem(e);
	return want > rq->body_hold->bytes ?
		       http_hold_take(rq, rq->body_hold, want - rq->body_hold->bytes, e) :
		       0;
}

void http_hold_json_end(struct http_request *rq)
{
	const size_t bytes = rq->body_hold ? rq->body_hold->bytes : 0;

	if (rq->body_hold)
		http_hold_end(rq->body_hold);
	free(rq->body_hold);
	rq->body_hold = NULL;
	if (bytes >= TRIM_FROM)
		malloc_trim(0);
}
