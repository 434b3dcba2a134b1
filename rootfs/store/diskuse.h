/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diskuse - how much disk berth uses, and how much of that can be reclaimed.
 *
 * Bytes are allocated blocks, a file with several names counts once, directories are included:
 * the figures of du(1).
 */
#ifndef BERTH_ROOTFS_STORE_DISKUSE_H
#define BERTH_ROOTFS_STORE_DISKUSE_H

#include "base/err.h"
#include "base/json.h"

/*
 * Returns a new object: "images", "blobs", "layers", "sandboxes", "volumes", "host" and "other",
 * each with "count", "bytes", "reclaimable_bytes" ("layers" also with "shared_bytes": layers that
 * more than one image has), and "total_bytes". The sandboxes and the host image's files lie beside
 * the store.
 */
json_t *diskuse(int store_fd, struct err *e);

#endif
