/* SPDX-License-Identifier: Apache-2.0 */
/* confine - the proxy gives up all it does not need: it reads what the sandbox and the Internet send. */
#ifndef BERTH_RUNTIME_NET_CONFINE_H
#define BERTH_RUNTIME_NET_CONFINE_H

#include <sys/types.h>

#include "base/err.h"

/*
 * An id of its own, no capability, an empty root directory, no new processes, no
 * file, a short list of system calls; ends with the process that started it.
 * Read back: what does not hold is an error.
 */
int confine(uid_t uid, pid_t parent, struct err *e);

#endif
