/* SPDX-License-Identifier: Apache-2.0 */
/*
 * extract - makes files below one directory from a tar stream.
 *
 * The stream is hostile, on the host above all (SECURITY-NOTES I33): names are cleaned and may not
 * hold ".."; every parent is reached by base/pathwalk.h, which cannot leave the directory; only
 * files, directories, symbolic and hard links are made; and a file is complete before it appears
 * under its name. With EXTRACT_STRICT no symbolic link is followed at all, set-id bits are dropped,
 * and a hard link must lead to a file of the same stream.
 *
 * An existing regular file is replaced, and a symbolic link by another link. FIFOs, sockets,
 * devices, and links in the place of a file may lead elsewhere: ERR_EXISTS, unless EXTRACT_REPLACE
 * is set.
 *
 * A copy that fails removes the names that it made (place.h); files that it replaced stay replaced.
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
 * Reads the stream up to the end. Chooses places as cp(1) does: if dest is a directory, the entries
 * are put into it; else the first component of each name is replaced by dest's.
 */
int extract_to(struct stream *in, const char *dest, int flags, const struct extract_limits *limits,
	       struct extract_stats *ret, struct err *e);

/* ---- sparse files ---- */

/*
 * sparse - the content of a sparse file in a stream: a map of its pieces, then the pieces (GNU's
 * format 1.0).
 */

/*
 * Writes the pieces of the entry t to fd, a new file that is named path in errors, and gives it its
 * full size. ERR_CORRUPT if map and sizes contradict each other; ERR_LIMIT for more than
 * PACK_EXTENTS_MAX pieces.
 */
int sparse_to_file(struct stream *in, int fd, const struct tar_entry *t, const char *path, struct err *e);

#endif
