/* SPDX-License-Identifier: Apache-2.0 */
/* layerbound - how large the file of a layer may be (layerfile.h).  Without a library. */
#ifndef BERTH_ROOTFS_TRANSFER_LAYERBOUND_H
#define BERTH_ROOTFS_TRANSFER_LAYERBOUND_H

#include <stdint.h>

#include "base/err.h"

/* The most bytes that the layer of a sandbox with so large a disk unpacks to; 0: any disk. */
uint64_t layerbound_unpacked(uint64_t disk_bytes);
/* The same of the layer at fd, by the size of its file system. */
int layerbound_of(int fd, uint64_t *ret, struct err *e);
/* The largest file of a layer that unpacks to so many bytes. */
uint64_t layerbound_packed(uint64_t unpacked_bytes);

#endif
