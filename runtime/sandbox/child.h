/* SPDX-License-Identifier: Apache-2.0 */
/* child - the code between clone3 and the exec of init. */
#ifndef BERTH_RUNTIME_SANDBOX_CHILD_H
#define BERTH_RUNTIME_SANDBOX_CHILD_H

#include "runtime/sandbox/filterwatch.h"
#include "runtime/sandbox/handover.h"
#include "runtime/sandbox/spec.h"

/* The child's answer when terminals are wanted: a descriptor of the sandbox's /dev/pts rides along. */
#define CHILD_PTS 0x70747330u

/* And when berth-net makes the network: a descriptor of the sandbox's network namespace. */
#define CHILD_NETNS 0x6e657430u

struct child {
	const struct spec *spec;
	const struct filterwatch *filters;
	int sock;	/* our end of the control socket */
	struct handover in;
	int proc_mnt;	/* its procfs, detached until the root is there */
	int knobs_fd;	/* its sys/user */
};

/* Does not return: executes init, or reports a struct err by INIT_SETUP_FAILED and exits. */
void child_run(struct child *c) __attribute__((noreturn));

#endif
