/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenancy - the view of a tenant on the store, for the routes; the rest is private to the
 * service (state.h).
 */
#ifndef BERTH_MANAGER_SERVICE_TENANCY_H
#define BERTH_MANAGER_SERVICE_TENANCY_H

#include "manager/host/tenant.h"

/*
 * The full name of an image for a tenant's word ref; ERR_NOT_FOUND, in the same words, if there
 * is none and if t does not see it.
 */
int tenancy_find_image(const struct tenant *t, const struct config *c, const char *ref,
		       char ret[REF_NAME_MAX + 1], struct err *e);

#endif
