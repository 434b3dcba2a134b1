/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netend - the members of a network with a name (nets.h), and its end, which only comes without
 * them.
 */
#ifndef BERTH_MANAGER_HOST_NETEND_H
#define BERTH_MANAGER_HOST_NETEND_H

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"

/*
 * Its members, living and stopped, as [{"id", "name", "status", "address", "address6"}]: a new
 * reference. A stopped member has no address.
 */
json_t *netend_members(struct registry *r, const char *name, struct err *e);
/* ERR_BUSY while it has members. */
int netend_remove(struct registry *r, const char *name, struct err *e);
/* Removes networks whose making or removal was interrupted. */
int netend_clear(struct registry *r, struct err *e);

#endif
