/* SPDX-License-Identifier: Apache-2.0 */
/* tenancy - what of the store a tenant sees, for the routes; the rest of it is the service's own (state.h). */
#ifndef BERTH_MANAGER_SERVICE_TENANCY_H
#define BERTH_MANAGER_SERVICE_TENANCY_H

#include "manager/host/tenant.h"

/*
 * The name that an image has for all, for a tenant's word ref; ERR_NOT_FOUND, in the same words,
 * when there is none and when there is one that t does not see.
 */
int tenancy_find_image(const struct tenant *t, const struct config *c, const char *ref,
		       char ret[REF_NAME_MAX + 1], struct err *e);

#endif
