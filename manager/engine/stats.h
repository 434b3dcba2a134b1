/* SPDX-License-Identifier: Apache-2.0 */
/* stats - what a container uses, and what happened to it, as Docker's documents say it.  Pure. */
#ifndef BERTH_MANAGER_ENGINE_STATS_H
#define BERTH_MANAGER_ENGINE_STATS_H

#include <stdint.h>
#include <time.h>

#include "base/err.h"
#include "base/json.h"
#include "manager/engine/name.h"

/* One look: the keeper's answer to "stats", and the host's CPU time, in ns, at that moment. */
struct engine_sample {
	const json_t *said; /* NULL: it does not run */
	uint64_t host_cpu_ns;
	unsigned cpus;
	uint64_t host_memory;	/* bytes; the limit of what has none */
	struct timespec at;
};

/* A new reference; before may be NULL. */
json_t *engine_stats(const char *id, const char *name, const struct engine_sample *before,
		     const struct engine_sample *now);
/* What docker's client shows of such a document as the memory in use: without the cache that the kernel gives up first. */
json_int_t engine_stats_memory(const json_t *doc);
/* GET /containers/{id}/top of the list of berth top. */
/* ps_args: as for ps(1), NULL for -ef; NULL with ERR_INVALID for what is not known. */
json_t *engine_top(const json_t *processes, const char *ps_args, struct err *e);
/* GET /containers/{id}/changes of berth diff. */
json_t *engine_changes(const json_t *diff);

#endif
