/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota - a directory bounded in bytes and inodes by its file system's project quota.
 *
 * ext4 (made with -O quota,project and mounted prjquota) and xfs (mounted
 * prjquota) have it.  Files made below the directory belong to its project; only
 * the host's root can change that.  overlayfs never overrides the limit
 * (ovl_fill_super() lowers CAP_SYS_RESOURCE).
 */
#ifndef BERTH_RUNTIME_KERNEL_QUOTA_H
#define BERTH_RUNTIME_KERNEL_QUOTA_H

#include <stdint.h>

#include "base/err.h"

/* 0 when the file system of dir_fd enforces project quotas, else ERR_UNSUPPORTED that says why not. */
int quota_check(int dir_fd, struct err *e);
/*
 * Makes the empty directory dir_fd project id's, with these limits, all read
 * back.  ERR_UNSUPPORTED as quota_check().
 */
int quota_limit(int dir_fd, uint32_t id, uint64_t bytes, uint64_t inodes, struct err *e);
/*
 * Bounds a directory of the operator's, which has no project and is empty, or got one here before:
 * ERR_INVALID otherwise.  ERR_UNSUPPORTED as quota_check().
 */
int quota_bound(int dir_fd, uint64_t bytes, uint64_t inodes, struct err *e);
/*
 * The empty directory dir_fd counts in the project of the directory like_fd of the same file
 * system, which quota_bound() made; no error when it does already.  ERR_INVALID when it is not
 * empty, or of another project.
 */
int quota_join(int dir_fd, int like_fd, struct err *e);
/*
 * With CAP_SYS_RESOURCE ext4 lets a process write past a hard limit.  This thread, and those that
 * it starts, do without from here until quota_obey_end(), which gets *ret_had.
 */
int quota_obey(uint32_t *ret_had, struct err *e);
void quota_obey_end(uint32_t had);

#endif
