/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/transfer/layerbound.h"

#include <sys/statvfs.h>

#include "rootfs/layer/compression.h"

/* A name takes more in a tar than on a disk. */
#define NAMES_BYTES (1ull << 30)
#define ZSTD_BLOCK (128u << 10)

uint64_t layerbound_unpacked(uint64_t disk_bytes)
{
	return disk_bytes && disk_bytes < DECOMPRESS_BYTES_MAX - NAMES_BYTES ?
		       disk_bytes + NAMES_BYTES :
		       DECOMPRESS_BYTES_MAX;
}

int layerbound_of(int fd, uint64_t *ret, struct err *e)
{
	struct statvfs fs;

	if (fstatvfs(fd, &fs) < 0)
		return err_sys(e, "measure the writable layer");
	*ret = layerbound_unpacked((uint64_t)fs.f_blocks * fs.f_frsize);
	return 0;
}

/* zstd adds three bytes to a block that it cannot compress (RFC 8878, 3.1.1.2). */
uint64_t layerbound_packed(uint64_t unpacked_bytes)
{
	return unpacked_bytes + unpacked_bytes / 1024 + ZSTD_BLOCK;
}
