/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_log - where a keeper writes down the output it sees: the journal
 * KEEPER_LOG in the directory of a lasting sandbox.  An entry has "source" (c3,
 * session main), "stream" and "data"; "bytes": its characters stand for bytes.
 * The main command of a service has a source of its own, as has its init command.
 */
#ifndef BERTH_MANAGER_KEEPER_KEEPER_LOG_H
#define BERTH_MANAGER_KEEPER_KEEPER_LOG_H

#include "manager/host/journal.h"

#define KEEPER_LOG "log"
#define KEEPER_LOG_MAIN "main command"
#define KEEPER_LOG_INIT "init command"

/* The bytes that "data" of an entry with "bytes" stands for, in the same place: how many. */
size_t keeper_log_bytes(char *p, size_t n);

#endif
