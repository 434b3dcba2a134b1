/* SPDX-License-Identifier: Apache-2.0 */
/* imageprune - docker image prune, by berth's own verbs. */
#ifndef BERTH_MANAGER_ENGINE_IMAGEPRUNE_H
#define BERTH_MANAGER_ENGINE_IMAGEPRUNE_H

#include "manager/engine/berth.h"

/*
 * Removes what the filters of a prune want: {"removed": [NAME], "deleted": [DIGEST], "bytes": N}, a
 * new reference; deleted are the images that lost their last name.
 *
 * dangling=true (the default) removes images without a name (image.h) that no container uses,
 * dangling=false all that none uses; label, label! and until choose among them.
 */
json_t *engine_image_prune(int store_fd, const json_t *filters, const struct engine_berth *b,
			   struct err *e);

#endif
