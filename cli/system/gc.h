/* SPDX-License-Identifier: Apache-2.0 */
/* gc - what `berth gc` does, for the commands that do it too. */
#ifndef BERTH_CLI_SYSTEM_GC_H
#define BERTH_CLI_SYSTEM_GC_H

#include "base/err.h"
#include "manager/host/config.h"

struct gc_options {
	int dry_run, json;
};

/* Clears what crashed sandboxes left, or with dry_run only names it, and tells the user. */
int gc_collect(const struct config *c, const struct gc_options *o, struct err *e);

#endif
