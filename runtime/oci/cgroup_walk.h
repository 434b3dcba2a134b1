/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_cgroup_walk - every cgroup at and below one, at any number and depth.
 *
 * Holds two descriptors and no stack per level: down by name, back by "..", which must be the
 * same directory as on the way down (a cgroup cannot move to another parent). Time is linear in
 * the number of cgroups, and ends at a deadline, so a container that makes cgroups faster than
 * they are walked cannot keep us for ever.
 */
#ifndef BERTH_RUNTIME_OCI_CGROUP_WALK_H
#define BERTH_RUNTIME_OCI_CGROUP_WALK_H

#include <stdint.h>

#include "base/err.h"

struct oci_cgroup_walk {
	/* On the way down, the top first; NULL.  -1 with e ends the walk. */
	int (*enter)(void *ctx, int fd, struct err *e);
	/* On the way back, with the cgroup above and the name in it, all below it done; not for the top; NULL. */
	int (*leave)(void *ctx, int above, const char *name, struct err *e);
	void *ctx;
	uint64_t end;	/* clock_ms(); past it ERR_TIMEOUT */
};

/* fd stays the caller's. A cgroup that is removed on the way is no error. */
int oci_cgroup_walk(int fd, const struct oci_cgroup_walk *w, struct err *e);

#endif
