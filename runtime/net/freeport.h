/* SPDX-License-Identifier: Apache-2.0 */
/* freeport - a port of the host for each published port that was asked for without one. */
#ifndef BERTH_RUNTIME_NET_FREEPORT_H
#define BERTH_RUNTIME_NET_FREEPORT_H

#include "base/json.h"
#include "runtime/net/link.h"
#include "runtime/net/netpolicy.h"

/* Chooses, and writes it into the text of the port as well.  ERR_NET when none is free. */
int freeport_choose(struct netpolicy *p, struct err *e);
/*
 * The published ports, an entry for each address of the host: [{"address", "host_port", "port",
 * "protocol"}], a new reference.
 */
json_t *freeport_describe(const struct netpolicy *p, const struct link_plan *l);

#endif
