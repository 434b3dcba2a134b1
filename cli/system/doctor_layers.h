/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_layers - what a checkpoint costs here, as a finding of berth doctor. */
#ifndef BERTH_CLI_SYSTEM_DOCTOR_LAYERS_H
#define BERTH_CLI_SYSTEM_DOCTOR_LAYERS_H

#include "manager/host/config.h"
#include "runtime/probe/hostinfo.h"

void doctor_layers_find(const struct config *c, struct host_finding *f);

#endif
