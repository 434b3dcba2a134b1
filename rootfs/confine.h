/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine - what a process that reads hostile archives may still do.
 *
 * Called once in a freshly forked child.  Afterwards the process has only the
 * descriptors it was given, no network, no view of the host's files (its root
 * is the tree it fills, Landlock allows nothing beside it), four capabilities
 * at most, no way to gain more, bounded memory, and an allow-list of system
 * calls without execve, socket, ptrace, mount.
 *
 * Landlock is skipped on kernels without it: root change and system call list
 * bound the same accesses there.  Every other step that fails is an error.
 */
#ifndef BERTH_ROOTFS_CONFINE_H
#define BERTH_ROOTFS_CONFINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum confine_role {
	CONFINE_FILTER,		/* bytes in, bytes out: no file system at all */
	CONFINE_WRITE,		/* may change the tree below root_fd, with any owner */
	CONFINE_READ,		/* may read the tree below root_fd, whatever its modes */
};

/*
 * keep lists the descriptors that stay open (0 to 2 are replaced by /dev/null
 * unless listed).  parent is who forked us, and takes us along when it dies.  root_fd is a directory descriptor in keep, or -1.
 */
int confine_child(enum confine_role role, pid_t parent, int root_fd, const int *keep, size_t keep_count,
		  uint64_t memory_bytes, struct err *e);

#endif
