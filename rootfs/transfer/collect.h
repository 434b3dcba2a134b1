/* SPDX-License-Identifier: Apache-2.0 */
/* collect - removes files that no image and no sandbox needs, and checks the rest. */
#ifndef BERTH_ROOTFS_TRANSFER_COLLECT_H
#define BERTH_ROOTFS_TRANSFER_COLLECT_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

/*
 * Removes layers and blobs that no record names. The layers of an image that is held (image_hold())
 * stay although its record is gone. wait 0: ERR_BUSY while an import runs. Returns how much was
 * removed: {"layers","blobs","bytes"}.
 */
json_t *collect_garbage(int store_fd, int wait, struct err *e);
/*
 * Reads everything and compares: records, holds, layers present and without devices, every blob's
 * digest, every tree with what its blob holds (verify.h). Returns
 * {"images","blobs","layers","problems":[...]}. repair: removes damaged blobs, so that the next
 * import brings whole ones, and damaged trees unless a sandbox runs on them.
 */
/* Called before each object is read, with its name and its number (at) among its kind; may be NULL. */
typedef void collect_show_fn(const char *what, uint64_t at);
json_t *collect_check(int store_fd, int repair, collect_show_fn *show, struct err *e);

/*
 * Unpacks missing layers again whose blobs exist, and writes missing holds. Returns a new array of
 * the repairs made; call it after the check.
 */
json_t *collect_repair(int store_fd, struct err *e);

#endif
