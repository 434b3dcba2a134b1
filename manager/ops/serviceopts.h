/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serviceopts - the options that make a sandbox a service: its main command and how that begins and
 * ends, in the form of spec.json.
 */
#ifndef BERTH_MANAGER_OPS_SERVICEOPTS_H
#define BERTH_MANAGER_OPS_SERVICEOPTS_H

#include "base/json.h"
#include "manager/keeper/health.h"
#include "manager/ops/runopts.h"
#include "rootfs/store/image.h"

/* Reads the words of "command" in a spec.json, which must outlive s. */
int serviceopts_words(struct serviceopts *s, const json_t *spec, struct err *e);
/*
 * Call it once o is finished: sets the image's stop signal, the terminal, the given time limit.
 * ERR_INVALID if there is no command to run, or if an option for services only was given.
 */
int serviceopts_finish(struct runopts *o, const struct image *im, struct err *e);
/* Reads the record of a sandbox. */
int serviceopts_tell(const struct serviceopts *s, const struct spec *spec, json_t *record);

#endif
