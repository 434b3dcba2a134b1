/* SPDX-License-Identifier: Apache-2.0 */
/*
 * userns - the user namespace of the caller (user_namespaces(7)).
 *
 * Uid 0 alone does not make a caller the host's root: an engine of an ordinary user (podman) runs
 * its programs as root of a user namespace of its own.
 */
#ifndef BERTH_RUNTIME_KERNEL_USERNS_H
#define BERTH_RUNTIME_KERNEL_USERNS_H

#include <sys/types.h>

#include "base/err.h"

/*
 * Tells whether the caller's effective uid is 0 in the initial user namespace. If /proc does not
 * show the namespace, uid 0 counts as the host's root, for whom no failure is excused.
 */
int userns_is_host_root(void);

/* ---- namespaces that only map ids ---- */

/* idmapns - user namespaces that only define how the ids of a mount are mapped (newmount_idmap()). */

/*
 * Makes a user namespace that shows uid as shown_uid and gid as shown_gid, and every other id as
 * nobody; files of the other ids cannot be made. Returns a descriptor, or -1.
 */
int idmapns_one(uid_t uid, uid_t shown_uid, gid_t gid, gid_t shown_gid, struct err *e);
/* Makes a namespace that shows count uids and gids from FROM on as those from SHOWN on, and root as root. */
int idmapns_range(uid_t from, uid_t shown, unsigned count, struct err *e);
/*
 * Makes a namespace that shows the ids from 0 on as those from SHOWN on. A process that enters it
 * (setns(2)) is its root, and has the ids that the mount shows.
 */
int idmapns_shift(uid_t shown, unsigned count, struct err *e);

/* ---- clocks of a time namespace ---- */

/* timens - a time namespace whose clocks hide the host's uptime (K15, time_namespaces(7)). */

/*
 * Calls unshare(flags), with a time namespace for our children and our next program if the kernel
 * has them (5.6). -1 with errno.
 */
int timens_unshare(int flags);
/* Makes the clocks of the new time namespace start near zero, before a process is in it. */
int timens_zero(struct err *e);

#endif
