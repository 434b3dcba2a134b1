/* SPDX-License-Identifier: Apache-2.0 */
/* checkpointtable - the checkpoints of a sandbox, for a reader. */
#ifndef BERTH_CLI_TIME_CHECKPOINTTABLE_H
#define BERTH_CLI_TIME_CHECKPOINTTABLE_H

#include "base/json.h"

/*
 * Prints what berth checkpoints --json says: a line for each, oldest first, with an asterisk at the
 * head, and a line of what all of them take.
 */
void checkpointtable_print(const json_t *doc);

#endif
