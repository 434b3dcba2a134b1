/* SPDX-License-Identifier: Apache-2.0 */
/*
 * write - one file of the sandbox from the helper's stdin: replaced at once, or added to.
 *
 * Paths are the caller's, of the sandbox that the helper is in: links are followed as a plain write would.  Only
 * regular files are opened, and never so that opening waits.  room is memory of a struct stream's buf.
 */
#ifndef BERTH_RUNTIME_FILEOP_WRITE_H
#define BERTH_RUNTIME_FILEOP_WRITE_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"
#include "runtime/fileop/place.h"

/*
 * Names of files that are being filled, in the directory where they get their own.  A watch does not
 * tell of them; the two of write_replace() say whether a file is replaced.
 */
#define WRITE_TEMP ".berth-"
#define WRITE_TEMP_OLD WRITE_TEMP "o-"
#define WRITE_TEMP_NEW WRITE_TEMP "n-"

/* ERR_NOT_FOUND for ENOENT and ENOTDIR, else ERR_SYS, from errno.  -1. */
int write_path_error(struct err *e, const char *what, const char *path);
/* The regular file at path, with flags of open(2), and what it is; ERR_INVALID when it is something else. */
int write_open_regular(const char *path, int flags, struct stat *st, struct err *e);
/* Makes the directories of path that are missing, with parents_only not the last; noted in made, which may be NULL. */
int write_make_dirs(const char *path, uint32_t mode, int parents_only, struct takeback *made, struct err *e);
/* Adds stdin to the file's end, which it makes when it is missing; *ret_size is the file's then. */
int write_append(const char *path, char *room, uint64_t *ret_bytes, uint64_t *ret_size, struct err *e);
/*
 * A reader sees the old content or all of the new.  mode "": the replaced file's, or 644.  attributes are
 * "NAME=VALUE", NULL at the end: the new file's, which has none of the replaced one's.
 */
int write_replace(const char *path, const char *mode, char *const *attributes, char *room, uint64_t *ret_bytes, struct err *e);

#endif
