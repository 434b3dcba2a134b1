/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layerhome - where the writable layer of a lasting sandbox is, with those of its checkpoints.
 *
 * It is in the sandbox's own directory, state_dir/sandboxes/ID; or, when the file "in-pool" there
 * says so, in a directory of the pool, an XFS in the file state_dir/pool/image.  The pool is
 * mounted nowhere: each process that needs it makes a detached mount of the one loop device, so
 * that all show one file system, and the kernel unmounts it with its last user.  So nothing has to
 * be mounted again after a boot, or unmounted after a crash.
 *
 * state_dir/pool is locked (flock), shared while a sandbox gets a directory in the pool, and
 * for oneself by the process that removes the pool.  What is in a layer is hostile; nothing here
 * opens any of it.
 */
#ifndef BERTH_RUNTIME_SANDBOX_LAYERHOME_H
#define BERTH_RUNTIME_SANDBOX_LAYERHOME_H

#include "base/err.h"

#define LAYERHOME_POOL "pool"   /* below state_dir */
#define LAYERHOME_IMAGE "image" /* below that */
#define LAYERHOME_MARK "in-pool"

/* The directory, of the sandbox with the directory box_fd; -1.  ERR_NOT_FOUND: the pool is gone. */
int layerhome_open(int box_fd, struct err *e);
/*
 * The same through the mount of home_fd, the directory of another one in the pool: files move from
 * one to the other only within a mount (rename(2), EXDEV).
 */
int layerhome_open_beside(int box_fd, int home_fd, struct err *e);
/* Whether it is in the pool. */
int layerhome_is_pool(int box_fd);
/*
 * For sandbox id, which has no layer yet: from now on it is in the pool, where the host has one.
 * ERR_FULL when that has no room.
 */
int layerhome_choose(int box_fd, const char *id, struct err *e);
/* Removes what is in the pool, before the sandbox's own directory goes.  Idempotent. */
int layerhome_remove(int box_fd, struct err *e);
/* Brings it into the sandbox's own directory, for a stopped one that leaves the host. */
int layerhome_bring_back(int box_fd, struct err *e);

/* A detached mount of the pool whose directory is pool_fd. */
int layerhome_mount(int pool_fd, struct err *e);

#endif
