/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copyturn - makes copies of layers take turns: for one tenant's sandboxes there is one at a time,
 * so that the checkpoints, undos and forks of a tenant use no more of the disk than one of them
 * does.
 *
 * A turn is a lock on a byte of run_dir/copies.lock, whose offset is the tenant's hash. The lock
 * belongs to its descriptor, which a child inherits, and ends with it (F_OFD_SETLK, fcntl(2)). It
 * is taken before the lock of a sandbox's checkpoints. The operator's sandboxes wait for no turn.
 */
#ifndef BERTH_MANAGER_HOST_COPYTURN_H
#define BERTH_MANAGER_HOST_COPYTURN_H

#include "manager/host/registry.h"

/*
 * Asks for a turn to copy the layer of sandbox id: *ret_fd is -1 if no turn is needed, else the
 * turn's descriptor. 1: it is our turn; 0: copyturn_wait() waits for it. *ret_at belongs to it.
 */
int copyturn_ask(struct registry *r, const char *id, int *ret_fd, uint64_t *ret_at, struct err *e);
int copyturn_wait(int fd, uint64_t at, struct err *e);
/* Asks and waits: *ret_fd is to be closed after the copy, and may be -1. */
int copyturn_take(struct registry *r, const char *id, int *ret_fd, struct err *e);
/*
 * As copyturn_take(), for the file of berth checkpoint export, which is on the disk until its
 * reader has all of it: it has a queue of its own, run_dir/exports.lock, so that a slow reader
 * delays no copy.
 */
int copyturn_take_export(struct registry *r, const char *id, int *ret_fd, struct err *e);

#endif
