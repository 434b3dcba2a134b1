/* SPDX-License-Identifier: Apache-2.0 */
/* sysfiles - what a payload has in the place of sysfs: the few files that programs read to count CPUs. */
#ifndef BERTH_RUNTIME_KERNEL_SYSFILES_H
#define BERTH_RUNTIME_KERNEL_SYSFILES_H

#include "base/err.h"

/* Makes them, copies of the host's, in the empty directory dirfd. */
int sysfiles_make(int dirfd, struct err *e);

#endif
