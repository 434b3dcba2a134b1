/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names - which sandbox has which name: state_dir/names/NAME is a symbolic link to the id.
 *
 * The record of a sandbox says which name it has, so that its removal looks at one link.  Where the
 * record does not tell (it was never written, or a change of the name was cut short) all links are
 * looked at.
 */
#ifndef BERTH_MANAGER_HOST_NAMES_H
#define BERTH_MANAGER_HOST_NAMES_H

#include "manager/host/registry.h"

/* In the directory of a lasting sandbox while its name is changed: it may then have two. */
#define NAMES_CHANGING "renaming"

/*
 * With the registry locked: gives the name to the claimed sandbox, and to c->name. ERR_EXISTS if
 * another sandbox has it; ERR_INVALID if it is not a name that one may give.
 */
int names_take(struct registry *r, struct claim *c, const char *name, struct err *e);
/* 1 when name is of id, 0 when of nobody (then no link is left), -1 with ERR_EXISTS. */
int names_holder(struct registry *r, const char *name, const char *id, struct err *e);
/* Takes the name of a sandbox away.  Comes before the removal of its record. */
int names_drop(struct registry *r, const char *id, struct err *e);
/* Takes every name of a sandbox away but one. */
int names_drop_others(struct registry *r, const char *id, const char *keep, struct err *e);

/* ---- another name for a lasting sandbox ---- */

/* Give a lasting sandbox another name (registry.h). */

/*
 * Takes the new name before it gives up the old one: a crash in between leaves one name too
 * many, which gc and rm remove. ERR_EXISTS if the name is taken.
 */
int registry_rename(struct registry *r, const char *id, const char *name, struct err *e);

#endif
