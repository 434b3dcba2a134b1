/* SPDX-License-Identifier: Apache-2.0 */
/* callwords - a call as the words of its command, which it then runs in this process. */
#ifndef BERTH_CLI_CALLWORDS_H
#define BERTH_CLI_CALLWORDS_H

#include "base/json.h"

/* Runs the call; returns the exit status of its command.  Errors are JSON on stderr. */
int callwords_run(const json_t *call);

#endif
