/* SPDX-License-Identifier: Apache-2.0 */
/* procmask - the parts of procfs that a payload does not see or cannot write. */
#ifndef BERTH_RUNTIME_KERNEL_PROCMASK_H
#define BERTH_RUNTIME_KERNEL_PROCMASK_H

/* Both end with NULL.  In procmask_hidden "d" stands before the path of a directory. */
extern const char *const procmask_rdonly[], *const procmask_hidden[];

static inline const char *procmask_path(const char *hidden)
{
	return hidden + (hidden[0] == 'd');
}

#endif
