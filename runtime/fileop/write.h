/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write - one file of the sandbox from the helper's stdin: replaced at once, or added to.
 *
 * Paths are the caller's, resolved in the sandbox where the helper runs: links are followed as in a
 * plain write. Only regular files are opened, without blocking. room is memory of a struct stream's
 * buf.
 */
#ifndef BERTH_RUNTIME_FILEOP_WRITE_H
#define BERTH_RUNTIME_FILEOP_WRITE_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "runtime/fileop/place.h"

/*
 * Prefix of temporary names of files that are being written, in the directory where they get their
 * own name. A watch does not report them; the two prefixes of write_replace() tell whether a file
 * is replaced.
 */
#define WRITE_TEMP ".berth-"
#define WRITE_TEMP_OLD WRITE_TEMP "o-"
#define WRITE_TEMP_NEW WRITE_TEMP "n-"

/* Sets the error from errno, and returns -1: ERR_NOT_FOUND for ENOENT and ENOTDIR, else ERR_SYS. */
int write_path_error(struct err *e, const char *what, const char *path);
/*
 * Opens the regular file at path, with flags of open(2), and gives its stat; ERR_INVALID if it is
 * no regular file.
 */
int write_open_regular(const char *path, int flags, struct stat *st, struct err *e);
/*
 * Makes the missing directories of path, with parents_only all but the last; notes them in made,
 * which may be NULL.
 */
int write_make_dirs(const char *path, uint32_t mode, int parents_only, struct takeback *made, struct err *e);
/* Appends stdin to the file, which it makes if missing; *ret_size is the file's size afterwards. */
int write_append(const char *path, char *room, uint64_t *ret_bytes, uint64_t *ret_size, struct err *e);
/*
 * Replaces the file: a reader sees the old content or all of the new. mode "": the replaced file's,
 * or 644. attributes are "NAME=VALUE", NULL at the end; the new file has these and none of the old
 * file's.
 */
int write_replace(const char *path, const char *mode, char *const *attributes, char *room, uint64_t *ret_bytes, struct err *e);

#endif
