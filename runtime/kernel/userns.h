/* SPDX-License-Identifier: Apache-2.0 */
/*
 * userns - the user namespace of the caller (user_namespaces(7)).
 *
 * Uid 0 alone does not make a caller the host's root: an engine of an ordinary user (podman) runs
 * its programs as root of a user namespace of its own.
 */
#ifndef BERTH_RUNTIME_KERNEL_USERNS_H
#define BERTH_RUNTIME_KERNEL_USERNS_H

/*
 * Whether the caller's effective uid is 0 in the initial user namespace. Where /proc does not tell
 * the namespace, uid 0 counts as the host's root, from whom no failure is excused.
 */
int userns_is_host_root(void);

#endif
