/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pathwalk - openat2(2)'s resolution beneath a directory, for a process that may not call openat2.
 *
 * Invariant: the kernel is never given more than one component, never ".." and never a link to follow.  A link's
 * text is read and walked as a path, and ".." starts again at the top with one component less.  So whatever is
 * renamed or exchanged meanwhile, the walk ends at the top or below it.
 */
#ifndef BERTH_BASE_PATHWALK_H
#define BERTH_BASE_PATHWALK_H

#include <stdint.h>

/*
 * Opens path below dirfd by openat2, or, if that answers ENOSYS (an old kernel, a sandbox's
 * filter), by pathwalk_steps(), which documents the arguments. -1 with errno.
 */
int pathwalk_open(int dirfd, const char *path, int flags, uint64_t resolve);
/*
 * Opens path below dirfd with the flags of open(2), without O_CREAT and O_TMPFILE.  resolve: RESOLVE_BENEATH or
 * RESOLVE_IN_ROOT, with RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS (the text of a magic link is a path like any
 * other here, and stays below dirfd).  -1 with errno as of openat2: EXDEV, ELOOP, EINVAL for other flags.
 */
int pathwalk_steps(int dirfd, const char *path, int flags, uint64_t resolve);

#endif
