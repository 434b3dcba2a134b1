/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack - writes a file or tree as a tar stream.
 *
 * The tree may be hostile and change meanwhile: it is walked by descriptors with O_NOFOLLOW, and
 * only regular files are opened for reading, without blocking; FIFOs, sockets and devices are
 * counted and left out, and so are directories of procfs, sysfs and cgroupfs below the top.
 */
#ifndef BERTH_RUNTIME_FILEOP_PACK_H
#define BERTH_RUNTIME_FILEOP_PACK_H

#include "runtime/fileop/tar.h"

#define PACK_DEPTH_MAX 256
#define PACK_LINKS_MAX 65536	/* hard-linked files remembered; further ones are copied once per name */
#define PACK_EXTENTS_MAX 65536	/* pieces of a sparse file; the rest is one piece */

struct pack_stats {
	uint64_t entries;
	uint64_t bytes;		/* bytes of file content, holes included */
	uint64_t skipped;
	uint64_t changed;	/* files that shrank while they were read: padded with zeros */
};

enum pack_flags {
	PACK_FOLLOW = 1,	/* path itself may be a link that is followed */
	PACK_MARK_LINKS = 2,	/* mark the files to which hard links may follow, for EXTRACT_STRICT */
	PACK_ACLS = 4,		/* with access control lists */
	PACK_ONE_MOUNT = 8,	/* of mounts below the top pack the directories only */
	PACK_BARE = 16,		/* of a directory's contents: "a" and not "./a", and no entry of the directory */
};

/* Reads the flags from the helper's letters: L, l, x and b, in this order. */
int pack_flags(const char *letters);

/* Packs the file or tree that path (relative to the working directory) names. */
int pack_path(struct stream *out, const char *path, int flags, struct pack_stats *ret, struct err *e);
/*
 * Returns 1 if path names the contents of a directory rather than the directory: it ends in "/." or
 * is "." or "/".
 */
int pack_is_contents(const char *path);

#endif
