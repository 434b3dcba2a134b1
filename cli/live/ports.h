/* SPDX-License-Identifier: Apache-2.0 */
/* ports - the published ports of a running sandbox, as its keeper reports them. */
#ifndef BERTH_CLI_LIVE_PORTS_H
#define BERTH_CLI_LIVE_PORTS_H

#include "base/json.h"
#include "manager/host/registry.h"

/* [{"address", "host_port", "port", "protocol"}]: a new reference, or NULL. */
json_t *ports_of(struct registry *r, const char *id, struct err *e);

#endif
