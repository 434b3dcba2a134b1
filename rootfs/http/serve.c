/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/http/serve.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "rootfs/http/job.h"
#include "rootfs/registry/httpwire.h"
#include "rootfs/store/digest.h"

#define JOBS_MAX 32
#define CA_MAX (4u << 20)
#define TICK_MS 100
#define SAY_MS 60000
#define ACCEPT_MANIFESTS \
	"application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, " \
	"application/vnd.docker.distribution.manifest.list.v2+json, " \
	"application/vnd.docker.distribution.manifest.v2+json"

struct serve {
	struct http http;
	struct job *jobs;
	size_t job_count;
	int sock;
	uint64_t ticked_ms;
	uint64_t upload_chunk;
	int broken;		/* the socket is */
};

/* Sends an event that must arrive; berth-image reads all the time, so a full socket is soon free. */
static void send_job_event(struct serve *s, json_t *j)
{
	struct pollfd p = { .fd = s->sock, .events = POLLOUT };
	struct err e = { 0 };

	while (!s->broken && httpwire_send(s->sock, j, -1, &e) < 0)
		if (e.code != ERR_BUSY || poll(&p, 1, SAY_MS) <= 0)
			s->broken = 1;
	json_decref(j);
}

void job_end(struct job *j, int existed)
{
	const struct exchange *x = &j->x;

	/* headers may hold any byte; a header that is not UTF-8 becomes null */
	send_job_event(j->serve, json_pack("{s:s, s:I, s:I, s:I, s:o, s:o, s:b, s:b}", "event", "done", "id", j->id,
					   "endpoint", (json_int_t)j->at_now, "bytes",
					   (json_int_t)(j->kind == JOB_BLOB ? x->got : j->kind == JOB_MANIFEST ? x->text.len : j->size),
					   "type", json_string(x->type) ?: json_null(), "digest", json_string(x->digest) ?: json_null(),
					   "existed", existed, "mounted", j->mounted));
	j->over = 1;
}

void job_fail(struct job *j, const struct err *e)
{
	json_t *message = json_string(e->msg);

	send_job_event(j->serve, json_pack("{s:s, s:I, s:I, s:s, s:o}", "event", "failed", "id", j->id, "endpoint",
					   (json_int_t)j->at_now, "code", err_name(e->code), "message",
					   message ? message : json_string("the registry's words are not UTF-8")));
	j->over = 1;
}

static void on_retry(struct exchange *x, uint64_t delay_ms)
{
	struct job *j = x->ctx;

	send_job_event(j->serve, json_pack("{s:s, s:I, s:I, s:o}", "event", "retry", "id", j->id, "delay_ms", (json_int_t)delay_ms,
					   "why", json_string(x->err.msg) ?: json_null()));
	if (j->kind == JOB_PUSH_BLOB)
		upload_retrying(j);
}

/* ---- starting ---- */

void job_set_url(struct job *j, const char *what, const char *ref)
{
	const struct endpoint *at = &j->at[j->at_now];

	snprintf(j->x.first_url, sizeof(j->x.first_url), "%s/v2/%s/%s/%s", at->base, at->repo, what, ref);
}

void job_set_scope(struct job *j, const char *actions)
{
	struct exchange *x = &j->x;
	int n = snprintf(x->scope, sizeof(x->scope), "repository:%s:%s", j->at[j->at_now].repo, actions);

	if (j->from[0])
		snprintf(x->scope + n, sizeof(x->scope) - (size_t)n, " repository:%s:pull", j->from);
}

static void start_job(struct job *j)
{
	struct exchange *x = &j->x;
	const struct endpoint *at = &j->at[j->at_now];

	switch (j->kind) {
	case JOB_PING:
		snprintf(x->first_url, sizeof(x->first_url), "%s/v2/", at->base);
		x->text_max = HTTP_TOKEN_ANSWER_MAX;
		break;
	case JOB_MANIFEST:
		job_set_url(j, "manifests", j->ref);
		job_set_scope(j, "pull");
		x->accept = ACCEPT_MANIFESTS;
		x->text_max = (size_t)j->size;
		break;
	case JOB_BLOB:
		job_set_url(j, "blobs", j->ref);
		job_set_scope(j, "pull");
		x->out_fd = j->fd;
		x->want_size = j->size;
		break;
	case JOB_PUSH_MANIFEST:
		job_set_url(j, "manifests", j->ref);
		job_set_scope(j, "pull,push");
		x->method = "PUT";
		x->content_type = j->type;
		x->in_from = 0;
		x->in_fd = j->fd;
		x->in_size = j->size;
		break;
	case JOB_PUSH_BLOB:
	case JOB_HAVE_BLOB:
		upload_start(j);
		return;
	}
	exchange_start(x);
}

/* ---- ending ---- */

static void manifest_ended(struct job *j)
{
	const struct exchange *x = &j->x;
	struct err e;

	if (pwrite(j->fd, x->text.data ? x->text.data : "", x->text.len, 0) == (ssize_t)x->text.len) {
		job_end(j, 0);
		return;
	}
	err_sys(&e, "hand the document on");
	job_fail(j, &e);
}

static int is_pull(const struct job *j)
{
	return j->kind == JOB_MANIFEST || j->kind == JOB_BLOB;
}

static void job_ended(struct exchange *x)
{
	struct job *j = x->ctx;

	if (x->err.code && is_pull(j) && j->at_now + 1 < j->at_count && x->err.os_errno == 0) {
		struct err why = x->err;

		/* a mirror failed: try the next one; for a blob only the missing part */
		err_wrap(&why, "going on at %s", j->at[j->at_now + 1].base);
		x->err = why;
		on_retry(x, 0);
		exchange_move(x, j->at[++j->at_now].site);
		start_job(j);
		return;
	}
	if (j->kind == JOB_PUSH_BLOB || j->kind == JOB_HAVE_BLOB) {
		upload_ended(j);
	} else if (x->err.code) {
		job_fail(j, &x->err);
	} else if (j->kind == JOB_MANIFEST) {
		manifest_ended(j);
	} else {
		job_end(j, 0);
	}
}

static void free_job(struct job *j)
{
	exchange_release(&j->x);
	fd_close(&j->fd);
	free(j);
}

static void sweep_jobs(struct serve *s)
{
	struct job **at = &s->jobs, *j;

	while ((j = *at)) {
		if (!j->over) {
			at = &j->next;
			continue;
		}
		*at = j->next;
		s->job_count--;
		free_job(j);
	}
}

/* ---- requests ---- */

static int read_job_text(const json_t *q, const char *key, char *ret, size_t size, struct err *e)
{
	const char *s = NULL;

	if (json_get_str(q, key, &s, "request", e) < 0)
		return -1;
	if (!s || !*s || strlen(s) >= size)
		return err_set(e, ERR_INVALID, "request: \"%s\" is missing or too long", key);
	strcpy(ret, s);
	return 0;
}

/* Checks that text has nothing that could leave its place in a URL. */
static int is_plain_url_text(const char *s, const char *more)
{
	for (; *s; s++)
		if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || strchr(more, *s)))
			return 0;
	return 1;
}

static int take_endpoints(struct serve *s, struct job *j, const json_t *q, struct err *e)
{
	json_t *list = json_object_get(q, "endpoints"), *one;
	size_t i;

	if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > ENDPOINTS_MAX)
		return err_set(e, ERR_INVALID, "request: 1 to %d endpoints", ENDPOINTS_MAX);
	json_array_foreach(list, i, one) {
		struct endpoint *at = &j->at[i];
		struct origin o;

		if (read_job_text(one, "base", at->base, sizeof(at->base), e) < 0 ||
		    origin_parse(at->base, "registry", &o, NULL, e) < 0)
			return -1;
		if (j->kind != JOB_PING && read_job_text(one, "repo", at->repo, sizeof(at->repo), e) < 0)
			return -1;
		if (!is_plain_url_text(at->repo, "/._-") || strstr(at->repo, ".."))
			return err_set(e, ERR_INVALID, "request: repository '%.100s'", at->repo);
		at->site = http_site(&s->http, &o, e);
		if (!at->site)
			return -1;
	}
	j->at_count = json_array_size(list);
	return 0;
}

static int read_job_request(struct serve *s, struct job *j, const json_t *q, struct err *e)
{
	static const struct { const char *op; enum job_kind kind; const char *size; } ops[] = {
		{ "ping", JOB_PING, NULL }, { "manifest", JOB_MANIFEST, "max" }, { "blob", JOB_BLOB, "size" },
		{ "push-blob", JOB_PUSH_BLOB, "size" }, { "push-manifest", JOB_PUSH_MANIFEST, "size" },
		{ "have-blob", JOB_HAVE_BLOB, NULL },
	};
	const char *op = json_string_value(json_object_get(q, "op")), *from = "";
	int is_blob;
	size_t i;

	for (i = 0; i < ARRAY_LEN(ops) && (!op || strcmp(op, ops[i].op)); i++)
		;
	if (i == ARRAY_LEN(ops))
		return err_set(e, ERR_INVALID, "request: unknown op");
	j->kind = ops[i].kind;
	if (take_endpoints(s, j, q, e) < 0)
		return -1;
	if (j->kind == JOB_PING)
		return 0;
	if (ops[i].size && (json_get_u64(q, ops[i].size, &j->size, "request", e) < 1 || j->fd < 0))
		return err_set(e, ERR_INVALID, "request: no %s or no descriptor", ops[i].size);
	is_blob = j->kind == JOB_BLOB || j->kind == JOB_PUSH_BLOB || j->kind == JOB_HAVE_BLOB;
	if (read_job_text(q, is_blob ? "digest" : "ref", j->ref, sizeof(j->ref), e) < 0)
		return -1;
	if (!is_plain_url_text(j->ref, ":._-"))
		return err_set(e, ERR_INVALID, "request: reference '%.100s'", j->ref);
	if (j->kind == JOB_PUSH_MANIFEST && read_job_text(q, "type", j->type, sizeof(j->type), e) < 0)
		return -1;
	if (json_get_str(q, "from", &from, "request", e) < 0)
		return -1;
	if (strlen(from) >= sizeof(j->from) || !is_plain_url_text(from, "/._-"))
		return err_set(e, ERR_INVALID, "request: repository '%.100s'", from);
	strcpy(j->from, from);
	if (j->kind == JOB_BLOB && fcntl(j->fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "make a pipe non-blocking");
	return 0;
}

static int new_job(struct serve *s, const json_t *q, int fd, struct err *e)
{
	struct job *j = calloc(1, sizeof(*j));
	uint64_t id = 0;

	if (!j) {
		fd_close(&fd);
		return err_nomem(e);
	}
	j->serve = s;
	j->upload.chunk = s->upload_chunk;
	j->fd = fd;
	exchange_init(&j->x, &s->http, NULL, "GET");
	j->x.ctx = j;
	j->x.done = job_ended;
	j->x.retrying = on_retry;
	if (json_get_u64(q, "id", &id, "request", e) < 1 || s->job_count >= JOBS_MAX) {
		free_job(j);
		return err_set(e, ERR_INVALID, "request without id, or too many of them");
	}
	j->id = (json_int_t)id;
	j->next = s->jobs;
	s->jobs = j;
	s->job_count++;
	if (read_job_request(s, j, q, e) < 0) {
		job_fail(j, e);
		return 0;
	}
	j->x.site = j->at[0].site;
	start_job(j);
	return 0;
}

/* ---- hello ---- */

static char *copy_job_text(const json_t *q, const char *key)
{
	const char *s = json_string_value(json_object_get(q, key));

	return s ? strdup(s) : NULL;
}

static int take_credential(struct serve *s, const json_t *q, struct err *e)
{
	const char *text = json_string_value(json_object_get(q, "origin"));
	struct http_site *site;
	struct origin o;

	if (!text || origin_parse(text, "registry", &o, NULL, e) < 0)
		return text ? -1 : err_set(e, ERR_INVALID, "hello: a credential without origin");
	site = http_site(&s->http, &o, e);
	if (!site)
		return -1;
	site->user = copy_job_text(q, "user");
	site->password = copy_job_text(q, "password");
	site->identity_token = copy_job_text(q, "identity_token");
	if (!(site->user && site->password) && !site->identity_token)
		return err_set(e, ERR_INVALID, "hello: a credential without password");
	return 0;
}

static int take_ca(struct serve *s, int fd, struct err *e)
{
	autobuf struct buf b = BUF_INIT(CA_MAX);

	if (io_read_all(fd, &b, "registry.ca_file", e) < 0)
		return -1;
	s->http.ca_len = b.len;
	s->http.ca = take_ptr(&b.data);
	return 0;
}

static int take_hello(struct serve *s, const json_t *q, int fd, struct err *e)
{
	const char *op = json_string_value(json_object_get(q, "op")), *agent = NULL;
	json_t *one, *realms = json_object_get(q, "realms");
	uint64_t retries = 0;
	size_t i;

	if (!op || strcmp(op, "hello") || json_get_u64(q, "retries", &retries, "hello", e) < 1 ||
	    json_get_u64(q, "stall_ms", &s->http.stall_ms, "hello", e) < 1 || !s->http.stall_ms)
		return err_set(e, ERR_INVALID, "no hello");
	if (json_get_str(q, "user_agent", &agent, "hello", e) < 1)
		return err_set(e, ERR_INVALID, "hello without user_agent");
	if (json_get_u64(q, "upload_chunk", &s->upload_chunk, "hello", e) < 1)
		return err_set(e, ERR_INVALID, "hello without upload_chunk");
	snprintf(s->http.agent, sizeof(s->http.agent), "%s", agent);
	s->http.retries = (unsigned int)retries;
	json_array_foreach(json_object_get(q, "credentials"), i, one) {
		if (take_credential(s, one, e) < 0)
			return -1;
	}
	s->http.realms = calloc(json_array_size(realms) + 1, sizeof(*s->http.realms));
	if (!s->http.realms)
		return err_nomem(e);
	json_array_foreach(realms, i, one) {
		const char *text = json_string_value(one);

		if (text && (s->http.realms[s->http.realm_count] = strdup(text)))
			s->http.realm_count++;
	}
	return fd >= 0 ? take_ca(s, fd, e) : 0;
}

/* The environment variables that libcurl reads, in its order of spelling. */
static int has_proxy(void)
{
	static const char *const names[] = { "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++) {
		const char *v = getenv(names[i]);

		if (v && *v)
			return 1;
	}
	return 0;
}

/* ---- the loop ---- */

static void send_job_progress(struct serve *s)
{
	uint64_t now = clock_ms();
	struct job *j;

	if (now - s->ticked_ms < TICK_MS)
		return;
	s->ticked_ms = now;
	for (j = s->jobs; j; j = j->next) {
		json_t *event;
		uint64_t bytes = j->kind == JOB_BLOB ? j->x.got : j->kind == JOB_PUSH_BLOB ? upload_sent(j) : 0;

		if (j->over || bytes == j->shown)
			continue;
		event = json_pack("{s:s, s:I, s:I}", "event", "progress", "id", j->id, "bytes", (json_int_t)bytes);
		if (!httpwire_send(s->sock, event, -1, NULL))
			j->shown = bytes;	/* a full socket: send it again at the next tick */
		json_decref(event);
	}
}

/* Returns 1 if there is (or may be) more, 0 when the other end is gone. */
static int receive_http_jobs(struct serve *s, struct err *e)
{
	autojson json_t *q = NULL;
	int fd = -1, r;

	for (;;) {
		json_decref(q);
		q = NULL;
		r = httpwire_recv(s->sock, &q, &fd, e);
		if (r < 0)
			return e->code == ERR_BUSY ? 1 : -1;
		if (r == 0)
			return 0;
		if (new_job(s, q, fd, e) < 0)
			return -1;
	}
}

static int serve_http_jobs(struct serve *s, struct err *e)
{
	int r;

	for (;;) {
		r = receive_http_jobs(s, e);
		if (r <= 0)
			return r;
		sweep_jobs(s);
		if (s->broken)
			return 0;
		if (http_turn(&s->http, s->sock, s->job_count ? TICK_MS : 60000, e) < 0)
			return -1;
		send_job_progress(s);
		sweep_jobs(s);
	}
}

int http_serve(int sock, int (*before_requests)(struct err *e), struct err *e)
{
	struct serve *s = calloc(1, sizeof(*s));
	autojson json_t *hello = NULL;
	autoclose int fd = -1;
	int r;

	if (!s)
		return err_nomem(e);
	s->sock = sock;
	r = httpwire_recv(sock, &hello, &fd, e);
	if (r <= 0)
		return r < 0 ? -1 : 0;
	if (take_hello(s, hello, fd, e) < 0)
		return -1;
	s->http.has_proxy = has_proxy();
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(s->http.multi = curl_multi_init()))
		return err_set(e, ERR_INTERNAL, "start libcurl");
	if (before_requests(e) < 0)
		return -1;
	if (fcntl(sock, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "make the socket non-blocking");
	/* the exit that follows frees everything */
	return serve_http_jobs(s, e);
}
