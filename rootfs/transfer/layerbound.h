/* SPDX-License-Identifier: Apache-2.0 */
/* layerbound - bounds the size of a layer's file (layerfile.h). Needs no library. */
#ifndef BERTH_ROOTFS_TRANSFER_LAYERBOUND_H
#define BERTH_ROOTFS_TRANSFER_LAYERBOUND_H

#include <stdint.h>

#include "base/err.h"

/*
 * Returns the most bytes to which the layer of a sandbox with so large a disk can unpack; 0: a disk
 * of any size.
 */
uint64_t layerbound_unpacked(uint64_t disk_bytes);
/* As layerbound_unpacked(), for the layer at fd, by the size of its file system. */
int layerbound_of(int fd, uint64_t *ret, struct err *e);
/* Returns the largest file of a layer that unpacks to so many bytes. */
uint64_t layerbound_packed(uint64_t unpacked_bytes);

#endif
