/* SPDX-License-Identifier: Apache-2.0 */
/* healthopts - the options of a health check, checked together and with the image's. */
#ifndef BERTH_MANAGER_OPS_HEALTHOPTS_H
#define BERTH_MANAGER_OPS_HEALTHOPTS_H

#include "base/json.h"
#include "manager/ops/runopts.h"
#include "rootfs/store/image.h"

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

#endif
