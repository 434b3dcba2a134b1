/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mounts - executes a mount plan. Every mount call of a sandbox is here or in newmount.c (berth-oci
 * has oci_mount.c and oci_rootfs.c, the unpacking of images rootfs/layer/confine.c).
 *
 * Order is the defence (S2): mount sources are opened from operator paths
 * before the sandbox's root is reachable, and no path of the image is resolved
 * while the host's root is: the child attaches the root, pivots, detaches the
 * old root, and only then makes mount points, through descriptors.
 */
#ifndef BERTH_RUNTIME_SANDBOX_MOUNTS_H
#define BERTH_RUNTIME_SANDBOX_MOUNTS_H

#include "runtime/sandbox/handover.h"

/* Names that exist in /dev during set-up only. */
#define MOUNTS_MASK_FILE ".mask-file"
#define MOUNTS_MASK_DIR ".mask-dir"
#define MOUNTS_BOOT_FILE ".boot-id"

/*
 * Host side, in the supervisor: fills op->fd of every host-side operation. userns_fd is the
 * sandbox's user namespace; scratch a host directory for old kernels; base_fd the file system for
 * the writable layer: a detached mount that writable.c made. ready is called whenever it is worth
 * handing over the operations before end already; not for the last ones.
 */
int mounts_prepare(struct mountplan *p, const struct spec *s, int userns_fd, int base_fd, const char *scratch,
		   int (*ready)(void *ctx, size_t end, struct err *e), void *ctx, struct err *e);
void mounts_release(struct mountplan *p);
/*
 * Host side, while the sandbox runs: the host's directory source replaces the mount that the plan
 * made at target, with the same attributes and idmapping. ERR_NOT_FOUND: no source, or no such
 * mount. After another error the target may have no mount. A process that has a file of the old
 * directory open keeps it.
 */
int mounts_swap(const struct mountplan *p, const char *target, const char *source, int userns_fd, int mntns_fd, struct err *e);

/*
 * Sandbox side, in the child: changes to the new root, and leaves nothing of the host's. *ret_proc
 * is a detached procfs, *ret_knobs its sys/user, opened before that becomes read-only.
 */
int mounts_enter_root(const struct mountplan *p, const struct spec *s, int *ret_proc, int *ret_knobs, struct err *e);
/* Does the rest of the plan, to the last seal. Waits for the mounts that it needs. */
int mounts_enter(struct handover *in, const struct spec *s, int proc_mnt, struct err *e);
/*
 * Puts mnt_fd, made with attr, in the place of the mount at target, in the sandbox's mount
 * namespace, and reads it back (S1).
 */
int mounts_take_place(int mnt_fd, const char *target, uint64_t attr, struct err *e);
/*
 * Checks that flag (f_flag of statvfs(3)), as the kernel reports it, has what attr asks for:
 * ERR_INTERNAL (S1).
 */
int mounts_check_flags(const char *target, unsigned long flag, uint64_t attr, struct err *e);
/*
 * Forbids further namespaces of every kind, also to root of the sandbox and under any seccomp
 * profile (K01). Call it after all the mounts, because each copied mount counts as one.
 */
int mounts_limit_namespaces(int knobs_fd, size_t max, struct err *e);

#endif
