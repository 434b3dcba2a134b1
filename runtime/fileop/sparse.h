/* SPDX-License-Identifier: Apache-2.0 */
/* sparse - the content of a sparse file in a stream: a map of its pieces, then these (GNU's format 1.0). */
#ifndef BERTH_RUNTIME_FILEOP_SPARSE_H
#define BERTH_RUNTIME_FILEOP_SPARSE_H

#include "runtime/fileop/tar.h"

/*
 * Writes the pieces of the entry t to fd, a new file that is named path in errors, and gives it its full size.
 * ERR_CORRUPT when map and sizes do not fit each other; ERR_LIMIT for more than PACK_EXTENTS_MAX pieces.
 */
int sparse_to_file(struct stream *in, int fd, const struct tar_entry *t, const char *path, struct err *e);

#endif
