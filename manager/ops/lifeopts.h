/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lifeopts - options of a sandbox that lasts: its health check, its main command.
 *
 * The health check of a sandbox that lasts.
 *
 * A service has the check of its image (HEALTHCHECK of a Dockerfile) where no option names
 * another.
 */
#ifndef BERTH_MANAGER_OPS_LIFEOPTS_H
#define BERTH_MANAGER_OPS_LIFEOPTS_H

#include "base/json.h"
#include "manager/keeper/health.h"
#include "manager/ops/runopts.h"
#include "rootfs/store/image.h"

/* ---- the health check ---- */

/* The check is text for the image's /bin/sh -c.  ERR_INVALID when it is empty or too long. */
int healthopts_shell(struct runopts *o, const char *text, struct err *e);
/* The check is argv, an array of strings, which is consumed; NULL is no array.  ERR_INVALID. */
int healthopts_words(struct runopts *o, json_t *argv, struct err *e);
/*
 * After the last option: ERR_INVALID when options contradict each other, or only say when to run
 * a check that none of them names, and the image's cannot be meant.
 */
int healthopts_finish(const struct runopts *o, int may_be_the_images, struct err *e);
/*
 * For a service, after healthopts_finish(): takes the check of im (NULL: no image) where none was
 * asked for.  Times and retries that were asked for come before those of the image, which are
 * brought within the bounds of the options.
 */
int healthopts_take_image(struct runopts *o, const struct image *im, struct err *e);

/* ---- the main command of a service ---- */

/*
 * What makes a sandbox a service: its main command and how that begins and ends,
 * as spec.json says it.
 */

/* The words of "command" in a spec.json, which must outlive s. */
int serviceopts_words(struct serviceopts *s, const json_t *spec, struct err *e);
/*
 * Call it once o is finished: sets the image's stop signal, the terminal, the given time limit.
 * ERR_INVALID if there is no command to run, or if an option for services only was given.
 */
int serviceopts_finish(struct runopts *o, const struct image *im, struct err *e);
/* Reads the record of a sandbox. */
int serviceopts_tell(const struct serviceopts *s, const struct spec *spec, json_t *record);

#endif
