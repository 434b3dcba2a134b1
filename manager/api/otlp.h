/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp - spans of requests and their audit lines, sent to a collector by OTLP/HTTP in JSON.
 *
 * A span is sent when its trace is sampled, which a client may say; an audit line always.
 * A thread of its own sends what waits, in batches; a request never waits for the collector.  At most
 * OTLP_WAITING of each kind wait: further ones push out the oldest, and are counted.  A batch that the
 * collector may take later (429, 502 to 504, no answer) is sent again.
 *
 * Source: OpenTelemetry Protocol 1.x, W3C Trace Context (traceparent).
 */
#ifndef BERTH_MANAGER_API_OTLP_H
#define BERTH_MANAGER_API_OTLP_H

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "manager/host/config.h"

#define OTLP_WAITING 4096
#define TRACEPARENT_MAX 56	/* "00-32 digits-16 digits-2 digits" and a NUL */

/* The place of one request in a trace; ids as lower case digits. */
struct trace {
	char trace_id[33], span_id[17], parent_id[17];	/* parent_id "": the trace begins here */
	int is_sampled;
};

/*
 * Takes a client's traceparent up, or begins a trace where it is NULL or malformed (as Trace Context 3.2.2
 * says): 0, or -1 when the kernel gives no random bytes.
 */
int trace_begin(struct trace *ret, const char *traceparent);
/* Writes what goes on to those that the request calls. */
void trace_parent(const struct trace *t, char ret[TRACEPARENT_MAX]);

struct otlp;

/* A request that has ended; texts are borrowed. */
struct otlp_request {
	const struct trace *trace;
	const char *method, *route;	/* route: the pattern */
	const char *who, *error;	/* error: NULL unless status is 400 or more */
	const json_t *audit;		/* members of the audit line, or NULL */
	int status;
	uint64_t us;			/* how long it took */
};

/*
 * Starts the sender of c's [otlp]: 0, with NULL where it has no endpoint. ERR_CONFIG when the file of
 * headers cannot be read or is malformed.
 */
int otlp_start(const struct config *c, struct otlp **ret, struct err *e);
/* Whether otlp_start() would take c: 0, or its errors. */
int otlp_check_config(const struct config *c, struct err *e);
/* Sends what waits, for two seconds at most, and frees it; NULL is nothing. */
void otlp_stop(struct otlp *o);
void otlp_request(struct otlp *o, const struct otlp_request *rq);
/* Appends the counters of it in Prometheus' format; with NULL they are 0. */
int otlp_metrics(const struct otlp *o, struct buf *out, struct err *e);

#endif
