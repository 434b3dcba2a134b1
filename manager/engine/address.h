/* SPDX-License-Identifier: Apache-2.0 */
/* address - addresses that a client chooses, as options of berth.  Pure. */
#ifndef BERTH_MANAGER_ENGINE_ADDRESS_H
#define BERTH_MANAGER_ENGINE_ADDRESS_H

#include "base/err.h"
#include "base/json.h"

/*
 * The addresses that an EndpointConfig asks for are added to ret_list, which may be NULL: 1 if there are any, else 0.
 * ERR_UNSUPPORTED for link-local ones.
 */
int engine_address_endpoint(const json_t *end, json_t *ret_list, struct err *e);
/* An item of IPAM.Config of a new network, as options of the call that makes it. */
int engine_address_pool(const json_t *pool, json_t *call, struct err *e);

#endif
