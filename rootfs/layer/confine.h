/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine - takes away the rights of a process that reads hostile archives.
 *
 * Called once in a freshly forked child. Afterwards the process has only the descriptors it was
 * given, no network, and no view of the host's files: its root is the tree it fills, and Landlock
 * allows nothing beside that. Its ids own nothing on the host (a reader keeps root's). It has at
 * most four capabilities, which count only in its own user namespace, and no way to gain more. Its
 * memory is bounded, and its allow-list of system calls has no execve, socket, ptrace or mount.
 *
 * Landlock is skipped on kernels without it: the change of root and the list of system calls bound
 * the same accesses there. Every other step that fails is an error.
 */
#ifndef BERTH_ROOTFS_LAYER_CONFINE_H
#define BERTH_ROOTFS_LAYER_CONFINE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum confine_role {
	CONFINE_FILTER,		/* bytes in, bytes out: no file system at all */
	CONFINE_WRITE,		/* may change the tree below root_fd, with any owner */
	CONFINE_READ,		/* may read the tree below root_fd, with any modes */
};

struct confine {
	enum confine_role role;
	pid_t parent;		/* the process that forked us, and whose death ends us */
	int root_fd;		/* a directory, in keep; -1 for a filter */
	int also_fd;		/* reader: a second tree that it may read, through this descriptor only; -1:
				 * none */
	int userns_fd;		/* the namespace from confine_userns(); -1: stay in this one */
	const int *keep;	/* descriptors that stay open (0 to 2 become /dev/null unless listed) */
	size_t keep_count;
	uint64_t memory_bytes;
};

int confine_child(const struct confine *c, struct err *e);

/*
 * A user namespace whose ids 0 to 65535 are CONFINE_IDS_FIRST and up of the host: a process in
 * it belongs to no user of the host, whatever its id inside.
 */
#define CONFINE_IDS_FIRST 0x7ffd0000u
#define CONFINE_IDS 65536u
int confine_userns(struct err *e);
/*
 * A detached, idmapped mount of the directory dir_fd, through which a process in that namespace
 * stores the ids 0 to 65535 unchanged. ERR_UNSUPPORTED if the file system does not support such
 * mounts; then no sandbox could use its files.
 */
int confine_mount(int dir_fd, int userns_fd, struct err *e);

#endif
