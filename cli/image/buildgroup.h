/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buildgroup - the cgroups of RUN, at the top of each hierarchy: buildah ends without removing
 * them when it is killed.  Their name says which sandbox they belong to.
 */
#ifndef BERTH_CLI_IMAGE_BUILDGROUP_H
#define BERTH_CLI_IMAGE_BUILDGROUP_H

#include "manager/host/registry.h"

#define BUILDGROUP_SIZE 160

/* The path, from the top of a hierarchy, for the build of this sandbox. */
void buildgroup_path(const char *parent, const char *id, char ret[BUILDGROUP_SIZE]);
/*
 * Removes the cgroups of builds whose sandboxes do not exist.  A cgroup whose processes still die
 * is tried for five seconds; the next build tries again.
 */
void buildgroup_sweep(struct registry *r, const char *parent);

#endif
