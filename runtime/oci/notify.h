/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_notify - relays sd_notify(3) from a container to the service manager above the runtime, in
 * runc's form: with NOTIFY_SOCKET in our environment the container gets a socket of ours at
 * /run/notify/notify.sock, and its READY= is passed on together with the main process's id.
 *
 * Other messages of a container are dropped: a service manager accepts orders (FDSTORE, RESTART,
 * a MAINPID) only from a trusted process.
 */
#ifndef BERTH_RUNTIME_OCI_NOTIFY_H
#define BERTH_RUNTIME_OCI_NOTIFY_H

#include <jansson.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Adds the mount and the variable to the configuration of container id below the state root.
 * ERR_INVALID for an unusable address.
 */
int oci_notify_plan(json_t *config, int root_fd, const char *id, struct err *e);
/* Makes the directory that is mounted, in the container's state directory. */
int oci_notify_make_dir(int state_fd, struct err *e);
/*
 * Opens the socket in it, for `start` and `run`; *ret_fd is -1 if there is no manager to notify or
 * the container was made without a socket.
 */
int oci_notify_bind(int state_fd, int *ret_fd, struct err *e);
/* Reads what has come: 1 if the container is ready and main_pid was passed on, else 0; -1. */
int oci_notify_take(int fd, pid_t main_pid, struct err *e);
/* Waits until the container is ready or pid, its main process, has ended. */
int oci_notify_wait(int fd, pid_t pid, struct err *e);

#endif
