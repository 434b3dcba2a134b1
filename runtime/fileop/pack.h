/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack - a file or tree as a tar stream.
 *
 * The tree may be hostile and change meanwhile: it is walked by descriptors
 * with O_NOFOLLOW, only regular files are opened for reading and never so that
 * opening blocks; FIFOs, sockets and devices are counted and left out, and so
 * are directories of procfs, sysfs and cgroupfs below the top.
 */
#ifndef BERTH_RUNTIME_FILEOP_PACK_H
#define BERTH_RUNTIME_FILEOP_PACK_H

#include "runtime/fileop/tar.h"

#define PACK_DEPTH_MAX 256
#define PACK_LINKS_MAX 65536	/* hard-linked files remembered; further ones are copied each */
#define PACK_EXTENTS_MAX 65536	/* pieces of a sparse file; the rest is one piece */

struct pack_stats {
	uint64_t entries;
	uint64_t bytes;		/* of file content, holes included */
	uint64_t skipped;
	uint64_t changed;	/* files that shrank while they were read: padded with zeros */
};

enum pack_flags {
	PACK_FOLLOW = 1,	/* path itself may be a link that is followed */
	PACK_MARK_LINKS = 2,	/* say of which files hard links may follow, for EXTRACT_STRICT */
	PACK_ACLS = 4,		/* with access control lists */
	PACK_ONE_MOUNT = 8,	/* of what is mounted below the top only the directories themselves */
};

/* Of the helper's words: L, l and x, in this order. */
int pack_flags(const char *letters);

/* Packs what path (relative to the working directory) names. */
int pack_path(struct stream *out, const char *path, int flags, struct pack_stats *ret, struct err *e);
/* 1 when path names the contents of a directory rather than itself: it ends in "/." or is "." or "/". */
int pack_is_contents(const char *path);

#endif
