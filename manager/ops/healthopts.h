/* SPDX-License-Identifier: Apache-2.0 */
/* healthopts - checks the options of a health check together, and combines them with the image's check. */
#ifndef BERTH_MANAGER_OPS_HEALTHOPTS_H
#define BERTH_MANAGER_OPS_HEALTHOPTS_H

#include "base/json.h"
#include "manager/ops/runopts.h"
#include "rootfs/store/image.h"

/* Sets the check to text for the image's /bin/sh -c. ERR_INVALID if it is empty or too long. */
int healthopts_shell(struct runopts *o, const char *text, struct err *e);
/* Sets the check to argv, an array of strings, which is consumed; NULL is no array. ERR_INVALID. */
int healthopts_words(struct runopts *o, json_t *argv, struct err *e);
/*
 * Call it after the last option. ERR_INVALID if options contradict each other, or only say when to
 * run a check that none of them names, and the image's cannot be meant.
 */
int healthopts_finish(const struct runopts *o, int may_be_the_images, struct err *e);
/*
 * For a service, after healthopts_finish(): takes the check of im (NULL: no image) if no check was
 * requested. Requested times and retries have priority over the image's, which are brought within
 * the bounds of the options.
 */
int healthopts_take_image(struct runopts *o, const struct image *im, struct err *e);

#endif
