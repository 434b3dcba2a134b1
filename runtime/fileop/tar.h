/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar - reads and writes a POSIX pax archive (pax(1), ustar; GNU sparse format 1.0, GNU long names)
 * one entry at a time.
 *
 * GNU tar, bsdtar and Python read the archives it writes. An archive that it reads is hostile:
 * numbers, lengths and names are checked; names are not cleaned here.
 */
#ifndef BERTH_RUNTIME_FILEOP_TAR_H
#define BERTH_RUNTIME_FILEOP_TAR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "runtime/fileop/stream.h"

/* ---- extended attributes ---- */

/*
 * xattrs - the user's extended attributes of a file, on their way through an archive.
 *
 * Only names that begin with "user." are kept: all others belong to the kernel and the
 * administrator, and mean something else on the other side. "user.overlay." is left out, too,
 * because a host that mounts overlays would believe it; and so are names with a "=", which an
 * archive cannot tell from the value.
 */

#define XATTRS_MAX 65536	/* bytes of all attributes of one file */

struct xattrs {
	size_t len;
	/* for each attribute: NAME, NUL, four bytes of the value's length, value */
	char data[XATTRS_MAX];
};

/* Returns 1 if a file's attribute of this name is kept. */
int xattrs_is_kept(const char *name);
/*
 * Returns 1 for an access control list: it names users by number, so it is copied only together
 * with the owners' numbers.
 */
int xattrs_is_acl(const char *name);
/* Adds one attribute; ERR_LIMIT if it does not fit. */
int xattrs_add(struct xattrs *x, const char *name, const void *value, size_t n, struct err *e);
/* Gives the next attribute from *at on (0 at first): 1, or 0 at the end. */
int xattrs_next(const struct xattrs *x, size_t *at, const char **ret_name, const char **ret_value, size_t *ret_n);
/*
 * Reads the attributes of an open file, with acls its access lists too; none on a file system
 * without attributes.
 */
int xattrs_read(struct xattrs *x, int fd, int acls, struct err *e);
/* Sets them on an open file; a file system that takes none is no error. */
int xattrs_write(const struct xattrs *x, int fd, int acls, struct err *e);

/* ---- archives ---- */
#define TAR_NAME_MAX 4096
#define TAR_PAX_MAX (1u << 20)

struct tar_entry {
	char type;		/* '0' file, '1' hard link, '2' symbolic link, '5' directory; any other:
				 * none of these */
	char path[TAR_NAME_MAX + 1];
	char link[TAR_NAME_MAX + 1];
	uint32_t mode;		/* permission bits */
	uint32_t uid, gid;
	uint64_t size;		/* bytes that follow in the stream, without padding */
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	int sparse;		/* a GNU 1.0 map precedes the content */
	uint64_t real_size;	/* size of the file; differs from size if sparse */
	int linked;		/* hard links to it may follow (berth's own record) */
	struct xattrs *xattrs;	/* the caller's; NULL: not wanted */
};

/* Writes the header; size bytes and tar_pad() must follow. */
int tar_put(struct stream *s, const struct tar_entry *t, struct err *e);
int tar_pad(struct stream *s, uint64_t size, struct err *e);
int tar_finish(struct stream *s, struct err *e);
/* Reads a header: 1 with *t, 0 at the end mark, -1. xattrs stays the caller's. */
int tar_get(struct stream *s, struct tar_entry *t, struct err *e);
uint64_t tar_padding(uint64_t size);

#endif
