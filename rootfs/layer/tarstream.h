/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tarstream - writes a PAX tar, plain, gzip or zstd.
 *
 * The same calls give the same bytes: the tar has nothing of the host, and no times but the files'
 * own. Files may be hostile and may change meanwhile: links are not followed, only user.*
 * attributes (not user.overlay.*) are taken, and a file that shrinks is filled up with zeros.
 *
 * path is the name of the entry at hand, set by the caller.
 */
#ifndef BERTH_ROOTFS_LAYER_TARSTREAM_H
#define BERTH_ROOTFS_LAYER_TARSTREAM_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "rootfs/layer/compression.h"
#include "rootfs/store/tree.h"

struct tarstream {
	char path[TREE_PATH_MAX + 8];
	uint64_t entries;		/* entries written so far */
	/*
	 * most bytes of the tar before compression, and of one file with its holes: ERR_LIMIT
	 * above; 0: no limit
	 */
	uint64_t max_bytes;
	uint32_t id_base, id_count;	/* owners from id_base on are written as 0 and up; id_count 0:
					 * unchanged */
	/* private */
	struct compress out;
	unsigned char *chunk;
	uint64_t bytes;			/* put so far */
	uint64_t left, padding;		/* bytes still to come of a file that arrives in pieces, and its
					 * padding */
	void *links;			/* tsearch tree of files with several names */
};

/* Opens *t; compression is none, gzip or zstd. *t is released in any case. */
int tarstream_open(struct tarstream *t, int out_fd, enum compression compression, struct err *e);
/* Writes the end of the archive. */
int tarstream_close(struct tarstream *t, struct err *e);
/* Writes bytes that already are a tar, with its end; only the compression is ours. */
int tarstream_raw(struct tarstream *t, const void *p, size_t n, struct err *e);
int tarstream_flush(struct tarstream *t, struct err *e);
void tarstream_release(struct tarstream *t);

/* Writes the regular file name in dir_fd; does nothing if it is missing or no regular file. */
int tarstream_file(struct tarstream *t, int dir_fd, const char *name, struct err *e);
int tarstream_link(struct tarstream *t, int dir_fd, const char *name, const struct stat *st, struct err *e);
int tarstream_fifo(struct tarstream *t, const struct stat *st, struct err *e);
/* Writes the directory fd itself; ret_st (may be NULL) gets its stat, owner not mapped. */
int tarstream_dir(struct tarstream *t, int fd, struct stat *ret_st, struct err *e);

/* Writes a file with these bytes, or with S_IFDIR in mode a directory; owner and time are 0. */
int tarstream_bytes(struct tarstream *t, const char *name, mode_t mode, const void *p, size_t n, struct err *e);
/* Begins a file of size bytes, changed when, which tarstream_add() then brings. */
int tarstream_begin_file(struct tarstream *t, const char *name, uint64_t size, time_t when, struct err *e);
int tarstream_add(struct tarstream *t, const void *p, size_t n, struct err *e);

#endif
