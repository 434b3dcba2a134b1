/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_log - the journal of the output that a keeper sees: KEEPER_LOG in the directory of a
 * lasting sandbox. An entry has "source" (c3, session main), "stream" and "data"; with "bytes" the
 * characters of "data" stand for bytes. The main command of a service has a source of its own, as
 * has its init command.
 */
#ifndef BERTH_MANAGER_KEEPER_KEEPER_LOG_H
#define BERTH_MANAGER_KEEPER_KEEPER_LOG_H

#include "manager/host/journal.h"

#define KEEPER_LOG "log"
#define KEEPER_LOG_MAIN "main command"
#define KEEPER_LOG_INIT "init command"

/* Turns "data" of an entry with "bytes" into bytes, in place; returns how many. */
size_t keeper_log_bytes(char *p, size_t n);

#endif
