/* SPDX-License-Identifier: Apache-2.0 */
/* netclear - what sandboxes with a bridge left on the host when their supervisor died: for registry.c and berth gc. */
#ifndef BERTH_MANAGER_HOST_NETCLEAR_H
#define BERTH_MANAGER_HOST_NETCLEAR_H

#include "manager/host/registry.h"

/* The network of one dead sandbox; costs one access(2) when it had none. */
int netclear_one(struct registry *r, const char *id, struct err *e);
/*
 * Removes everything that belongs to no living sandbox; and the bridge with its rules, if no
 * sandbox uses them.
 */
int netclear_all(struct registry *r, unsigned *ret_cleared, struct err *e);
/* The networks that it is on call it by another name from now on. */
int netclear_rename(struct registry *r, const char *id, const char *name, struct err *e);

#endif
