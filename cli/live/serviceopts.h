/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serviceopts - what makes a sandbox a service: its main command and how that begins and ends,
 * as spec.json says it.
 */
#ifndef BERTH_CLI_LIVE_SERVICEOPTS_H
#define BERTH_CLI_LIVE_SERVICEOPTS_H

#include "base/json.h"
#include "cli/run/residentopts.h"
#include "manager/keeper/keeper.h"
#include "rootfs/store/image.h"

struct serviceopts {
	int is_service;
	const char *needs;		/* the option given that only a service has; NULL: none */
	struct keeper_service service;	/* its strings are borrowed */
	char **words;			/* the command line's; the strings are borrowed */
	size_t word_count;
	int timeout_asked;		/* --timeout holds for the main command, too */
};

#define SERVICEOPTS_INIT { .service = { .stop_timeout_ms = 10000 } }

void serviceopts_release(struct serviceopts *s);
/* 1: id is not one of its options. */
int serviceopts_set(struct serviceopts *s, int id, const char *value, struct err *e);
/* The words of "command" in a spec.json, which must outlive s. */
int serviceopts_words(struct serviceopts *s, const json_t *spec, struct err *e);
/*
 * Call it once o is finished: sets the image's stop signal, the terminal, the given time limit.
 * ERR_INVALID if there is no command to run, or if an option for services only was given.
 */
int serviceopts_finish(struct serviceopts *s, const struct runopts *o, const struct image *im,
		       struct err *e);
/* Reads the record of a sandbox. */
int serviceopts_tell(const struct serviceopts *s, const struct spec *spec, json_t *record);

#endif
