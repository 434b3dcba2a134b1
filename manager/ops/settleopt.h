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

/* Gives the value to keep for option id, an enum runopts_id or resident_id; NULL: value itself. */
int settleopt(int id, const char *value, char **ret, struct err *e);
/*
 * Gives the text of the file that --seccomp names; *ret stays NULL if path names a profile. So a
 * start long after, when the file may have changed or been removed, has the same filter.
 */
int settleopt_seccomp(const char *path, json_t **ret, struct err *e);

/* ---- the sources of mounts ---- */

/*
 * Keeps track of the host's files and directories that a sandbox mounts, and checks that they stay
 * the same.
 *
 * A sandbox that lasts names its sources once, when it is made. A sandbox that may write to one of
 * them can replace another by a symbolic link between two starts, so a start resolves nothing:
 * spec.json keeps the path without links, and the identity of the file that was there. A start
 * opens the path through no link, compares, and mounts what it has opened.
 *
 * A directory is the same if its inode is the same, on the same device or, as far as that can be
 * told, on the same file system, which may have another device number when it is mounted anew. That
 * counts within one boot; after a boot only the path counts, and the identity is noted anew. A file
 * may be replaced by another file, as editors do, but not by a socket, and a mount with
 * `replaceable` takes any directory at the path. With owner=auto the sandbox has the rights of the
 * source's owner, so a source with another owner is refused at any time, also for work on the
 * sandbox's files alone. Upholds S51 of SECURITY.md.
 */

struct spec;

/*
 * Notes in spec, a spec.json, the present identity of each source of its options that has none yet.
 * The paths in the options must be free of links: ERR_DENIED if one is not, ERR_NOT_FOUND.
 */
int sources_note(json_t *spec, struct err *e);
/*
 * Resolves the paths in the options of a spec.json that an older berth wrote, then notes them. 1 if
 * spec was changed, 0 if it needed nothing.
 */
int sources_adopt(json_t *spec, struct err *e);
/*
 * Opens the sources of s, which was read from spec, for the start that follows: s->mounts has their
 * descriptors until spec_close_sources(). ERR_DENIED if one is not the noted one. 1 if spec was
 * changed, after a boot.
 */
int sources_open(json_t *spec, struct spec *s, struct err *e);
/* Forgets the noted identities, so that sources_note() takes the present ones. */
void sources_forget(json_t *spec);

#endif
