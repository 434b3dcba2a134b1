/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copyturn - copies of layers take turns: of one tenant's sandboxes there is one at a time, so that
 * the checkpoints, undos and forks of a tenant take no more of the disk than one of them does.
 *
 * A turn is a lock on a byte of run_dir/copies.lock, whose offset is the tenant's hash.  The lock
 * belongs to its descriptor, which a child inherits, and goes with it (F_OFD_SETLK, fcntl(2)).  It
 * is taken before the lock of a sandbox's checkpoints.  The operator's sandboxes wait for no turn.
 */
#ifndef BERTH_MANAGER_HOST_COPYTURN_H
#define BERTH_MANAGER_HOST_COPYTURN_H

#include "manager/host/registry.h"

/*
 * For a copy of the layer of sandbox id: *ret_fd is -1 where no turn is needed, else the turn's
 * descriptor.  1: it is our turn; 0: copyturn_wait() waits for it.  *ret_at goes with it.
 */
int copyturn_ask(struct registry *r, const char *id, int *ret_fd, uint64_t *ret_at, struct err *e);
int copyturn_wait(int fd, uint64_t at, struct err *e);
/* Both: *ret_fd is to be closed after the copy, and may be -1. */
int copyturn_take(struct registry *r, const char *id, int *ret_fd, struct err *e);
/*
 * The same for the file of berth checkpoint export, which is on the disk until its reader has all
 * of it: a line of its own, run_dir/exports.lock, so that a slow reader holds no copy up.
 */
int copyturn_take_export(struct registry *r, const char *id, int *ret_fd, struct err *e);

#endif
