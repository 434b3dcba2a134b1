/* SPDX-License-Identifier: Apache-2.0 */
/* segments - the parts of a sparse file that hold data. */
#ifndef BERTH_ROOTFS_LAYER_SEGMENTS_H
#define BERTH_ROOTFS_LAYER_SEGMENTS_H

#include <stddef.h>
#include <stdint.h>

#define SEGMENTS_MAX 4096 /* a file with more is written whole */

struct segment {
	uint64_t off, len;
};

/*
 * Those of a file of so many bytes, and an empty one at its end, in segs, which has room for
 * SEGMENTS_MAX + 1: how many, or 0 when the file is better written whole.
 */
size_t segments_find(int fd, uint64_t size, struct segment *segs);

#endif
