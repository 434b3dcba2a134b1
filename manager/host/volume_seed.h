/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_seed - the first content of a volume: a copy of what the image has where the volume is
 * mounted.
 *
 * The image is hostile.  Its path is resolved with the image as root, and a process of its own
 * copies, which may read that directory and write the volume and open nothing else, has six
 * capabilities and dies with us.  Names, owners, modes, times, links (as they are, not followed)
 * and FIFOs are kept; device nodes are left out.  The volume's bound holds.
 */
#ifndef BERTH_MANAGER_HOST_VOLUME_SEED_H
#define BERTH_MANAGER_HOST_VOLUME_SEED_H

#include "runtime/sandbox/spec.h"

/* To the empty directory root_fd from target in s's layers; nothing when there is no such
 * directory.  ERR_FULL. */
int volume_seed_from(const struct spec *s, const char *target, const char *scratch, int root_fd,
		     struct err *e);

#endif
