/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upload - sends a blob to a registry (distribution specification, "pushing blobs").
 *
 * 	LOOK  HEAD of the blob           there: done
 * 	OPEN  POST, perhaps to mount it  201: mounted; 202: a session's address
 * 	SEND  PATCH of a chunk, ...      until all is there
 * 	      PUT with the digest        done
 * 	ASK   GET of the session         after a SEND that failed
 *
 * A blob that fits into one chunk is sent with the PUT alone. When a part fails, we ask the session
 * how far it came, and go on from there. When the session is lost, everything begins again with
 * LOOK, because the blob may have arrived and only the answer was lost. A registry that takes no
 * chunks gets the whole blob at once. Failures are counted until the registry has more bytes than
 * ever before, so the upload always ends.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "rootfs/http/job.h"

#define QUERY_MAX 176	/* "?digest=" and a digest */

static void begin_upload_request(struct job *j, const char *method, int in_fd)
{
	struct exchange *x = &j->x;

	x->method = method;
	x->err.code = 0;
	if (!j->upload.troubled)
		x->tries = 0;
	x->in_fd = in_fd;
	x->fresh_token = x->sent_basic = 0;
	x->content_type = in_fd >= 0 ? "application/octet-stream" : NULL;
	x->content_range[0] = '\0';
	x->once = in_fd >= 0;
	x->sent = 0;
	job_set_scope(j, "pull,push");
}

static void look_for_blob(struct job *j)
{
	j->upload.step = UPLOAD_LOOK;
	job_set_url(j, "blobs", j->ref);
	begin_upload_request(j, "HEAD", -1);
	exchange_start(&j->x);
}

void upload_start(struct job *j)
{
	look_for_blob(j);
}

static void open_session(struct job *j)
{
	char where[REPO_MAX * 3 + 160] = "uploads/";

	j->upload.step = UPLOAD_OPEN;
	j->upload.at = 0;
	j->upload.session[0] = '\0';
	/* repository names and digests need no escapes but for ':' and '/', which a query may have */
	if (j->from[0])
		snprintf(where, sizeof(where), "uploads/?mount=%s&from=%s", j->ref, j->from);
	job_set_url(j, "blobs", where);
	begin_upload_request(j, "POST", -1);
	exchange_start(&j->x);
}

/* ---- sending ---- */

/* Sends one PATCH, or the PUT that ends the upload. */
static void send_part(struct job *j)
{
	struct upload *u = &j->upload;
	struct exchange *x = &j->x;
	uint64_t left = j->size - u->at;

	/* a small blob is sent in one PUT; so is a whole blob of which the registry has nothing */
	u->closing = !left || (!u->at && (!u->chunk || left <= u->chunk));
	u->part = u->closing || left < u->chunk || !u->chunk ? left : u->chunk;
	u->step = UPLOAD_SEND;
	begin_upload_request(j, u->closing ? "PUT" : "PATCH", j->fd);
	x->in_from = u->at;
	x->in_size = u->part;
	if (u->closing)
		snprintf(x->first_url, sizeof(x->first_url), "%.*s%cdigest=%s", ORIGIN_URL_MAX - QUERY_MAX, u->session,
			 strchr(u->session, '?') ? '&' : '?', j->ref);
	else
		memcpy(x->first_url, u->session, sizeof(x->first_url));
	if (!u->closing)
		snprintf(x->content_range, sizeof(x->content_range), "%" PRIu64 "-%" PRIu64, u->at, u->at + u->part - 1);
	exchange_start(x);
}

/* Takes the session's location, which the registry chose: it is resolved and judged like a redirect. */
static int take_session(struct job *j, struct err *e)
{
	autofree char *to = malloc(ORIGIN_URL_MAX);
	struct upload *u = &j->upload;
	struct exchange *x = &j->x;
	struct origin o;

	if (!to)
		return err_nomem(e);
	if (!x->location[0])
		return u->session[0] ? 0 : err_set(e, ERR_NET, "the registry opened an upload and does not say where");
	if (origin_resolve(x->url, x->location, to, e) < 0 || origin_parse(to, "URL", &o, NULL, e) < 0) {
		e->code = ERR_DENIED;
		return err_wrap(e, "the upload's address is refused");
	}
	if (exchange_refuses(x, &o, e))
		return -1;
	if (x->site->origin.tls && !o.tls)
		return err_set(e, ERR_DENIED, "the registry wants the upload over plain http, which is refused");
	if (strlen(to) + QUERY_MAX > ORIGIN_URL_MAX)
		return err_set(e, ERR_NET, "the upload's address is too long");
	memcpy(u->session, to, strlen(to) + 1);
	return 0;
}

/* "0-N" of a Range header: the number of bytes that the session has. -1 if it is malformed. */
static int read_range(const struct exchange *x, uint64_t *ret)
{
	const char *s = x->upload_range;
	uint64_t last;

	if (!strncmp(s, "bytes=", 6))
		s += 6;
	if (strncmp(s, "0-", 2) || num_u64(s + 2, "Range", 0, UINT64_MAX - 1, &last, NULL) < 0)
		return -1;
	*ret = last ? last + 1 : 0;	/* registries answer 0-0 for an empty session */
	return 0;
}

/* Notes how many bytes the registry has; earlier failures are forgotten if it is more than ever. */
static void advance_upload(struct job *j, uint64_t at)
{
	struct upload *u = &j->upload;

	u->at = at;
	if (at >= u->best + HTTP_PROGRESS_BYTES || at == j->size) {
		u->best = at;
		j->x.tries = 0;
	}
}

/* Counts a failure that no retry of an exchange has counted. Returns 0 if another try is allowed. */
static int count_failure(struct job *j)
{
	j->upload.troubled = 1;
	return j->x.tries++ < j->x.http->retries ? 0 : -1;
}

static void ask_upload_state(struct job *j)
{
	struct exchange *x = &j->x;

	j->upload.step = UPLOAD_ASK;
	begin_upload_request(j, "GET", -1);
	memcpy(x->first_url, j->upload.session, sizeof(x->first_url));
}

void upload_retrying(struct job *j)
{
	struct upload *u = &j->upload;

	if (u->step != UPLOAD_SEND)
		return;
	u->troubled = 1;
	if (u->at + j->x.sent > u->reached)
		u->reached = u->at + j->x.sent;
	ask_upload_state(j);		/* asks when the part would have been sent again */
}

uint64_t upload_sent(const struct job *j)
{
	const struct upload *u = &j->upload;

	return u->at + (u->step == UPLOAD_SEND ? j->x.sent : 0);
}

/* ---- after an exchange ---- */

static void send_ended(struct job *j)
{
	struct upload *u = &j->upload;
	struct err e = { 0 };
	uint64_t want = u->at + u->part, has = want;

	if (u->closing) {
		job_end(j, 0);
		return;
	}
	u->reached = want > u->reached ? want : u->reached;
	if (take_session(j, &e) < 0) {
		job_fail(j, &e);
		return;
	}
	if (j->x.upload_range[0] && (read_range(&j->x, &has) < 0 || has > want))
		err_set(&e, ERR_CORRUPT, "the registry says it has '%.60s' of an upload of which %" PRIu64 " bytes were sent",
			j->x.upload_range, want);
	else if (has < want && count_failure(j) < 0)
		err_set(&e, ERR_NET, "the registry keeps %" PRIu64 " of %" PRIu64 " bytes that were sent", has, want);
	if (e.code) {
		job_fail(j, &e);
		return;
	}
	advance_upload(j, has);
	send_part(j);
}

/* Returns 1 if the registry refuses parts, and now gets the whole blob. */
static int takes_no_parts(struct job *j)
{
	struct upload *u = &j->upload;
	long s = j->x.status;

	if (u->closing || u->at || !u->chunk ||
	    (s != 400 && s != 404 && s != 405 && s != 411 && s != 413 && s != 415 && s != 501))
		return 0;
	u->chunk = 0;
	open_session(j);
	return 1;
}

/* Handles a part that was refused in a way that a retry does not help. */
static void send_failed(struct job *j)
{
	struct err e = j->x.err;

	if (takes_no_parts(j))
		return;
	/* the session is at another byte, or is gone */
	if ((j->x.status == 416 || (j->x.status == 404 && j->upload.at)) && !count_failure(j)) {
		ask_upload_state(j);
		exchange_start(&j->x);
		return;
	}
	job_fail(j, &e);
}

static void ask_ended(struct job *j)
{
	struct upload *u = &j->upload;
	struct err e = { 0 };
	uint64_t has;

	if (j->x.err.code == ERR_DENIED || (j->x.err.code && !j->x.status)) {
		job_fail(j, &j->x.err);
		return;
	}
	if (j->x.err.code || read_range(&j->x, &has) < 0) {	/* lost, or done */
		if (count_failure(j) < 0) {
			err_set(&e, ERR_NET, "the registry lost the upload %u times", j->x.tries);
			job_fail(j, &e);
			return;
		}
		look_for_blob(j);
		return;
	}
	if (has > j->size || has > u->reached)
		err_set(&e, ERR_CORRUPT, "the registry says it has %" PRIu64 " bytes of an upload of which %" PRIu64
			" were sent", has, u->reached);
	if (e.code || take_session(j, &e) < 0) {
		job_fail(j, &e);
		return;
	}
	advance_upload(j, has);
	send_part(j);
}

static void look_ended(struct job *j)
{
	if (!j->x.err.code)
		job_end(j, 1);
	else if (j->x.err.code != ERR_NOT_FOUND)
		job_fail(j, &j->x.err);
	else if (j->kind == JOB_HAVE_BLOB && !j->from[0])
		job_end(j, 0);
	else
		open_session(j);
}

static void open_ended(struct job *j)
{
	struct err e = { 0 };
	int mounted = !j->x.err.code && j->x.status == 201;

	if (mounted) {
		j->mounted = 1;
		job_end(j, 0);
	} else if (j->kind == JOB_HAVE_BLOB) {
		job_end(j, 0);	/* the registry will forget an upload that it opened instead */
	} else if (j->x.err.code && j->from[0]) {
		j->from[0] = '\0';	/* it may not be mounted from there, so it is sent */
		open_session(j);
	} else if (j->x.err.code) {
		job_fail(j, &j->x.err);
	} else if (take_session(j, &e) < 0) {
		job_fail(j, &e);
	} else {
		if (j->x.chunk_min > j->upload.chunk && j->upload.chunk)
			j->upload.chunk = j->x.chunk_min;
		send_part(j);
	}
}

void upload_ended(struct job *j)
{
	struct upload *u = &j->upload;

	switch (u->step) {
	case UPLOAD_LOOK:
		look_ended(j);
		break;
	case UPLOAD_OPEN:
		open_ended(j);
		break;
	case UPLOAD_SEND:
		if (j->x.err.code)
			send_failed(j);
		else
			send_ended(j);
		break;
	case UPLOAD_ASK:
		ask_ended(j);
		break;
	}
}
