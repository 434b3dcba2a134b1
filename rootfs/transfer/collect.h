/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect - what no image and no sandbox needs goes; what is there is checked.
 */
#ifndef BERTH_ROOTFS_TRANSFER_COLLECT_H
#define BERTH_ROOTFS_TRANSFER_COLLECT_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

/*
 * Removes layers and blobs that no record names; the layers of an image that is
 * held (image_hold()) stay although its record is gone.  wait 0: ERR_BUSY while
 * an import runs.  Returns {"layers","blobs","bytes"} removed.
 */
json_t *collect_garbage(int store_fd, int wait, struct err *e);
/*
 * Reads everything and compares: records, holds, layers present and without
 * devices, every blob's digest, every tree with what its blob holds (verify.h).  Returns {"images","blobs","layers","problems":[...]}.
 * repair: damaged blobs are removed, so that the next import brings whole ones; and trees, unless a sandbox runs on them.
 */
/* show may be NULL: what is about to be read, the at-th of its kind. */
typedef void collect_show_fn(const char *what, uint64_t at);
json_t *collect_check(int store_fd, int repair, collect_show_fn *show, struct err *e);

/*
 * Unpacks again the layers that are missing and whose blobs are there, and
 * writes missing holds.  New array of what was done; call it after the check.
 */
json_t *collect_repair(int store_fd, struct err *e);

#endif
