/* SPDX-License-Identifier: Apache-2.0 */
/* compress - bytes on their way to a descriptor, plain, gzip or zstd; see decompress.h. */
#ifndef BERTH_ROOTFS_LAYER_COMPRESS_H
#define BERTH_ROOTFS_LAYER_COMPRESS_H

#include <stddef.h>

#include "base/err.h"
#include "rootfs/layer/decompress.h"

struct compress {
	int out_fd; /* borrowed */
	enum compression compression;
	struct ZSTD_CCtx_s *zstd;
	struct z_stream_s *gzip;
	unsigned char *buffer;
	size_t used; /* of buffer, by plain bytes */
};

/* compression is none, gzip or zstd. *c is released in any case. */
int compress_open(struct compress *c, int out_fd, enum compression compression, struct err *e);
/* Takes n bytes; with end also writes whatever is held back, and the trailer. */
int compress_put(struct compress *c, const void *p, size_t n, int end, struct err *e);
void compress_release(struct compress *c);

#endif
