/* SPDX-License-Identifier: Apache-2.0 */
/*
 * treelist - the entries of a directory tree in the order of their names (treewalk.h: in the
 * order of the file system), a directory before its content. The tree may be hostile and may
 * change meanwhile.
 *
 * Depth costs memory only, no stack and few descriptors: past the first levels we return by
 * "..", which must be the directory we came from. No link is followed.
 */
#ifndef BERTH_BASE_TREELIST_H
#define BERTH_BASE_TREELIST_H

#include <stddef.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

struct treelist_level;

struct treelist {
	int fd;				/* the current directory */
	struct treelist_level *levels;
	size_t depth, room;		/* levels; 1 is the top */
	size_t names, names_max;	/* for all levels on the current path */
	struct buf path;
};

struct treelist_entry {
	int dir_fd;			/* the directory that holds it */
	const char *name, *path;	/* path: relative to the top */
	struct stat st;
};

/*
 * names_max: how many names it may hold at once; ERR_LIMIT above. Call treelist_end() also after
 * an error.
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
