/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blankfs - empty ext4 file systems for writable layers.
 *
 * To format one takes longer than all the rest of making a sandbox, and what is
 * written is the same each time (140 KiB of 10 GiB): the first of a size is kept
 * as a model, and the next ones are copies of it.
 */
#ifndef BERTH_RUNTIME_KERNEL_BLANKFS_H
#define BERTH_RUNTIME_KERNEL_BLANKFS_H

#include <stdint.h>

#include "base/err.h"

/*
 * An empty file system of at most so many inodes in fd, an empty file that was sized.
 * models_fd: the host's directory of models, root's alone; -1: none.  1 when it is a
 * copy of a model, 0 when it was formatted; -1 (ERR_UNSUPPORTED: too small for it).
 */
int blankfs_make(int fd, uint64_t inodes, int models_fd, struct err *e);
/* Formatted; holds attributes of any size, larger ones in an inode each (ext4(5), ea_inode), as other file systems do. */
int blankfs_make_roomy(int fd, uint64_t inodes, struct err *e);
/* Formatted, with a journal: for what must stay whole when the host loses power. */
int blankfs_make_journaled(int fd, uint64_t inodes, struct err *e);
/* For a model whose copy cannot be mounted: removes the model, and formats fd. */
int blankfs_remake(int fd, uint64_t inodes, int models_fd, struct err *e);

#endif
