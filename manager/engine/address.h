/* SPDX-License-Identifier: Apache-2.0 */
/* address - addresses that a client chooses, where berth chooses them itself.  Pure. */
#ifndef BERTH_MANAGER_ENGINE_ADDRESS_H
#define BERTH_MANAGER_ENGINE_ADDRESS_H

#include "base/err.h"
#include "base/json.h"

/* An EndpointConfig that asks for an address of its own: ERR_UNSUPPORTED. */
int engine_address_endpoint(const json_t *end, struct err *e);
/*
 * An item of IPAM.Config of a new network: ERR_UNSUPPORTED for a range, for further addresses, and
 * for a gateway other than the first address of the subnet, which is berth's.
 */
int engine_address_pool(const json_t *pool, struct err *e);

#endif
