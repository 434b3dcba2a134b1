/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extract - a tar stream becomes files below one directory.
 *
 * The stream is hostile, on the host above all (SECURITY-NOTES I33): names are
 * cleaned and may not hold "..", every parent is reached by
 * base/pathwalk.h, which cannot leave the directory, only files, directories, symbolic and hard links
 * are made, a file is complete before it appears under its name.  With
 * EXTRACT_STRICT no symbolic link is followed at all, set-id bits are dropped,
 * and a hard link must lead to a file of the same stream.
 *
 * A regular file that is there is replaced, and a symbolic link by another one.
 * FIFOs, sockets, devices, and links where a file would come, are somebody's
 * way to something else: ERR_EXISTS, unless EXTRACT_REPLACE is set.
 *
 * A copy that fails takes back the names that it made (place.h); what it replaced stays replaced.
 */
#ifndef BERTH_RUNTIME_FILEOP_EXTRACT_H
#define BERTH_RUNTIME_FILEOP_EXTRACT_H

#include "runtime/fileop/place.h"
#include "runtime/fileop/tar.h"

#define EXTRACT_COMPONENTS_MAX 512
#define EXTRACT_LINKS_MAX 65536

struct extract_stats {
	uint64_t entries;
	uint64_t bytes;
	uint64_t skipped;
};

struct extract_limits {
	uint64_t bytes;		/* content written, holes counted */
	uint64_t entries;
};

/*
 * Reads the stream up to the end. As cp(1): if dest is a directory, the entries are put into it;
 * else the first name of each is replaced by dest's.
 */
int extract_to(struct stream *in, const char *dest, int flags, const struct extract_limits *limits,
	       struct extract_stats *ret, struct err *e);

/* ---- sparse files ---- */

/* sparse - the content of a sparse file in a stream: a map of its pieces, then these (GNU's format 1.0). */

/*
 * Writes the pieces of the entry t to fd, a new file that is named path in errors, and gives it its full size.
 * ERR_CORRUPT when map and sizes do not fit each other; ERR_LIMIT for more than PACK_EXTENTS_MAX pieces.
 */
int sparse_to_file(struct stream *in, int fd, const struct tar_entry *t, const char *path, struct err *e);

#endif
