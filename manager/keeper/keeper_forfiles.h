/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_forfiles - a keeper for files only (keeper_files.c), while its sandbox does not run.
 */
#ifndef BERTH_MANAGER_KEEPER_KEEPER_FORFILES_H
#define BERTH_MANAGER_KEEPER_KEEPER_FORFILES_H

#include "manager/keeper/keeper_state.h"

/* It is one. */
void keeper_files_begin(struct keeper *k);
/* Whether it serves this operation: ERR_BUSY. */
int keeper_files_allows(const struct keeper *k, enum protocol_op op, struct err *e);
/* Client i has gone: 1 if it was the last, with which such a keeper ends. */
int keeper_files_left(struct keeper *k, int i);

#endif
