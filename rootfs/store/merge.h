/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge - shows the layers of an image as one read-only tree.
 */
#ifndef BERTH_ROOTFS_STORE_MERGE_H
#define BERTH_ROOTFS_STORE_MERGE_H

#include <stddef.h>

#include "base/err.h"
#include "rootfs/store/digest.h"

/*
 * Stacks the layers (hex chain ids, lowest first) by overlayfs in a new mount namespace of this
 * process: call it in a child made for the purpose, before that is confined. Returns the tree's
 * directory descriptor.
 */
int merge_layers(int store_fd, const char (*chains)[DIGEST_HEX_SIZE], size_t count, struct err *e);

#endif
