/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layerhome - finds the directory with the writable layer of a lasting sandbox and the layers of
 * its checkpoints.
 *
 * The layers are in the sandbox's own directory, state_dir/sandboxes/ID, or, if the file "in-pool"
 * there says so, in a directory of the pool, an XFS in the file state_dir/pool/image. The pool is
 * mounted nowhere: each process that needs it makes a detached mount of the one loop device, so
 * that all show one file system, and the kernel unmounts it with its last user. So nothing has to
 * be mounted again after a boot, or unmounted after a crash.
 *
 * state_dir/pool is locked (flock), shared while a sandbox gets a directory in the pool, and
 * exclusively by the process that removes the pool. The content of a layer is hostile; nothing here
 * opens any of it.
 */
#ifndef BERTH_RUNTIME_SANDBOX_LAYERHOME_H
#define BERTH_RUNTIME_SANDBOX_LAYERHOME_H

#include "base/err.h"

#define LAYERHOME_POOL "pool"   /* below state_dir */
#define LAYERHOME_IMAGE "image" /* below that */
#define LAYERHOME_MARK "in-pool"

/* Opens the directory for the sandbox with the directory box_fd; -1. ERR_NOT_FOUND: the pool is gone. */
int layerhome_open(int box_fd, struct err *e);
/*
 * As layerhome_open(), through the mount of home_fd, another sandbox's directory in the pool: files
 * can be moved from one to the other only within a mount (rename(2), EXDEV).
 */
int layerhome_open_beside(int box_fd, int home_fd, struct err *e);
/* Tells whether the layers are in the pool. */
int layerhome_is_pool(int box_fd);
/*
 * Puts sandbox id, which has no layer yet, into the pool, if the host has one. ERR_FULL if that has
 * no room.
 */
int layerhome_choose(int box_fd, const char *id, struct err *e);
/* Removes the sandbox's part of the pool, before its own directory is removed. Idempotent. */
int layerhome_remove(int box_fd, struct err *e);
/* Moves the layers into the sandbox's own directory, for a stopped sandbox that leaves the host. */
int layerhome_bring_back(int box_fd, struct err *e);

/* Returns a detached mount of the pool whose directory is pool_fd. */
int layerhome_mount(int pool_fd, struct err *e);

#endif
