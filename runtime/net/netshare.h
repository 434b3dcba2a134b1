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
 * The default limit of open connections of a sandbox: NETSHARE_MAX, or a sixteenth of the table
 * if that is less. Before the kernel's module is loaded there is no table: then the size that
 * the kernel would choose by the host's memory.
 */
uint64_t netshare_connections(void);

#endif
