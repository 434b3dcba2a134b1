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

#endif
