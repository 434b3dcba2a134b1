/* SPDX-License-Identifier: Apache-2.0 */
/* timereport - the checkpoints of a sandbox, and what an undo did, for a reader. */
#ifndef BERTH_CLI_TIME_TIMEREPORT_H
#define BERTH_CLI_TIME_TIMEREPORT_H

#include "base/json.h"

/*
 * Prints what berth checkpoints --json says: a line for each, oldest first, with an asterisk at the
 * head, and a line of what all of them take.
 */
void checkpointtable_print(const json_t *doc);

/* ---- what an undo did ---- */

/* undoreport - what an undo did, for a reader. */

/*
 * Prints the checkpoint of {"checkpoint","ended","ended_more","sessions"}, and on standard error
 * what ended, and which sessions begin anew.
 */
void undoreport_print(const json_t *done);

#endif
