/* SPDX-License-Identifier: Apache-2.0 */
/*
 * packer - a child process that reads a tree and writes a tar.
 *
 * The tree is hostile: fn confines itself (confine.h) before it looks at it.
 * Its error and counts come back by a pipe.
 */
#ifndef BERTH_ROOTFS_LAYER_PACKER_H
#define BERTH_ROOTFS_LAYER_PACKER_H

#include <sys/types.h>

#include "base/err.h"
#include "rootfs/layer/tarout.h"

struct packer {
	pid_t pid;
	int report_fd;
};

#define PACKER_INIT ((struct packer){ .report_fd = -1 })
#define PACKER_MEMORY (512ull << 20)

/*
 * Runs in the child, which has all of the parent's memory and descriptors and
 * ends when fn returns.  report_fd must be among those that stay open; parent
 * is for confine_child().
 */
typedef int packer_fn(void *ctx, int out_fd, int report_fd, pid_t parent, struct tarout_stats *ret, struct err *e);

/* Starts fn with out_fd, which stays the caller's. */
int packer_start(struct packer *p, packer_fn *fn, void *ctx, int out_fd, struct err *e);
/* The same with a pipe: *ret_fd is where the tar comes out. */
int packer_start_pipe(struct packer *p, packer_fn *fn, void *ctx, int *ret_fd, struct err *e);
/*
 * Waits for the end (and kills, when rc says that the caller failed).  Returns
 * rc, or -1 with the packer's own error, which explains a stream that ended early.
 */
int packer_end(struct packer *p, int rc, struct tarout_stats *ret, struct err *e);

#endif
