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

#include <stddef.h>
#include <sys/stat.h>

#include "base/buf.h"
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

/* ---- in the order of the names ---- */

/*
 * treelist - the entries of a directory tree in the order of their names (treewalk(): in the
 * order of the file system), a directory before its content. The tree may be hostile and may
 * change meanwhile.
 *
 * Depth costs memory only, no stack and few descriptors: past the first levels we return by
 * "..", which must be the directory we came from. No link is followed.
 */

struct treelist_level;

struct treelist {
	int fd;				/* the current directory */
	struct treelist_level *levels;
	size_t depth, room;		/* levels; 1 is the top */
	size_t names, names_max;	/* bytes of names of all levels on the current path */
	struct buf path;
};

struct treelist_entry {
	int dir_fd;			/* the directory that holds the entry */
	const char *name, *path;	/* path: relative to the top */
	struct stat st;
};

/*
 * names_max: how many names the list may hold at once; ERR_LIMIT above. Call treelist_end() also
 * after an error.
 */
int treelist_begin(struct treelist *w, int dir_fd, size_t names_max, struct err *e);
/*
 * Returns 1 with an entry that is valid until the next call; 0 after the last. ERR_BUSY if a
 * directory was moved meanwhile.
 */
int treelist_next(struct treelist *w, struct treelist_entry *ret, struct err *e);
/*
 * Goes into the directory that treelist_next() has just returned; without this call its content
 * is skipped.
 */
int treelist_enter(struct treelist *w, const struct treelist_entry *dir, struct err *e);
void treelist_end(struct treelist *w);
#define autotreelist __attribute__((cleanup(treelist_end)))

#endif
