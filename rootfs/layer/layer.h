/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer - turns a tar stream into a directory tree, under our policy.
 *
 * libarchive only reads; every path decision and every file is made here, by directory descriptors
 * (tree.h). Runs in a confined process (confine.h), but does not rely on it. It never makes
 * anything outside the tree, a device (0:0 whiteouts apart), or an attribute other than user.*
 * (I01-I31).
 */
#ifndef BERTH_ROOTFS_LAYER_LAYER_H
#define BERTH_ROOTFS_LAYER_LAYER_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/err.h"

#define LAYER_ENTRIES_MAX 2000000ull
#define LAYER_ID_MAX 65535	/* last id of a sandbox's range */
#define LAYER_ID_NOBODY 65534	/* stands for larger ids */
/* the time of directories without an entry, until the parent process looks at them */
#define LAYER_IMPLIED_SEC 1
#define LAYER_IMPLIED_NSEC 195936478

struct layer_stats {
	uint64_t entries;
	uint64_t bytes;		/* bytes of file content */
	uint64_t whiteouts;	/* whiteouts and opaque markers */
	uint64_t devices_skipped;	/* sockets too */
	uint64_t ids_clamped;
	uint64_t xattrs_dropped;
	uint64_t charged;	/* bytes that count in a budget */
};

/* Progress, in memory shared with a parent that shows it; a hostile child may write anything. */
struct layer_progress {
	_Atomic uint64_t entries;
	_Atomic uint64_t bytes;
};

/*
 * Bytes that all concurrent unpackers, blobs included, may still write. Shared memory; bytes are
 * taken before they are written.
 */
struct layer_budget {
	_Atomic uint64_t left;
};
/* Takes bytes from the budget; ERR_LIMIT if fewer are left. b NULL: no bound. */
int layer_budget_take(struct layer_budget *b, uint64_t bytes, struct err *e);

struct layer_limits {
	uint64_t bytes;
	uint64_t entries;
	struct layer_budget *budget;	/* or NULL */
};

/*
 * Reads in_fd to its end. root_fd is an empty directory. notes_fd gets the notes (notes.h); the
 * times of directories are already applied. has_lower: there are layers below, to which whiteouts
 * apply. progress may be NULL.
 */
int layer_apply(int in_fd, int root_fd, int notes_fd, int has_lower, const struct layer_limits *limits,
		struct layer_progress *progress, struct layer_stats *ret_stats, struct err *e);

#endif
