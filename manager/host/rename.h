/* SPDX-License-Identifier: Apache-2.0 */
/* rename - give a lasting sandbox another name (registry.h). */
#ifndef BERTH_MANAGER_HOST_RENAME_H
#define BERTH_MANAGER_HOST_RENAME_H

#include "manager/host/registry.h"

/*
 * Takes the new name before it gives up the old one: a crash in between leaves one name too
 * many, which gc and rm remove. ERR_EXISTS if the name is taken.
 */
int registry_rename(struct registry *r, const char *id, const char *name, struct err *e);

#endif
