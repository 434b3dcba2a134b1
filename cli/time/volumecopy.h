/* SPDX-License-Identifier: Apache-2.0 */
/* volumecopy - clones of the named volumes that a sandbox has, for its fork. */
#ifndef BERTH_CLI_TIME_VOLUMECOPY_H
#define BERTH_CLI_TIME_VOLUMECOPY_H

#include "manager/host/registry.h"

/* Whether an option of a spec.json, [NAME, VALUE], names a volume. */
int volumecopy_copies(const json_t *pair);
/*
 * Clones each named volume of spec, and names the clones in it instead.  made, an object, gets
 * {NAME: NEW NAME}.  After a failure there is none.  ERR_LIMIT at the bounds on volumes.
 */
int volumecopy_make(struct registry *r, json_t *spec, const char *tenant, json_t *made,
		    struct err *e);
/* Removes the clones; what cannot be removed stays. */
void volumecopy_remove(struct registry *r, const json_t *made, const char *tenant);

#endif
