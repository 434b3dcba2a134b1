/* SPDX-License-Identifier: Apache-2.0 */
/* procmask - lists the parts of procfs that a payload does not see or cannot write. */
#ifndef BERTH_RUNTIME_KERNEL_PROCMASK_H
#define BERTH_RUNTIME_KERNEL_PROCMASK_H

#include "base/err.h"

/* Arrays that end with NULL. In procmask_hidden "d" stands before the path of a directory. */
extern const char *const procmask_rdonly[], *const procmask_hidden[];

static inline const char *procmask_path(const char *hidden)
{
	return hidden + (hidden[0] == 'd');
}

/* ---- files in the place of sysfs ---- */

/* sysfiles - the files that a payload has in place of sysfs: the few that programs read to count CPUs. */

/* Makes them in the empty directory dirfd, as copies of the host's. */
int sysfiles_make(int dirfd, struct err *e);

#endif
