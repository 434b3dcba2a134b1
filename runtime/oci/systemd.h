/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_systemd - the container's cgroup below a scope that systemd keeps, as an engine asks for with --systemd-cgroup.
 *
 * linux.cgroupsPath is "SLICE:PREFIX:NAME" then (runc's form): the unit PREFIX-NAME.scope in SLICE.  systemd is asked for the scope, with
 * Delegate=yes, by berth-systemd, which is its first process; the container's cgroup is "container" in it, with all limits, and is
 * made and removed by us like any other.  When the last process is gone, systemd removes the scope.
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
	char path[PATH_MAX];	/* of the scope, from the hierarchy's mount: "/a.slice/a-b.slice/p-n.scope" */
	struct helper helper;
};

/*
 * Reads path (or NULL, for system.slice:berth:id).  ERR_UNSUPPORTED where systemd does not run or cgroups are not v2 alone,
 * ERR_INVALID for another form.  s is uninitialised storage.
 */
int oci_scope_plan(struct oci_scope *s, const char *path, const char *id, struct err *e);
/* Asks systemd, by program (OCI_SYSTEMD_PROGRAM, open), and waits until the scope is there; oci_scope_end() must follow. */
int oci_scope_start(struct oci_scope *s, int program, struct err *e);
/* The scope lives by the container's processes now, or ends.  Idempotent. */
void oci_scope_end(struct oci_scope *s);

#endif
