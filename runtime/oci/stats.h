/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_stats - a container's use of resources, in the form of runc's events (types.Event), which
 * engines read.
 */
#ifndef BERTH_RUNTIME_OCI_STATS_H
#define BERTH_RUNTIME_OCI_STATS_H

#include <jansson.h>
#include <stdint.h>

#include "runtime/oci/cgroup.h"

/* Returns the counters, a new reference; c is open. Those that the host does not keep are 0 or left out. */
json_t *oci_stats(const struct oci_cgroup *c);
/* Returns how often memory ran out. */
uint64_t oci_stats_ooms(const struct oci_cgroup *c);

#endif
