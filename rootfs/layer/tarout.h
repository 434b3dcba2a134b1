/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tarout - a directory tree as a tar stream (tarstream.h).
 *
 * The same tree gives the same bytes: names are sorted. The tree is hostile and may change
 * meanwhile. Links are not followed; anything that is not a file, directory or link is skipped
 * and counted. Runs confined (CONFINE_READ).
 */
#ifndef BERTH_ROOTFS_LAYER_TAROUT_H
#define BERTH_ROOTFS_LAYER_TAROUT_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "rootfs/layer/tarstream.h"

struct tarout_stats {
	uint64_t entries;
	uint64_t skipped;	/* sockets, devices, FIFOs unless they are kept, and names that would be
				 * whiteouts */
	uint64_t not_entered;	/* mount points */
};

struct tarout_options {
	enum compression compression;
	int one_fs;		/* do not enter other file systems */
	int keep_fifos;
};

int tarout_write(int root_fd, int out_fd, const struct tarout_options *how, struct tarout_stats *ret, struct err *e);

/* ---- for other walks that write a tar ---- */

struct tarout {
	struct tarstream *t;
	struct tarout_stats st;
	int one_fs, keep_fifos;
	dev_t dev;
};

/* Writes name in dir_fd with everything below it; t->path is its name in the archive. */
int tarout_one(struct tarout *o, int dir_fd, const char *name, int depth, struct err *e);
/* Appends "/NAME" to t->path. */
int tarout_enter(struct tarstream *t, const char *name, struct err *e);
/* The sorted names in a directory, at most max; tarout_free_names() frees them. */
int tarout_names(int dir_fd, const char *what, size_t max, char ***ret, size_t *ret_n, struct err *e);
void tarout_free_names(char **names, size_t n);

/* ---- in a child process ---- */

/*
 * packer - a child process that reads a tree and writes a tar.
 *
 * The tree is hostile: fn confines itself (confine.h) before it looks at it.
 * Its error and counts come back by a pipe.
 */

struct packer {
	pid_t pid;
	int report_fd;
};

#define PACKER_INIT ((struct packer){ .report_fd = -1 })
#define PACKER_MEMORY (512ull << 20)

/*
 * A packer_fn runs in the child, which has all of the parent's memory and descriptors and ends when
 * fn returns. report_fd must be among those that stay open; parent is for confine_child().
 */
typedef int packer_fn(void *ctx, int out_fd, int report_fd, pid_t parent, struct tarout_stats *ret, struct err *e);

/* Starts fn with out_fd, which stays the caller's. */
int packer_start(struct packer *p, packer_fn *fn, void *ctx, int out_fd, struct err *e);
/* As packer_start(), with a pipe: the tar comes out of *ret_fd. */
int packer_start_pipe(struct packer *p, packer_fn *fn, void *ctx, int *ret_fd, struct err *e);
/*
 * Waits until the packer has ended; kills it first if rc says that the caller failed. Returns rc,
 * or -1 with the packer's own error, which explains a stream that ended early.
 */
int packer_end(struct packer *p, int rc, struct tarout_stats *ret, struct err *e);

#endif
