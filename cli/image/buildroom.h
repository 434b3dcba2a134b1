/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buildroom - where buildah runs: a sandbox of its own, in which layers and the roots of RUN can
 * be mounted (S50).
 *
 * Its processes are root of a user namespace on the range of ids of the build's sandbox, and
 * nobody on the host.  They have a mount, pid, ipc, uts and cgroup namespace, the network of that
 * sandbox, and are in its cgroups.  Of the host, the room shows programs and a few files of /etc
 * and /dev, read-only.  The room itself (a directory or a detached mount, bounded by its volume)
 * is at BUILDROOM_PLACE.  The end of the first process ends everything in there, and the end of the
 * caller ends that.  A RUN has less than the room has (runtime/oci/step.h).
 */
#ifndef BERTH_CLI_IMAGE_BUILDROOM_H
#define BERTH_CLI_IMAGE_BUILDROOM_H

#include <sys/types.h>

#include "base/err.h"
#include "runtime/kernel/cgroup.h"

#define BUILDROOM_PLACE "/run/build"
#define BUILDROOM_PROGRAMS "/run/berth"	/* where the directory of berth-oci is seen */
#define BUILDROOM_IDS 65536u

struct buildroom {
	int root_fd; /* the room; is_mount: a detached mount */
	int is_mount;
	int is_mapped; /* its files have the owners that the build sees, and not those of its range */
	int userns_fd;         /* idmapns_shift(), of the sandbox's range */
	int net_fd;            /* the network namespace to be in */
	int context_fd;        /* a directory to be seen as PLACE/context; -1: the room has it */
	const char *hidden;    /* the state directory, where the root of the room is made */
	const char *programs;  /* the directory of berth-oci */
	const struct cgroup *cgroup, *leaf; /* the sandbox's, and one below it for the build */
};

/* What is done in there, with the room as working directory and three descriptors. */
struct buildroom_task {
	int in_fd, out_fd; /* out_fd: standard output and error */
	int (*run)(void *ctx); /* its exit status; NULL: program is executed */
	void *ctx;
	const char *program;
	char *const *argv, *const *env;
};

/* The pid of the child to wait for, or -1. */
pid_t buildroom_start(const struct buildroom *r, const struct buildroom_task *t, struct err *e);

#endif
