/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_seed - fills a new volume with a copy of the image's directory at its mount point.
 *
 * The image is hostile. Its path is resolved with the image as root, and a separate process
 * copies. That process may read that directory, write the volume and open nothing else; it has
 * six capabilities and dies with us. Names, owners, modes, times, links (copied, not followed)
 * and FIFOs are kept; device nodes are left out. The volume's limit applies.
 */
#ifndef BERTH_MANAGER_HOST_VOLUME_SEED_H
#define BERTH_MANAGER_HOST_VOLUME_SEED_H

#include "runtime/sandbox/spec.h"

/*
 * Copies target in s's layers to the empty directory root_fd; does nothing if there is no such
 * directory. ERR_FULL.
 */
int volume_seed_from(const struct spec *s, const char *target, const char *scratch, int root_fd,
		     struct err *e);

#endif
