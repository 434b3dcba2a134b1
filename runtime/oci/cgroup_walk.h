/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_cgroup_walk - every cgroup at and below one, however many a container made and however deep.
 *
 * Holds two descriptors and no stack per level: down by name, back by "..", which has to be what it was on the way down
 * (a cgroup has no other parent than the one it was made in).  Time is linear in the number of cgroups, and ends at a
 * deadline: who makes cgroups faster than they are walked is not followed for ever.
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

/* fd stays the caller's.  What goes away on the way is no error. */
int oci_cgroup_walk(int fd, const struct oci_cgroup_walk *w, struct err *e);

#endif
