/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listening - who listens on a TCP port, as the kernel tells, without a connection.
 *
 * From /proc/PID/net/tcp and tcp6 (proc(5)), which are of the network namespace of
 * process PID.  Sockets that listen come first in there (tcp_seq_start() of
 * net/ipv4/tcp_ipv4.c), so nothing after them is read.
 */
#ifndef BERTH_RUNTIME_KERNEL_LISTENING_H
#define BERTH_RUNTIME_KERNEL_LISTENING_H

#include <stdint.h>

#include "base/err.h"

/*
 * Pure: one line of such a file.  1: a socket that listens, with its port; 0: the
 * heading; -1: anything else, after which there are no more that listen.
 */
int listening_line(const char *line, uint16_t *ret_port);
/* 1 when a socket of process pid's network namespace listens on port; 0; -1 with e. */
int listening_has(int pid, uint16_t port, struct err *e);

#endif
