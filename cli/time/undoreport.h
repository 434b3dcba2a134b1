/* SPDX-License-Identifier: Apache-2.0 */
/* undoreport - what an undo did, for a reader. */
#ifndef BERTH_CLI_TIME_UNDOREPORT_H
#define BERTH_CLI_TIME_UNDOREPORT_H

#include "base/json.h"

/*
 * Prints the checkpoint of {"checkpoint","ended","ended_more","sessions"}, and on standard error
 * what ended, and which sessions begin anew.
 */
void undoreport_print(const json_t *done);

#endif
