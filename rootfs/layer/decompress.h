/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decompress - a layer blob's bytes to its tar stream, bounded (I24).
 *
 * Reads one descriptor, writes another, hashes what it writes (the diff id).
 * Runs in a process that can do nothing else (confine.h): its input is hostile.
 */
#ifndef BERTH_ROOTFS_LAYER_DECOMPRESS_H
#define BERTH_ROOTFS_LAYER_DECOMPRESS_H

#include <stdint.h>

#include "base/err.h"
#include "rootfs/store/digest.h"
#include "rootfs/store/oci.h"

#define DECOMPRESS_ZSTD_WINDOW_LOG 27		/* 128 MiB */
#define DECOMPRESS_RATIO_MAX 200
#define DECOMPRESS_RATIO_FREE (64ull << 20)	/* bytes out before the ratio counts */
#define DECOMPRESS_BYTES_MAX (20ull << 30)

struct decompress_result {
	uint64_t in_bytes;
	uint64_t out_bytes;
	enum compression found;	/* never AUTO */
	char diff_id[DIGEST_SIZE];
};

/*
 * Reads in_fd to its end.  With a compression other than AUTO the data must be
 * of that kind.  out_fd -1: only check and hash.
 * max_bytes bounds what comes out; any_ratio: it alone does, however small the blob is.
 * like: as for hash_init(), of the diff id.  ERR_CORRUPT on malformed
 * data, ERR_LIMIT on a bomb.
 */
int decompress_run(int in_fd, int out_fd, enum compression want, uint64_t max_bytes, int any_ratio,
		   const char *like, struct decompress_result *ret, struct err *e);

#endif
