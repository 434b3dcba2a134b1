/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extents - how much of a disk several files take together.
 *
 * Files that were cloned (fileclone.h) share blocks, and each counts them all in st_blocks.  Here a
 * block counts once, by its place on the device (FIEMAP, ioctl with struct fiemap).
 */
#ifndef BERTH_RUNTIME_KERNEL_EXTENTS_H
#define BERTH_RUNTIME_KERNEL_EXTENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct extents {
	uint64_t own; /* bytes that no other file can have */
	struct extent {
		uint64_t at, bytes;
	} * list; /* those that may be shared */
	size_t count, cap;
};

#define EXTENTS_INIT                                                                               \
	{                                                                                          \
		.list = NULL                                                                       \
	}

/*
 * Adds the blocks of the file.  Where its file system has no reflinks, or tells no places, all of
 * them are its own.
 */
int extents_add(struct extents *x, int fd, struct err *e);
/* The bytes of all that was added, shared ones once. */
uint64_t extents_bytes(struct extents *x);
void extents_release(struct extents *x);

#endif
