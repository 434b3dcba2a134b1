/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xattrs - the user's extended attributes of a file, on their way through an archive.
 *
 * Only names that begin with "user.": the others are the kernel's and the
 * administrator's, and mean something else on the other side.  "user.overlay."
 * is left out, too: a host that mounts overlays would believe it; and names with
 * a = in them, which an archive cannot tell from the value.
 */
#ifndef BERTH_RUNTIME_FILEOP_XATTRS_H
#define BERTH_RUNTIME_FILEOP_XATTRS_H

#include <stddef.h>

#include "base/err.h"

#define XATTRS_MAX 65536	/* bytes of all of one file */

struct xattrs {
	size_t len;
	/* NAME, NUL, four bytes of the value's length, value; and the next */
	char data[XATTRS_MAX];
};

/* 1 when a file's attribute of this name is kept. */
int xattrs_is_kept(const char *name);
/*
 * 1 for an access control list: it names users by number, so it is copied only together with the
 * owners' numbers.
 */
int xattrs_is_acl(const char *name);
/* Adds one attribute; ERR_LIMIT if it does not fit. */
int xattrs_add(struct xattrs *x, const char *name, const void *value, size_t n, struct err *e);
/* The next from *at on (0 at first): 1, or 0 at the end. */
int xattrs_next(const struct xattrs *x, size_t *at, const char **ret_name, const char **ret_value, size_t *ret_n);
/* Those of an open file, with acls its lists too; none where the file system has no such thing. */
int xattrs_read(struct xattrs *x, int fd, int acls, struct err *e);
/* Gives them to an open file; a file system that takes none is no error. */
int xattrs_write(const struct xattrs *x, int fd, int acls, struct err *e);

#endif
