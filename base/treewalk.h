/* SPDX-License-Identifier: Apache-2.0 */
/*
 * treewalk - everything below a directory, in a tree that may be hostile.
 *
 * Depth first, without recursion: at any depth it holds one descriptor and 16 bytes a level. It
 * follows no link, stays on the file system where it began, and returns by "..", which must lead
 * to the directory that it came from. Names must not change meanwhile; owners, modes and
 * attributes may.
 */
#ifndef BERTH_BASE_TREEWALK_H
#define BERTH_BASE_TREEWALK_H

#include <sys/stat.h>

#include "base/err.h"

/* Each returns 0, or -1 with e, which ends the walk. */
struct treewalk {
	/* called for an entry that is not a directory, by its name in dir_fd */
	int (*entry)(void *ctx, int dir_fd, const char *name, const struct stat *st, struct err *e);
	/* called for a directory, before its content */
	int (*enter)(void *ctx, int dir_fd, const char *name, const struct stat *st, struct err *e);
	/* called for the directory fd, after its content; not for the top; may be NULL */
	int (*leave)(void *ctx, int fd, struct err *e);
};

/*
 * Walks everything below top_fd, but not top_fd itself. ERR_CORRUPT: it is not a tree; ERR_BUSY:
 * something is mounted in it.
 */
int treewalk(int top_fd, const struct treewalk *does, void *ctx, struct err *e);

#endif
