/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layerpool - the pool for writable layers that a host without reflinks may have.
 *
 * On disk, below state_dir:
 *   pool/image    an XFS with reflinks, of which all blocks are allocated; it is there when the
 * pool is pool/loop     the number of its loop device (runtime/kernel/loopdev.h) pool.new/     one
 * that is being made and in the XFS a directory for each sandbox whose layer is there
 * (runtime/sandbox/layerhome.h).
 */
#ifndef BERTH_MANAGER_HOST_LAYERPOOL_H
#define BERTH_MANAGER_HOST_LAYERPOOL_H

#include "manager/host/registry.h"

#define LAYERPOOL_SIZE_MIN (512ULL << 20)
#define LAYERPOOL_SIZE_MAX (1ULL << 50)

/*
 * Makes the pool. ERR_EXISTS; ERR_FULL if the state directory has no such room; ERR_UNSUPPORTED
 * without mkfs.xfs, or if the kernel has no XFS.
 */
int layerpool_create(struct registry *r, uint64_t bytes, struct err *e);
/* Removes the pool. ERR_NOT_FOUND; ERR_BUSY while it has layers. */
int layerpool_remove(struct registry *r, struct err *e);
/* Removes leftovers of crashes: an unfinished pool, and layers of sandboxes that are gone. */
int layerpool_gc(struct registry *r, unsigned *ret_cleared, struct err *e);
/*
 * Describes the pool below state_fd: {"size_bytes", "used_bytes", "free_bytes", "sandboxes"}; NULL
 * with ERR_NOT_FOUND if there is none.
 */
json_t *layerpool_describe(int state_fd, struct err *e);
/* The ways in which the layers of new sandboxes are copied. */
enum layerpool_way { LAYERPOOL_REFLINK, LAYERPOOL_POOL, LAYERPOOL_EXTENTS };
int layerpool_way(int state_fd, enum layerpool_way *ret, struct err *e);
/*
 * Keeps the pool mounted for a command that stops and starts the sandbox with the directory box_fd,
 * or reads its layer more than once: the kernel would unmount and mount it in between, if that
 * sandbox is the only one in it. It is held until registry_close(); keepers do not inherit it.
 */
void layerpool_hold(struct registry *r, int box_fd);
/* Returns the bytes on disk of the layer of the sandbox with that directory; 0 if unknown. */
uint64_t layerpool_layer_bytes(int kept_fd, const char *id);

#endif
