/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fileclone - one file as the copy of another.
 *
 * Where the file system has reflinks (XFS, btrfs) the copy shares the blocks of its source
 * (FICLONE, ioctl_ficlone(2)), which costs the same for any size.  Elsewhere the data is copied,
 * and what is a hole stays one.
 */
#ifndef BERTH_RUNTIME_KERNEL_FILECLONE_H
#define BERTH_RUNTIME_KERNEL_FILECLONE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Fills the empty file to_fd with from_fd.  1: they share their blocks; 0: the data was copied; -1,
 * ERR_FULL when there is no room.  go_on, unless NULL, is asked between two pieces of a copy, and
 * ends it (ERR_BUSY) with 0.
 */
int fileclone(int from_fd, int to_fd, int (*go_on)(void *ctx), void *ctx, struct err *e);
/* The same without a copy: 0 where the file system cannot share. */
int fileclone_share(int from_fd, int to_fd, struct err *e);
/* Whether files below dirfd can share their blocks: 1, 0, or -1. */
int fileclone_shares(int dirfd, struct err *e);

/* ---- what clones take together ---- */

/*
 * extents - how much of a disk several files take together.
 *
 * Files that were cloned (fileclone.h) share blocks, and each counts them all in st_blocks.  Here a
 * block counts once, by its place on the device (FIEMAP, ioctl with struct fiemap).
 */

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

/* ---- a file system that stands still ---- */

/*
 * fsfreeze - a file system that stands still (FIFREEZE, FITHAW).
 *
 * The kernel writes out what is dirty, and lets every writer wait until the thaw.  Nobody but a
 * thaw ends that, neither the end of the process that froze it nor that of the last mount.
 */

/* mnt_fd: the file system's mount, or something in it; O_PATH will do.  ERR_BUSY: it is frozen. */
int fsfreeze(int mnt_fd, struct err *e);
/* One that is not frozen is no error. */
int fsfreeze_thaw(int mnt_fd, struct err *e);

#endif
