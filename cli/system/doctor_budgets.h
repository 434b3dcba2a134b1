/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_budgets - what berth doctor says of the kernel's limits that all sandboxes share (runtime/probe/budgets.h). */
#ifndef BERTH_CLI_SYSTEM_DOCTOR_BUDGETS_H
#define BERTH_CLI_SYSTEM_DOCTOR_BUDGETS_H

#include "base/err.h"
#include "manager/host/config.h"
#include "runtime/probe/hostinfo.h"

/* Prints all of them, for the defaults of c and the knobs as they are now. */
int doctor_budgets(const struct config *c, int json, struct err *e);
/* One finding of all: limited when a sandbox with the defaults may take a quarter of one or more. */
void doctor_budgets_find(const struct config *c, struct host_finding *f);

#endif
