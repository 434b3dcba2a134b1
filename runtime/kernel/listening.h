/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listening - tells whether a process listens on a TCP port, from the kernel's tables, without a
 * connection.
 *
 * It reads /proc/PID/net/tcp and tcp6 (proc(5)), which show the network namespace of process PID.
 * Listening sockets come first in these files (tcp_seq_start() of net/ipv4/tcp_ipv4.c), so nothing
 * after them is read.
 */
#ifndef BERTH_RUNTIME_KERNEL_LISTENING_H
#define BERTH_RUNTIME_KERNEL_LISTENING_H

#include <stdint.h>

#include "base/err.h"

/*
 * Pure: reads one line of such a file. 1: a listening socket, with its port; 0: the heading; -1:
 * anything else, after which no listening socket follows.
 */
int listening_line(const char *line, uint16_t *ret_port);
/* Returns 1 if a socket in process pid's network namespace listens on port; 0; -1 with e. */
int listening_has(int pid, uint16_t port, struct err *e);

/* ---- clients that wait at a unix socket ---- */

/*
 * backlog - counts the clients that wait at a listening unix socket (sock_diag(7),
 * UDIAG_SHOW_RQLEN).
 */

/*
 * Returns how many clients wait. A kernel without CONFIG_UNIX_DIAG only tells whether there are
 * any: then 1 or 0.
 */
unsigned backlog_count(int fd);

#endif
