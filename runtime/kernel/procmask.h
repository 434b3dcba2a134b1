/* SPDX-License-Identifier: Apache-2.0 */
/* procmask - the parts of procfs that a payload does not see or cannot write. */
#ifndef BERTH_RUNTIME_KERNEL_PROCMASK_H
#define BERTH_RUNTIME_KERNEL_PROCMASK_H

#include "base/err.h"

/* Both end with NULL.  In procmask_hidden "d" stands before the path of a directory. */
extern const char *const procmask_rdonly[], *const procmask_hidden[];

static inline const char *procmask_path(const char *hidden)
{
	return hidden + (hidden[0] == 'd');
}

/* ---- files in the place of sysfs ---- */

/* sysfiles - what a payload has in the place of sysfs: the few files that programs read to count CPUs. */

/* Makes them, copies of the host's, in the empty directory dirfd. */
int sysfiles_make(int dirfd, struct err *e);

#endif
