/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_own - the volumes that were made for one sandbox and that nobody named (docker run -v
 * /PATH, VOLUME of an image).
 *
 * A file beside the sandbox's record lists them.  They go with a sandbox that removes itself, and
 * with another only when its removal says so; a volume that a second sandbox has by then stays.
 */
#ifndef BERTH_MANAGER_HOST_VOLUME_OWN_H
#define BERTH_MANAGER_HOST_VOLUME_OWN_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"

#define VOLUME_OWN_MAX 16 /* of one sandbox */

/* names: an array of at most VOLUME_OWN_MAX.  passing: as registry_save_passing(). */
int volume_own_save(struct registry *r, const char *id, const json_t *names, int passing,
		    struct err *e);
/* A new array, or NULL without any. */
json_t *volume_own_load(struct registry *r, const char *id);
/* Once the sandbox is gone: removes those of names (or NULL) that nobody else has. */
void volume_own_remove(struct registry *r, const json_t *names);

#endif
