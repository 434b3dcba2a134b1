/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper_log - where a keeper writes down the output it sees: the journal
 * KEEPER_LOG in the directory of a lasting sandbox.  An entry has "source" (c3,
 * session main), "stream" and "data"; "bytes": its characters stand for bytes.
 */
#ifndef BERTH_MANAGER_KEEPER_KEEPER_LOG_H
#define BERTH_MANAGER_KEEPER_KEEPER_LOG_H

#include "manager/host/journal.h"

#define KEEPER_LOG "log"

#endif
