/* SPDX-License-Identifier: Apache-2.0 */
/* egress - berth-net as the proxy of one sandbox: from its descriptors to the loop of proxy.h. */
#ifndef BERTH_RUNTIME_NET_EGRESS_H
#define BERTH_RUNTIME_NET_EGRESS_H

#include "base/err.h"
#include "base/json.h"

/* Returns when the supervisor has ended; -1 if that happens before all is ready. */
int egress_run(const json_t *job, struct err *e);
/* Takes all of the proxy's confinement, to see whether this kernel has it. */
int egress_probe(const json_t *job, struct err *e);

#endif
