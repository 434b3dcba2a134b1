/* SPDX-License-Identifier: Apache-2.0 */
/* parentclear - the cgroups that all sandboxes are below, when there is none. */
#ifndef BERTH_MANAGER_HOST_PARENTCLEAR_H
#define BERTH_MANAGER_HOST_PARENTCLEAR_H

#include "base/err.h"
#include "manager/host/registry.h"

/*
 * Removes the parent cgroups of the configuration unless a sandbox exists, also one
 * that only starts: it joins the parent's own devices cgroup (hybrid), which has no
 * cgroup below it that would keep the kernel from removing it.
 */
int parentclear(struct registry *r, struct err *e);

#endif
