/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack - unpacks one layer blob by three processes, in one pass.
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
	const char *want_diff_id;	/* NULL: not known beforehand */
	uint64_t want_size;		/* UINT64_MAX: not known */
	/*
	 * most bytes of the stream; 0: DECOMPRESS_BYTES_MAX, and at most DECOMPRESS_RATIO_MAX times
	 * the blob. Else this is the only bound, for a tree whose file system is bounded itself
	 */
	uint64_t max_bytes;
	int tree_fd;			/* empty directory to fill; -1: only check the blob */
	int blob_fd;			/* gets a copy of the source; -1: none */
	const int *lower_fds;		/* trees of the layers below, lowest first */
	size_t lower_count;
	struct layer_budget *budget;	/* the budget for the bytes written; or NULL */
	/* called from time to time with the number of bytes read so far; may be NULL */
	void (*tick)(void *ctx, uint64_t in_bytes, const struct layer_progress *p);
	void *tick_ctx;
	/* called once blob and content are verified and the lower trees must be complete; may be NULL */
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
