/* SPDX-License-Identifier: Apache-2.0 */
/* idmapns - user namespaces that only say how the ids of a mount are mapped (newmount_idmap()). */
#ifndef BERTH_RUNTIME_KERNEL_IDMAPNS_H
#define BERTH_RUNTIME_KERNEL_IDMAPNS_H

#include <sys/types.h>

#include "base/err.h"

/*
 * A user namespace that shows uid as shown_uid and gid as shown_gid, and every other id as
 * nobody; files of the other ids cannot be made. A descriptor, or -1.
 */
int idmapns_one(uid_t uid, uid_t shown_uid, gid_t gid, gid_t shown_gid, struct err *e);
/* One that shows count uids and gids from FROM on as those from SHOWN on, and root as root. */
int idmapns_range(uid_t from, uid_t shown, unsigned count, struct err *e);
/*
 * One that shows the ids from 0 on as those from SHOWN on.  A process that enters it (setns(2)) is
 * its root, and has the ids that the mount shows.
 */
int idmapns_shift(uid_t shown, unsigned count, struct err *e);

#endif
