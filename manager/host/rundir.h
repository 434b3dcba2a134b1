/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rundir - the directory of a sandbox below run_dir, and the spare one.
 *
 * Making and removing a directory or a file is slow on some file systems (ext4 looks for an
 * inode that was not freed just now, and may discard the block). So the last directory removed
 * is kept for the next sandbox, with an empty record.json. A process that finds the spare locked
 * or with other content leaves it alone.
 */
#ifndef BERTH_MANAGER_HOST_RUNDIR_H
#define BERTH_MANAGER_HOST_RUNDIR_H

#include "manager/host/registry.h"

/* Gives c->id its directory, locked: c->dir_fd.  ERR_EXISTS. */
int rundir_take(struct registry *r, struct claim *c, struct err *e);
/* Releases a directory of rundir_take(), or that of c->id without a descriptor. */
int rundir_put(struct registry *r, const struct claim *c, struct err *e);

#endif
