/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_exec - starts another process in a running container.
 *
 * A joiner enters the container's cgroups and namespaces and clones the process as its sibling, so
 * that it is the runtime's child; the runtime itself stays where it is. Until execve the process
 * cannot be traced and holds nothing of the host but what it needs (E01).
 */
#ifndef BERTH_RUNTIME_OCI_EXEC_H
#define BERTH_RUNTIME_OCI_EXEC_H

#include <jansson.h>

#include "base/err.h"
#include "runtime/oci/create.h"

struct oci_exec {
	const json_t *process;		/* what to run, complete */
	const char *pid_file, *console_socket, *pidfd_socket;	/* absolute, or NULL */
	const char *const *cgroup;	/* cgroups below the container's: "PATH", "CONTROLLERS:PATH" */
	size_t cgroups;
	int preserve_fds;		/* from 3 up, all open */
	int ignore_paused;
};

/*
 * Starts the process. This loads m->state and reads m->config; m->state.pid becomes the new
 * process. m->master is its terminal when no console socket was given. m is uninitialised storage.
 */
int oci_exec_start(struct oci_made *m, int root_fd, const char *id, const struct oci_exec *x, struct err *e);
/* Returns the container's own `process` as a model for another: loads id; a new reference. */
json_t *oci_exec_model(int root_fd, const char *id, struct err *e);

#endif
