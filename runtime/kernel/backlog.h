/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backlog - how many clients wait at a unix socket that listens (sock_diag(7), UDIAG_SHOW_RQLEN).
 */
#ifndef BERTH_RUNTIME_KERNEL_BACKLOG_H
#define BERTH_RUNTIME_KERNEL_BACKLOG_H

/* 0: none.  A kernel without CONFIG_UNIX_DIAG says no more than that there are some: then 1. */
unsigned backlog_count(int fd);

#endif
