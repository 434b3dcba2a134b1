/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/serviceopts.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/host/record.h"
#include "manager/ops/optvalues.h"
#include "manager/ops/params.h"

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
 * Sets the image's signal, unless one was given. A word of the image that is not a signal counts as
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

/* Returns a given option that only a service has; NULL: none. */
static const char *needs_service(const struct runopts *o)
{
	static const enum param_id ids[] = { PARAM_INIT_COMMAND, PARAM_TERMINAL_SIZE, PARAM_STOP_SIGNAL, PARAM_STOP_TIMEOUT };
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
			       "no command specified, and the image has none; hint: name one after the image");
	if (runopts_given(o, PARAM_TERMINAL_SIZE) && !o->spec.tty)
		return err_set(e, ERR_INVALID, "--%s is of a terminal; hint: --%s gives one", param_of(PARAM_TERMINAL_SIZE)->opt.name,
			       param_of(PARAM_TTY)->opt.name);
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
