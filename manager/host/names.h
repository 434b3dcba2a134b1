/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names - records which sandbox has which name: state_dir/names/NAME is a symbolic link to the id.
 *
 * The record of a sandbox has its name, so that its removal looks at one link only. If the record
 * does not tell (it was never written, or a change of the name was interrupted) all links are
 * looked at.
 */
#ifndef BERTH_MANAGER_HOST_NAMES_H
#define BERTH_MANAGER_HOST_NAMES_H

#include <sys/stat.h>

#include "manager/host/registry.h"

/* A file in the directory of a lasting sandbox while its name is changed: the sandbox may then have two. */
#define NAMES_CHANGING "renaming"

/*
 * Gives the name to the claimed sandbox, and to c->name; call it with the registry locked.
 * ERR_EXISTS if another sandbox has it; ERR_INVALID if it is not a name that a user may give.
 */
int names_take(struct registry *r, struct claim *c, const char *name, struct err *e);
/* Returns 1 if name belongs to id, 0 if to no sandbox (then no link is left), -1 with ERR_EXISTS. */
int names_holder(struct registry *r, const char *name, const char *id, struct err *e);
/* Removes the name of a sandbox; call it before its record is removed. */
int names_drop(struct registry *r, const char *id, struct err *e);
/* Removes every name of a sandbox but one. */
int names_drop_others(struct registry *r, const char *id, const char *keep, struct err *e);

/* ---- a list in pieces ---- */

/*
 * As registry_sweep_list(), in the order of the ids and from behind one. known, which may be NULL,
 * gets the file of each record before it is read: 1 tells that the caller has what it says, and
 * each is not called. A value other than 0 of each ends the list, and is returned.
 */
struct names_look {
	int all;
	const char *after;	/* an id or the start of one, or NULL */
	int (*known)(void *ctx, const char *id, int kept, const struct stat *record);
	list_each *each;
	void *ctx;
};
int names_look(struct registry *r, const struct names_look *look, struct err *e);

/* ---- another name for a lasting sandbox ---- */

/* Gives a lasting sandbox another name (registry.h). */

/*
 * Takes the new name before it gives up the old one: a crash in between leaves two names, which gc
 * and rm remove. ERR_EXISTS if the name is taken.
 */
int registry_rename(struct registry *r, const char *id, const char *name, struct err *e);

/* The directory of names in the web: links NAME -> ID:PORT (manager/api/preview.h). */
#define NAMES_WEB "previews"
/* Removes those of a sandbox; best effort. */
void names_drop_web(struct registry *r, const char *id);

#endif
