/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fileclone - makes one file a copy of another.
 *
 * On a file system with reflinks (XFS, btrfs) the copy shares the blocks of its source (FICLONE,
 * ioctl_ficlone(2)), which costs the same for any size. Elsewhere the data is copied, and holes
 * stay holes.
 */
#ifndef BERTH_RUNTIME_KERNEL_FILECLONE_H
#define BERTH_RUNTIME_KERNEL_FILECLONE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Fills the empty file to_fd with the content of from_fd. 1: the files share their blocks; 0: the
 * data was copied; -1, ERR_FULL if there is no room. go_on, unless NULL, is called between two
 * pieces of a copy, which ends (ERR_BUSY) if it returns 0.
 */
int fileclone(int from_fd, int to_fd, int (*go_on)(void *ctx), void *ctx, struct err *e);
/* As fileclone(), but never copies: 0 if the file system cannot share. */
int fileclone_share(int from_fd, int to_fd, struct err *e);
/* Tells whether files below dirfd can share their blocks: 1, 0, or -1. */
int fileclone_shares(int dirfd, struct err *e);

/* ---- what clones take together ---- */

/*
 * extents - how much of a disk several files use together.
 *
 * Files that were cloned (fileclone.h) share blocks, and each counts all of its blocks in
 * st_blocks. Here a block counts once, by its place on the device (FIEMAP, ioctl with struct
 * fiemap).
 */

struct extents {
	uint64_t own; /* bytes that no other file can have */
	struct extent {
		uint64_t at, bytes;
	} * list; /* extents that may be shared */
	size_t count, cap;
};

#define EXTENTS_INIT                                                                               \
	{                                                                                          \
		.list = NULL                                                                       \
	}

/*
 * Adds the blocks of the file. On a file system without reflinks, or one that does not report
 * places, all blocks are the file's own.
 */
int extents_add(struct extents *x, int fd, struct err *e);
/* Returns the bytes of all added files, shared ones once. */
uint64_t extents_bytes(struct extents *x);
void extents_release(struct extents *x);

/* ---- a file system that stands still ---- */

/*
 * fsfreeze - freezes and thaws a file system (FIFREEZE, FITHAW).
 *
 * The kernel writes dirty data out, and makes every writer wait until the thaw. Only a thaw ends
 * that: the end of the process that froze it does not, nor does the last unmount.
 */

/*
 * Freezes the file system. mnt_fd: its mount, or something in it; O_PATH will do. ERR_BUSY: it is
 * frozen already.
 */
int fsfreeze(int mnt_fd, struct err *e);
/* Thaws the file system; it is no error if it is not frozen. */
int fsfreeze_thaw(int mnt_fd, struct err *e);

#endif
