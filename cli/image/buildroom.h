/* SPDX-License-Identifier: Apache-2.0 */
/*
 * buildroom - where buildah runs: a mount and a pid namespace of its own.
 *
 * Of the host, the room shows programs, a few files of /etc and /dev, /proc and /sys, read-only but
 * for /proc and the cgroups.  The room itself (a directory or a detached mount, bounded by its
 * volume) is at BUILDROOM_PLACE, and the network is that of a sandbox.  The end of the first process ends everything in there, and
 * the end of the caller ends that.  What RUN starts is in a user namespace besides.
 */
#ifndef BERTH_CLI_IMAGE_BUILDROOM_H
#define BERTH_CLI_IMAGE_BUILDROOM_H

#include <sys/types.h>

#include "base/err.h"

#define BUILDROOM_PLACE "/run/build"

struct buildroom {
	int root_fd; /* the room; is_mount: a detached mount */
	int is_mount;
	int net_fd;         /* the network namespace to be in */
	int context_fd;     /* a directory to be seen as PLACE/context; -1: the room has it */
	const char *hidden;   /* the state directory, where the root of the room is made */
	const char *programs; /* the directory of berth-oci, shown */
};

/*
 * Runs program with argv in there, with its output on out_fd; the room is its working directory.
 * The pid of the child to wait for, or -1.
 */
pid_t buildroom_start(const struct buildroom *r, const char *program, char *const *argv,
		      char *const *env, int out_fd, struct err *e);

#endif
