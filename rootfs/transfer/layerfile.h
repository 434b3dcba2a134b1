/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layerfile - packs a writable layer as a compressed tar, and unpacks it.
 *
 * The file holds files and OCI whiteouts, and no file system image: the kernel would have to mount
 * that, and it may come from a stranger. It is written and read by the same confined processes as a
 * layer of an image, with the same checks (difftar.h, unpack.h).
 */
#ifndef BERTH_ROOTFS_TRANSFER_LAYERFILE_H
#define BERTH_ROOTFS_TRANSFER_LAYERFILE_H

#include <stdint.h>

#include "base/err.h"
#include "rootfs/store/digest.h"

struct layerfile {
	int upper_fd; /* nothing may change it meanwhile */
	int dir_fd;   /* the sandbox's directory, with the record of its image, if any */
	uint32_t id_base;
	const char *workdir;
	/* out */
	char digest[DIGEST_SIZE];
	uint64_t size, skipped;
};

/* Writes the layer to the empty file out_fd, and sets its digest and size. */
int layerfile_pack(int store_fd, struct layerfile *l, int out_fd, struct err *e);
/*
 * Reads size bytes of in_fd into the empty directory tree_fd, as files of the ids from 0 on. They
 * may unpack to max_bytes: ERR_LIMIT above. beside_fd: another directory without files. ERR_CORRUPT
 * if the bytes do not have that digest.
 */
int layerfile_unpack(int in_fd, const char *digest, uint64_t size, uint64_t max_bytes, int tree_fd,
		     int beside_fd, struct err *e);

#endif
