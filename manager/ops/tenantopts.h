/* SPDX-License-Identifier: Apache-2.0 */
/* tenantopts - which options of berth create and berth update a tenant of berthd may give. */
#ifndef BERTH_MANAGER_OPS_TENANTOPTS_H
#define BERTH_MANAGER_OPS_TENANTOPTS_H

#include "base/err.h"
#include "base/json.h"

/*
 * ERR_DENIED unless a tenant may give the option: what says nothing about the host's files,
 * processes and devices, and volumes by their names, which for a tenant are its own.
 */
int tenantopts_check(const char *option, const json_t *value, struct err *e);
/* ERR_DENIED for what a tenant may not change of its sandbox. */
int tenantopts_check_change(const char *option, struct err *e);

#endif
