/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blankfs - empty ext4 file systems for writable layers.
 *
 * Formatting a file system takes longer than the rest of making a sandbox, and writes the same
 * bytes each time (140 KiB of 10 GiB). So the first one of a size is kept as a model, and the next
 * ones are copies of it.
 */
#ifndef BERTH_RUNTIME_KERNEL_BLANKFS_H
#define BERTH_RUNTIME_KERNEL_BLANKFS_H

#include <stdint.h>

#include "base/err.h"

/*
 * Makes an empty file system of at most this many inodes in fd, an empty file of the right size.
 * models_fd: the host's directory of models, which belongs to root alone; -1: none. Returns 1 if
 * the file is a copy of a model, 0 if it was formatted; -1 (ERR_UNSUPPORTED: too small). passing:
 * the files need not survive a power cut, so a copy does not wait for the disk.
 */
int blankfs_make(int fd, uint64_t inodes, int models_fd, int passing, struct err *e);
/*
 * Formats fd so that it holds attributes of any size, larger ones in an inode each (ext4(5),
 * ea_inode), as other file systems do.
 */
int blankfs_make_roomy(int fd, uint64_t inodes, struct err *e);
/* Formats fd with a journal, for files that must stay whole when the host loses power. */
int blankfs_make_journaled(int fd, uint64_t inodes, struct err *e);
/* Handles a model whose copy cannot be mounted: removes the model, and formats fd. */
int blankfs_remake(int fd, uint64_t inodes, int models_fd, struct err *e);

#endif
