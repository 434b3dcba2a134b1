/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/health.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/journal.h"

static const char *const names[] = { "starting", "healthy", "unhealthy" };
_Static_assert(ARRAY_LEN(names) == HEALTH_STATUSES, "each status has a name");

const char *health_name(enum health_status s)
{
	return names[s];
}

static int is_starting(const struct health *h, uint64_t at_ms)
{
	return h->status == HEALTH_STARTING && at_ms - h->since_ms < h->spec.start_period_ms;
}

static void plan(struct health *h, uint64_t now_ms)
{
	const struct health_spec *s = &h->spec;

	h->next_ms = now_ms + (is_starting(h, now_ms) ? s->start_interval_ms : s->interval_ms);
}

void health_init(struct health *h, const struct health_spec *spec, uint64_t now_ms)
{
	*h = (struct health){ .spec = *spec, .since_ms = now_ms };
	plan(h, now_ms);
}

void health_release(struct health *h)
{
	while (h->count)
		free(h->results[--h->count].output);
}

static void keep_health_result(struct health *h, const struct health_result *r)
{
	if (h->count == HEALTH_RESULTS) {
		free(h->results[0].output);
		memmove(h->results, h->results + 1, sizeof(*r) * --h->count);
	}
	h->results[h->count++] = *r;
}

int health_add(struct health *h, const struct health_result *r, uint64_t now_ms)
{
	const enum health_status before = h->status;

	keep_health_result(h, r);
	if (!r->exit_code) {
		h->streak = 0;
		h->status = HEALTH_HEALTHY;
	} else if (!is_starting(h, r->began_ms)) {
		/* it stops counting at a number where nothing depends on it any more */
		h->streak += h->streak < UINT32_MAX;
		if (h->streak >= h->spec.retries)
			h->status = HEALTH_UNHEALTHY;
	}
	plan(h, now_ms);
	return h->status != before;
}

static json_t *time_json(uint64_t ms)
{
	const struct timespec t = { .tv_sec = (time_t)(ms / 1000),
				    .tv_nsec = (long)(ms % 1000) * 1000000 };
	char text[JOURNAL_TIME];

	journal_time(&t, text);
	return json_string(text);
}

/* Returns the length without the beginning of a character that the limit has cut. */
static size_t whole_length(const char *p, size_t n)
{
	size_t back;

	for (back = 1; back <= 4 && back <= n; back++) {
		const unsigned char c = (unsigned char)p[n - back];
		const size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

		if ((c & 0xc0) != 0x80)
			return back < whole ? n - back : n;
	}
	return n;
}

static json_t *result_json(const struct health_result *r)
{
	json_t *j = json_pack("{s:o,s:o,s:i,s:s*}", "start", time_json(r->start_ms), "end",
			      time_json(r->end_ms), "exit_code", r->exit_code, "cause", r->cause);
	const char *output = r->output ? r->output : "";
	struct err ignored;

	if (j)
		json_set_bytes(j, "output", output, whole_length(output, r->output_len), &ignored);
	return j;
}

json_t *health_json(const struct health *h)
{
	json_t *log = json_array();
	size_t i;

	for (i = 0; i < h->count; i++)
		json_array_append_new(log, result_json(&h->results[i]));
	return json_pack("{s:s,s:I,s:o}", "status", names[h->status], "failing_streak",
			 (json_int_t)h->streak, "log", log);
}

json_t *health_spec_json(const struct health_spec *s)
{
	return json_pack("{s:O,s:I,s:I,s:I,s:I,s:I}", "argv", s->argv,
			 "interval_ms", (json_int_t)s->interval_ms,
			 "timeout_ms", (json_int_t)s->timeout_ms,
			 "start_period_ms", (json_int_t)s->start_period_ms,
			 "start_interval_ms", (json_int_t)s->start_interval_ms,
			 "retries", (json_int_t)s->retries);
}

static int is_argv(const json_t *argv)
{
	const json_t *word;
	size_t i;

	json_array_foreach(argv, i, word)
		if (!json_is_string(word))
			return 0;
	return json_array_size(argv) > 0;
}

int health_spec_parse(const json_t *j, struct health_spec *ret, struct err *e)
{
	struct health_spec s = HEALTH_SPEC_INIT;
	const struct {
		const char *key;
		uint64_t min, max, *to;
	} numbers[] = {
		{ "interval_ms", HEALTH_EVERY_MIN_MS, HEALTH_TIME_MAX_MS, &s.interval_ms },
		{ "timeout_ms", HEALTH_TIMEOUT_MIN_MS, HEALTH_TIME_MAX_MS, &s.timeout_ms },
		{ "start_period_ms", 0, HEALTH_TIME_MAX_MS, &s.start_period_ms },
		{ "start_interval_ms", HEALTH_EVERY_MIN_MS, HEALTH_TIME_MAX_MS,
		  &s.start_interval_ms },
		{ "retries", 1, HEALTH_RETRIES_MAX, &s.retries },
	};
	size_t i;

	if (json_get_arr(j, "argv", &s.argv, "health", e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(numbers); i++) {
		if (json_get_u64(j, numbers[i].key, numbers[i].to, "health", e) < 0)
			return -1;
		if (*numbers[i].to < numbers[i].min || *numbers[i].to > numbers[i].max)
			return err_set(e, ERR_INVALID, "health: %s is not within its bounds",
				       numbers[i].key);
	}
	if (s.argv && !is_argv(s.argv))
		return err_set(e, ERR_INVALID, "health: argv is not an array of strings");
	*ret = s;
	return 0;
}
