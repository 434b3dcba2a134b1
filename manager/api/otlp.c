/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/otlp.h"

#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/host/conf.h"
#include "manager/service/dlog.h"

#define HEADERS_MAX 8192
#define BATCH 512
#define INTERVAL_MS 2000
#define RETRY_MS 5000
#define STOP_MS 2000
#define SEND_S 10L
#define KIND_SERVER 2
#define STATUS_ERROR 2

/* ---- trace context ---- */

static int random_hex(char *ret, size_t bytes)
{
	unsigned char raw[16];

	/* 256 bytes and less come whole, random(7) */
	if (getrandom(raw, bytes, 0) != (ssize_t)bytes)
		return -1;
	hex_format(ret, raw, bytes);
	return 0;
}

/* Reads n lower case digits, not all of them 0. */
static int take_id(const char **at, size_t n, char *ret)
{
	const size_t got = strspn(*at, "0123456789abcdef");

	if (got < n || strspn(*at, "0") >= n)
		return -1;
	memcpy(ret, *at, n);
	ret[n] = '\0';
	*at += n;
	return 0;
}

/* VERSION-TRACE-PARENT-FLAGS; a later version may have more behind a hyphen, ff is none. */
static int parse_traceparent(struct trace *ret, const char *text)
{
	const int version = hex_byte(text);
	int flags;

	if (version < 0 || version == 0xff || text[2] != '-')
		return -1;
	text += 3;
	if (take_id(&text, 32, ret->trace_id) < 0 || *text++ != '-' || take_id(&text, 16, ret->parent_id) < 0 || *text++ != '-')
		return -1;
	flags = hex_byte(text);
	if (flags < 0 || (text[2] && (!version || text[2] != '-')))
		return -1;
	ret->is_sampled = flags & 1;
	return 0;
}

int trace_begin(struct trace *ret, const char *traceparent)
{
	if (!traceparent || parse_traceparent(ret, traceparent) < 0) {
		ret->parent_id[0] = '\0';
		ret->is_sampled = 1;
		if (random_hex(ret->trace_id, 16) < 0)
			return -1;
	}
	return random_hex(ret->span_id, 8);
}

void trace_parent(const struct trace *t, char ret[TRACEPARENT_MAX])
{
	snprintf(ret, TRACEPARENT_MAX, "00-%s-%s-%02d", t->trace_id, t->span_id, t->is_sampled);
}

/* ---- what waits ---- */

enum signal_kind { SIGNAL_TRACES, SIGNAL_LOGS, SIGNALS };

static const struct {
	const char *path, *resources, *scopes, *records;
	const char *metric, *what;
} signals[] = {
	[SIGNAL_TRACES] = { "/v1/traces", "resourceSpans", "scopeSpans", "spans", "spans", "Spans" },
	[SIGNAL_LOGS] = { "/v1/logs", "resourceLogs", "scopeLogs", "logRecords", "logs", "Audit lines" },
};

struct otlp {
	char endpoint[256], service[65], host[65];
	struct curl_slist *headers;
	pthread_t sender;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	json_t *waiting[SIGNALS];	/* arrays, the oldest first */
	int stops, failing;
	_Atomic uint64_t stop_by_ms;	/* 0: it goes on */
	_Atomic uint64_t sent[SIGNALS], dropped[SIGNALS];
};

static json_t *text_attribute(const char *key, const char *value)
{
	return json_pack("{s:s,s:{s:o}}", "key", key, "value", "stringValue", dlog_text(value));
}

/* 64 bit integers are strings in OTLP's JSON. */
static json_t *number_attribute(const char *key, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	return json_pack("{s:s,s:{s:s}}", "key", key, "value", "intValue", text);
}

static json_t *nanoseconds(uint64_t ns)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, ns);
	return json_string(text);
}

static json_t *attributes_of(const struct otlp_request *rq)
{
	json_t *list = json_array(), *value;
	const char *key;
	char name[80];

	json_array_append_new(list, text_attribute("http.request.method", rq->method));
	json_array_append_new(list, text_attribute("http.route", rq->route));
	json_array_append_new(list, number_attribute("http.response.status_code", rq->status));
	json_array_append_new(list, text_attribute("enduser.id", rq->who));
	if (rq->error)
		json_array_append_new(list, text_attribute("error.message", rq->error));
	json_object_foreach((json_t *)(size_t)rq->audit, key, value)
		if (json_is_string(value)) {
			snprintf(name, sizeof(name), "berth.%.60s", key);
			json_array_append_new(list, text_attribute(name, json_string_value(value)));
		}
	return list;
}

/* With the lock held; consumes record. */
static void add_waiting(struct otlp *o, enum signal_kind kind, json_t *record)
{
	if (json_array_size(o->waiting[kind]) >= OTLP_WAITING) {
		json_array_remove(o->waiting[kind], 0);
		atomic_fetch_add(&o->dropped[kind], 1);
	}
	if (json_array_append_new(o->waiting[kind], record) < 0)
		atomic_fetch_add(&o->dropped[kind], 1);
	if (json_array_size(o->waiting[kind]) == BATCH)
		pthread_cond_signal(&o->wake);
}

/* Consumes attributes; NULL without memory. */
static json_t *span_of(const struct otlp_request *rq, const char *name, uint64_t end, json_t *attributes)
{
	json_t *span = json_pack("{s:s,s:s,s:s,s:i,s:o,s:o,s:o}", "traceId", rq->trace->trace_id, "spanId", rq->trace->span_id, "name", name,
				 "kind", KIND_SERVER, "startTimeUnixNano", nanoseconds(end - rq->us * 1000), "endTimeUnixNano", nanoseconds(end),
				 "attributes", attributes);

	if (rq->trace->parent_id[0])
		json_object_set_new(span, "parentSpanId", json_string(rq->trace->parent_id));
	/* what the client did wrong is no error of a server's span */
	if (rq->status >= 500)
		json_object_set_new(span, "status", json_pack("{s:i,s:o}", "code", STATUS_ERROR, "message", dlog_text(rq->error ? rq->error : "")));
	return span;
}

static int has_audit_line(const struct otlp_request *rq)
{
	return strcmp(rq->method, "GET") || rq->status == 401 || rq->status == 403;
}

/* Consumes attributes; NULL without memory. */
static json_t *audit_line_of(const struct otlp_request *rq, const char *name, uint64_t end, json_t *attributes)
{
	return json_pack("{s:o,s:i,s:s,s:{s:s},s:s,s:s,s:o}", "timeUnixNano", nanoseconds(end), "severityNumber", rq->status < 400 ? 9 : 13,
			 "severityText", rq->status < 400 ? "INFO" : "WARN", "body", "stringValue", name, "traceId", rq->trace->trace_id,
			 "spanId", rq->trace->span_id, "attributes", attributes);
}

void otlp_request(struct otlp *o, const struct otlp_request *rq)
{
	const struct timespec now = clock_now(CLOCK_REALTIME);
	const uint64_t end = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	const int is_told = has_audit_line(rq);
	autojson json_t *attributes = NULL;
	json_t *span = NULL, *line = NULL;
	char name[160];

	/* a client chooses whether its trace is sampled, and not whether it is audited */
	if (!rq->trace->is_sampled && !is_told)
		return;
	snprintf(name, sizeof(name), "%.16s %.120s", rq->method, rq->route);
	attributes = attributes_of(rq);
	if (rq->trace->is_sampled)
		span = span_of(rq, name, end, json_incref(attributes));
	if (is_told)
		line = audit_line_of(rq, name, end, json_incref(attributes));
	pthread_mutex_lock(&o->lock);
	if (span)
		add_waiting(o, SIGNAL_TRACES, span);
	if (line)
		add_waiting(o, SIGNAL_LOGS, line);
	pthread_mutex_unlock(&o->lock);
}

/* ---- sending ---- */

static size_t ignore_answer(char *p, size_t size, size_t n, void *ctx)
{
	(void)p, (void)ctx;
	return size * n;
}

static int is_otlp_overdue(void *ctx, curl_off_t down_all, curl_off_t down, curl_off_t up_all, curl_off_t up)
{
	const struct otlp *o = ctx;
	const uint64_t by = atomic_load(&o->stop_by_ms);

	(void)down_all, (void)down, (void)up_all, (void)up;
	return by && clock_ms() > by;
}

static char *body_of(const struct otlp *o, enum signal_kind kind, json_t *records)
{
	autojson json_t *resource = json_pack("[o,o,o]", text_attribute("service.name", o->service), text_attribute("service.version", BERTH_VERSION),
					      text_attribute("host.name", o->host));
	autojson json_t *j = json_pack("{s:[{s:{s:O},s:[{s:{s:s,s:s},s:O}]}]}", signals[kind].resources, "resource", "attributes", resource,
				       signals[kind].scopes, "scope", "name", "berth", "version", BERTH_VERSION, signals[kind].records, records);

	return j ? json_dumps(j, JSON_COMPACT) : NULL;
}

/* 1: it has them, or will never take them; 0: it may take them later. */
static int post_records(struct otlp *o, enum signal_kind kind, json_t *records, struct err *e)
{
	autofree char *body = body_of(o, kind, records);
	CURL *c = body ? curl_easy_init() : NULL;
	char url[300], why[CURL_ERROR_SIZE] = "";
	long status = 0;
	CURLcode code;

	if (!c)
		return err_nomem(e), 0;
	snprintf(url, sizeof(url), "%s%s", o->endpoint, signals[kind].path);
	curl_easy_setopt(c, CURLOPT_URL, url);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, o->headers);
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, body);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, SEND_S);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, ignore_answer);
	curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, is_otlp_overdue);
	curl_easy_setopt(c, CURLOPT_XFERINFODATA, o);
	code = curl_easy_perform(c);
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(c);
	if (code == CURLE_OK && status >= 200 && status < 300) {
		atomic_fetch_add(&o->sent[kind], json_array_size(records));
		return 1;
	}
	err_set(e, ERR_NET, "the collector %.200s: %s", url, code != CURLE_OK ? (why[0] ? why : curl_easy_strerror(code)) : "it refuses them");
	if (code == CURLE_OK)
		err_wrap(e, "HTTP status %ld", status);
	if (code != CURLE_OK || status == 429 || (status >= 502 && status <= 504))
		return 0;
	atomic_fetch_add(&o->dropped[kind], json_array_size(records));
	return 1;
}

/* The oldest records, at most a batch: a new array. */
static json_t *take_batch(struct otlp *o, enum signal_kind kind)
{
	json_t *batch = json_array(), *all = o->waiting[kind], *rest = json_array();
	size_t i;

	for (i = 0; i < json_array_size(all); i++)
		json_array_append(i < BATCH ? batch : rest, json_array_get(all, i));
	json_decref(all);
	o->waiting[kind] = rest;
	return batch;
}

/* Puts a batch that was not sent before what has come since. */
static void put_back(struct otlp *o, enum signal_kind kind, json_t *batch)
{
	const size_t room = OTLP_WAITING - json_array_size(o->waiting[kind]);

	while (json_array_size(batch) > room) {
		json_array_remove(batch, 0);
		atomic_fetch_add(&o->dropped[kind], 1);
	}
	json_array_extend(batch, o->waiting[kind]);
	json_decref(o->waiting[kind]);
	o->waiting[kind] = json_incref(batch);
}

/* Says it once, and once more when it is over. */
static void tell_state(struct otlp *o, int failed, const struct err *e)
{
	if (failed && !o->failing)
		dlog_note(DLOG_WARNING, "traces are not sent: %s", e->msg);
	if (!failed && o->failing)
		dlog_note(DLOG_NOTICE, "traces are sent again");
	o->failing = failed;
}

/* With the lock held, which it leaves meanwhile: 1 when all were sent. */
static int send_waiting(struct otlp *o)
{
	struct err e;
	int kind;

	for (kind = 0; kind < SIGNALS; kind++)
		while (json_array_size(o->waiting[kind])) {
			autojson json_t *batch = take_batch(o, (enum signal_kind)kind);
			int done;

			e.msg[0] = '\0';
			pthread_mutex_unlock(&o->lock);
			done = post_records(o, (enum signal_kind)kind, batch, &e);
			tell_state(o, e.msg[0] != '\0', &e);
			pthread_mutex_lock(&o->lock);
			if (!done) {
				put_back(o, (enum signal_kind)kind, batch);
				return 0;
			}
		}
	return 1;
}

static void *send_spans(void *ctx)
{
	struct otlp *o = ctx;
	int sent = 1;

	pthread_mutex_lock(&o->lock);
	while (!o->stops) {
		struct timespec until = clock_now(CLOCK_MONOTONIC);

		until.tv_sec += (sent ? INTERVAL_MS : RETRY_MS) / 1000;
		pthread_cond_timedwait(&o->wake, &o->lock, &until);
		if (!o->stops)
			sent = send_waiting(o);
	}
	send_waiting(o);
	pthread_mutex_unlock(&o->lock);
	return NULL;
}

/* ---- begin and end ---- */

static int add_otlp_header(struct otlp *o, const char *line)
{
	struct curl_slist *more = curl_slist_append(o->headers, line);

	if (!more)
		return -1;
	o->headers = more;
	return 0;
}

/* Lines of "Name: value"; empty ones and those that begin with # say nothing. */
static int read_headers(struct otlp *o, const char *path, struct err *e)
{
	autobuf struct buf b = BUF_INIT(HEADERS_MAX);
	char *line, *rest;

	if (!path[0])
		return 0;
	if (io_read_private(path, &b, e) < 0 || buf_add(&b, "", 1, e) < 0)
		return err_wrap(e, "otlp.headers_file");
	for (line = strtok_r(b.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const size_t name = strspn(line, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");

		if (line[0] == '#' || !line[strspn(line, " \t\r")])
			continue;
		line[strcspn(line, "\r")] = '\0';
		if (!name || line[name] != ':')
			return err_set(e, ERR_CONFIG, "otlp.headers_file %.200s has a line that is not 'Name: value'", path);
		if (add_otlp_header(o, line) < 0)
			return err_nomem(e);
	}
	return 0;
}

static void free_otlp(struct otlp *o)
{
	int kind;

	for (kind = 0; kind < SIGNALS; kind++)
		json_decref(o->waiting[kind]);
	curl_slist_free_all(o->headers);
	pthread_cond_destroy(&o->wake);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

static int init_otlp(struct otlp *o, const struct conf *c, struct err *e)
{
	pthread_condattr_t monotonic;
	size_t n;
	int kind;

	pthread_mutex_init(&o->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&o->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	snprintf(o->endpoint, sizeof(o->endpoint), "%s", c->otlp_endpoint);
	for (n = strlen(o->endpoint); n && o->endpoint[n - 1] == '/'; n--)
		o->endpoint[n - 1] = '\0';
	snprintf(o->service, sizeof(o->service), "%s", c->otlp_service);
	if (gethostname(o->host, sizeof(o->host) - 1) < 0)
		o->host[0] = '\0';
	for (kind = 0; kind < SIGNALS; kind++)
		o->waiting[kind] = json_array();
	/* libcurl counts its users; berthd has no other thread yet */
	curl_global_init(CURL_GLOBAL_DEFAULT);
	return add_otlp_header(o, "Content-Type: application/json") < 0 || add_otlp_header(o, "Expect:") < 0 ?
		       err_nomem(e) :
		       read_headers(o, c->otlp_headers, e);
}

/* One that sends nothing yet; NULL with *ret_none where the configuration has no endpoint. */
static struct otlp *open_otlp(const struct config *c, int *ret_none, struct err *e)
{
	autofree struct conf *conf = calloc(1, sizeof(*conf));
	struct otlp *o;

	*ret_none = 0;
	if (!conf)
		return err_nomem(e), NULL;
	if (conf_load(conf, c, e) < 0)
		return NULL;
	if (!conf->otlp_endpoint[0]) {
		*ret_none = 1;
		return NULL;
	}
	o = calloc(1, sizeof(*o));
	if (!o)
		return err_nomem(e), NULL;
	if (init_otlp(o, conf, e) < 0) {
		free_otlp(o);
		return NULL;
	}
	return o;
}

int otlp_check_config(const struct config *c, struct err *e)
{
	int none;
	struct otlp *o = open_otlp(c, &none, e);

	if (o)
		free_otlp(o);
	return o || none ? 0 : -1;
}

int otlp_start(const struct config *c, struct otlp **ret, struct err *e)
{
	int none;
	struct otlp *o = open_otlp(c, &none, e);

	*ret = NULL;
	if (!o)
		return none ? 0 : -1;
	errno = pthread_create(&o->sender, NULL, send_spans, o);
	if (errno) {
		err_sys(e, "start the sender of traces");
		free_otlp(o);
		return -1;
	}
	*ret = o;
	return 0;
}

void otlp_stop(struct otlp *o)
{
	if (!o)
		return;
	atomic_store(&o->stop_by_ms, clock_ms() + STOP_MS);
	pthread_mutex_lock(&o->lock);
	o->stops = 1;
	pthread_cond_signal(&o->wake);
	pthread_mutex_unlock(&o->lock);
	pthread_join(o->sender, NULL);
	free_otlp(o);
}

int otlp_metrics(const struct otlp *o, struct buf *out, struct err *e)
{
	int kind;

	for (kind = 0; kind < SIGNALS; kind++)
		if (buf_addf(out, e, "# HELP berth_otlp_%s_sent_total %s that the collector took.\n# TYPE berth_otlp_%s_sent_total counter\n"
			     "berth_otlp_%s_sent_total %" PRIu64 "\n", signals[kind].metric, signals[kind].what, signals[kind].metric,
			     signals[kind].metric, o ? atomic_load(&o->sent[kind]) : 0) < 0 ||
		    buf_addf(out, e, "# HELP berth_otlp_%s_dropped_total %s that it never took.\n# TYPE berth_otlp_%s_dropped_total counter\n"
			     "berth_otlp_%s_dropped_total %" PRIu64 "\n", signals[kind].metric, signals[kind].what, signals[kind].metric,
			     signals[kind].metric, o ? atomic_load(&o->dropped[kind]) : 0) < 0)
			return -1;
	return 0;
}
