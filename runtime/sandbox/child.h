/* SPDX-License-Identifier: Apache-2.0 */
/* child - the code between clone3 and the exec of init. */
#ifndef BERTH_RUNTIME_SANDBOX_CHILD_H
#define BERTH_RUNTIME_SANDBOX_CHILD_H

#include "runtime/sandbox/filterwatch.h"
#include "runtime/sandbox/handover.h"
#include "runtime/sandbox/spec.h"

/* The child's message that carries a descriptor of the sandbox's /dev/pts, if terminals are wanted. */
#define CHILD_PTS 0x70747330u

/*
 * The child's message that carries a descriptor of the sandbox's network namespace, if berth-net
 * makes the network.
 */
#define CHILD_NETNS 0x6e657430u

struct child {
	const struct spec *spec;
	const struct filterwatch *filters;
	int sock;	/* our end of the control socket */
	struct handover in;
	int proc_mnt;	/* its procfs, detached until the root is mounted */
	int knobs_fd;	/* its sys/user */
};

/*
 * Runs the child and does not return: it executes init, or reports a struct err by
 * INIT_SETUP_FAILED and exits.
 */
void child_run(struct child *c) __attribute__((noreturn));

#endif
