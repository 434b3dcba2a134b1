/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/healthopts.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"

#define TEXT_MAX 65536
#define WORDS_MAX 1024

static int was_given(const struct healthopts *h, enum healthopts_id id)
{
	return !!(h->given & 1u << (id - HEALTHOPT_CMD));
}

static int get_time(const char *value, const char *what, uint64_t min_ms, uint64_t *ret,
		    struct err *e)
{
	uint64_t ms;

	if (num_duration_ms(value, what, HEALTH_TIME_MAX_MS, &ms, e) < 0)
		return -1;
	if (ms < min_ms)
		return err_set(e, ERR_INVALID, "%s '%.40s' is shorter than %llums", what, value,
			       (unsigned long long)min_ms);
	*ret = ms;
	return 0;
}

static int take_argv(struct healthopts *h, json_t *argv, struct err *e)
{
	if (!argv)
		return err_set(e, ERR_INVALID, "the health check is not valid UTF-8");
	json_decref(h->spec.argv);
	h->spec.argv = argv;
	return 0;
}

static int set_shell(struct healthopts *h, const char *text, struct err *e)
{
	if (!text[0])
		return err_set(e, ERR_INVALID, "the health check is empty; hint: --no-health");
	if (strlen(text) > TEXT_MAX)
		return err_set(e, ERR_INVALID, "the check is longer than %d bytes", TEXT_MAX);
	return take_argv(h, json_pack("[s,s,s]", "/bin/sh", "-c", text), e);
}

/* argv is consumed. */
static int set_words(struct healthopts *h, json_t *argv, struct err *e)
{
	const size_t n = json_array_size(argv);
	const json_t *word;
	size_t i, bad = !n || n > WORDS_MAX;

	json_array_foreach(argv, i, word) {
		const char *s = json_string_value(word);

		bad |= !s || strlen(s) != json_string_length(word) || strlen(s) > TEXT_MAX;
		bad |= i == 0 && s && !s[0];
	}
	if (!bad)
		return take_argv(h, argv, e);
	json_decref(argv);
	return err_set(e, ERR_INVALID, "the health check is not an array of 1 to %d strings; "
		       "hint: [\"curl\",\"-fs\",\"localhost\"]", WORDS_MAX);
}

int healthopts_set(struct healthopts *h, int id, const char *value, struct err *e)
{
	struct health_spec *s = &h->spec;
	uint64_t n;

	if (id < HEALTHOPT_CMD || id >= HEALTHOPT_END)
		return 1;
	h->given |= 1u << (id - HEALTHOPT_CMD);
	switch (id) {
	case HEALTHOPT_CMD:
		return set_shell(h, value, e);
	case HEALTHOPT_EXEC:
		return set_words(h, json_loads(value, JSON_REJECT_DUPLICATES, NULL), e);
	case HEALTHOPT_INTERVAL:
		return get_time(value, "interval", HEALTH_EVERY_MIN_MS, &s->interval_ms, e);
	case HEALTHOPT_TIMEOUT:
		return get_time(value, "timeout", HEALTH_TIMEOUT_MIN_MS, &s->timeout_ms, e);
	case HEALTHOPT_START_PERIOD:
		return get_time(value, "start period", 0, &s->start_period_ms, e);
	case HEALTHOPT_START_INTERVAL:
		return get_time(value, "interval", HEALTH_EVERY_MIN_MS, &s->start_interval_ms, e);
	case HEALTHOPT_RETRIES:
		if (num_u64(value, "retries", 1, HEALTH_RETRIES_MAX, &n, e) < 0)
			return -1;
		s->retries = (unsigned)n;
	}
	return 0;
}

int healthopts_finish(struct healthopts *h, int may_be_the_images, struct err *e)
{
	const int none = was_given(h, HEALTHOPT_NONE);

	if (was_given(h, HEALTHOPT_CMD) && was_given(h, HEALTHOPT_EXEC))
		return err_set(e, ERR_INVALID, "--health-cmd contradicts --health-exec");
	if (none && (h->given & ~(1u << (HEALTHOPT_NONE - HEALTHOPT_CMD))))
		return err_set(e, ERR_INVALID, "--no-health contradicts the other ones");
	if (h->given && !none && !h->spec.argv && !may_be_the_images)
		return err_set(e, ERR_INVALID, "options of a health check, and no check; "
			       "hint: --health-cmd TEXT");
	return 0;
}

/* A number of the image's, brought within what a check may have. */
static int take_number(const json_t *check, const char *key, uint64_t min, uint64_t max,
		       uint64_t *ret, struct err *e)
{
	uint64_t v;
	const int r = json_get_u64(check, key, &v, "the image's healthcheck", e);

	if (r == 1)
		*ret = v < min ? min : v > max ? max : v;
	return r < 0 ? -1 : 0;
}

static int take_check(struct healthopts *h, const json_t *check, struct err *e)
{
	const struct {
		enum healthopts_id id;
		const char *key;
		uint64_t min, *to;
	} times[] = {
		{ HEALTHOPT_INTERVAL, "interval_ms", HEALTH_EVERY_MIN_MS, &h->spec.interval_ms },
		{ HEALTHOPT_TIMEOUT, "timeout_ms", HEALTH_TIMEOUT_MIN_MS, &h->spec.timeout_ms },
		{ HEALTHOPT_START_PERIOD, "start_period_ms", 0, &h->spec.start_period_ms },
		{ HEALTHOPT_START_INTERVAL, "start_interval_ms", HEALTH_EVERY_MIN_MS,
		  &h->spec.start_interval_ms },
	};
	uint64_t retries = h->spec.retries;
	json_t *argv = NULL;
	size_t i;

	for (i = 0; i < ARRAY_LEN(times); i++)
		if (!was_given(h, times[i].id) &&
		    take_number(check, times[i].key, times[i].min, HEALTH_TIME_MAX_MS,
				times[i].to, e) < 0)
			return -1;
	if (!was_given(h, HEALTHOPT_RETRIES) &&
	    take_number(check, "retries", 1, HEALTH_RETRIES_MAX, &retries, e) < 0)
		return -1;
	h->spec.retries = (unsigned)retries;
	if (json_get_arr(check, "argv", &argv, "the image's healthcheck", e) < 0)
		return -1;
	return set_words(h, json_incref(argv), e);
}

int healthopts_take_image(struct healthopts *h, const struct image *im, struct err *e)
{
	autojson json_t *record = NULL;
	json_t *check = NULL;

	if (h->spec.argv || was_given(h, HEALTHOPT_NONE))
		return 0;
	if (im && im->record) {
		record = json_parse(im->record, im->record_len, im->record_len, "image record", e);
		if (!record || json_get_obj(record, "healthcheck", &check, "image record", e) < 0)
			return -1;
	}
	return check ? take_check(h, check, e) : healthopts_finish(h, 0, e);
}

void healthopts_release(struct healthopts *h)
{
	json_decref(h->spec.argv);
	h->spec.argv = NULL;
}
