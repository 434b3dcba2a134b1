/* SPDX-License-Identifier: Apache-2.0 */
/* netrules - a change of the rules that the members of a network share, which all of them hear. */
#ifndef BERTH_MANAGER_KEEPER_NETRULES_H
#define BERTH_MANAGER_KEEPER_NETRULES_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "manager/host/registry.h"

struct netrules_done {
	unsigned members;	/* that run, and have the new rules */
	uint64_t cut;		/* connections that complied no more */
};

/*
 * Writes the changes down and tells every member that runs.  Those that start meanwhile read the
 * record once they can be told.  -1 also when a member could not be told, once all others were.
 */
int netrules_update(struct registry *r, const char *network, const json_t *changes,
		    json_t **ret_record, struct netrules_done *ret, struct err *e);

#endif
