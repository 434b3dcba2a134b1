/* SPDX-License-Identifier: Apache-2.0 */
/*
 * treewalk - all that is below a directory, in a tree that may be hostile.
 *
 * Depth first, without recursion: whatever the depth, it holds one descriptor
 * and 16 bytes a level.  It follows no link, stays on the file system it began
 * on, and comes back by "..", which must lead to the very directory it came
 * from.  Names must not change meanwhile; owners, modes and attributes may.
 */
#ifndef BERTH_BASE_TREEWALK_H
#define BERTH_BASE_TREEWALK_H

#include <sys/stat.h>

#include "base/err.h"

/* Each returns 0, or -1 with e, which ends the walk. */
struct treewalk {
	/* what is no directory, by its name in dir_fd */
	int (*entry)(void *ctx, int dir_fd, const char *name, const struct stat *st, struct err *e);
	/* a directory, before anything in it */
	int (*enter)(void *ctx, int dir_fd, const char *name, const struct stat *st, struct err *e);
	/* the directory fd, after all that is in it; not the top; may be NULL */
	int (*leave)(void *ctx, int fd, struct err *e);
};

/* All below top_fd, but not itself.  ERR_CORRUPT: the tree is not one; ERR_BUSY: something is mounted in it. */
int treewalk(int top_fd, const struct treewalk *does, void *ctx, struct err *e);

#endif
