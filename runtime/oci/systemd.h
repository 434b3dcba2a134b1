/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_systemd - puts the container's cgroup below a scope that systemd keeps, for an engine's
 * --systemd-cgroup.
 *
 * linux.cgroupsPath is then "SLICE:PREFIX:NAME" (runc's form), for the unit PREFIX-NAME.scope in
 * SLICE. berth-systemd, the scope's first process, asks systemd for it, with Delegate=yes; the
 * container's cgroup is "container" in it, with all limits, and is made and removed by us like any
 * other. When the last process is gone, systemd removes the scope.
 */
#ifndef BERTH_RUNTIME_OCI_SYSTEMD_H
#define BERTH_RUNTIME_OCI_SYSTEMD_H

#include <limits.h>

#include "base/err.h"
#include "base/program.h"

#define OCI_SYSTEMD_PROGRAM "berth-systemd"
#define OCI_SCOPE_LEAF "berth-make"	/* where berth-systemd stays until there is a container */

struct oci_scope {
	char slice[NAME_MAX + 1], unit[NAME_MAX + 1];
	char path[PATH_MAX];	/* path of the scope, from the hierarchy's mount:
				 * "/a.slice/a-b.slice/p-n.scope" */
	struct helper helper;
};

/*
 * Reads path (or NULL, for system.slice:berth:id). ERR_UNSUPPORTED if systemd does not run or
 * cgroups are not v2 alone, ERR_INVALID for another form. s is uninitialised storage.
 */
int oci_scope_plan(struct oci_scope *s, const char *path, const char *id, struct err *e);
/*
 * Asks systemd, by program (OCI_SYSTEMD_PROGRAM, open), and waits until the scope exists;
 * oci_scope_end() must follow.
 */
int oci_scope_start(struct oci_scope *s, int program, struct err *e);
/* Lets the scope live on by the container's processes, or end without one. Idempotent. */
void oci_scope_end(struct oci_scope *s);

#endif
