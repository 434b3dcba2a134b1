/* SPDX-License-Identifier: Apache-2.0 */
/* tenantopts - which options of berth create and berth update a tenant of berthd may give. */
#ifndef BERTH_MANAGER_API_TENANTOPTS_H
#define BERTH_MANAGER_API_TENANTOPTS_H

#include "base/err.h"
#include "base/json.h"

/* What says nothing about the host's files, processes and devices: all that a tenant may ask for. */
int tenantopts_are(const char *option, const json_t *value);
/* ERR_DENIED for what a tenant may not change of its sandbox. */
int tenantopts_check_change(const char *option, struct err *e);

#endif
