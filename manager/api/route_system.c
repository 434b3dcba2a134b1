/* SPDX-License-Identifier: Apache-2.0 */
/* Routes on berthd itself and the host: health, metrics, the document of all routes, disk, doctor. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/http_state.h"
#include "manager/api/openapi.h"
#include "manager/api/schema.h"
#include "manager/host/layerpool.h"
#include "manager/host/registry.h"
#include "manager/service/service.h"

static int get_healthz(struct http_request *rq, struct err *e)
{
	return http_reply_json(rq, 0, json_pack("{s:s,s:s*}", "status", "ok", "version", http_who(rq)->name[0] ? BERTH_VERSION : NULL), e);
}

static int get_readyz(struct http_request *rq, struct err *e)
{
	struct box b;
	int r = box_open(&b, rq, e);

	box_close(&b);
	if (r == 0 && !atomic_load(&api_of(rq)->ready))
		r = err_set(e, ERR_BUSY, "berthd is starting or stopping");
	if (r == 0 && api_of(rq)->manager)
		r = service_ready(api_of(rq)->manager, e);
	if (r < 0) {
		http_error_status(rq, 503);
		/* the reason names places and servers of the operator */
		return http_who(rq)->name[0] ? -1 : err_set(e, ERR_BUSY, "berthd is not ready; hint: the same request with a token tells why");
	}
	return http_reply_json(rq, 0, json_pack("{s:s}", "status", "ready"), e);
}

static int get_version(struct http_request *rq, struct err *e)
{
	return http_reply_json(rq, 0, json_pack("{s:s,s:s,s:I}", "version", BERTH_VERSION, "api", "v1", "uptime_ms",
						(json_int_t)(clock_ms() - api_of(rq)->started_ms)), e);
}

static int get_openapi(struct http_request *rq, struct err *e)
{
	json_t *doc = openapi_document(daemon_routes, e);

	return doc ? http_reply_json(rq, 0, doc, e) : -1;
}

/* ---- metrics --------------------------------------------------------------------- */

struct count {
	unsigned running, kept;
	uint64_t disk_bytes;
	struct box *box;
};

static int count_listed_sandbox(void *ctx, const char *id, int kept, json_t *record)
{
	struct count *c = ctx;

	(void)record;
	c->running += !kept;
	c->kept += kept != 0;
	c->disk_bytes += layerpool_layer_bytes(c->box->registry.kept_fd, id);
	return 0;
}

static int count_sandboxes(struct http_request *rq, struct count *c, struct err *e)
{
	struct box b;
	int r = box_open(&b, rq, e);

	*c = (struct count){ .box = &b };
	if (r == 0)
		r = registry_list(&b.registry, 1, count_listed_sandbox, c, e);
	box_close(&b);
	return r;
}

static int metric(struct buf *b, const char *name, const char *type, const char *help, uint64_t value, struct err *e)
{
	return buf_addf(b, e, "# HELP berth_%s %s\n# TYPE berth_%s %s\nberth_%s %" PRIu64 "\n", name, help, name, type, name, value);
}

static int get_berthd_metrics(struct http_request *rq, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	struct api *a = api_of(rq);
	struct http_counts h;
	struct count c;
	int i;

	if (count_sandboxes(rq, &c, e) < 0)
		return -1;
	http_counts(a->http, &h);
	if (metric(&b, "sandboxes_running", "gauge", "Sandboxes that run.", c.running, e) < 0 ||
	    metric(&b, "sandboxes_stopped", "gauge", "Sandboxes that exist and do not run.", c.kept, e) < 0 ||
	    metric(&b, "sandboxes_writable_bytes", "gauge", "Disk space of writable layers.", c.disk_bytes, e) < 0 ||
	    metric(&b, "http_connections", "gauge", "Open connections.", h.connections, e) < 0 ||
	    metric(&b, "http_requests_active", "gauge", "Requests under way, this one too.", h.active, e) < 0 ||
	    metric(&b, "http_refused_total", "counter", "Connections of unknown users.", h.refused, e) < 0 ||
	    metric(&b, "execs_total", "counter", "Commands started.", atomic_load(&a->execs), e) < 0 ||
	    metric(&b, "creates_total", "counter", "Sandboxes made.", atomic_load(&a->creates), e) < 0 ||
	    metric(&b, "uptime_seconds", "gauge", "Since berthd started.", (clock_ms() - a->started_ms) / 1000, e) < 0 ||
	    buf_adds(&b, "# HELP berth_http_requests_total Requests answered, by status class.\n"
			 "# TYPE berth_http_requests_total counter\n", e) < 0)
		return -1;
	for (i = 1; i < 6; i++)
		if (buf_addf(&b, e, "berth_http_requests_total{status=\"%dxx\"} %" PRIu64 "\n", i, h.requests[i]) < 0)
			return -1;
	if (http_latencies(a->http, &b, e) < 0)
		return -1;
	if (otlp_metrics(a->otlp, &b, e) < 0)
		return -1;
	if (a->manager && service_metrics(a->manager, &b, e) < 0)
		return -1;
	i = http_reply_data(rq, 0, "text/plain; version=0.0.4", b.data, b.len, e);
	b.data = NULL;	/* the reply has it */
	return i;
}

/* ---- the host ------------------------------------------------------------------------ */

static json_t *disk_of(const char *path)
{
	struct statvfs v;

	if (statvfs(path, &v) < 0)
		return json_null();
	return json_pack("{s:s,s:I,s:I}", "path", path, "total_bytes", (json_int_t)(v.f_blocks * v.f_frsize), "free_bytes",
			 (json_int_t)(v.f_bavail * v.f_frsize));
}

static int get_df_route(struct http_request *rq, struct err *e)
{
	struct config c;
	struct count n;

	if (count_sandboxes(rq, &n, e) < 0)
		return -1;
	api_config(api_of(rq), &c);
	return http_reply_json(rq, 0, json_pack("{s:{s:i,s:i,s:I},s:I,s:o,s:o}", "sandboxes", "running", (int)n.running, "stopped",
						(int)n.kept, "writable_bytes", (json_int_t)n.disk_bytes, "max_sandboxes",
						(json_int_t)c.max_sandboxes, "state_dir", disk_of(c.state_dir), "run_dir",
						disk_of(c.run_dir)), e);
}

static int get_doctor(struct http_request *rq, struct err *e)
{
	json_t *j = spawn_json(rq, call_of("doctor", NULL), 0, e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

static int post_gc_route(struct http_request *rq, struct err *e)
{
	json_t *j = spawn_json(rq, call_of("gc", NULL), 1, e);

	return j ? http_reply_json(rq, 0, j, e) : -1;
}

const struct http_route system_routes[] = {
	{ "GET", "/healthz", get_healthz, "whether berthd answers", .response = "Health", .flags = HTTP_QUIET | HTTP_OPEN },
	{ "GET", "/readyz", get_readyz, "whether sandboxes can be made: run directory, store and storage answer", .response = "Ready",
	  .flags = HTTP_QUIET | HTTP_OPEN },
	{ "GET", "/metrics", get_berthd_metrics, "counters in Prometheus' format", .type = "text/plain; version=0.0.4",
	  .flags = HTTP_QUIET | HTTP_ADMIN },
	{ "GET", "/openapi.json", get_openapi, "this document", .response = "Document", .flags = HTTP_QUIET },
	{ "GET", "/v1/version", get_version, "the version of berthd", .response = "Version" },
	{ "GET", "/v1/system/df", get_df_route, "disk space and sandboxes", .response = "Disk", .flags = HTTP_ADMIN },
	{ "GET", "/v1/system/doctor", get_doctor, "what this host can enforce", .response = "Document", .flags = HTTP_ADMIN },
	{ "POST", "/v1/system/gc", post_gc_route, "clear what crashed sandboxes left", .response = "Cleared", .flags = HTTP_ADMIN },
	{ NULL },
};
