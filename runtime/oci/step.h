/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_step - a RUN of a build: the bundle is the engine's, the confinement is that of `berth run`.
 *
 * The engine (buildah) runs as root of a user namespace that holds the build, and so does this
 * runtime.  Whatever the bundle says, the step gets new pid, mount, ipc and uts namespaces and no
 * other, at most the eight capabilities of a payload, no_new_privs, Landlock, the filters of
 * profile standard, the masks of procfs, a sysfs of three files, and no cgroup of its own: it
 * stays in that of the build, which has the limits.
 */
#ifndef BERTH_RUNTIME_OCI_STEP_H
#define BERTH_RUNTIME_OCI_STEP_H

#include <jansson.h>

#include "base/err.h"

/*
 * Rewrites a configuration that oci_schema_check() has passed.  ERR_UNSUPPORTED for a network
 * namespace that is to be made.
 */
int oci_step_rewrite(json_t *config, struct err *e);
/*
 * In the step's process, after its capabilities are dropped and no_new_privs is set: Landlock and
 * the filters.  A step loads no further filters, because none of them would be counted (D11).
 */
int oci_step_seal(struct err *e);

#endif
