/* SPDX-License-Identifier: Apache-2.0 */
/* tenancy - what of the store a tenant sees, for the routes; the rest of it is the service's own (state.h). */
#ifndef BERTH_MANAGER_SERVICE_TENANCY_H
#define BERTH_MANAGER_SERVICE_TENANCY_H

#include "manager/host/tenant.h"

/* ERR_NOT_FOUND, in the same words, when there is no image ref and when there is one that t does not see. */
int tenancy_check_image(const struct tenant *t, const struct config *c, const char *ref, struct err *e);

#endif
