/* SPDX-License-Identifier: Apache-2.0 */
/* checkpointtable - the checkpoints of a sandbox, for a reader. */
#ifndef BERTH_CLI_TIME_CHECKPOINTTABLE_H
#define BERTH_CLI_TIME_CHECKPOINTTABLE_H

#include "base/json.h"

/* Prints a line for each record, oldest first; an asterisk marks the head (NULL: there is none). */
void checkpointtable_print(const json_t *list, const char *head);

#endif
