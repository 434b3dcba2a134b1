/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar - one entry at a time of a POSIX pax archive (pax(1), ustar; GNU sparse
 * format 1.0, GNU long names), to and from a stream.
 *
 * Written archives read in GNU tar, bsdtar and Python.  What is read is hostile:
 * numbers, lengths and names are checked; names are not cleaned here.
 */
#ifndef BERTH_RUNTIME_FILEOP_TAR_H
#define BERTH_RUNTIME_FILEOP_TAR_H

#include <stdint.h>

#include "runtime/fileop/stream.h"
#include "runtime/fileop/xattrs.h"

#define TAR_NAME_MAX 4096
#define TAR_PAX_MAX (1u << 20)

struct tar_entry {
	char type;		/* '0' file, '1' hard link, '2' symbolic link, '5' directory; else neither */
	char path[TAR_NAME_MAX + 1];
	char link[TAR_NAME_MAX + 1];
	uint32_t mode;		/* permission bits */
	uint32_t uid, gid;
	uint64_t size;		/* of what follows in the stream, without padding */
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	int sparse;		/* a GNU 1.0 map precedes the data */
	uint64_t real_size;	/* of the file; differs from size when sparse */
	int linked;		/* hard links to it may follow (our own record) */
	struct xattrs *xattrs;	/* the caller's, or NULL: not of interest */
};

/* The header; size bytes and tar_pad() must follow. */
int tar_put(struct stream *s, const struct tar_entry *t, struct err *e);
int tar_pad(struct stream *s, uint64_t size, struct err *e);
int tar_finish(struct stream *s, struct err *e);
/* 1 with *t, 0 at the end mark, -1.  xattrs stays the caller's. */
int tar_get(struct stream *s, struct tar_entry *t, struct err *e);
uint64_t tar_padding(uint64_t size);

#endif
