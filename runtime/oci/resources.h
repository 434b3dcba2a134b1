/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_resources - linux.resources (config-linux.md) written to a container's cgroup.
 *
 * On v1 each value goes to its own file; on v2 it is converted as runc and crun
 * do (shares to weight, blkio weight to io weight), and `unified` is written as
 * it stands.  A limit without a file to hold it is ERR_UNSUPPORTED and names the
 * controller: never ignored.
 */
#ifndef BERTH_RUNTIME_OCI_RESOURCES_H
#define BERTH_RUNTIME_OCI_RESOURCES_H

#include <jansson.h>

#include "runtime/oci/cgroup.h"

/* resources has passed oci_schema_check(); NULL is nothing to do.  c is open. */
int oci_resources_apply(const struct oci_cgroup *c, const json_t *resources, struct err *e);
/*
 * The same with the device rules, for a running container: either all of it applies, or the old
 * values stay.
 */
int oci_resources_update(struct oci_cgroup *c, const json_t *resources, struct err *e);
/*
 * The device rules alone: on v1 in order to devices.allow and devices.deny, on v2 as a BPF program that replaces the
 * last one.  The default devices (config-linux.md, "Default Devices") may always be used.
 */
int oci_devices_allow(const struct oci_cgroup *c, const json_t *rules, struct err *e);

#endif
