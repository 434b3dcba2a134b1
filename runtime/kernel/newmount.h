/* SPDX-License-Identifier: Apache-2.0 */
/*
 * newmount - the mount API by descriptors (fsopen(2), fsmount(2), open_tree(2),
 * move_mount(2), mount_setattr(2), fspick(2)), with the kernel's own explanation in errors.
 *
 * Every function returns a detached mount's descriptor, or -1 with e.
 * Async-signal-safe but for the error text: usable between clone and exec.
 */
#ifndef BERTH_RUNTIME_KERNEL_NEWMOUNT_H
#define BERTH_RUNTIME_KERNEL_NEWMOUNT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct newmount_opt {
	const char *key;
	const char *value;	/* NULL: a flag */
};

/* Mounts a new instance of fstype with n options, detached, with attr. */
int newmount_fs(const char *fstype, const struct newmount_opt *opts, size_t n, uint64_t attr, struct err *e);
/* Makes a detached private copy of the mount at dirfd/path, recursive or not, with attr set on all of it. */
int newmount_clone(int dirfd, const char *path, int recursive, uint64_t attr, struct err *e);
/* Adds attr to a detached mount. */
int newmount_attr(int mnt_fd, int recursive, uint64_t attr, struct err *e);
/*
 * Makes the file system of a mount read-only for every mount of it, which writes all of it to
 * its device and marks it clean. ERR_SYS: EBUSY if a file is open for writing.
 */
int newmount_fs_readonly(int mnt_fd, struct err *e);
/* Maps ids of the mount through the user namespace (MOUNT_ATTR_IDMAP, Linux 5.12); what names it in errors. */
int newmount_idmap(int mnt_fd, int recursive, int userns_fd, const char *what, struct err *e);
/* Attaches mnt_fd on target_fd, a directory or file. */
int newmount_attach(int mnt_fd, int target_fd, const char *what, struct err *e);

/*
 * Mounts an overlay of the layers (O_PATH directory fds, lowest first, at least one) and, unless
 * -1, upper_fd with work_fd. passing: the overlay is never synced, if the kernel can do that (Linux
 * 5.10; see NEWMOUNT_UNSYNCED). On Linux before 6.15 overlayfs does not take detached layers:
 * ERR_UNSUPPORTED; then see newmount_overlay_attached().
 */
int newmount_overlay(const int *layer_fd, size_t layers, int upper_fd, int work_fd, int passing,
		     uint64_t attr, struct err *e);
/*
 * Names a directory below that of work_fd. The kernel makes a file "dirty" in it for an overlay
 * that is not synced, and refuses the next overlay while it exists. A caller that knows that the
 * files are whole removes it.
 */
#define NEWMOUNT_UNSYNCED "work/incompat/volatile"
/*
 * As newmount_overlay(), for older kernels: the layers, detached mounts, are attached in a mount
 * namespace made for the purpose, below scratch, a directory that only serves as a mount point
 * there. Afterwards the process is back in its own namespace. base_fd: the detached mount that
 * holds upper and work, or -1. The finished overlay is detached and outlives that namespace.
 */
int newmount_overlay_attached(const char *scratch, const int *layer_fd, size_t layers, int base_fd,
			      uint64_t attr, struct err *e);

#endif
