/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_create - the runtime's half of making, starting and removing a container
 * (runtime.md, "Lifecycle"; oci_container.h tells how).
 */
#ifndef BERTH_RUNTIME_OCI_CREATE_H
#define BERTH_RUNTIME_OCI_CREATE_H

#include <jansson.h>
#include <sys/types.h>

#include "base/err.h"
#include "runtime/oci/state.h"

struct oci_request {
	const char *id;
	const char *bundle;		/* absolute */
	const char *config_file;	/* NULL: config.json in the bundle */
	const char *pid_file, *console_socket, *pidfd_socket;	/* absolute, or NULL */
	int preserve_fds;		/* from 3 up, all open */
	int listen_fds;			/* the first of these: sd_listen_fds(3) */
	int no_pivot, no_new_keyring;
	int run;			/* start at once */
	int step;			/* a step of a build, confined as step.h says */
	int systemd_program;		/* program that asks systemd for a scope for the cgroup
					 * (oci_systemd.h); -1: no scope */
};

struct oci_made {
	struct oci_state state;
	json_t *config;
	int sock;	/* run: socket to the container's process; else -1 */
	int master;	/* run: the container's terminal; else -1 */
	int notify_fd;	/* run: socket on which it reports that it is ready (oci_notify.h); else -1 */
	int hook_failed;	/* a startContainer or poststart hook failed */
};

/*
 * Makes the container of r. With r->run the process continues at once, and oci_await_exec() says
 * whether the exec succeeded; without it, the process waits for `start`. On failure everything
 * is undone. ret is uninitialised storage.
 */
int oci_create(struct oci_made *ret, int root_fd, const struct oci_request *r, struct err *e);
void oci_made_release(struct oci_made *m);
/* Waits until the user's program runs, or returns the error. */
int oci_await_exec(struct oci_made *m, struct err *e);
/*
 * Implements `start`: ERR_BUSY unless the container is created. A startContainer or poststart hook
 * that fails destroys it ("Lifecycle", 7 and 9).
 */
int oci_start(int root_fd, const char *id, struct err *e);
/* Runs the poststart hooks; the first failure ends the container's process and is the error. */
int oci_poststart(struct oci_made *m, struct err *e);
/*
 * Undoes what create made for st, whose processes have ended, and runs the poststop hooks if it had
 * a process; their failures are logged (runtime.md, "Lifecycle", 12 and 13).
 */
int oci_destroy(struct oci_state *st, int root_fd, struct err *e);
/*
 * Implements `delete`: a running container is ERR_BUSY, unless force, which kills it. Runs the
 * poststop hooks if the container had been made.
 */
int oci_delete(int root_fd, const char *id, int force, struct err *e);

#endif
