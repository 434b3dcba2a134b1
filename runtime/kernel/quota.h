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

/*
 * Checks that the file system of dir_fd enforces project quotas: 0, else ERR_UNSUPPORTED that says
 * why not.
 */
int quota_check(int dir_fd, struct err *e);
/*
 * Makes the empty directory dir_fd project id's, with these limits, all read
 * back.  ERR_UNSUPPORTED as quota_check().
 */
int quota_limit(int dir_fd, uint32_t id, uint64_t bytes, uint64_t inodes, struct err *e);
/*
 * Bounds a directory of the operator's. It must be empty and have no project, or have been bounded
 * here before: ERR_INVALID otherwise. ERR_UNSUPPORTED as quota_check().
 */
int quota_bound(int dir_fd, uint64_t bytes, uint64_t inodes, struct err *e);
/*
 * Makes the empty directory dir_fd count in the project of the directory like_fd of the same file
 * system, which quota_bound() bounded; success if it does already. ERR_INVALID if it is not empty,
 * or has another project.
 */
int quota_join(int dir_fd, int like_fd, struct err *e);
/*
 * Makes this thread, and those that it starts, obey hard limits until quota_obey_end(), which gets
 * *ret_had: with CAP_SYS_RESOURCE, which this drops, ext4 lets a process write past a hard limit.
 */
int quota_obey(uint32_t *ret_had, struct err *e);
void quota_obey_end(uint32_t had);

#endif
