/* SPDX-License-Identifier: Apache-2.0 */
/* imageprune - docker image prune, by berth's own verbs. */
#ifndef BERTH_MANAGER_ENGINE_IMAGEPRUNE_H
#define BERTH_MANAGER_ENGINE_IMAGEPRUNE_H

#include "manager/engine/berth.h"

/*
 * Removes what the filters of a prune want: {"removed": [NAME], "bytes": N}, a new reference.
 *
 * An image without a name is none here: its files are garbage, which each prune collects.  So
 * dangling=true (the default) removes no name, and label, label! and until choose among the images
 * that dangling=false removes, which no container uses.
 */
json_t *engine_image_prune(int store_fd, const json_t *filters, const struct engine_berth *b,
			   struct err *e);

#endif
