/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child - what runs between clone3 and the exec of init.
 */
#ifndef BERTH_RUNTIME_CHILD_H
#define BERTH_RUNTIME_CHILD_H

#include "runtime/mountplan.h"
#include "runtime/spec.h"

/* What the supervisor sends first, where there are cgroups to join; their `tasks` files ride along. */
struct child_join {
	uint32_t magic;
	uint32_t fds;
};

/* What the supervisor sends once it has mapped the ids and made the host-side mounts; descriptors ride along. */
struct child_go {
	uint32_t magic;
	uint32_t fds;	/* init's memfd, one per host-side operation of the plan in its order, then the spares */
};

/* The child's answer when terminals are wanted: a descriptor of the sandbox's /dev/pts rides along. */
#define CHILD_PTS 0x70747330u

/* And when berth-net makes the network: a descriptor of the sandbox's network namespace. */
#define CHILD_NETNS 0x6e657430u

struct child {
	const struct spec *spec;
	struct mountplan *plan;
	int joins;	/* a struct child_join will come */
	int sock;	/* our end of the control socket */
	int init_fd;	/* init's program, once received */
};

/* Does not return: executes init, or reports a struct err by INIT_SETUP_FAILED and exits. */
void child_run(struct child *c) __attribute__((noreturn));

#endif
