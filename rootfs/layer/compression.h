/* SPDX-License-Identifier: Apache-2.0 */
/* compression - decompresses the bytes of a layer's blob, and compresses them into one. */
#ifndef BERTH_ROOTFS_LAYER_COMPRESSION_H
#define BERTH_ROOTFS_LAYER_COMPRESSION_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "rootfs/store/digest.h"
#include "rootfs/store/oci.h"

/* ---- decompressing ---- */

/*
 * decompress - turns a layer's blob into its tar stream, bounded (I24).
 *
 * Reads one descriptor, writes another, and hashes what it writes (the diff id). Runs in a process
 * that can do nothing else (confine.h): its input is hostile.
 */

#define DECOMPRESS_ZSTD_WINDOW_LOG 27		/* 128 MiB */
#define DECOMPRESS_RATIO_MAX 200
#define DECOMPRESS_RATIO_FREE (64ull << 20)	/* bytes of output before the ratio counts */
#define DECOMPRESS_BYTES_MAX (20ull << 30)

struct decompress_result {
	uint64_t in_bytes;
	uint64_t out_bytes;
	enum compression found;	/* never AUTO */
	char diff_id[DIGEST_SIZE];
};

/*
 * Reads in_fd to its end. Unless want is AUTO, the data must be of that kind. out_fd -1: only check
 * and hash. max_bytes bounds the output; with any_ratio it is the only bound, however small the
 * blob. like: as for hash_init(), for the diff id. ERR_CORRUPT on malformed data, ERR_LIMIT on a
 * bomb.
 */
int decompress_run(int in_fd, int out_fd, enum compression want, uint64_t max_bytes, int any_ratio,
		   const char *like, struct decompress_result *ret, struct err *e);

/* ---- compressing ---- */

/* compress - writes bytes to a descriptor, plain, gzip or zstd. */

struct compress {
	int out_fd; /* borrowed */
	enum compression compression;
	struct ZSTD_CCtx_s *zstd;
	struct z_stream_s *gzip;
	unsigned char *buffer;
	size_t used; /* bytes of buffer in use, with compression none */
};

/* Sets up *c; compression is none, gzip or zstd. *c is released in any case. */
int compress_open(struct compress *c, int out_fd, enum compression compression, struct err *e);
/* Takes n bytes; with end also writes the bytes held back, and the trailer. */
int compress_put(struct compress *c, const void *p, size_t n, int end, struct err *e);
void compress_release(struct compress *c);

#endif
