/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netwire - declarations that berth-net, the helper for --network bridge and egress, and its
 * supervisor share.
 *
 * berth-net's descriptors: 3 the socket to us, 4 the sandbox's network namespace, 5 its job (JSON),
 * 6 the counters, 7 and 8 the two halves of the log, 9 the socket for notices (refused requests, as
 * lines of the log), 10 the file that the members of a network with rules share (netgroup.h).
 */
#ifndef BERTH_RUNTIME_NET_NETWIRE_H
#define BERTH_RUNTIME_NET_NETWIRE_H

#include <stdint.h>

#include "base/program.h"

enum { NETHELPER_SOCK = HELPER_SOCK, NETHELPER_NETNS, NETHELPER_JOB, NETHELPER_COUNTERS, NETHELPER_LOG, NETHELPER_LOG_OLD, NETHELPER_NOTICE,
	NETHELPER_GROUP, NETHELPER_FDS };

#define NETHELPER_PROGRAM "berth-net"
#define NETHELPER_LOG_NAME "network.log"
#define NETHELPER_LOG_OLD_NAME "network.log.1"
#define NETHELPER_NOTICE_MAX 4096
#define NETHELPER_PROXY_PORT 3128	/* in the sandbox, on 127.0.0.1: HTTP and SOCKS5 */

/*
 * The activity of a sandbox's network since its start. For egress it is shared memory that only
 * the proxy writes, and no decision of ours depends on it; for bridge the values are the
 * kernel's counters.
 */
struct netcounters {
	uint64_t requests, allowed, denied, failed;
	uint64_t bytes_in, bytes_out;	/* bytes to the sandbox, and from it */
	uint64_t open, cut;		/* connections open now; connections cut by a change of policy */
	uint64_t exhausted;		/* a budget was used up */
	uint64_t over;			/* bridge: connections refused by their limit */
};

#endif
