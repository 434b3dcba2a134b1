/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export - writes images of the store: as an OCI image layout, in a directory or a tar, or as the
 * plain files of one image.
 *
 * The tar is both an OCI archive and the output of `docker save` (since Docker 25): manifest.json
 * names the same blobs. Blobs are copied byte for byte, so digests stay; each is hashed while it is
 * copied.
 */
#ifndef BERTH_ROOTFS_TRANSFER_EXPORT_H
#define BERTH_ROOTFS_TRANSFER_EXPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "rootfs/layer/compression.h"

struct export_options {
	const char *const *refs;	/* names or digests */
	size_t count;
	/* progress: bytes of blobs written so far, and bytes of all of them */
	void (*progress)(void *ctx, uint64_t bytes, uint64_t total_bytes);
	void *ctx;
	/* a tenant of berthd reads the export, perhaps slowly, so others may remove images meanwhile */
	int is_tenants;
};

/*
 * Each returns a new array of {"name","digest","size"}, or NULL: ERR_NOT_FOUND,
 * ERR_CORRUPT when a blob is damaged (what was written is then worthless).
 *
 * export_layout() writes into the directory path, which it makes. An image layout that exists
 * already gets the images added; images of the same name are replaced.
 */
json_t *export_layout(int store_fd, const struct export_options *o, const char *path, struct err *e);
/* Writes the tar to out_fd: a file or pipe. */
json_t *export_archive(int store_fd, const struct export_options *o, int out_fd, struct err *e);
/* Writes the merged files of one image. */
json_t *export_rootfs(int store_fd, const struct export_options *o, enum compression compression, int out_fd,
		      struct err *e);

#endif
