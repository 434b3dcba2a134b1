/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rundir - the directory of a sandbox below run_dir, and the spare one.
 *
 * Making and removing a directory or a file is dear on some file systems (ext4
 * looks for an inode that was not freed just now, and may discard the block): the
 * last directory removed is kept for the next sandbox, with a record.json that
 * says nothing.  Whoever finds the spare held or filled otherwise leaves it.
 */
#ifndef BERTH_MANAGER_HOST_RUNDIR_H
#define BERTH_MANAGER_HOST_RUNDIR_H

#include "manager/host/registry.h"

/* Gives c->id its directory, locked: c->dir_fd.  ERR_EXISTS. */
int rundir_take(struct registry *r, struct claim *c, struct err *e);
/* Lets go of a directory of rundir_take(), or of c->id's when there is no descriptor. */
int rundir_put(struct registry *r, const struct claim *c, struct err *e);

#endif
