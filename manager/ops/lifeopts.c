/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/host/record.h"
#include "manager/ops/lifeopts.h"
#include "manager/ops/optvalues.h"
#include "manager/ops/params.h"

/* ---- the health check ---- */

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

/* Whether any option about the check was given, but for the one that forbids it. */
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

/* A number of the image's, brought within what a check may have. */
static int take_health_number(const json_t *check, const char *key, uint64_t min, uint64_t max,
		       uint64_t *ret, struct err *e)
{
	uint64_t v;
	const int r = json_get_u64(check, key, &v, "the image's healthcheck", e);

	if (r == 1)
		*ret = v < min ? min : v > max ? max : v;
	return r < 0 ? -1 : 0;
}

/* Each number of the check that no option gave, within what a check may have. */
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

/* ---- the main command of a service ---- */

int serviceopts_words(struct serviceopts *s, const json_t *spec, struct err *e)
{
	json_t *list = NULL, *word;
	size_t i;

	if (json_get_arr(spec, "command", &list, "spec.json", e) < 0)
		return -1;
	s->words = calloc(json_array_size(list) + 1, sizeof(*s->words));
	if (!s->words)
		return err_nomem(e);
	json_array_foreach(list, i, word) {
		if (!json_is_string(word))
			return err_set(e, ERR_CORRUPT,
				       "spec.json: \"command\" holds something else than strings");
		s->words[s->word_count++] = (char *)json_string_value(word);
	}
	return 0;
}

/*
 * The image's signal, unless one was given. A word of the image that is not a signal counts as
 * none.
 */
static void settle_stop_signal(struct keeper_service *k, const struct image *im)
{
	autojson json_t *record = NULL;
	struct err ignored;
	const char *name;
	uint64_t signo;

	if (k->stop_signal)
		return;
	k->stop_signal = SIGTERM;
	if (!im || !im->record)
		return;
	record = json_parse(im->record, im->record_len, im->record_len, "image record", &ignored);
	name = json_string_value(json_object_get(record, "stop_signal"));
	if (name && name[0] && signal_number(name, &signo, &ignored) == 0)
		k->stop_signal = (int)signo;
}

/* An option that only a service has and that was given; NULL: none. */
static const char *needs_service(const struct runopts *o)
{
	static const enum param_id ids[] = { PARAM_INIT_COMMAND, PARAM_STOP_SIGNAL, PARAM_STOP_TIMEOUT };
	size_t i;

	for (i = 0; i < ARRAY_LEN(ids); i++)
		if (runopts_given(o, ids[i]))
			return param_of(ids[i])->opt.name;
	return o->life.service.service.restart.when != RESTART_NO ? param_of(PARAM_RESTART)->opt.name : NULL;
}

int serviceopts_finish(struct runopts *o, const struct image *im, struct err *e)
{
	struct serviceopts *s = &o->life.service;
	const char *needs = needs_service(o);

	if (!s->is_service)
		return !needs ? 0 :
		       err_set(e, ERR_INVALID, "--%s is of a sandbox with a main command; hint: name one "
			       "after the image, or --service for the image's own", needs);
	if (!o->spec.argc)
		return err_set(e, ERR_INVALID,
			       "the image names no command to run; hint: name one after the image");
	s->service.tty = o->spec.tty;
	s->service.interactive = o->interactive;
	s->service.timeout_ms = runopts_given(o, PARAM_TIMEOUT) ? o->spec.timeout_ms : 0;
	s->service.max_silent_ms = runopts_given(o, PARAM_MAX_SILENT_TIME) ? o->spec.max_silent_ms : 0;
	settle_stop_signal(&s->service, im);
	return 0;
}

int serviceopts_tell(const struct serviceopts *s, const struct spec *spec, json_t *record)
{
	const struct keeper_service *k = &s->service;
	const char *name = sigabbrev_np(k->stop_signal);
	json_t *argv = json_array();
	char policy[RESTART_TEXT], signal[24];
	size_t i;

	for (i = 0; i < spec->argc; i++)
		if (json_array_append_new(argv, json_string(spec->argv[i])) < 0) {
			json_decref(argv);
			return -1;
		}
	record_set_command(record, argv);
	record_set_service(record, 1);
	record_set_tty(record, k->tty);
	record_set_stdin_open(record, k->interactive);
	if (name)
		snprintf(signal, sizeof(signal), "SIG%s", name);
	else
		snprintf(signal, sizeof(signal), "%d", k->stop_signal);
	record_set_stop_signal(record, signal);
	record_set_stop_timeout_ms(record, k->stop_timeout_ms);
	restart_format(&k->restart, policy);
	record_set_restart(record, policy);
	record_set_restarts(record, k->restarts);
	if (k->init_command)
		record_set_init_command(record, k->init_command);
	return 0;
}
