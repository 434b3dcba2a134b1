/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack - one layer blob through three processes, in one pass.
 *
 *	source -> [we: hash, copy to the store] -> pipe
 *	       -> [filter child: decompress, hash] -> pipe -> [writer child: tar -> tree]
 *
 * Both children are confined (confine.h) in a user namespace with ids of its
 * own: the first has no file system, the second only the tree.  We parse nothing but what they report.  Afterwards we
 * do what needs more rights than the writer has: opaque marks, and the owner,
 * mode and time of directories the layer implies but does not list.
 */
#ifndef BERTH_ROOTFS_LAYER_UNPACK_H
#define BERTH_ROOTFS_LAYER_UNPACK_H

#include <stdint.h>

#include "base/err.h"
#include "rootfs/layer/compression.h"
#include "rootfs/layer/layer.h"

struct unpack {
	/* in */
	int src_fd;
	const void *prefix;		/* bytes already read from src_fd, or NULL */
	size_t prefix_len;
	enum compression compression;
	const char *want_digest;	/* NULL: not known beforehand */
	const char *want_diff_id;	/* NULL: likewise */
	uint64_t want_size;		/* UINT64_MAX: not known */
	/*
	 * 0: DECOMPRESS_BYTES_MAX, and DECOMPRESS_RATIO_MAX times the blob; else the bound of the
	 * stream, for a tree whose file system is bounded itself
	 */
	uint64_t max_bytes;
	int tree_fd;			/* empty directory to fill; -1: only check the blob */
	int blob_fd;			/* gets a copy of the source; -1: none */
	const int *lower_fds;		/* trees of the layers below, lowest first */
	size_t lower_count;
	struct layer_budget *budget;	/* of what is written; or NULL */
	/* called from time to time with the number of bytes read so far; may be NULL */
	void (*tick)(void *ctx, uint64_t in_bytes, const struct layer_progress *p);
	void *tick_ctx;
	/* called when blob and content were found right and the lower trees must be complete; may be NULL */
	int (*lower_ready)(void *ctx, struct err *e);
	void *lower_ctx;
	/* out */
	char digest[DIGEST_SIZE];
	char diff_id[DIGEST_SIZE];
	uint64_t size;			/* bytes read from the source */
	uint64_t tar_bytes;
	enum compression found;
	struct layer_stats stats;
};

/* ERR_CORRUPT when digest, size or diff id differ, or the data is malformed. */
int unpack_run(struct unpack *u, struct err *e);

#endif
