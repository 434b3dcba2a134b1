/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_step - confines a RUN of a build: the bundle is the engine's, the confinement is that of
 * `berth run`.
 *
 * The engine (buildah) runs as root of a user namespace that holds the build, and so does this
 * runtime. Whatever the bundle says, the step gets new pid, mount, ipc and uts namespaces and no
 * others, at most the eight capabilities of a payload, no_new_privs, Landlock, the filters of
 * profile standard, the masks of procfs, and a sysfs of three files. It gets no cgroup of its own:
 * it stays in the build's cgroup, which has the limits.
 */
#ifndef BERTH_RUNTIME_OCI_STEP_H
#define BERTH_RUNTIME_OCI_STEP_H

#include <jansson.h>

#include "base/err.h"

/*
 * Rewrites a configuration that oci_schema_check() has passed. ERR_UNSUPPORTED if it asks for a new
 * network namespace.
 */
int oci_step_rewrite(json_t *config, struct err *e);
/*
 * Applies Landlock and the filters, in the step's process, after its capabilities are dropped and
 * no_new_privs is set. A step loads no further filters, because none of them would be counted
 * (D11).
 */
int oci_step_seal(struct err *e);

#endif
