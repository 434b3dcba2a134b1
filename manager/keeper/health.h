/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health - decides from the results of its checks whether a sandbox is healthy.
 *
 * Pure: it computes when the next check is due and how a result changes the status; it runs
 * nothing. The rules are Docker's: a failure within the start period counts only after a
 * success, and `retries` failures in a row make the sandbox unhealthy. It keeps the last
 * HEALTH_RESULTS results, each with at most HEALTH_OUTPUT bytes.
 */
#ifndef BERTH_MANAGER_KEEPER_HEALTH_H
#define BERTH_MANAGER_KEEPER_HEALTH_H

#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

#define HEALTH_RESULTS 5
#define HEALTH_OUTPUT 4096		/* bytes kept of one check's output */
#define HEALTH_EVERY_MIN_MS 100		/* no limit of the sandbox covers a check's whole cost */
#define HEALTH_TIMEOUT_MIN_MS 10
#define HEALTH_TIME_MAX_MS 86400000
#define HEALTH_RETRIES_MAX 1000

/* The check and its times. */
struct health_spec {
	json_t *argv;		/* array of strings; NULL: no check */
	uint64_t interval_ms, timeout_ms, start_period_ms, start_interval_ms, retries;
};

#define HEALTH_SPEC_INIT { NULL, 30000, 30000, 0, 5000, 3 }

enum health_status { HEALTH_STARTING, HEALTH_HEALTHY, HEALTH_UNHEALTHY, HEALTH_STATUSES };

struct health_result {
	uint64_t began_ms;		/* on the monotonic clock */
	uint64_t start_ms, end_ms;	/* since 1970 */
	int exit_code;			/* 0: the check succeeded */
	const char *cause;		/* why it did not exit; static, or NULL */
	char *output;			/* owned; may be NULL */
	size_t output_len;
};

struct health {
	struct health_spec spec;	/* borrows argv */
	enum health_status status;
	unsigned streak;		/* counted failures in a row */
	uint64_t since_ms;		/* start of its start period */
	uint64_t next_ms;		/* when a check is due */
	struct health_result results[HEALTH_RESULTS];	/* oldest first */
	size_t count;
};

void health_init(struct health *h, const struct health_spec *spec, uint64_t now_ms);
void health_release(struct health *h);
/* Takes r with its output; returns 1 if the status has changed. */
int health_add(struct health *h, const struct health_result *r, uint64_t now_ms);
/* Returns "starting", "healthy" or "unhealthy". */
const char *health_name(enum health_status s);
/* Returns {"status","failing_streak","log":[{"start","end","exit_code","output"}]}; NULL without memory. */
json_t *health_json(const struct health *h);
/* Returns {"argv","interval_ms",...} for a spec that has a check. */
json_t *health_spec_json(const struct health_spec *s);
/*
 * Reads such a spec, with argv borrowed from j; argv is NULL without a check. ERR_INVALID for
 * values outside the bounds above.
 */
int health_spec_parse(const json_t *j, struct health_spec *ret, struct err *e);

#endif
