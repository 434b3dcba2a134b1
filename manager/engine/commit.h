/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit - what an image made of a container inherits: Docker gives it the container's own
 * environment, labels, command, directory and user, over those of its image.  Pure.
 */
#ifndef BERTH_MANAGER_ENGINE_COMMIT_H
#define BERTH_MANAGER_ENGINE_COMMIT_H

#include "manager/engine/view.h"

/*
 * The options of berth commit for that: a new array of texts, in front of changes, an array of
 * such options that count more.  config: of the request's body, whose members count more than the
 * container's; or NULL.
 */
json_t *engine_commit_words(const struct engine_view *v, const json_t *config,
			    const json_t *changes, struct err *e);

#endif
