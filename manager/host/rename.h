/* SPDX-License-Identifier: Apache-2.0 */
/* rename - give a lasting sandbox another name (registry.h). */
#ifndef BERTH_MANAGER_HOST_RENAME_H
#define BERTH_MANAGER_HOST_RENAME_H

#include "manager/host/registry.h"

/*
 * The new name is taken before the old one is given up: a crash in between
 * leaves a name too many, which gc and rm clear.  ERR_EXISTS when it is taken.
 */
int registry_rename(struct registry *r, const char *id, const char *name, struct err *e);

#endif
