/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire - what a zygote leaves in its run_dir/sandboxes/ID, and its packets with clients.
 *
 * A client connects to ZYGOTE_SOCKET, where the supervisors of forks accept (cli/zygote/zygote.h),
 * and sends a zygote_ask with four descriptors: stdin, stdout, stderr, and a file with the code as
 * cli/zygote/agent.py reads it.  It hears ZYGOTE_TAKEN and then a verdict, or ZYGOTE_FAILED.
 */
#ifndef BERTH_MANAGER_ZYGOTE_WIRE_H
#define BERTH_MANAGER_ZYGOTE_WIRE_H

#include <stdint.h>

#include "base/err.h"
#include "manager/host/labels.h"

#define ZYGOTE_FILE REGISTRY_ZYGOTE_FILE
#define ZYGOTE_SOCKET "zygote.sock"
#define ZYGOTE_LABEL LABEL_ZYGOTE
#define ZYGOTE_REQUEST_MAX (16u << 20) /* bytes of code, variables and arguments */

struct zygote_ask {
	uint64_t timeout_ms; /* UINT64_MAX: as the zygote was made */
};

/* enum zygote_answer_type of client.h; followed by the verdict as JSON. */
struct zygote_answer {
	uint32_t type;
	int32_t status; /* exit status of the client */
	struct err err;
};

/* From a client, later: a signal for the fork.  Its end kills the fork. */
struct zygote_signal {
	uint32_t signo;
};

/* A path of at most 108 bytes to the socket of that name in the directory that dir_fd is. */
struct sockaddr_un;
void zygote_address(int dir_fd, const char *name, struct sockaddr_un *ret);

#endif
