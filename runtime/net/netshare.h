/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netshare - how much of the host's table of connections one sandbox on a bridge may take.
 *
 * The kernel tracks each flow of every process of the host in one table (nf_conntrack_max
 * entries, 262,144 on most hosts).  When it is full the host's own packets are dropped.
 */
#ifndef BERTH_RUNTIME_NET_NETSHARE_H
#define BERTH_RUNTIME_NET_NETSHARE_H

#include <stdint.h>

#define NETSHARE_MAX 4096

/*
 * Connections that a sandbox may have open unless it is told otherwise: NETSHARE_MAX, or a
 * sixteenth of the table where that is less.  Before the kernel's module is loaded there is
 * no table: then what the kernel would size it to, by the host's memory.
 */
uint64_t netshare_connections(void);

#endif
