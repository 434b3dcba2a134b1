/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_backends - the two implementations of struct cgroup_ops, for cgroup.c only. */
#ifndef BERTH_RUNTIME_KERNEL_CGROUP_BACKENDS_H
#define BERTH_RUNTIME_KERNEL_CGROUP_BACKENDS_H

#include "runtime/kernel/cgroup.h"

/*
 * Suffix of a second parent in v1's devices hierarchy, PARENT.dev. Cgroups that allow more devices
 * than the parent are below it, because a cgroup there cannot have what its parent lacks.
 */
#define CGROUP_DEV_SUFFIX ".dev"

extern const struct cgroup_ops cgroup_ops_v2;
extern const struct cgroup_ops cgroup_ops_hybrid;

/*
 * Opens root/parent/name as an O_PATH directory fd; with make, makes parent as
 * needed and name exclusively (ERR_EXISTS).  -1 with e; a missing one without
 * make is -1 with ERR_NOT_FOUND.
 */
int cgroup_dir(const char *root, const char *parent, const char *name, int make, struct err *e);
/* Removes root/parent/name with the leaves below it; a missing one is success. */
int cgroup_rmdir(const char *root, const char *parent, const char *name, struct err *e);

#endif
