/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fsfreeze - a file system that stands still (FIFREEZE, FITHAW).
 *
 * The kernel writes out what is dirty, and lets every writer wait until the thaw.  Nobody but a
 * thaw ends that, neither the end of the process that froze it nor that of the last mount.
 */
#ifndef BERTH_RUNTIME_KERNEL_FSFREEZE_H
#define BERTH_RUNTIME_KERNEL_FSFREEZE_H

#include "base/err.h"

/* mnt_fd: the file system's mount, or something in it; O_PATH will do.  ERR_BUSY: it is frozen. */
int fsfreeze(int mnt_fd, struct err *e);
/* One that is not frozen is no error. */
int fsfreeze_thaw(int mnt_fd, struct err *e);

#endif
