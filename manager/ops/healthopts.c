/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/healthopts.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/host/record.h"
#include "manager/ops/optvalues.h"

#define TEXT_MAX 65536
#define WORDS_MAX 1024

static int take_argv(struct runopts *o, json_t *argv, struct err *e)
{
	if (!argv)
		return err_set(e, ERR_INVALID, "the health check is not valid UTF-8");
	json_decref(o->life.health.argv);
	o->life.health.argv = argv;
	return 0;
}

int healthopts_shell(struct runopts *o, const char *text, struct err *e)
{
	if (!text[0])
		return err_set(e, ERR_INVALID, "the health check is empty; hint: --no-health");
	if (strlen(text) > TEXT_MAX)
		return err_set(e, ERR_INVALID, "the check is longer than %d bytes", TEXT_MAX);
	return take_argv(o, json_pack("[s,s,s]", "/bin/sh", "-c", text), e);
}

int healthopts_words(struct runopts *o, json_t *argv, struct err *e)
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
		return take_argv(o, argv, e);
	json_decref(argv);
	return err_set(e, ERR_INVALID, "the health check is not an array of 1 to %d strings; "
		       "hint: [\"curl\",\"-fs\",\"localhost\"]", WORDS_MAX);
}

/* Tells whether any option about the check was given, except the one that forbids it. */
static int any_given(const struct runopts *o)
{
	int id;

	for (id = PARAM_HEALTH_CMD; id <= PARAM_HEALTH_START_INTERVAL; id++)
		if (runopts_given(o, id))
			return 1;
	return 0;
}

int healthopts_finish(const struct runopts *o, int may_be_the_images, struct err *e)
{
	if (runopts_given(o, PARAM_HEALTH_CMD) && runopts_given(o, PARAM_HEALTH_EXEC))
		return err_set(e, ERR_INVALID, "--health-cmd contradicts --health-exec");
	if (o->life.no_health && any_given(o))
		return err_set(e, ERR_INVALID, "--no-health contradicts the other ones");
	if (any_given(o) && !o->life.health.argv && !may_be_the_images)
		return err_set(e, ERR_INVALID, "options of a health check, and no check; "
			       "hint: --health-cmd TEXT");
	return 0;
}

/* Takes a number of the image's, brought within the bounds of a check. */
static int take_health_number(const json_t *check, const char *key, uint64_t min, uint64_t max,
		       uint64_t *ret, struct err *e)
{
	uint64_t v;
	const int r = json_get_u64(check, key, &v, "the image's healthcheck", e);

	if (r == 1)
		*ret = v < min ? min : v > max ? max : v;
	return r < 0 ? -1 : 0;
}

/* Takes each number of the check that no option gave, brought within the bounds of a check. */
static int take_health_numbers(struct runopts *o, const json_t *check, struct err *e)
{
	struct health_spec *h = &o->life.health;
	const struct {
		enum param_id id;
		const char *key;
		uint64_t min, max, *to;
	} numbers[] = {
		{ PARAM_HEALTH_INTERVAL, "interval_ms", HEALTH_EVERY_MIN_MS, HEALTH_TIME_MAX_MS, &h->interval_ms },
		{ PARAM_HEALTH_TIMEOUT, "timeout_ms", HEALTH_TIMEOUT_MIN_MS, HEALTH_TIME_MAX_MS, &h->timeout_ms },
		{ PARAM_HEALTH_START_PERIOD, "start_period_ms", 0, HEALTH_TIME_MAX_MS, &h->start_period_ms },
		{ PARAM_HEALTH_START_INTERVAL, "start_interval_ms", HEALTH_EVERY_MIN_MS, HEALTH_TIME_MAX_MS,
		  &h->start_interval_ms },
		{ PARAM_HEALTH_RETRIES, "retries", 1, HEALTH_RETRIES_MAX, &h->retries },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(numbers); i++)
		if (!runopts_given(o, numbers[i].id) &&
		    take_health_number(check, numbers[i].key, numbers[i].min, numbers[i].max, numbers[i].to, e) < 0)
			return -1;
	return 0;
}

int healthopts_take_image(struct runopts *o, const struct image *im, struct err *e)
{
	autojson json_t *record = NULL;
	json_t *check = NULL, *argv = NULL;

	if (o->life.health.argv || o->life.no_health)
		return 0;
	if (im && im->record) {
		record = json_parse(im->record, im->record_len, im->record_len, "image record", e);
		if (!record || json_get_obj(record, "healthcheck", &check, "image record", e) < 0)
			return -1;
	}
	if (!check)
		return healthopts_finish(o, 0, e);
	if (take_health_numbers(o, check, e) < 0 || json_get_arr(check, "argv", &argv, "the image's healthcheck", e) < 0)
		return -1;
	return healthopts_words(o, json_incref(argv), e);
}
