/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine - reduces the rights of the proxy, which reads data of the sandbox and of the
 * Internet.
 */
#ifndef BERTH_RUNTIME_NET_CONFINE_H
#define BERTH_RUNTIME_NET_CONFINE_H

#include <sys/types.h>

#include "base/err.h"

/*
 * Gives the process an id of its own, no capability, an empty root directory, no new processes, no
 * file, and a short list of system calls; it ends with the process that started it. Each
 * restriction is read back: a difference is an error.
 */
int confine(uid_t uid, pid_t parent, struct err *e);

/* The same with other numbers. */
struct confine_as {
	uid_t uid;
	unsigned long files, memory_bytes;
	int no_sockets;		/* it makes no socket and connects none: it has those that it is handed */
};

int confine_how(const struct confine_as *how, pid_t parent, struct err *e);

#endif
