/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forwards - the forwards that run in the background (berth forward -d).
 *
 * Each is a process with a file run_dir/forwards/PID, which tells what it forwards and which it
 * locks as long as it lives: a file without a lock is that of a dead one, and whoever looks removes
 * it.  So a number that another process has by now is never taken for a forward's.
 */
#ifndef BERTH_CLI_LIVE_FORWARDS_H
#define BERTH_CLI_LIVE_FORWARDS_H

#include "base/err.h"
#include "base/json.h"

/* Records this process with what it tells of itself; the descriptor, which keeps the record, or -1. */
int forwards_record(int run_fd, const json_t *what, struct err *e);
/* Removes the record, before the descriptor is closed. */
void forwards_forget(int run_fd);

#endif
