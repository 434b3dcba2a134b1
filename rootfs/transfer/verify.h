/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify - checks that a layer's tree still matches its blob.
 *
 * The blob is unpacked once more, below tmp/, and the two trees are compared: names, types, modes, owners, sizes,
 * links, attributes (but security.*, which the host gives), the times of all but directories, and every byte.
 */
#ifndef BERTH_ROOTFS_TRANSFER_VERIFY_H
#define BERTH_ROOTFS_TRANSFER_VERIFY_H

#include "base/json.h"
#include "rootfs/store/store.h"

#define VERIFY_WHY 300

/*
 * Checks layer n of a record's layers (image.h); lower_fds are the trees below it. 1: the tree
 * matches its blob; 0: it does not, and why names the first difference; -1: unknown, because blob
 * or tree is missing or damaged itself.
 */
int verify_layer(struct store *s, const json_t *layer, const int *lower_fds, size_t n, char why[VERIFY_WHY], struct err *e);

#endif
