/* SPDX-License-Identifier: Apache-2.0 */
/*
 * treelist - each entry of a directory tree in the order of the names (treewalk.h: as they come), a directory before what it
 * holds; also of a tree that is hostile, or changes meanwhile.
 *
 * Depth costs memory only, no stack and few descriptors: past the first levels one comes
 * back by "..", which must be the directory one came from.  Nothing is followed.
 */
#ifndef BERTH_BASE_TREELIST_H
#define BERTH_BASE_TREELIST_H

#include <stddef.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

struct treelist_level;

struct treelist {
	int fd;				/* of the directory one is in */
	struct treelist_level *levels;
	size_t depth, room;		/* levels: one is the top */
	size_t names, names_max;	/* of all levels one is in */
	struct buf path;
};

struct treelist_entry {
	int dir_fd;			/* of the directory that holds it */
	const char *name, *path;	/* path: from the top */
	struct stat st;
};

/* names_max: so many are held at once, ERR_LIMIT with more.  treelist_end() also after an error. */
int treelist_begin(struct treelist *w, int dir_fd, size_t names_max, struct err *e);
/* 1 with what is valid until the next call; 0 after the last.  ERR_BUSY when a directory was moved meanwhile. */
int treelist_next(struct treelist *w, struct treelist_entry *ret, struct err *e);
/* Into the directory that treelist_next() has just told; without it what it holds is left out. */
int treelist_enter(struct treelist *w, const struct treelist_entry *dir, struct err *e);
void treelist_end(struct treelist *w);
#define autotreelist __attribute__((cleanup(treelist_end)))

#endif
