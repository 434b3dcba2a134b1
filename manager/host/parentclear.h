/* SPDX-License-Identifier: Apache-2.0 */
/* parentclear - removes the parent cgroups when no sandbox is left. */
#ifndef BERTH_MANAGER_HOST_PARENTCLEAR_H
#define BERTH_MANAGER_HOST_PARENTCLEAR_H

#include "base/err.h"
#include "manager/host/registry.h"

/*
 * Removes the parent cgroups of the configuration unless a sandbox exists or starts. A starting
 * sandbox counts because it joins the parent's own devices cgroup (hybrid), which has no child
 * that would prevent the removal.
 */
int parentclear(struct registry *r, struct err *e);

#endif
