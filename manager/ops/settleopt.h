/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settleopt - options that are kept for a later start, when the caller has gone.
 *
 * An option that depends on the caller (its directory, its environment) gets its value now.
 */
#ifndef BERTH_MANAGER_OPS_SETTLEOPT_H
#define BERTH_MANAGER_OPS_SETTLEOPT_H

#include "base/err.h"
#include "base/json.h"

/* ---- options that depend on the caller ---- */

/* The value to keep of option id, an enum runopts_id or resident_id; NULL: value itself. */
int settleopt(int id, const char *value, char **ret, struct err *e);
/*
 * The text of the file that --seccomp names, in place of *ret; NULL if path names a profile.  A
 * start long after, when the file may have changed or gone, has the same filter.
 */
int settleopt_seccomp(const char *path, json_t **ret, struct err *e);

/* ---- the sources of mounts ---- */

/*
 * The host's files and directories that a sandbox mounts, and that they stay those.
 *
 * A sandbox that lasts names its sources once, when it is made.  A container that may write to one
 * of them can put a symbolic link in the place of another between two starts, so a start resolves
 * nothing: spec.json keeps the path without links, and the identity of what was there.  A start
 * opens the path through no link, compares, and mounts what it has opened.
 *
 * A directory is the same when its inode is, of the same device or, as far as that can be told, of the same
 * file system, which may have another device number when it is mounted anew.  That counts within one boot;
 * after a boot the path alone counts, and is noted anew.  A file may be replaced by another one, as editors do, but by no socket,
 * and a mount that says so (replaceable) takes any directory of the path.  With owner=auto the sandbox has the
 * rights of the owner of what is there: something else of another owner is refused at any time, of the sandbox's
 * files alone as well.  Upholds S51 of SECURITY.md.
 */

struct spec;

/*
 * Notes in spec, a spec.json, what each source of its options is now, where it was not noted yet.  The
 * paths in the options must be free of links: ERR_DENIED for one that is not, ERR_NOT_FOUND.
 */
int sources_note(json_t *spec, struct err *e);
/*
 * Resolves the paths in the options of a spec.json that an older berth wrote, then notes them.  1 when
 * spec was changed, 0 when it needed nothing.
 */
int sources_adopt(json_t *spec, struct err *e);
/*
 * Opens the sources of s, which was read from spec, for the start that follows: s->mounts has
 * their descriptors until spec_close_sources().  ERR_DENIED when one is not what was noted.  1 when spec
 * was changed, after a boot.
 */
int sources_open(json_t *spec, struct spec *s, struct err *e);
/* Forgets what was noted, so that sources_note() takes what is there. */
void sources_forget(json_t *spec);

#endif
