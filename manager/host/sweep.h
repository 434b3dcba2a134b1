/* SPDX-License-Identifier: Apache-2.0 */
/* sweep - what registry_gc() does for one sandbox, for the list, which looks at each anyway. */
#ifndef BERTH_MANAGER_HOST_SWEEP_H
#define BERTH_MANAGER_HOST_SWEEP_H

#include "manager/host/registry.h"

/* Clears what a dead supervisor left below run_dir; nothing when it lives.  What fails is left. */
void sweep_one(struct registry *r, const char *id);
/* Clears what a removal that was cut short left below state_dir. */
void sweep_kept(struct registry *r, const char *id);

#endif
